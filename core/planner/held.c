/* SPDX-License-Identifier: Apache-2.0
 *
 * How many micro-batches a stage holds: the scheduler's own word, or a count on a chain of stages
 * that all cost the same.
 */
#include "planner/held.h"

#include <stdlib.h>

#include "base/memory.h"
#include "host/call.h"
#include "planner/emission.h"
#include "planner/solo.h"
#include "planner/state.h"

/* A chain with unit costs: F, B and W take 1, transfers nothing; every micro-batch is one byte. */
static struct pst_solo unit_chain(const struct pst_scheduler_use *use,
                                  const struct pst_place *place)
{
    static const struct pst_solo_costs costs = {.forward_ns = 1,
                                                .backward_input_ns = 1,
                                                .backward_weight_ns = 1,
                                                .saved_bytes = 1,
                                                .saved_weight_bytes = 1,
                                                .limit_bytes = UINT64_MAX};
    bool fixed = use->topology->n_stages != 0;
    uint32_t n = place->n_stages, n_devices = place->n_devices, s;
    uint32_t *device_of = pst_alloc(n, sizeof *device_of);
    struct pst_solo chain;

    for (s = 0; s < n; s++) {
        device_of[s] = fixed && s < use->n_places ? use->device_of[s] : s;
        n_devices = !fixed && n > n_devices ? n : n_devices;
    }
    chain = pst_solo_line(n_devices, n, device_of, place->n_microbatches, &costs);
    for (s = 0; s < n; s++) {
        chain.stages[s].microbatch_size = place->microbatch_size;
        chain.stages[s].k = place->k;
    }
    free(device_of);
    return chain;
}

pst_status pst_scheduler_count(const struct pst_scheduler_use *use, const struct pst_place *place,
                               struct pst_scheduler_count *count, struct pst_error *err)
{
    struct pst_solo chain = unit_chain(use, place);
    struct pst_emission emission;
    pst_status st = pst_emission_ask(&emission, use->scheduler, &chain.in, NULL, NULL, err);

    if (st == PST_OK) {
        pst_emission_count_at_peak(&emission, count->held, count->late);
        count->split = emission.split && !emission.asynchronous;
        count->asynchronous = emission.asynchronous;
    }
    pst_emission_finish(&emission);
    pst_solo_finish(&chain);
    return st;
}

struct pst_held pst_scheduler_counted(const struct pst_scheduler_count *count, uint32_t stage)
{
    return (struct pst_held){
        .size = sizeof(struct pst_held),
        .microbatches = count->held[stage] > 0 ? count->held[stage] : 1,
        .weight_versions = count->asynchronous ? 2 : 1,
    };
}

bool pst_scheduler_tells(const struct pst_scheduler_use *use)
{
    const struct pst_scheduler *f = use->scheduler->plugin->get_interface(PST_SCHEDULER);

    return PST_CAN(f, in_flight);
}

/* A part of an asynchronous schedule runs passes of two batches. */
static uint64_t most_microbatches(const struct pst_scheduler_use *use,
                                  const struct pst_place *place)
{
    return pst_rule_is_asynchronous(use->topology->version_rule) ? 2ull * place->n_microbatches
                                                                 : place->n_microbatches;
}

/* One for each that it may hold, and the newest. */
static uint64_t most_versions(const struct pst_scheduler_use *use, const struct pst_place *place)
{
    return pst_rule_is_asynchronous(use->topology->version_rule) ? most_microbatches(use, place) + 1
                                                                 : 1;
}

/* Its own word. */
static pst_status ask(const struct pst_scheduler_use *use, const struct pst_place *place,
                      struct pst_held *held, struct pst_error *err)
{
    pst_status st = pst_call_in_flight(use->scheduler, place, held);

    if (st != PST_OK) {
        return pst_instance_fail(use->scheduler, st, "in_flight", err);
    }
    if (held->microbatches == 0 || held->weight_versions == 0 ||
        held->weight_versions > most_versions(use, place)) {
        return pst_planner_illegal(err, use->scheduler,
                                   "in_flight() says that stage %u of %u holds %u micro-batches "
                                   "and %u weight versions; at least one, and here at most %llu "
                                   "versions",
                                   place->stage, place->n_stages, held->microbatches,
                                   held->weight_versions,
                                   (unsigned long long)most_versions(use, place));
    }
    return PST_OK;
}

static pst_status count_once(const struct pst_scheduler_use *use, const struct pst_place *place,
                             struct pst_held *held, struct pst_error *err)
{
    struct pst_scheduler_count count = {.held = pst_alloc(place->n_stages, sizeof *count.held)};
    pst_status st = pst_scheduler_count(use, place, &count, err);

    if (st == PST_OK) {
        *held = pst_scheduler_counted(&count, place->stage);
    }
    free(count.held);
    return st;
}

pst_status pst_scheduler_held(const struct pst_scheduler_use *use, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err)
{
    struct pst_held held = {.size = sizeof held, .microbatches = 0, .weight_versions = 1};
    pst_status st =
        pst_scheduler_tells(use) ? ask(use, place, &held, err) : count_once(use, place, &held, err);

    if (st != PST_OK) {
        return st;
    }
    if (held.microbatches > most_microbatches(use, place)) {
        held.microbatches = (uint32_t)most_microbatches(use, place);
    }
    *ret_held = held;
    return PST_OK;
}
