/* SPDX-License-Identifier: Apache-2.0
 *
 * How much the reductions of a plan add up.
 */
#include "plan/plan.h"

uint64_t pst_plan_norm_values(const struct pst_plan *plan, const struct pst_graph *graph)
{
    uint32_t op = graph->tensors[graph->loss].producer;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        for (uint32_t n = 0; stage->n_ranks > 1 && n < stage->n_nodes; n++) {
            if (stage->nodes[n] == op) {
                return (uint64_t)graph->n_params + plan->step_batch;
            }
        }
    }
    return (uint64_t)graph->n_params + 1;
}

uint64_t pst_plan_gradient_bytes(const struct pst_plan *plan, const struct pst_graph *graph,
                                 uint32_t stage)
{
    const struct pst_plan_stage *s = &plan->stages[stage];
    uint64_t bytes = 0;

    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct pst_op *op = &graph->ops[s->nodes[n]];

        for (uint32_t i = 0; i < op->n_param; i++) {
            bytes +=
                op->param[i] != PST_NONE ? graph->params[op->param[i]].elems * sizeof(float) : 0;
        }
    }
    return bytes;
}
