/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the operators that a plan recomputes run again. What nothing reads backward stays
 * forgotten: the last operator of a stage, as a rule.
 */
#include <stdlib.h>

#include "plan/plan.h"

/* Marks the tensors that some B or W of the stage reads. */
static void mark_backward_reads(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                                bool *reads)
{
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        const struct pst_op *op = &graph->ops[stage->nodes[i]];
        struct pst_op_grad grad;

        pst_op_grad_info(graph, stage->nodes[i], &grad);
        uint64_t x = (grad.has_b ? grad.b_reads_x : 0) | (grad.has_w ? grad.w_reads_x : 0);
        uint64_t y = (grad.has_b ? grad.b_reads_y : 0) | (grad.has_w ? grad.w_reads_y : 0);

        for (uint32_t k = 0; k < op->n_in; k++) {
            if (x >> k & 1) {
                reads[op->in[k]] = true;
            }
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (y >> k & 1) {
                reads[op->out[k]] = true;
            }
        }
    }
}

bool pst_plan_replayed(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                       bool *ret_replayed)
{
    bool *reads = calloc(graph->n_tensors + 1, sizeof *reads);

    if (reads == NULL) {
        return false;
    }
    mark_backward_reads(stage, graph, reads);
    for (uint32_t i = stage->n_nodes; i-- > 0;) {
        const struct pst_op *op = &graph->ops[stage->nodes[i]];
        bool needed = false;

        for (uint32_t k = 0; stage->actions[i] == PST_ACTION_RECOMPUTE && k < op->n_out; k++) {
            needed |= reads[op->out[k]];
        }
        ret_replayed[i] = needed;
        for (uint32_t k = 0; needed && k < op->n_in; k++) {
            reads[op->in[k]] = true;
        }
    }
    free(reads);
    return true;
}
