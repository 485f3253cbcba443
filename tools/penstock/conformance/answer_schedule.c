/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules: taken in by the planner's own rules, then run to their end. An asynchronous one is
 * judged as the batches in a row that its parts make.
 */
#include <string.h>

#include "conformance/answer.h"
#include "conformance/verdict.h"
#include "plan/order_eval.h"
#include "planner/solo.h"
#include "planner/topology.h"

enum { STAGES_MAX = 4096, MICROBATCHES_MAX = 4096, BATCHES = 3 };

struct order {
    struct pst_answer *answer;
    const struct pst_subject *subject;
    const struct pst_schedule_in *in;
    struct pst_emission emission;
};

/* What the intake said of the last call. */
static pst_status take(struct order *order, pst_status st)
{
    if (st != PST_OK) {
        pst_answer_break(order->answer, "%s", order->emission.fault);
    }
    return order->answer->broken[0] == '\0' ? PST_OK : PST_ERR_BUG;
}

static pst_status take_pass(struct pst_schedule_out *out, uint32_t device, uint32_t pass,
                            uint32_t stage, uint32_t microbatch)
{
    struct order *order = out->impl;
    struct pst_schedule_out *intake = &order->emission.out;

    pst_answer_record(order->answer, (uint64_t)device << 32 | pass);
    pst_answer_record(order->answer, (uint64_t)stage << 32 | microbatch);
    if (order->answer->asynchronous && !order->emission.asynchronous) {
        pst_answer_break(order->answer, "emit() is called before part()");
    }
    if ((pass == PST_PASS_B || pass == PST_PASS_W) &&
        !pst_subject_provides(order->subject, "split-backward")) {
        pst_answer_break(order->answer, "it emits a %s pass but does not provide split-backward",
                         pass == PST_PASS_B ? "B" : "W");
    }
    return take(order, order->answer->broken[0] != '\0'
                           ? PST_ERR_BUG
                           : intake->emit(intake, device, pass, stage, microbatch));
}

static pst_status take_pair(struct pst_schedule_out *out, uint32_t device, uint32_t stage_f,
                            uint32_t mb_f, uint32_t pass_b, uint32_t stage_b, uint32_t mb_b)
{
    struct order *order = out->impl;
    pst_status st;

    if (pass_b != PST_PASS_B && pass_b != PST_PASS_BW) {
        pst_answer_break(order->answer, "pair() was given the pass %u; it takes B or BW", pass_b);
        return PST_ERR_BUG;
    }
    st = take_pass(out, device, PST_PASS_F, stage_f, mb_f);
    return st != PST_OK ? st : take_pass(out, device, pass_b, stage_b, mb_b);
}

static pst_status take_part(struct pst_schedule_out *out, uint32_t part)
{
    struct order *order = out->impl;
    struct pst_schedule_out *intake = &order->emission.out;

    pst_answer_record(order->answer, part);
    if (!order->answer->asynchronous) {
        pst_answer_break(order->answer,
                         "part(%u) belongs to asynchronous schedules; this one is not", part);
    }
    return take(order, order->answer->broken[0] != '\0' ? PST_ERR_BUG : intake->part(intake, part));
}

/* Asks for the topology and judges it; false: there is nothing to schedule. */
static bool ask_topology(struct pst_rig *rig, const struct pst_scheduler *scheduler,
                         uint32_t n_devices, const struct pst_region *region,
                         struct pst_answer *answer, struct pst_topology *topology)
{
    char fault[160];
    pst_status st;

    *topology = (struct pst_topology){.size = sizeof *topology};
    pst_ask_begin(answer, "topology()");
    st = scheduler->topology(rig->self, n_devices, topology);
    if (!pst_ask_end(answer, rig, region, st)) {
        return false;
    }
    pst_answer_record(answer, topology->n_stages);
    pst_answer_record(answer, topology->version_rule);
    pst_answer_record(answer, topology->min_microbatches);
    pst_answer_record(answer, topology->microbatch_multiple);
    if (topology->size != sizeof *topology) {
        pst_answer_break(answer, "topology() changed the size of ret_topology");
    } else if (!pst_topology_holds(topology, fault, sizeof fault)) {
        pst_answer_break(answer, "%s", fault);
    } else if (topology->n_stages > STAGES_MAX ||
               topology->min_microbatches > MICROBATCHES_MAX - topology->microbatch_multiple) {
        pst_verdict_skip("it asks for %u stages and at least %u micro-batches, a multiple of %u: "
                         "more than the checker tries",
                         topology->n_stages, topology->min_microbatches,
                         topology->microbatch_multiple);
    }
    answer->asynchronous = pst_rule_is_asynchronous(topology->version_rule);
    return answer->broken[0] == '\0';
}

