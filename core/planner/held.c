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

static pst_status count_chain(const struct pst_scheduler_use *use, const struct pst_place *place,
                              struct pst_scheduler_count *count, struct pst_error *err)
{
    struct pst_solo chain = unit_chain(use, place);
    struct pst_emission emission;
    pst_status st = pst_emission_ask(&emission, use->scheduler, &chain.in, NULL, NULL, err);

    if (st == PST_OK) {
        const struct pst_emission_count found = pst_emission_count(&emission, use->arena);

        count->held = found.at_peak;
        count->late = found.late;
        count->split = emission.split && !emission.asynchronous;
        count->asynchronous = emission.asynchronous;
    }
    pst_emission_finish(&emission);
    pst_solo_finish(&chain);
    return st;
}

static pst_status repeat(const struct pst_error *why, pst_status st, struct pst_error *err)
{
    if (err != NULL) {
        *err = *why;
    }
    return st;
}

/* A search that takes its time is not repeated because its answer was no. */
pst_status pst_scheduler_count(const struct pst_scheduler_use *use, const struct pst_place *place,
                               const struct pst_scheduler_count **ret_count, struct pst_error *err)
{
    struct pst_scheduler_count *count = *use->counts;
    struct pst_error why = {.status = PST_OK};

    while (count != NULL &&
           (count->n_stages != place->n_stages || count->n_microbatches != place->n_microbatches ||
            count->microbatch_size != place->microbatch_size || count->k != place->k)) {
        count = count->next;
    }
    if (count == NULL) {
        count = pst_arena_array(use->arena, 1, sizeof *count);
        *count = (struct pst_scheduler_count){
            .next = *use->counts,
            .n_stages = place->n_stages,
            .n_microbatches = place->n_microbatches,
            .microbatch_size = place->microbatch_size,
            .k = place->k,
        };
        count->status = count_chain(use, place, count, &why);
        if (count->status == PST_ERR_NOMEM || count->status == PST_ERR_CANCELLED) {
            return repeat(&why, count->status, err);
        }
        if (count->status != PST_OK) {
            count->why = pst_arena_array(use->arena, 1, sizeof *count->why);
            *count->why = why;
        }
        *use->counts = count;
    }
    *ret_count = count;
    return PST_OK;
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

static pst_status look_up(const struct pst_scheduler_use *use, const struct pst_place *place,
                          struct pst_held *held, struct pst_error *err)
{
    const struct pst_scheduler_count *count = NULL;
    pst_status st = pst_scheduler_count(use, place, &count, err);

    if (st == PST_OK && count->status != PST_OK) {
        return repeat(count->why, count->status, err);
    }
    if (st == PST_OK) {
        held->microbatches = count->held[place->stage] > 0 ? count->held[place->stage] : 1;
        held->weight_versions = count->asynchronous ? 2 : 1;
    }
    return st;
}

pst_status pst_scheduler_held(const struct pst_scheduler_use *use, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err)
{
    const struct pst_scheduler *f = use->scheduler->plugin->get_interface(PST_SCHEDULER);
    struct pst_held held = {.size = sizeof held, .microbatches = 0, .weight_versions = 1};
    pst_status st =
        PST_CAN(f, in_flight) ? ask(use, place, &held, err) : look_up(use, place, &held, err);

    if (st != PST_OK) {
        return st;
    }
    if (held.microbatches > most_microbatches(use, place)) {
        held.microbatches = (uint32_t)most_microbatches(use, place);
    }
    *ret_held = held;
    return PST_OK;
}
