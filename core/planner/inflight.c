/* SPDX-License-Identifier: Apache-2.0
 *
 * How many micro-batches the stages of a plan hold: the scheduler's word, but no less than what an
 * earlier attempt counted in the real schedule.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "planner/state.h"

struct pst_scheduler_use pst_planner_use(struct pst_planner *planner)
{
    return (struct pst_scheduler_use){.scheduler = planner->scheduler,
                                      .topology = &planner->topology,
                                      .device_of = planner->device_of,
                                      .n_places = planner->n_places,
                                      .counts = &planner->counts,
                                      .arena = &planner->arena};
}

pst_status pst_planner_held(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held, struct pst_error *err)
{
    const struct pst_scheduler_use use = pst_planner_use(planner);
    struct pst_held held;
    pst_status st = pst_scheduler_held(&use, place, &held, err);

    if (st != PST_OK) {
        return st;
    }
    if (place->stage < planner->graph->n_ops &&
        planner->counted[place->stage] > held.microbatches) {
        held.microbatches = planner->counted[place->stage];
    }
    *ret_held = held;
    return PST_OK;
}

pst_status pst_planner_hold(struct pst_planner *planner, struct pst_plan *plan,
                            struct pst_error *err)
{
    struct pst_successor *successors = pst_alloc(plan->n_stages, sizeof *successors);
    uint32_t s, e;
    pst_status st = PST_OK;

    for (s = plan->n_stages; st == PST_OK && s-- > 0;) {
        struct pst_plan_stage *stage = &plan->stages[s];
        struct pst_held held = {.size = sizeof held};
        struct pst_place place = {
            .size = sizeof place,
            .stage = s,
            .n_stages = plan->n_stages,
            .n_devices = pst_planner_logical(planner, plan->n_stages),
            .n_microbatches = stage->n_microbatches,
            .microbatch_size = stage->microbatch_size,
            .k = stage->k,
            .successor_size = sizeof *successors,
            .successors = successors,
        };

        for (e = 0; e < plan->n_edges; e++) {
            const struct pst_plan_stage *to = &plan->stages[plan->edges[e].to];

            if (plan->edges[e].from == s) {
                successors[place.n_successors++] = (struct pst_successor){
                    .microbatch_size = to->microbatch_size,
                    .k = to->k,
                    .in_flight = to->in_flight,
                };
            }
        }
        st = pst_planner_held(planner, &place, &held, err);
        stage->in_flight = held.microbatches;
        stage->weight_versions = held.weight_versions;
    }
    free(successors);
    return st;
}
