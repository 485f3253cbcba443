/* SPDX-License-Identifier: Apache-2.0
 *
 * A costed graph: read, written and read again; as the model of a job.
 */
#include <stdlib.h>

#include "models/costed/costed_file.h"
#include "models/builder.h"
#include "fuzz.h"

static void build(const char *path)
{
    const struct { /* as its rows have it */
        const char *file;
    } config = {path};
    const struct pst_model_builder *builder = pst_model_builder_find("costed");
    struct pst_graph *graph = NULL;
    struct pst_graph_view *view;
    struct pst_error err = {0};

    if (builder->n_params != 1 || builder->config_size != sizeof config) {
        fuzz_fail("the keys of costed models are others");
    }
    if (fuzz_judge(pst_model_build(builder, &config, PST_F32, &graph, &err), &err)) {
        pst_graph_make_view(graph, 3, &view);
        pst_graph_destroy(graph);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_costed *graph = NULL, *again = NULL;
    struct pst_error err = {0};
    size_t length;
    double ns[3];
    char *text;

    build(fuzz_file(data, size));
    if (!fuzz_judge(pst_costed_read(fuzz_file(data, size), &graph, &err), &err)) {
        return 0;
    }
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        pst_costed_node_ns(graph, v, 3, ns);
    }
    text = pst_costed_write(graph, &length);
    if (!fuzz_judge(pst_costed_read(fuzz_file(text, length), &again, &err), &err) ||
        again->digest != graph->digest) {
        fuzz_fail("what was written is another graph: %s\n%s", err.message, text);
    }
    free(text);
    pst_costed_destroy(again);
    pst_costed_destroy(graph);
    return 0;
}
