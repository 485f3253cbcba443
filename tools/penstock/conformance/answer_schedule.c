/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules: each pass once, on the device of its stage, F before B before W; then the whole order.
 * An asynchronous one is judged as the batches in a row that its parts make.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conformance/answer.h"
#include "conformance/verdict.h"
#include "plan/plan.h"
#include "planner/emission.h"
#include "planner/topology.h"

enum { STAGES_MAX = 4096, MICROBATCHES_MAX = 4096, BATCHES = 3 };

struct order {
    struct pst_answer *answer;
    const struct pst_subject *subject;
    const struct pst_schedule_in *in;
    struct pst_order_pass *passes;
    uint32_t *parts; /* [n] PST_PART_* of each; asynchronous schedules only */
    size_t n, room, parts_room;
    uint32_t part;  /* of the next pass; 0: none yet */
    uint32_t *base; /* [n_stages] first row of a stage's micro-batches */
    uint8_t *seen;  /* [row] bit per PST_PASS_* */
};

static const char *const names[] = {"", "F", "B", "W", "BW", "R"};

static void judge_pass(struct order *order, const struct pst_order_pass *p)
{
    struct pst_answer *answer = order->answer;
    const struct pst_schedule_stage *stage;
    const uint8_t replayed = 1u << PST_PASS_R;
    const char *what;
    uint8_t *seen;

    if (p->pass < PST_PASS_F || p->pass > PST_PASS_R) {
        pst_answer_break(answer, "emit() was given the unknown pass %u", p->pass);
        return;
    }
    if (p->stage >= order->in->n_stages) {
        pst_answer_break(answer, "%s of stage %u is emitted, but there are only %u stages",
                         names[p->pass], p->stage, order->in->n_stages);
        return;
    }
    stage = pst_schedule_stage_at(order->in, p->stage);
    if (p->microbatch >= stage->n_microbatches) {
        pst_answer_break(answer, "%s of stage %u for micro-batch %u is emitted, but it has only %u",
                         names[p->pass], p->stage, p->microbatch, stage->n_microbatches);
        return;
    }
    if (p->device != stage->device) {
        pst_answer_break(answer, "%s of stage %u is emitted on device %u, but it sits on device %u",
                         names[p->pass], p->stage, p->device, stage->device);
        return;
    }
    seen = &order->seen[order->base[p->stage] + p->microbatch];
    if (p->pass == PST_PASS_R) {
        what = (*seen & replayed) != 0                                 ? "twice"
               : (*seen & 1u << PST_PASS_F) == 0                       ? "before its F"
               : (*seen & (1u << PST_PASS_B | 1u << PST_PASS_BW)) != 0 ? "after its backward"
                                                                       : NULL;
        *seen |= replayed;
    } else {
        what = pst_pass_follow(seen, p->pass);
    }
    if (what != NULL) {
        pst_answer_break(answer, "%s of stage %u for micro-batch %u %s %s", names[p->pass],
                         p->stage, p->microbatch,
                         strcmp(what, "twice") == 0 ? "is emitted" : "comes", what);
    }
}

static void judge_words(struct order *order, uint32_t pass)
{
    const char *word = pass == PST_PASS_R                         ? "places-recompute"
                       : pass == PST_PASS_B || pass == PST_PASS_W ? "split-backward"
                                                                  : NULL;

    if (word != NULL && !pst_subject_provides(order->subject, word)) {
        pst_answer_break(order->answer, "it emits a %s pass but does not provide %s", names[pass],
                         word);
    }
}

