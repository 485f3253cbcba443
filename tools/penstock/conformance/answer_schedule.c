/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules: taken in by the planner's own rules, then run to their end. An asynchronous one is
 * judged as the batches in a row that its parts make.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "conformance/answer.h"
#include "conformance/verdict.h"
#include "host/caps.h"
#include "planner/held.h"
#include "planner/topology.h"

enum { STAGES_MAX = 4096, MICROBATCHES_MAX = 4096, BATCHES = 3 };

struct order {
    struct pst_rig *rig;
    struct pst_answer *answer;
    struct pst_topology topology;
    struct pst_order_question asked;
    bool asynchronous;
};

static void record_orders(struct pst_answer *answer, const struct pst_orders *orders)
{
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        for (uint32_t d = 0; orders->n_passes[part] != NULL && d < orders->n_devices; d++) {
            pst_answer_record(answer, orders->n_passes[part][d]);
            for (uint32_t i = 0; i < orders->n_passes[part][d]; i++) {
                const struct pst_pass *pass = &orders->passes[part][d][i];

                pst_answer_record(answer, pass->op);
                pst_answer_record(answer, (uint64_t)pass->stage << 32 | pass->microbatch);
            }
        }
    }
}

/* Asks in_flight() of each stage, from the last one, with its successors' answers. */
static pst_status ask_held(struct order *order, uint32_t *claims, struct pst_error *err)
{
    const struct pst_schedule_in *in = &order->asked.in;
    struct pst_planner *planner = &order->rig->planning.planner;
    struct pst_successor *successors = pst_alloc(in->n_links + 1, sizeof *successors);
    pst_status status = PST_OK;

    planner->strategies.scheduler = &order->rig->instance;
    planner->devices.topology = order->topology;
    for (uint32_t s = in->n_stages; status == PST_OK && s-- > 0;) {
        struct pst_held held = {.size = sizeof held};
        struct pst_place place;

        pst_held_place(in, s, claims, successors, &place);
        status = pst_planner_held(planner, &place, &held, err);
        claims[s] = held.microbatches;
        pst_answer_record(order->answer, held.microbatches);
    }
    planner->strategies.scheduler = NULL; /* the rig's own */
    free(successors);
    return status;
}

/* Micro-batches that the order holds on a device at its peak: at most what in_flight() says. */
static pst_status judge_held(struct order *order, const struct pst_batches *stream,
                             struct pst_error *err)
{
    const struct pst_schedule_in *in = &order->asked.in;
    uint32_t *claims = pst_alloc(in->n_stages, sizeof *claims);
    pst_status status = ask_held(order, claims, err);

    for (uint32_t d = 0; status == PST_OK && d < in->n_devices; d++) {
        uint64_t claimed = 0, held = 0, most = 0;

        for (uint32_t s = 0; s < in->n_stages; s++) {
            claimed += order->asked.stages[s].device == d ? claims[s] : 0;
        }
        for (uint32_t i = 0; i < stream->n_passes[d]; i++) {
            const uint8_t pass = stream->passes[d][i].op;

            held += pass == PST_PASS_F;
            held -= pass == PST_PASS_W || pass == PST_PASS_BW;
            most = held > most ? held : most;
        }
        if (most > claimed) {
            pst_answer_break(order->answer,
                             "in_flight() returned %llu micro-batches for the stages of device %u, "
                             "but the schedule holds %llu",
                             (unsigned long long)claimed, d, (unsigned long long)most);
        }
    }
    free(claims);
    return status;
}

/* So many batches of the answer in a row must run to their end; they stay in the stream. */
static void judge_batches(struct order *order, const struct pst_orders *orders, uint32_t n_batches,
                          struct pst_batches *ret_stream)
{
    struct pst_error err = {0};
    struct pst_order_eval eval = {.n_devices = 0};
    char batches[32] = "";

    if (pst_batches_evaluate(orders, &order->asked.in, n_batches, ret_stream, &eval, &err) !=
        PST_OK) {
        if (order->asynchronous) {
            snprintf(batches, sizeof batches, " (%u batches)", n_batches);
        }
        pst_answer_break(order->answer, "%s%s: %.*s", err.message, batches,
                         (int)strcspn(err.details, "\n"), err.details);
    }
    pst_order_eval_finish(&eval);
}

/* One batch has no body; three have two, so that what a body leaves meets a body. `counts`: the
   scheduler has an in_flight(). */
static pst_status judge_order(struct order *order, const struct pst_orders *orders, bool counts,
                              struct pst_error *err)
{
    struct pst_batches stream = {.passes = NULL};
    uint32_t n_batches = order->asynchronous ? BATCHES : 1;
    pst_status status = PST_OK;

