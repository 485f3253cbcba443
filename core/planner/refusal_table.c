/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan that does not fit: what takes the space, and what would make it fit.
 */

#include "base/util.h"
#include "planner/state.h"

#define MAX_SHOWN 16 /* devices */

/* For what the device has: with what it lacks beside the largest. */
static uint64_t need_of(const struct pst_plan *plan, uint32_t rank)
{
    return plan->devices[rank].arena_bytes + plan->devices[rank].lacks_bytes;
}

uint64_t pst_planned_need(const struct pst_planned *planned)
{
    uint64_t need = 0;
    uint32_t r;

    for (r = 0; r < planned->plan->n_devices; r++) {
        uint64_t bytes = need_of(planned->plan, r);

        need = bytes > need ? bytes : need;
    }
    return need;
}

/* A device with the stages on it, by name of their first and last node. */
static void describe_device(const struct pst_plan *plan, const struct pst_graph *graph,
                            uint32_t rank, struct pst_error *err)
{
    uint32_t s;
    char text[32];

    for (s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        if (pst_plan_replica(stage, rank) != PST_NONE) {
            pst_error_detail(err, "device %u: %s, stage %u, \"%s\" to \"%s\", %u in flight\n", rank,
                             pst_format_bytes(text, plan->devices[rank].arena_bytes), s,
                             graph->ops[stage->nodes[0]].name,
                             graph->ops[stage->nodes[stage->n_nodes - 1]].name, stage->in_flight);
        }
    }
}

static uint32_t worst_device(const struct pst_plan *plan)
{
    uint32_t r, worst = 0;

    for (r = 0; r < plan->n_devices; r++) {
        worst = need_of(plan, r) > need_of(plan, worst) ? r : worst;
    }
    return worst;
}

void pst_planned_table(const struct pst_planned *planned, const struct pst_graph *graph,
                       struct pst_error *err)
{
    const struct pst_plan *plan = planned->plan;
    uint32_t r;

    for (r = 0; r < plan->n_devices && r < MAX_SHOWN; r++) {
        describe_device(plan, graph, r, err);
    }
    if (r < plan->n_devices) {
        pst_error_detail(err, "and %u more devices\n", plan->n_devices - r);
    }
    pst_program_explain(planned->programs[worst_device(plan)], err);
}

pst_status pst_planned_too_large(const struct pst_planner *planner,
                                 const struct pst_planned *planned, uint64_t capacity_bytes,
                                 struct pst_error *err)
{
    uint32_t worst = worst_device(planned->plan);
    uint64_t need = planned->plan->devices[worst].arena_bytes;
    char has[32], takes[32], excess[32];

    capacity_bytes -= planned->plan->devices[worst].lacks_bytes;
    pst_fail(
        err, PST_ERR_INFEASIBLE, "plan.infeasible",
        "no plan found that fits: the smallest needs %s (%llu bytes) on device %u, %s more than "
        "its %s",
        pst_format_bytes(takes, need), (unsigned long long)need, worst,
        pst_format_bytes(excess, need - capacity_bytes), pst_format_bytes(has, capacity_bytes));
    pst_planned_table(planned, planner->in.graph, err);
    return PST_ERR_INFEASIBLE;
}
