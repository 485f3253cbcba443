/* SPDX-License-Identifier: Apache-2.0
 *
 * From a graph that reads whole texts to one that reads them token by token: every axis of rows
 * becomes one long, and attention gets a state for the keys and values that it has seen. What else
 * looks at other rows cannot be taken apart so.
 */
#include "graph/op_rules.h"

static bool can_decode(const struct pst_graph *graph, uint64_t rows)
{
    bool can = graph->costed == NULL, attends = false;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        can = can && pst_op_mixing(graph, &graph->ops[i], true) == NULL;
        attends = attends || pst_op_rules_of(graph->ops[i].kind)->past != NULL;
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        struct pst_tensor *tensor = &graph->tensors[i];

        can = can && (i == graph->loss ||
                      (tensor->batched && tensor->rank > 0 && tensor->dtype != PST_F64 &&
                       tensor->dims[pst_row_axis(graph, tensor)] == rows));
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
            tensor->dims[pst_row_axis(graph, tensor)] = 1;
            tensor->elems /= rows;
            tensor->bytes /= rows;
        }
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        struct pst_op *op = &graph->ops[i];
        const struct pst_op_rules *rules = pst_op_rules_of(op->kind);
        const struct pst_op_case c = pst_op_case_of(graph, op);

        op->positions = rules->positions ? rows : 0;
        if (rules->past != NULL) {
            uint64_t *elems = pst_arena_array(&graph->arena, 2, sizeof *elems);

            elems[0] = rules->past(&c) * rows;
            op->state_elems = elems;
            op->n_state = 1;
        }
    }
    return true;
}
