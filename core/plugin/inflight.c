/* SPDX-License-Identifier: Apache-2.0
 *
 * How many micro-batches a stage holds: the scheduler's own word, or a count on a chain of stages
 * that all cost the same. What an earlier attempt counted in the real schedule is the least.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin/emission.h"
#include "plugin/state.h"

/* A chain with unit costs: F, B and W take 1, transfers nothing; every micro-batch is one byte. */
struct unit_chain {
    struct pst_schedule_in in;
    struct pst_schedule_stage *stages;
    struct pst_schedule_link *links;
    uint32_t *out_links;
    uint64_t *activation_bytes;
};

static void unit_finish(struct unit_chain *chain)
{
    free(chain->stages);
    free(chain->links);
    free(chain->out_links);
    free(chain->activation_bytes);
}

static bool unit_init(struct unit_chain *chain, const struct pst_planner *planner,
                      const struct pst_place *place)
{
    uint32_t n = place->n_stages, s;

    chain->stages = calloc(n, sizeof *chain->stages);
    chain->links = calloc(n, sizeof *chain->links);
    chain->out_links = calloc(n, sizeof *chain->out_links);
    chain->activation_bytes = calloc((size_t)place->n_devices + n, sizeof *chain->activation_bytes);
    if (chain->stages == NULL || chain->links == NULL || chain->out_links == NULL ||
        chain->activation_bytes == NULL) {
        return false;
    }
    for (s = 0; s < n; s++) {
        uint32_t place_of = s < planner->n_places ? planner->device_of[s] : s;

        chain->stages[s] = (struct pst_schedule_stage){
            .device = planner->topology.n_stages != 0 ? place_of : s,
            .microbatch_size = place->microbatch_size,
            .n_microbatches = place->n_microbatches,
            .k = place->k,
            .forward_ns = 1,
            .backward_input_ns = 1,
            .backward_weight_ns = 1,
            .saved_bytes = 1,
            .saved_weight_bytes = 1,
            .first_pred = s > 0 ? s - 1 : 0,
            .n_pred = s > 0,
            .first_succ = s,
            .n_succ = s + 1 < n,
        };
        if (s + 1 < n) {
            chain->links[s] = (struct pst_schedule_link){.from = s, .to = s + 1, .transfer_ns = 0};
            chain->out_links[s] = s;
        }
    }
    memset(chain->activation_bytes, 0xFF,
           ((size_t)place->n_devices + n) * sizeof *chain->activation_bytes);
    chain->in = (struct pst_schedule_in){
        .size = sizeof chain->in,
        .n_devices = planner->topology.n_stages != 0 ? place->n_devices
                     : n > place->n_devices          ? n
                                                     : place->n_devices,
        .n_stages = n,
        .stage_size = sizeof *chain->stages,
        .n_links = n - 1,
        .link_size = sizeof *chain->links,
        .stages = chain->stages,
        .links = chain->links,
        .out_links = chain->out_links,
        .activation_bytes = chain->activation_bytes,
    };
    return true;
}

static pst_status count_by_schedule(struct pst_planner *planner, const struct pst_place *place,
                                    struct pst_held *held, struct pst_error *err)
{
    struct unit_chain chain = {.stages = NULL};
    struct pst_emission emission = {.in = NULL};
    uint32_t *counts = calloc(place->n_stages, sizeof *counts);
    pst_status st;

    if (counts == NULL || !unit_init(&chain, planner, place) ||
        pst_emission_init(&emission, &chain.in) != PST_OK) {
        st = pst_fail_nomem(err);
        goto out;
    }
    emission.asynchronous = planner->topology.version_rule == PST_VERSION_DELAYED;
    pst_breadcrumb_enter(planner->scheduler->crumb, PST_CRUMB_SCHEDULE);
    st = planner->scheduler_if->schedule(planner->scheduler->self, &chain.in, &emission.out);
    pst_breadcrumb_leave();
    if (emission.fault[0] == '\0' && st == PST_OK) {
        (void)pst_emission_complete(&emission); /* says why not */
    }
    if (emission.fault[0] != '\0') {
        st = pst_planner_illegal(err, planner->scheduler, "%s", emission.fault);
        goto out;
    }
    if (st != PST_OK) {
        st = pst_instance_fail(planner->scheduler, st, "schedule", err);
        goto out;
    }
    st = pst_emission_count_at_peak(&emission, counts);
    if (st != PST_OK) {
        st = pst_fail_nomem(err);
        goto out;
    }
    held->microbatches = counts[place->stage] > 0 ? counts[place->stage] : 1;
    held->weight_versions = emission.asynchronous ? 2 : 1;
out:
    pst_emission_finish(&emission);
    unit_finish(&chain);
    free(counts);
    return st;
}

pst_status pst_planner_held(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held, struct pst_error *err)
{
    const struct pst_scheduler *f = planner->scheduler_if;
    struct pst_held held = {.size = sizeof held, .microbatches = 0, .weight_versions = 1};
    pst_status st;

    if (PST_CAN(f, in_flight)) {
        pst_breadcrumb_enter(planner->scheduler->crumb, PST_CRUMB_IN_FLIGHT);
        st = f->in_flight(planner->scheduler->self, place, &held);
        pst_breadcrumb_leave();
        if (st != PST_OK) {
            return pst_instance_fail(planner->scheduler, st, "in_flight", err);
        }
    } else {
        st = count_by_schedule(planner, place, &held, err);
        if (st != PST_OK) {
            return st;
        }
    }
    if (held.microbatches == 0 || held.weight_versions == 0) {
        return pst_planner_illegal(err, planner->scheduler,
                                   "in_flight() says that stage %u of %u holds %u micro-batches "
                                   "and %u weight versions",
                                   place->stage, place->n_stages, held.microbatches,
                                   held.weight_versions);
    }
    if (planner->topology.version_rule != PST_VERSION_DELAYED &&
        held.microbatches > place->n_microbatches) {
        held.microbatches = place->n_microbatches;
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
    struct pst_successor *successors = calloc(plan->n_stages + 1, sizeof *successors);
    uint32_t s, e;
    pst_status st = PST_OK;

    if (successors == NULL) {
        return pst_fail_nomem(err);
    }
    for (s = plan->n_stages; st == PST_OK && s-- > 0;) {
        struct pst_plan_stage *stage = &plan->stages[s];
        struct pst_held held = {.size = sizeof held};
        struct pst_place place = {
            .size = sizeof place,
            .stage = s,
            .n_stages = plan->n_stages,
            .n_devices = planner->n_devices,
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
