/* SPDX-License-Identifier: Apache-2.0
 *
 * From a graph that reads whole texts to one that reads them token by token: every axis of rows
 * becomes one long, and attention gets a state for the keys and values that it has seen. What else
 * looks at other rows cannot be taken apart so.
 */
#include "graph/graph.h"

/* Returns true if a row of the result depends only on the same row of the inputs, or on rows before
   it through attention. */
static bool is_by_row(const struct pst_graph *graph, const struct pst_op *op)
{
    switch (op->kind) {
    case PST_OP_LAYERNORM:
    case PST_OP_RMSNORM:
    case PST_OP_LINEAR:
    case PST_OP_ADD:
    case PST_OP_DROPOUT:
    case PST_OP_ACT:
    case PST_OP_GLU:
    case PST_OP_QKNORM:
    case PST_OP_ROTARY:
    case PST_OP_EXPERTS:
    case PST_OP_CROSS_ENTROPY:
        return true;
    case PST_OP_EMBEDDING:
        return op->bag == PST_BAG_NONE && graph->tensors[op->in[0]].role == PST_ROLE_INPUT;
    case PST_OP_ROUTER:
        return op->capacity == 0;
    case PST_OP_ATTENTION:
        return op->causal && op->n_in == 1 && op->param[0] == PST_NONE;
    default:
        return false;
    }
}

/* The axis of rows: the first, but of attention's log-sum-exp the last. */
static uint64_t *rows_of(const struct pst_graph *graph, struct pst_tensor *tensor)
{
    const bool last =
        tensor->role == PST_ROLE_AUX && graph->ops[tensor->producer].kind == PST_OP_ATTENTION;

    return &tensor->dims[last ? tensor->rank - 1 : 0];
}

static bool can_decode(const struct pst_graph *graph, uint64_t rows)
{
    bool can = graph->costed == NULL, attends = false;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        can = can && is_by_row(graph, &graph->ops[i]);
        attends = attends || graph->ops[i].kind == PST_OP_ATTENTION;
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        struct pst_tensor *tensor = &graph->tensors[i];

        can = can &&
              (i == graph->loss || (tensor->batched && tensor->rank > 0 &&
                                    tensor->dtype != PST_F64 && *rows_of(graph, tensor) == rows));
    }
    return can && attends;
}

bool pst_graph_decode(struct pst_graph *graph)
{
    const uint64_t rows = graph->tensors[0].rank > 0 ? graph->tensors[0].dims[0] : 0;

    if (!can_decode(graph, rows)) {
        return false;
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        struct pst_tensor *tensor = &graph->tensors[i];

        if (i != graph->loss) {
            *rows_of(graph, tensor) = 1;
            tensor->elems /= rows;
            tensor->bytes /= rows;
        }
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        struct pst_op *op = &graph->ops[i];

        if (op->kind == PST_OP_ROTARY || op->kind == PST_OP_ATTENTION) {
            op->positions = rows;
        }
        if (op->kind == PST_OP_ATTENTION) {
            const uint64_t depth = graph->tensors[op->out[0]].elems / op->heads;
            uint64_t *elems = pst_arena_array(&graph->arena, 2, sizeof *elems);

            elems[0] = 2 * pst_op_kv_heads(op) * depth * rows;
            op->state_elems = elems;
            op->n_state = 1;
        }
    }
    return true;
}