static bool ask_devices(struct pst_rig *rig, const struct pst_scheduler *scheduler,
                        const struct pst_topology *topology, uint32_t n_devices, uint32_t n_stages,
                        struct pst_answer *answer, uint32_t *devices)
{
    char fault[192];

    for (uint32_t s = 0; s < n_stages; s++) {
        devices[s] = s;
        if (PST_CAN(scheduler, device_of)) {
            pst_ask_begin(answer, "device_of()");
            devices[s] = scheduler->device_of(rig->self, n_devices, n_stages, s);
            pst_verdict_call(NULL);
        }
        pst_answer_record(answer, devices[s]);
        if (!pst_place_holds(topology, n_devices, s, devices[s], fault, sizeof fault)) {
            pst_answer_break(answer, "%s", fault);
            return false;
        }
    }
    return true;
}

/* What in_flight() says of every stage of a chain, from its end: each hears of its successor. */
static bool ask_held(struct pst_rig *rig, const struct pst_scheduler *scheduler,
                     struct order *order, const struct pst_region *region, uint32_t *claims)
{
    const struct pst_schedule_in *in = order->in;
    struct pst_successor successor = {1, 1, 0};

    for (uint32_t s = in->n_stages; s-- > 0;) {
        struct pst_held held = {.size = sizeof held};
        struct pst_place place = {.size = sizeof place,
                                  .stage = s,
                                  .n_stages = in->n_stages,
                                  .n_devices = in->n_devices,
                                  .n_microbatches = pst_schedule_stage_at(in, s)->n_microbatches,
                                  .microbatch_size = 1,
                                  .k = 1,
                                  .n_successors = s + 1 < in->n_stages ? 1 : 0,
                                  .successor_size = sizeof successor,
                                  .successors = &successor};
        pst_status st;

        pst_ask_begin(order->answer, "in_flight()");
        st = scheduler->in_flight(rig->self, &place, &held);
        if (!pst_ask_end(order->answer, rig, region, st)) {
            return false;
        }
        pst_answer_record(order->answer, held.microbatches);
        claims[s] = successor.in_flight = held.microbatches;
    }
    return true;
}

/* Micro-batches that the order holds on a device at its peak: at most what in_flight() says. */
static void judge_held(struct pst_rig *rig, const struct pst_scheduler *scheduler,
                       struct order *order, const struct pst_solo_stream *stream,
                       const struct pst_region *region, uint32_t *claims)
{
    const struct pst_schedule_in *in = order->in;

    if (!ask_held(rig, scheduler, order, region, claims)) {
        return;
    }
    for (uint32_t d = 0; d < in->n_devices; d++) {
        uint64_t claimed = 0, held = 0, most = 0;

        for (uint32_t s = 0; s < in->n_stages; s++) {
            claimed += pst_schedule_stage_at(in, s)->device == d ? claims[s] : 0;
        }
        for (uint32_t i = 0; i < stream->n_passes[d]; i++) {
            const uint8_t pass = stream->passes[d][i].op;

            held += pass == PST_PASS_F;
            held -= pass == PST_PASS_W || pass == PST_PASS_BW;
            most = held > most ? held : most;
        }
        if (most > claimed) {
            pst_answer_break(order->answer,
                             "in_flight() promises %llu micro-batches for the stages of device %u, "
                             "but the schedule holds %llu",
                             (unsigned long long)claimed, d, (unsigned long long)most);
        }
    }
}

/* So many batches of the answer in a row must run to their end; they stay in the stream. */
static void judge_batches(struct order *order, const struct pst_orders *orders, uint32_t n_batches,
                          struct pst_solo_stream *ret_stream)
{
    struct pst_error err = {0};
    struct pst_order_eval eval;
    pst_status st = pst_solo_unroll(orders, order->in, n_batches, ret_stream, &err);

    if (st == PST_OK) {
        st = pst_order_evaluate(&ret_stream->in, (const struct pst_pass *const *)ret_stream->passes,
                                ret_stream->n_passes, &eval, &err);
    }
    if (st == PST_OK) {
        pst_order_eval_finish(&eval);
    } else if (order->answer->asynchronous) {
        pst_answer_break(order->answer, "%s (%u batches): %.*s", err.message, n_batches,
                         (int)strcspn(err.details, "\n"), err.details);
    } else {
        pst_answer_break(order->answer, "%s: %.*s", err.message, (int)strcspn(err.details, "\n"),
                         err.details);
    }
}

/* A whole answer. One batch has no body; three have two, so that what a body leaves meets a body.
 */
