/* SPDX-License-Identifier: Apache-2.0
 *
 * A config: the tree, its JSON form there and back, and the job that it describes.
 */
#include <stdlib.h>
#include <string.h>

#include "config/job.h"
#include "fuzz.h"

static void back_and_forth(const struct pst_config *config)
{
    char *json = pst_config_to_json(config), *places = pst_config_places_to_json(config), *again;
    struct pst_config *copy = NULL;
    struct pst_error err = {0};

    if (!fuzz_judge(pst_config_from_json(json, &copy, &err), &err) ||
        !fuzz_judge(pst_config_places_from_json(copy, places, &err), &err)) {
        fuzz_fail("its own form is refused: %s\n%s", err.message, json);
    }
    again = pst_config_to_json(copy);
    if (strcmp(json, again) != 0) {
        fuzz_fail("there and back it is another:\n%s\n%s", json, again);
    }
    pst_config_destroy(copy);
    free(again);
    free(places);
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
    back_and_forth(config);
    if (fuzz_judge(pst_job_read(config, &job, &err), &err)) {
        pst_job_finish(&job);
    }
    pst_config_destroy(config);
    return 0;
}