    for (uint32_t n = 1; n <= n_batches && order->answer->broken[0] == '\0'; n += BATCHES - 1) {
        pst_batches_finish(&stream);
        judge_batches(order, orders, n, &stream);
    }
    if (counts && order->answer->broken[0] == '\0') {
        status = judge_held(order, &stream, err);
    }
    pst_batches_finish(&stream);
    return status;
}

static pst_status ask_schedule(struct order *order, bool counts, struct pst_error *err)
{
    struct pst_instance *scheduler = &order->rig->instance;
    struct pst_orders orders;
    pst_status status =
        pst_orders_ask(scheduler, &order->asked.in, &order->asynchronous, NULL, &orders, err);

    if (status == PST_OK && orders.split) {
        status = pst_caps_require(scheduler->plugin, "split-backward", "B and W passes", err);
    }
    if (status == PST_OK) {
        record_orders(order->answer, &orders);
        status = judge_order(order, &orders, counts, err);
    }
    pst_orders_finish(&orders);
    return status;
}

/* Micro-batches of a stage: as many as the scheduler takes. */
static uint32_t count_microbatches(const struct pst_topology *topology, uint32_t wanted)
{
    uint32_t copies = pst_topology_copies(topology);
    uint32_t multiple = topology->microbatch_multiple * copies;
    uint32_t m = wanted > topology->min_microbatches ? wanted : topology->min_microbatches;

    return (m + (multiple - m % multiple) % multiple) / copies;
}

/* Stages where the scheduler wants them. */
static pst_status state(struct order *order, const struct pst_case *question, struct pst_error *err)
{
    const struct pst_topology *topology = &order->topology;
    bool several = pst_subject_provides(order->rig->subject, "per-stage-microbatch");
    uint32_t n = topology->n_stages != 0 ? topology->n_stages : question->n_devices;
    uint32_t batch = count_microbatches(topology, question->n_microbatches) * (several ? 2 : 1);
    uint32_t *devices = pst_alloc(n, sizeof *devices), *sizes = pst_alloc(n, sizeof *sizes);
    uint64_t random = question->seed;
    pst_status status = pst_scheduler_devices(&order->rig->instance, topology, question->n_devices,
                                              n, devices, err);

    for (uint32_t s = 0; status == PST_OK && s < n; s++) {
        bool any = several && question->seed % 2 == 0;

        sizes[s] = any ? (uint32_t)pst_random_between(&random, 1, 2) : 1;
        pst_answer_record(order->answer, devices[s]);
    }
    if (status == PST_OK) {
        pst_schedule_problem_make(question, n, pst_topology_copies(topology), devices, sizes, batch,
                                  &order->asked);
        order->asked.in.slices = topology->slices;
    }
    free(devices);
    free(sizes);
    return status;
}

/* A scheduler that answers one instance only is asked for that one. */
static pst_status take_shape(struct pst_rig *rig, struct pst_case *question, struct pst_error *err)
{
    struct pst_order_question_shape shape;
    bool fixed;
    pst_status status = pst_order_question_shape(&rig->instance, &fixed, &shape, err);

    if (status == PST_OK && fixed) {
        question->n_devices = shape.n_devices;
        question->n_microbatches = shape.n_microbatches;
    }
    return status;
}

static pst_status ask_topology(struct order *order, uint32_t n_devices, struct pst_error *err)
{
    struct pst_topology *topology = &order->topology;
    pst_status status = pst_scheduler_topology(&order->rig->instance, n_devices, topology, err);

    if (status != PST_OK) {
        return status;
    }
    if (topology->n_stages > STAGES_MAX ||
        topology->min_microbatches > MICROBATCHES_MAX - topology->microbatch_multiple) {
        pst_verdict_skip("it needs %u stages and at least %u micro-batches, a multiple of %u: more "
                         "than the checker tries",
                         topology->n_stages, topology->min_microbatches,
                         topology->microbatch_multiple);
    }
    pst_answer_record(order->answer, topology->n_stages);
    pst_answer_record(order->answer, topology->version_rule);
    pst_answer_record(order->answer, topology->min_microbatches);
    pst_answer_record(order->answer, topology->microbatch_multiple);
    pst_answer_record(order->answer, topology->slices);
    order->asynchronous = pst_rule_is_asynchronous(topology->version_rule);
    return PST_OK;
}

pst_status pst_ask_scheduler(struct pst_rig *rig, const struct pst_case *question,
                             struct pst_answer *answer, struct pst_error *err)
{
    const struct pst_scheduler *f = rig->instance.plugin->get_interface(PST_SCHEDULER);
    struct order order = {.rig = rig, .answer = answer};
    struct pst_case shaped = *question;
    pst_status status = take_shape(rig, &shaped, err);

    PST_TRY(status, ask_topology(&order, shaped.n_devices, err));
    PST_TRY(status, state(&order, &shaped, err));
    PST_TRY(status, ask_schedule(&order, PST_CAN(f, in_flight), err));
    pst_order_question_finish(&order.asked);
    return status;
}
