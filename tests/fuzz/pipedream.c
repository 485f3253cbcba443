/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile of PipeDream's profiler. The first byte chooses what becomes of nodes.
 */
#include "exchange/pipedream_profile.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pst_pipedream_options options = {.batch = 64,
                                                  .drop_inputs = size > 0 && (data[0] & 1) != 0,
                                                  .keep_empty = size > 0 && (data[0] & 2) != 0};
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    if (size > 0 && fuzz_judge(pst_pipedream_read(fuzz_file(data + 1, size - 1), &options, &graph,
                                                  &summary, &err),
                               &err)) {
        pst_costed_destroy(graph);
    }
    return 0;
}