static void judge_order(struct order *order, struct pst_solo_stream *ret_stream)
{
    static const struct pst_claimed no_claim;
    struct pst_orders orders = {.n_devices = 0};
    uint32_t n_batches = order->answer->asynchronous ? BATCHES : 1;

    if (order->answer->asynchronous != order->emission.asynchronous) {
        pst_answer_break(order->answer, "it emits no fill, body and drain");
    } else if (!pst_emission_complete(&order->emission)) {
        pst_answer_break(order->answer, "%s", order->emission.fault);
    } else {
        orders = pst_orders_take(&order->emission, &no_claim);
    }
    for (uint32_t n = 1; n <= n_batches && order->answer->broken[0] == '\0'; n += BATCHES - 1) {
        pst_solo_stream_finish(ret_stream);
        judge_batches(order, &orders, n, ret_stream);
    }
    pst_orders_finish(&orders);
}

static void ask_schedule(struct pst_rig *rig, const struct pst_scheduler *scheduler,
                         const struct pst_case *question, const struct pst_schedule_in *in,
                         struct pst_region *region, struct order *order, uint32_t *claims)
{
    struct pst_schedule_out out = {
        .size = sizeof out, .impl = order, .emit = take_pass, .pair = take_pair, .part = take_part};
    struct pst_solo_stream stream = {.passes = NULL};
    bool one_size = true;
    pst_status st;

    for (uint32_t s = 0; s < in->n_stages; s++) {
        one_size &= pst_schedule_stage_at(in, s)->microbatch_size == 1;
    }
    order->in = in;
    pst_emission_init(&order->emission, in);
    pst_region_seal(region);
    pst_ask_begin(order->answer, "schedule()");
    st = scheduler->schedule(rig->self, in, &out);
    if (pst_ask_end(order->answer, rig, region, st)) {
        judge_order(order, &stream);
    }
    if (order->answer->status == PST_OK && order->answer->broken[0] == '\0' && one_size &&
        question->shape == PST_SHAPE_CHAIN && PST_CAN(scheduler, in_flight)) {
        judge_held(rig, scheduler, order, &stream, region, claims);
    }
    pst_solo_stream_finish(&stream);
    pst_emission_finish(&order->emission);
}

/* A scheduler that answers one instance only is asked for that one. */
static struct pst_case in_its_shape(struct pst_rig *rig, const struct pst_case *question)
{
    const struct pst_fixed_shape *fixed = rig->subject->plugin->get_interface(PST_FIXED_SHAPE);
    struct pst_case shaped = *question;
    uint32_t n_stages;

    if (fixed != NULL && PST_CAN(fixed, shape)) {
        pst_verdict_call("shape()");
        fixed->shape(rig->self, &shaped.n_devices, &n_stages, &shaped.n_microbatches);
        pst_verdict_call(NULL);
    }
    return shaped;
}

void pst_ask_scheduler(struct pst_rig *rig, const struct pst_case *question_,
                       struct pst_region *region, struct pst_answer *answer)
{
    const struct pst_scheduler *scheduler = pst_subject_interface(rig->subject);
    const struct pst_case shaped = in_its_shape(rig, question_), *question = &shaped;
    bool several = pst_subject_provides(rig->subject, "per-stage-microbatch");
    struct order order = {.answer = answer, .subject = rig->subject};
    struct pst_arena arena = {0};
    struct pst_schedule_in *in;
    struct pst_topology topology;
    uint32_t n_stages, m, batch, s, *devices, *sizes;
    uint64_t random = question->seed;

    pst_region_seal(region);
    if (!ask_topology(rig, scheduler, question->n_devices, region, answer, &topology)) {
        return;
    }
    n_stages = topology.n_stages != 0 ? topology.n_stages : question->n_devices;
    m = question->n_microbatches > topology.min_microbatches ? question->n_microbatches
                                                             : topology.min_microbatches;
    m += (topology.microbatch_multiple - m % topology.microbatch_multiple) %
         topology.microbatch_multiple;
    batch = several ? 2 * m : m;
    devices = pst_arena_array(&arena, n_stages, sizeof *devices);
    sizes = pst_arena_array(&arena, n_stages, sizeof *sizes);
    if (ask_devices(rig, scheduler, &topology, question->n_devices, n_stages, answer, devices)) {
        for (s = 0; s < n_stages; s++) {
            sizes[s] = several && question->seed % 2 == 0
                           ? (uint32_t)pst_random_between(&random, 1, 2)
                           : 1;
        }
        if (!pst_schedule_problem_make(question, n_stages, devices, sizes, batch, region, &in)) {
            pst_verdict_skip("the checker ran out of memory");
        }
        ask_schedule(rig, scheduler, question, in, region, &order, devices);
    }
    pst_arena_finish(&arena);
}
