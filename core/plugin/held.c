/* SPDX-License-Identifier: Apache-2.0
 *
 * How many micro-batches a stage holds: the scheduler's own word, or a count on a chain of stages
 * that all cost the same.
 */
#include "plugin/held.h"

#include <stdlib.h>

#include "plugin/emission.h"
#include "plugin/solo.h"
#include "plugin/state.h"

/* A chain with unit costs: F, B and W take 1, transfers nothing; every micro-batch is one byte. */
static pst_status unit_chain(const struct pst_scheduler_use *use, const struct pst_place *place,
                             struct pst_solo *ret_chain, struct pst_error *err)
{
    static const struct pst_solo_costs costs = {.forward_ns = 1,
                                                .backward_input_ns = 1,
                                                .backward_weight_ns = 1,
                                                .saved_bytes = 1,
                                                .saved_weight_bytes = 1,
                                                .limit_bytes = UINT64_MAX};
    bool fixed = use->topology->n_stages != 0;
    uint32_t n = place->n_stages, n_devices = place->n_devices, s;
    uint32_t *device_of = calloc(n, sizeof *device_of);
    pst_status st;

    if (device_of == NULL) {
        return pst_fail_nomem(err);
    }
    for (s = 0; s < n; s++) {
        device_of[s] = fixed && s < use->n_places ? use->device_of[s] : s;
        n_devices = !fixed && n > n_devices ? n : n_devices;
    }
    st = pst_solo_line(n_devices, n, device_of, place->n_microbatches, &costs, ret_chain, err);
    for (s = 0; st == PST_OK && s < n; s++) {
        ret_chain->stages[s].microbatch_size = place->microbatch_size;
        ret_chain->stages[s].k = place->k;
    }
    free(device_of);
    return st;
}

static pst_status count_by_schedule(const struct pst_scheduler_use *use,
                                    const struct pst_place *place, struct pst_held *held,
                                    struct pst_error *err)
{
    struct pst_solo chain = {.stages = NULL};
    struct pst_emission emission = {.in = NULL};
    uint32_t *counts = calloc(place->n_stages, sizeof *counts);
    pst_status st = counts == NULL ? pst_fail_nomem(err) : unit_chain(use, place, &chain, err);

    if (st == PST_OK) {
        st = pst_emission_ask(&emission, use->scheduler, &chain.in, err);
    }
    if (st == PST_OK && pst_emission_count_at_peak(&emission, counts, NULL) != PST_OK) {
        st = pst_fail_nomem(err);
    }
    if (st == PST_OK) {
        held->microbatches = counts[place->stage] > 0 ? counts[place->stage] : 1;
        held->weight_versions = emission.asynchronous ? 2 : 1;
    }
    pst_emission_finish(&emission);
    pst_solo_finish(&chain);
    free(counts);
    return st;
}

pst_status pst_scheduler_late(const struct pst_scheduler_use *use, const struct pst_place *place,
                              bool *ret_split, uint32_t *ret_late, struct pst_error *err)
{
    struct pst_solo chain = {.stages = NULL};
    struct pst_emission emission = {.in = NULL};
    uint32_t *held = calloc(place->n_stages, sizeof *held);
    pst_status st = held == NULL ? pst_fail_nomem(err) : unit_chain(use, place, &chain, err);

    if (st == PST_OK) {
        st = pst_emission_ask(&emission, use->scheduler, &chain.in, err);
    }
    if (st == PST_OK && pst_emission_count_at_peak(&emission, held, ret_late) != PST_OK) {
        st = pst_fail_nomem(err);
    }
    if (st == PST_OK) {
        *ret_split = emission.split && !emission.asynchronous;
    }
    pst_emission_finish(&emission);
    pst_solo_finish(&chain);
    free(held);
    return st;
}

pst_status pst_scheduler_held(const struct pst_scheduler_use *use, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err)
{
    const struct pst_scheduler *f = use->scheduler->plugin->get_interface(PST_SCHEDULER);
    struct pst_held held = {.size = sizeof held, .microbatches = 0, .weight_versions = 1};
    pst_status st;

    if (PST_CAN(f, in_flight)) {
        pst_breadcrumb_enter(use->scheduler->crumb, PST_CRUMB_IN_FLIGHT);
        st = f->in_flight(use->scheduler->self, place, &held);
        pst_breadcrumb_leave();
        if (st != PST_OK) {
            return pst_instance_fail(use->scheduler, st, "in_flight", err);
        }
    } else {
        st = count_by_schedule(use, place, &held, err);
        if (st != PST_OK) {
            return st;
        }
    }
    if (held.microbatches == 0 || held.weight_versions == 0) {
        return pst_planner_illegal(err, use->scheduler,
                                   "in_flight() says that stage %u of %u holds %u micro-batches "
                                   "and %u weight versions",
                                   place->stage, place->n_stages, held.microbatches,
                                   held.weight_versions);
    }
    if (!pst_rule_is_asynchronous(use->topology->version_rule) &&
        held.microbatches > place->n_microbatches) {
        held.microbatches = place->n_microbatches;
    }
    *ret_held = held;
    return PST_OK;
}
