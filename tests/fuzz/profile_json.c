/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile of a model: a costed graph that has to be of the same operators.
 */

#include "models/costed/costed_file.h"
#include "models/costed/costed_profile.h"
#include "fuzz.h"
#include "sessions.h"

void fuzz_begin(void)
{
    fuzz_sessions_begin();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_costed *profile = NULL;
    struct pst_arena arena = {0};
    struct pst_error err = {0};
    const uint32_t *nodes;

    if (fuzz_judge(pst_costed_read(fuzz_file(data, size), &profile, &err), &err)) {
        fuzz_judge(pst_profile_bind(profile, fuzz_sessions[0]->graph, &arena, &nodes, &err), &err);
    }
    pst_arena_finish(&arena);
    pst_costed_destroy(profile);
    return 0;
}
