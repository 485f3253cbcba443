/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/held.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "host/call.h"
#include "planner/schedule_intake.h"
#include "planner/order_question.h"
#include "planner/state.h"

/* A chain with unit costs: F, B and W take 1, transfers nothing; every micro-batch is one byte. Or
   as many as there are copies. */
static struct pst_order_question unit_chain(const struct pst_planner *planner,
                                            const struct pst_place *place)
{
    const struct pst_places *places = &planner->devices.places;
    const struct pst_order_question_costs costs = {.forward_ns = 1,
                                                   .backward_input_ns = 1,
                                                   .backward_weight_ns = 1,
                                                   .saved_bytes = 1,
                                                   .saved_weight_bytes = 1,
                                                   .limit_bytes = UINT64_MAX,
                                                   .copies = pst_places_copies(places)};
    bool fixed = planner->devices.topology.n_stages != 0;
    uint32_t n_places = places->n * costs.copies;
    uint32_t n = place->n_stages * costs.copies, n_devices = place->n_devices, s;
    uint32_t *device_of = pst_alloc(n, sizeof *device_of);
    struct pst_order_question chain;

    for (s = 0; s < n; s++) {
        device_of[s] = s < n_places ? pst_places_device(places, s) : s;
        n_devices = !fixed && n > n_devices ? n : n_devices;
    }
    chain = pst_order_question_line(n_devices, n, device_of, place->n_microbatches * costs.copies,
                                    &costs);
    chain.in.slices = planner->devices.topology.slices;
    for (s = 0; s < n; s++) {
        chain.stages[s].microbatch_size = place->microbatch_size;
        chain.stages[s].k = place->k;
    }
    free(device_of);
    return chain;
}

static pst_status count_chain(struct pst_planner *planner, const struct pst_place *place,
                              struct pst_scheduler_count *count, struct pst_error *err)
{
    struct pst_order_question chain = unit_chain(planner, place);
    struct pst_orders orders;
    pst_status status =
        pst_orders_ask(planner->strategies.scheduler, &chain.in, NULL, NULL, &orders, err);

    if (status == PST_OK) {
        const struct pst_orders_count found = pst_orders_count(&orders, &chain.in, &planner->arena);

        count->held = found.at_peak;
        count->late = found.late;
        count->split = orders.split && !orders.asynchronous;
        count->asynchronous = orders.asynchronous;
    }
    pst_orders_finish(&orders);
    pst_order_question_finish(&chain);
    return status;
}

static pst_status repeat(const struct pst_error *why, pst_status status, struct pst_error *err)
{
    if (err != NULL) {
        *err = *why;
    }
    return status;
}

/* A search that takes its time is not repeated because its answer was no. */
pst_status pst_planner_count(struct pst_planner *planner, const struct pst_place *place,
                             const struct pst_scheduler_count **ret_count, struct pst_error *err)
{
    struct pst_scheduler_count *count = planner->memos.counts;
    struct pst_error why = {.status = PST_OK};

    while (count != NULL &&
           (count->n_stages != place->n_stages || count->n_microbatches != place->n_microbatches ||
            count->microbatch_size != place->microbatch_size || count->k != place->k)) {
        count = count->next;
    }
    if (count == NULL) {
        count = pst_arena_array(&planner->arena, 1, sizeof *count);
        *count = (struct pst_scheduler_count){
            .next = planner->memos.counts,
            .n_stages = place->n_stages,
            .n_microbatches = place->n_microbatches,
            .microbatch_size = place->microbatch_size,
            .k = place->k,
        };
        count->status = count_chain(planner, place, count, &why);
        if (count->status == PST_ERR_NOMEM || count->status == PST_ERR_CANCELLED) {
            return repeat(&why, count->status, err);
        }
        if (count->status != PST_OK) {
            count->why = pst_arena_array(&planner->arena, 1, sizeof *count->why);
            *count->why = why;
        }
        planner->memos.counts = count;
    }
    *ret_count = count;
    return PST_OK;
}

