/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests: from a plan of groups to one of as many ranks as these have.
 */
#ifndef TESTS_PLAN_GROUPS_H
#define TESTS_PLAN_GROUPS_H

#include "plan/plan.h"

#include "test.h"

/* A group without stages is as large as the others; degrees differ only where there is none. */
static inline void expand_groups(const struct pst_plan *plan, const struct pst_graph *graph,
                                 struct pst_plan **ret_plan)
{
    uint32_t size[64], n_ranks = 0;

    assert_true(plan->n_devices <= sizeof size / sizeof *size);
    for (uint32_t g = 0; g < plan->n_devices; g++) {
        size[g] = graph->parts;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        for (uint32_t i = 0; i < stage->n_ranks; i++) {
            size[stage->ranks[i]] = pst_graph_parts(graph, stage->nodes[0]);
        }
    }
    for (uint32_t g = 0; g < plan->n_devices; g++) {
        n_ranks += size[g];
    }
    pst_plan_expand(plan, graph, n_ranks, ret_plan);
}

#endif
