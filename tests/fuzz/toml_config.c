/* SPDX-License-Identifier: Apache-2.0
 *
 * A config: the tree, its JSON form and its way over a wire there and back, and the job that it
 * describes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "job_defaults.h"
#include "fuzz.h"

static void there_and_back(struct pst_config *config)
{
    char *json = pst_config_to_json(config), *again;
    struct pst_wire w = {.reads = false}, r;
    struct pst_config *copy = NULL;
    struct pst_arena arena = {0};
    struct pst_error err = {0};

    if (!fuzz_judge(pst_config_from_json(json, &copy, &err), &err)) {
        fuzz_fail("its own form is refused: %s\n%s", err.message, json);
    }
    again = pst_config_to_json(copy);
    if (strcmp(json, again) != 0) {
        fuzz_fail("there and back it is another:\n%s\n%s", json, again);
    }
    pst_config_destroy(copy);
    free(again);
    pst_config_pass(&w, &config);
    r = pst_wire_read(w.bytes, w.n, &arena);
    pst_config_pass(&r, &copy);
    again = pst_config_to_json(copy);
    if (!pst_wire_is_read(&r) || strcmp(json, again) != 0) {
        fuzz_fail("over the wire it is another:\n%s\n%s", json, again);
    }
    pst_config_destroy(copy);
    pst_arena_finish(&arena);
    free(w.bytes);
    free(again);
    free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_config *config = NULL;
    struct pst_error err = {0};
    struct pst_job job;

    if (!fuzz_judge(pst_config_parse((const char *)data, size, "fuzz.toml", &config, &err), &err)) {
        return 0;
    }
    there_and_back(config);
    if (fuzz_judge(pst_job_read(config, &job, &err), &err)) {
        pst_job_finish(&job);
    }
    pst_config_destroy(config);
    return 0;
}