/* A part of an asynchronous schedule runs passes of two batches. */
static uint64_t most_microbatches(const struct pst_planner *planner, const struct pst_place *place)
{
    return pst_rule_is_asynchronous(planner->devices.topology.version_rule)
               ? 2ull * place->n_microbatches
               : place->n_microbatches;
}

/* One for each that it may hold, and the newest. */
static uint64_t most_versions(struct pst_planner *planner, const struct pst_place *place)
{
    return pst_rule_is_asynchronous(planner->devices.topology.version_rule)
               ? most_microbatches(planner, place) + 1
               : 1;
}

/* Its own word. */
static pst_status ask_scheduler(struct pst_planner *planner, const struct pst_place *place,
                                struct pst_held *held, struct pst_error *err)
{
    pst_status status = pst_call_in_flight(planner->strategies.scheduler, place, held);

    if (status != PST_OK) {
        return pst_instance_fail(planner->strategies.scheduler, status, "in_flight", err);
    }
    if (held->microbatches == 0 || held->weight_versions == 0 ||
        held->weight_versions > most_versions(planner, place)) {
        return pst_planner_illegal(
            err, planner->strategies.scheduler,
            "in_flight() states for stage %u of %u that it holds %u micro-batches "
            "and %u weight versions; at least one, and here at most %llu "
            "versions",
            place->stage, place->n_stages, held->microbatches, held->weight_versions,
            (unsigned long long)most_versions(planner, place));
    }
    return PST_OK;
}

static pst_status look_up(struct pst_planner *planner, const struct pst_place *place,
                          struct pst_held *held, struct pst_error *err)
{
    const struct pst_scheduler_count *count = NULL;
    uint32_t n = place->n_stages * pst_places_copies(&planner->devices.places);
    pst_status status = pst_planner_count(planner, place, &count, err);

    if (status == PST_OK && count->status != PST_OK) {
        return repeat(count->why, count->status, err);
    }
    held->microbatches = 1;
    for (uint32_t s = place->stage; status == PST_OK && s < n; s += place->n_stages) {
        held->microbatches =
            count->held[s] > held->microbatches ? count->held[s] : held->microbatches;
    }
    if (status == PST_OK) {
        held->weight_versions = count->asynchronous ? 2 : 1;
    }
    return status;
}

pst_status pst_planner_held(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held, struct pst_error *err)
{
    const struct pst_scheduler *f =
        planner->strategies.scheduler->plugin->get_interface(PST_SCHEDULER);
    struct pst_held held = {.size = sizeof held, .microbatches = 0, .weight_versions = 1};
    bool says = PST_CAN(f, in_flight) && pst_places_copies(&planner->devices.places) == 1;
    pst_status status =
        says ? ask_scheduler(planner, place, &held, err) : look_up(planner, place, &held, err);

    if (status != PST_OK) {
        return status;
    }
    if (held.microbatches > most_microbatches(planner, place)) {
        held.microbatches = (uint32_t)most_microbatches(planner, place);
    }
    if (place->stage < planner->view->n_nodes &&
        planner->attempt.counted[place->stage] > held.microbatches) {
        held.microbatches = planner->attempt.counted[place->stage];
    }
    *ret_held = held;
    return PST_OK;
}

pst_status pst_planner_hold(struct pst_planner *planner, struct pst_plan *plan,
                            struct pst_error *err)
{
    struct pst_successor *successors = pst_alloc(plan->n_stages, sizeof *successors);
    uint32_t s, e;
    pst_status status = PST_OK;

