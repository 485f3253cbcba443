/* SPDX-License-Identifier: Apache-2.0
 *
 * Building of operation graphs. Their number of tensors and operations is fixed by the code that
 * builds them, so that too many of them are a bug.
 */
#include "dnn_graph.h"

#include <string.h>

#include "base/error.h"

void pst_dnn_graph_init(struct pst_dnn_graph *ret_graph)
{
    memset(ret_graph, 0, sizeof *ret_graph); /* padding, too */
    for (uint32_t i = 0; i < PST_DNN_ROLES; i++) {
        ret_graph->of_role[i] = PST_DNN_NONE;
    }
}

static uint32_t add_tensor(struct pst_dnn_graph *graph, uint32_t place, uint32_t type,
                           const int64_t dims[4], const int64_t strides[4])
{
    struct pst_dnn_tensor *tensor = &graph->tensors[graph->n_tensors];

    PST_ASSERT(graph->n_tensors < PST_DNN_TENSORS);
    tensor->place = place;
    tensor->type = type;
    memcpy(tensor->dims, dims, sizeof tensor->dims);
    memcpy(tensor->strides, strides, sizeof tensor->strides);
    return graph->n_tensors++;
}

uint32_t pst_dnn_memory(struct pst_dnn_graph *graph, uint32_t role, uint32_t type,
                        const int64_t dims[4], const int64_t strides[4])
{
    return graph->of_role[role] = add_tensor(graph, PST_DNN_MEMORY, type, dims, strides);
}

uint32_t pst_dnn_inside(struct pst_dnn_graph *graph, uint32_t type, const int64_t dims[4])
{
    const int64_t dense[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};

    return add_tensor(graph, PST_DNN_INSIDE, type, dims, dense);
}

uint32_t pst_dnn_value(struct pst_dnn_graph *graph, float value)
{
    static const int64_t ones[4] = {1, 1, 1, 1};
    const uint32_t tensor = add_tensor(graph, PST_DNN_VALUE, PST_DNN_F32, ones, ones);

    graph->tensors[tensor].value = value;
    return tensor;
}

uint32_t pst_dnn_op(struct pst_dnn_graph *graph, uint32_t kind, uint32_t x, uint32_t b, uint32_t y)
{
    struct pst_dnn_op *op = &graph->ops[graph->n_ops];

    PST_ASSERT(graph->n_ops < PST_DNN_OPS);
    graph->n_ops++;
    op->kind = kind;
    op->x = x;
    op->b = b;
    op->t = PST_DNN_NONE;
    op->y = y;
    return y;
}

uint32_t pst_dnn_map(struct pst_dnn_graph *graph, uint32_t kind, uint32_t x, uint32_t b)
{
    return pst_dnn_op(graph, kind, x, b,
                      pst_dnn_inside(graph, PST_DNN_F32, graph->tensors[x].dims));
}
