/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes back from the process of a model's plugin: the calls that built its graph, read and
 * made again. The first byte says in which type of numbers.
 */
#include "fuzz.h"
#include "model_rig.h"
#include "models/plugin/model_plugin.h"

#include <stdlib.h>

static const uint32_t dtypes[] = {PST_F32, PST_BF16};

void fuzz_begin(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct pst_model_calls calls = {.n = 0};
        struct pst_wire w = {.reads = false};
        struct pst_error err = {0};

        if (rig_calls(dtypes[i], &calls, &err) != PST_OK) {
            fuzz_fail("%s", err.message);
        }
        pst_apart_put(&pst_model_kind, NULL, &calls, &w);
        fuzz_keep_behind(i, w.bytes, w.n);
        free(w.bytes);
        pst_model_calls_finish(&calls);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t dtype = dtypes[size == 0 ? 0 : data[0] % 2];
    struct pst_model_calls calls;
    struct pst_graph *graph;
    struct pst_error err = {0};

    if (fuzz_take_answer(data, size, &pst_model_kind, NULL, &calls)) {
        if (fuzz_judge(pst_model_graph(&calls, NULL, "it", dtype, &graph, &err), &err)) {
            pst_graph_destroy(graph);
        }
        pst_model_calls_finish(&calls);
    }
    return 0;
}