    for (s = plan->n_stages; status == PST_OK && s-- > 0;) {
        struct pst_plan_stage *stage = &plan->stages[s];
        struct pst_held held;
        struct pst_place place = {
            .size = sizeof place,
            .stage = s,
            .n_stages = plan->n_stages,
            .n_devices = pst_devices_under(&planner->devices, plan->n_stages),
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
        status = pst_planner_held(planner, &place, &held, err);
        stage->in_flight = held.microbatches;
        stage->weight_versions = held.weight_versions;
    }
    free(successors);
    return status;
}

/* --- its word against its schedule -------------------------------------------------------------*/

void pst_held_place(const struct pst_schedule_in *in, uint32_t s, const uint32_t *claims,
                    struct pst_successor *successors, struct pst_place *ret_place)
{
    const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

    *ret_place = (struct pst_place){.size = sizeof *ret_place,
                                    .stage = s,
                                    .n_stages = in->n_stages,
                                    .n_devices = in->n_devices,
                                    .n_microbatches = stage->n_microbatches,
                                    .microbatch_size = stage->microbatch_size,
                                    .k = stage->k,
                                    .n_successors = stage->n_succ,
                                    .successor_size = sizeof *successors,
                                    .successors = successors};
    for (uint32_t i = 0; i < stage->n_succ; i++) {
        uint32_t to = pst_schedule_link_at(in, in->out_links[stage->first_succ + i])->to;
        const struct pst_schedule_stage *next = pst_schedule_stage_at(in, to);

        successors[i] = (struct pst_successor){next->microbatch_size, next->k, claims[to]};
    }
}

/* Asks in_flight() about every stage, from the last one, as each question has the answers of the
   stage's successors. False: a call failed. */
static bool ask_all(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                    uint32_t *claims)
{
    struct pst_successor *successors = pst_alloc(in->n_links + 1, sizeof *successors);
    pst_status status = PST_OK;

    for (uint32_t s = in->n_stages; status == PST_OK && s-- > 0;) {
        struct pst_held held = {.size = sizeof held, .weight_versions = 1};
        struct pst_place place;

        pst_held_place(in, s, claims, successors, &place);
        status = pst_call_in_flight(scheduler, &place, &held);
        claims[s] = held.microbatches;
    }
    free(successors);
    return status == PST_OK;
}

static uint32_t most_held(const struct pst_orders *orders, uint32_t device)
{
    uint32_t held = 0, most = 0;

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        uint32_t n = orders->n_passes[part] == NULL ? 0 : orders->n_passes[part][device];

        for (uint32_t i = 0; i < n; i++) {
            uint8_t op = orders->passes[part][device][i].op;

            held += op == PST_PASS_F;
            held -= op == PST_PASS_W || op == PST_PASS_BW;
            most = held > most ? held : most;
        }
    }
    return most;
}

struct pst_held_fault pst_held_judge(struct pst_instance *scheduler,
                                     const struct pst_schedule_in *in,
                                     const struct pst_orders *orders)
{
    const struct pst_scheduler *f = scheduler->plugin->get_interface(PST_SCHEDULER);
    struct pst_held_fault fault = {.held = 0};
    uint32_t *claims = pst_alloc(in->n_stages, sizeof *claims);

    if (PST_CAN(f, in_flight) && ask_all(scheduler, in, claims)) {
        for (uint32_t d = 0; fault.held == 0 && d < in->n_devices; d++) {
            uint32_t most = most_held(orders, d);
            uint64_t claimed = 0;

            for (uint32_t s = 0; s < in->n_stages; s++) {
                claimed += pst_schedule_stage_at(in, s)->device == d ? claims[s] : 0;
            }
            if (most > claimed) {
                fault = (struct pst_held_fault){d, most, claimed};
            }
        }
    }
    free(claims);
    return fault;
}

void pst_held_warn(const struct pst_instance *scheduler, const struct pst_held_fault *fault)
{
    if (fault->held > 0) {
        pst_log(PST_LOG_WARN, scheduler->plugin->id,
                "in_flight() promises %llu micro-batches for the stages of device %u, but the "
                "schedule holds %u; \"penstock plugins check\" has details",
                (unsigned long long)fault->claimed, fault->device, fault->held);
    }
}
