/* SPDX-License-Identifier: Apache-2.0
 *
 * Operation graphs in words: which shape it was that the library did not take.
 */
#include <stdio.h>

#include "dnn_graph.h"

/* That of its convolution; of attention: a product. */
static uint32_t kind_of(const struct pst_dnn_graph *graph)
{
    uint32_t kind = PST_DNN_MATMUL;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        kind = graph->ops[i].kind >= PST_DNN_CONV ? graph->ops[i].kind : kind;
    }
    return kind;
}

static const struct pst_dnn_tensor *tensor_of(const struct pst_dnn_graph *graph, uint32_t role)
{
    return &graph->tensors[graph->of_role[role]];
}

static void name_attention(const struct pst_dnn_graph *graph, char *text, size_t size)
{
    const int64_t *q = tensor_of(graph, PST_DNN_Q)->dims;
    const int64_t *kt = tensor_of(graph, PST_DNN_K)->dims; /* columns are keys */
    char shared[40] = "";

    if (kt[1] != q[1]) {
        snprintf(shared, sizeof shared, ", %lld of keys", (long long)kt[1]);
    }
    snprintf(text, size,
             "attention%s, %lld samples, %lld heads of %lld%s, %lld rows, %lld keys, bf16",
             graph->of_role[PST_DNN_DO] == PST_DNN_NONE ? "" : " backward", (long long)q[0],
             (long long)q[1], (long long)q[3], shared, (long long)q[2], (long long)kt[3]);
}

static void name_conv(const struct pst_dnn_graph *graph, uint32_t kind, char *text, size_t size)
{
    static const char *const passes[] = {"", ", gradient by its input", ", gradient by its filter"};
    const struct pst_dnn_tensor *x = tensor_of(graph, PST_DNN_X);
    const int64_t *filter = tensor_of(graph, PST_DNN_FILTER)->dims;
    const struct pst_window *w = &graph->window;

    snprintf(text, size,
             "convolution%s, %lld samples of %lld x %lld, %lld channels to %lld, window %u x %u, "
             "stride %u x %u, padding %u x %u, %s",
             passes[kind - PST_DNN_CONV], (long long)x->dims[0], (long long)x->dims[2],
             (long long)x->dims[3], (long long)filter[1], (long long)filter[0], w->kernel[0],
             w->kernel[1], w->stride[0], w->stride[1], w->pad[0], w->pad[1],
             x->type == PST_DNN_BF16 ? "bf16" : "f32");
}

void pst_dnn_graph_name(const struct pst_dnn_graph *graph, char *ret_text, size_t size)
{
    const uint32_t kind = kind_of(graph);

    if (kind == PST_DNN_MATMUL) {
        name_attention(graph, ret_text, size);
    } else {
        name_conv(graph, kind, ret_text, size);
    }
}