static pst_status take_pass(struct pst_schedule_out *out, uint32_t device, uint32_t pass,
                            uint32_t stage, uint32_t microbatch)
{
    struct order *order = out->impl;
    struct pst_order_pass p = {device, pass, stage, microbatch};

    pst_answer_record(order->answer, (uint64_t)device << 32 | pass);
    pst_answer_record(order->answer, (uint64_t)stage << 32 | microbatch);
    if (order->answer->broken[0] != '\0') {
        return PST_ERR_BUG;
    }
    if (!order->answer->asynchronous) {
        judge_pass(order, &p);
    } else if (order->part == 0) {
        pst_answer_break(order->answer, "emit() is called before part()");
    }
    if (order->answer->broken[0] == '\0') {
        judge_words(order, pass);
    }
    if (order->answer->broken[0] != '\0') {
        return PST_ERR_BUG;
    }
    if (!pst_grow(&order->passes, &order->room, order->n, sizeof *order->passes) ||
        !pst_grow(&order->parts, &order->parts_room, order->n, sizeof *order->parts)) {
        pst_verdict_skip("the checker ran out of memory");
    }
    order->parts[order->n] = order->part;
    order->passes[order->n++] = p;
    return PST_OK;
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

    pst_answer_record(order->answer, part);
    if (!order->answer->asynchronous) {
        pst_answer_break(order->answer,
                         "part(%u) belongs to asynchronous schedules; this one is not", part);
    } else if (part < PST_PART_FILL || part > PST_PART_DRAIN) {
        pst_answer_break(order->answer, "part() was given the unknown part %u", part);
    }
    order->part = part;
    return order->answer->broken[0] == '\0' ? PST_OK : PST_ERR_BUG;
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
                       struct order *order, const struct pst_region *region, uint32_t *claims)
{
    const struct pst_schedule_in *in = order->in;
    uint32_t s, d;
    size_t i;

    if (!ask_held(rig, scheduler, order, region, claims)) {
        return;
    }
    for (d = 0; d < in->n_devices; d++) {
        uint64_t claimed = 0, held = 0, most = 0;

        for (s = 0; s < in->n_stages; s++) {
            claimed += pst_schedule_stage_at(in, s)->device == d ? claims[s] : 0;
        }
        for (i = 0; i < order->n; i++) {
            if (order->passes[i].device == d) {
                held += order->passes[i].pass == PST_PASS_F;
                held -= order->passes[i].pass == PST_PASS_W || order->passes[i].pass == PST_PASS_BW;
                most = held > most ? held : most;
            }
        }
        if (most > claimed) {
            pst_answer_break(order->answer,
                             "in_flight() promises %llu micro-batches for the stages of device %u, "
                             "but the schedule holds %llu",
                             (unsigned long long)claimed, d, (unsigned long long)most);
        }
    }
}

/* The stages with the micro-batches of so many batches, and room to judge them. */
static struct pst_schedule_in lengthen(struct order *order, const struct pst_schedule_in *in,
                                       uint32_t n_batches, struct pst_arena *arena)
{
    struct pst_schedule_in longer = *in;
    char *stages = pst_arena_alloc(arena, (size_t)in->n_stages * in->stage_size, 16);
    uint32_t n_rows = 0, s;

    memcpy(stages, in->stages, (size_t)in->n_stages * in->stage_size);
    longer.stages = (const void *)stages;
    for (s = 0; s < in->n_stages; s++) {
        struct pst_schedule_stage *stage = (void *)(stages + (size_t)s * in->stage_size);

        stage->n_microbatches *= n_batches;
        order->base[s] = n_rows;
        n_rows += stage->n_microbatches;
    }
    order->seen = pst_arena_array(arena, n_rows, 1);
    return longer;
}

/* Fill, bodies, drain, one behind the other: as many batches. They stay as the order's passes. */
static void judge_batches(const struct order *parts, uint32_t n_batches, struct pst_arena *arena,
                          struct order *ret_row)
{
    const struct pst_schedule_in longer = lengthen(ret_row, parts->in, n_batches, arena);
    uint32_t k;
    size_t i;

