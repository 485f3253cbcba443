/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of an ONNX model, to the graph and the values that its parameters begin with.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "fuzz.h"
#include "onnx/config.h"

static void load_values(const struct pst_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_params; i++) {
        const struct pst_parameter *param = &graph->params[i];
        struct pst_error err = {0};
        bool found;
        float *values;

        if (param->elems > 1u << 20) {
            continue;
        }
        values = pst_alloc(param->elems, sizeof *values);
        fuzz_judge(graph->initial.load(graph->initial.context, param->name, PST_NONE, param->elems,
                                       values, &found, &err),
                   &err);
        free(values);
    }
}

/* Names of the config must be there, so each model is read with and without them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *file = fuzz_file(data, size);

    for (uint32_t i = 0; i < 4; i++) {
        const struct onnx_config config = {.file = file,
                                           .dims = (i & 1) != 0 ? "seq=4" : "",
                                           .inputs = (i & 2) != 0 ? "mask=1" : "",
                                           .output = "",
                                           .frozen = (i & 2) != 0 ? "frozen*" : "",
                                           .trained = (i & 2) != 0 ? "frozen*" : "",
                                           .tie = "auto"};
        struct pst_graph *graph = NULL;
        struct pst_error err = {0};

        if (fuzz_judge(pst_model_build(&pst_model_onnx, &config, PST_F32, &graph, &err), &err)) {
            load_values(graph);
            pst_graph_destroy(graph);
        }
    }
    return 0;
}
