/* SPDX-License-Identifier: Apache-2.0
 *
 * How many micro-batches the stages of a plan hold: the scheduler's word, but no less than what an
 * earlier attempt counted in the real schedule.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "planner/state.h"

static struct pst_scheduler_use use_of(const struct pst_planner *planner)
{
    return (struct pst_scheduler_use){.scheduler = planner->scheduler,
                                      .topology = &planner->topology,
                                      .device_of = planner->device_of,
                                      .n_places = planner->n_places};
}

/* A search that takes its time is not repeated because its answer was no. */
static pst_status fill_table(struct pst_planner *planner, struct pst_count_table *table,
                             struct pst_error *err)
{
    const struct pst_scheduler_use use = use_of(planner);
    const struct pst_place place = {
        .size = sizeof place,
        .n_stages = table->n_stages,
        .n_devices = pst_planner_logical(planner, table->n_stages),
        .n_microbatches = table->n_microbatches,
        .microbatch_size = table->microbatch_size,
        .k = table->k,
    };
    struct pst_error why = {.status = PST_OK};

    table->count.held =
        pst_arena_array(&planner->arena, table->n_stages, sizeof *table->count.held);
    table->count.late =
        pst_arena_array(&planner->arena, table->n_stages, sizeof *table->count.late);
    table->status = pst_scheduler_count(&use, &place, &table->count, &why);
    if (table->status == PST_ERR_NOMEM || table->status == PST_ERR_CANCELLED) {
        *err = why;
        return table->status;
    }
    if (table->status != PST_OK) {
        table->why = pst_arena_array(&planner->arena, 1, sizeof *table->why);
        *table->why = why;
    }
    return PST_OK;
}

pst_status pst_planner_count(struct pst_planner *planner, uint32_t n_stages,
                             uint32_t n_microbatches, uint32_t microbatch_size, uint32_t k,
                             const struct pst_count_table **ret_table, struct pst_error *err)
{
    struct pst_count_table *table = planner->counts;
    pst_status st;

    while (table != NULL &&
           (table->n_stages != n_stages || table->n_microbatches != n_microbatches ||
            table->microbatch_size != microbatch_size || table->k != k)) {
        table = table->next;
    }
    if (table == NULL) {
        table = pst_arena_array(&planner->arena, 1, sizeof *table);
        table->n_stages = n_stages;
        table->n_microbatches = n_microbatches;
        table->microbatch_size = microbatch_size;
        table->k = k;
        st = fill_table(planner, table, err);
        if (st != PST_OK) {
            return st;
        }
        table->next = planner->counts;
        planner->counts = table;
    }
    *ret_table = table;
    return PST_OK;
}

static pst_status count(struct pst_planner *planner, const struct pst_place *place,
                        struct pst_held *ret_held, struct pst_error *err)
{
    const struct pst_count_table *table = NULL;
    pst_status st = pst_planner_count(planner, place->n_stages, place->n_microbatches,
                                      place->microbatch_size, place->k, &table, err);

    if (st == PST_OK && table->status != PST_OK) {
        *err = *table->why;
        return table->status;
    }
    if (st == PST_OK) {
        *ret_held = pst_scheduler_counted(&table->count, place->stage);
    }
    return st;
}

pst_status pst_planner_held(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held, struct pst_error *err)
{
    const struct pst_scheduler_use use = use_of(planner);
    struct pst_held held;
    pst_status st = pst_scheduler_tells(&use) ? pst_scheduler_held(&use, place, &held, err)
                                              : count(planner, place, &held, err);

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