    ret_row->in = &longer;
    ret_row->n = 0;
    for (k = 0; k <= n_batches; k++) {
        uint32_t part = k == 0 ? PST_PART_FILL : k < n_batches ? PST_PART_BODY : PST_PART_DRAIN;

        for (i = 0; i < parts->n && parts->answer->broken[0] == '\0'; i++) {
            struct pst_order_pass pass = parts->passes[i];

            if (parts->parts[i] == part) {
                if (k > 1 && pass.stage < parts->in->n_stages) {
                    pass.microbatch +=
                        (k - 1) * pst_schedule_stage_at(parts->in, pass.stage)->n_microbatches;
                }
                judge_pass(ret_row, &pass);
                ret_row->passes[ret_row->n++] = pass;
            }
        }
    }
    if (parts->answer->broken[0] == '\0') {
        pst_order_judge(&longer, ret_row->passes, (uint32_t)ret_row->n, parts->answer);
    }
    if (parts->answer->broken[0] != '\0') {
        size_t length = strlen(parts->answer->broken);

        snprintf(parts->answer->broken + length, sizeof parts->answer->broken - length,
                 ", where fill, %u times body and drain run %u batches", n_batches - 1, n_batches);
    }
    ret_row->in = parts->in;
}

/* One batch has no body; three have two, so that what a body leaves meets a body. */
static void judge_parts(struct order *order)
{
    struct pst_arena arena = {0};
    struct order row = *order;

    row.passes = pst_arena_array(&arena, order->n * BATCHES, sizeof *row.passes);
    judge_batches(order, 1, &arena, &row);
    if (order->answer->broken[0] == '\0') {
        judge_batches(order, BATCHES, &arena, &row);
    }
    if (order->answer->broken[0] == '\0') {
        struct pst_order_pass *passes = pst_resize(order->passes, row.n + 1, sizeof *order->passes);
        memcpy(passes, row.passes, row.n * sizeof *passes);
        order->passes = passes;
        order->n = row.n;
    }
    pst_arena_finish(&arena);
}

static void ask_schedule(struct pst_rig *rig, const struct pst_scheduler *scheduler,
                         const struct pst_case *question, const struct pst_schedule_in *in,
                         struct pst_region *region, struct order *order, uint32_t *claims)
{
    struct pst_schedule_out out = {
        .size = sizeof out, .impl = order, .emit = take_pass, .pair = take_pair, .part = take_part};
    bool one_size = true;
    pst_status st;
    uint32_t s;

    for (s = 0; s < in->n_stages; s++) {
        one_size &= pst_schedule_stage_at(in, s)->microbatch_size == 1;
    }
    order->in = in;
    pst_region_seal(region);
    pst_ask_begin(order->answer, "schedule()");
    st = scheduler->schedule(rig->self, in, &out);
    if (pst_ask_end(order->answer, rig, region, st)) {
        if (order->answer->asynchronous) {
            judge_parts(order);
        } else {
            pst_order_judge(in, order->passes, (uint32_t)order->n, order->answer);
        }
    }
    if (order->answer->status == PST_OK && order->answer->broken[0] == '\0' && one_size &&
        question->shape == PST_SHAPE_CHAIN && PST_CAN(scheduler, in_flight)) {
        judge_held(rig, scheduler, order, region, claims);
    }
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
    uint32_t n_stages, m, batch, s, n_rows = 0, *devices, *sizes;
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
    order.base = pst_arena_array(&arena, n_stages, sizeof *order.base);
    order.seen = pst_arena_array(&arena, (size_t)n_stages * batch, 1);
    if (ask_devices(rig, scheduler, &topology, question->n_devices, n_stages, answer, devices)) {
        for (s = 0; s < n_stages; s++) {
            sizes[s] = several && question->seed % 2 == 0
                           ? (uint32_t)pst_random_between(&random, 1, 2)
                           : 1;
            order.base[s] = n_rows;
            n_rows += batch / sizes[s];
        }
        if (!pst_schedule_problem_make(question, n_stages, devices, sizes, batch, region, &in)) {
            pst_verdict_skip("the checker ran out of memory");
        }
        ask_schedule(rig, scheduler, question, in, region, &order, devices);
    }
    free(order.passes);
    free(order.parts);
    pst_arena_finish(&arena);
}
