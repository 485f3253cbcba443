/* SPDX-License-Identifier: Apache-2.0
 *
 * Random tiny lists for the explorer: transfers, reductions and passes of stages that sit one or
 * two on a rank, in any order, with any waits. The parts of a replica have the same lists, or
 * nearly so, where stages have equal numbers of parts. PENSTOCK_EXPLORER_PLANS sets how many,
 * PENSTOCK_EXPLORER_LENGTH how long the lists get, PENSTOCK_SEED another seed.
 */
#ifndef TESTS_CHECK_TINY_H
#define TESTS_CHECK_TINY_H

#include "unit/prove/explorer.h"
#include "unit/prove/parts_rig.h"

/* Under sanitizers it is slower, and they look for other faults than it does: fewer plans do. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TINY_PLANS 20000u
#else
#define TINY_PLANS 100000u
#endif

struct tiny {
    struct rig rig;
    struct pst_instr lists[XP_RANKS][XP_INSTRS];
    uint32_t waits[XP_RANKS][XP_INSTRS][XP_INSTRS];
    uint32_t length;      /* at most */
    uint32_t zero;        /* 2: replicas sum gradients inside passes; 3: and gather weights there */
    bool alike;           /* the parts of a group, a rank each, have the same lists but for peers */
    const uint32_t *ends; /* [stage] as a rig_shape's, of stages on a group each; NULL: drawn */
    uint32_t n_groups, group_of[XP_RANKS], first[XP_RANKS + 1]; /* [rank]; [group] its ranks */
};

static inline uint32_t tiny_size(const struct tiny *tiny, uint32_t group)
{
    return tiny->first[group + 1] - tiny->first[group];
}

static inline bool tiny_is_first(const struct tiny *tiny, uint32_t rank)
{
    return tiny->first[tiny->group_of[rank]] == rank;
}

static inline bool tiny_has_parts(const struct tiny *tiny)
{
    return pst_plan_tensor(tiny->rig.plan) > 1;
}

/* Parts of a group. */
struct tiny_some {
    uint32_t group, first, end;
};

static inline struct pst_instr *tiny_add(struct tiny *tiny, uint32_t rank, uint8_t op,
                                         uint32_t stage)
{
    struct pst_plan_device *device = &tiny->rig.plan->devices[rank];
    if (device->n_instrs >= tiny->length) {
        return NULL;
    }
    struct pst_instr *instr = &tiny->lists[rank][device->n_instrs++];
    *instr = (struct pst_instr){.op = op, .stage = stage};
    return instr;
}

/* One end of a transfer. */
static inline void tiny_add_end(struct tiny *tiny, uint8_t op, uint32_t rank, uint32_t peer)
{
    struct pst_instr *end = tiny_add(tiny, rank, op, 0);
    if (end != NULL) {
        end->n_samples = 1;
        end->peer = peer;
    }
}

/* To each part of another group from those that are as far along, or across; now and then nobody
   receives. */
static inline void tiny_draw_transfer(struct tiny *tiny, const struct tiny_some *some)
{
    uint32_t other = tiny->n_groups > 1 ? 1 + rig_draw(&tiny->rig, tiny->n_groups - 1) : 0;
    uint32_t to = (some->group + other) % tiny->n_groups;
    uint32_t own = tiny_size(tiny, some->group), its = tiny_size(tiny, to);
    uint32_t across = other == 0 || rig_draw(&tiny->rig, 8) == 0;
    bool lonely = rig_draw(&tiny->rig, 60) == 0;
    for (uint32_t i = 0; i < (lonely ? its : 2 * its); i++) {
        uint32_t sender = i % its * own / its, receiver = tiny->first[to] + (i + across) % its;
        if (sender >= some->first && sender < some->end) {
            sender += tiny->first[some->group];
            tiny_add_end(tiny, i < its ? PST_I_SEND : PST_I_RECV, i < its ? sender : receiver,
                         i < its ? receiver : sender);
        }
    }
}

/* A meeting of all its members, now and then without one of them. */
static inline void tiny_add_reduction(struct tiny *tiny, uint8_t op, uint32_t stage)
{
    struct explorer x = {.plan = tiny->rig.plan, .graph = tiny->rig.graph};
    struct pst_instr instr = {.op = op, .stage = stage};
    bool left_out = false;
    for (uint32_t d = 0; d < tiny->rig.plan->n_devices; d++) {
        if (!tiny->alike || tiny_is_first(tiny, d)) {
            left_out = rig_draw(&tiny->rig, 40) == 0;
        }
        if (xp_is_member(&x, &instr, d, d) && !left_out) {
            tiny_add(tiny, d, op, stage);
        }
    }
}

static inline void tiny_draw_reduction(struct tiny *tiny)
{
    const struct pst_plan *plan = tiny->rig.plan;
    static const uint8_t ops[] = {PST_I_REDUCE, PST_I_TIE, PST_I_NORM, PST_I_GATHER, PST_I_MERGE};
    uint8_t op = ops[rig_draw(&tiny->rig, tiny_has_parts(tiny) ? 5 : 4)];
    op = op == PST_I_TIE && plan->n_ties == 0 ? PST_I_NORM : op;
    bool of_stage = op != PST_I_TIE && op != PST_I_NORM;
    tiny_add_reduction(tiny, op, of_stage ? rig_draw(&tiny->rig, plan->n_stages) : 0);
}

/* A pass or STEP of a stage of the group. Where lists do not meet in passes, one kind does. */
static inline void tiny_draw_pass(struct tiny *tiny, const struct tiny_some *some, bool step)
{
    const struct pst_plan *plan = tiny->rig.plan;
    uint32_t stage, microbatch, first = tiny->first[some->group];
    uint8_t op =
        (uint8_t)(PST_I_F + rig_draw(&tiny->rig, tiny_has_parts(tiny) ? PST_I_R : PST_I_F));
    do {
        stage = rig_draw(&tiny->rig, plan->n_stages);
    } while (!xp_holds(&plan->stages[stage], first));
    microbatch = rig_draw(&tiny->rig, plan->stages[stage].n_microbatches);
    for (uint32_t part = some->first; part < some->end; part++) {
        struct pst_instr *instr = tiny_add(tiny, first + part, step ? PST_I_STEP : op, stage);
        if (instr != NULL) {
            instr->microbatch = step ? 0 : microbatch;
        }
    }
}

/* A pass that makes gradients, or that gathers weights, on all ranks of a stage, now and then
   without one of them. */
static inline void tiny_draw_sum(struct tiny *tiny)
{
    const struct pst_plan *plan = tiny->rig.plan;
    const uint32_t s = rig_draw(&tiny->rig, plan->n_stages);
    const struct pst_plan_stage *stage = &plan->stages[s];
    const uint32_t microbatch = rig_draw(&tiny->rig, stage->n_microbatches);
    static const uint8_t ops[] = {PST_I_W, PST_I_BW, PST_I_F, PST_I_B, PST_I_R};
    const uint8_t op = ops[rig_draw(&tiny->rig, tiny->zero == 3 ? 5 : 2)];
    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        struct pst_instr *instr =
            rig_draw(&tiny->rig, 40) == 0 ? NULL : tiny_add(tiny, stage->ranks[r], op, s);
        if (instr != NULL) {
            instr->microbatch = microbatch;
        }
    }
}

/* Something for all parts of a group, or for one alone. */
static inline void tiny_draw_instr(struct tiny *tiny)
{
    if (tiny->zero > 0 && rig_draw(&tiny->rig, 3) == 0) {
        tiny_draw_sum(tiny);
        return;
    }
    uint32_t what = rig_draw(&tiny->rig, 10);
    struct tiny_some some = {rig_draw(&tiny->rig, tiny->n_groups), 0, 0};
    some.end = tiny_size(tiny, some.group);
    if (!tiny->alike && rig_draw(&tiny->rig, 10) == 0) {
        some.first = rig_draw(&tiny->rig, some.end);
        some.end = some.first + 1;
    }
    if (what < (tiny_has_parts(tiny) ? 3 : 6)) {
        tiny_draw_transfer(tiny, &some);
    } else if (what < 8) {
        tiny_draw_pass(tiny, &some, what == 7);
    } else {
        tiny_draw_reduction(tiny);
    }
}

/* Neighbours change places, in the list of one part or of all parts of its group. */
static inline void tiny_swap_some(struct tiny *tiny)
{
    for (uint32_t n = tiny->length < 2 ? 0 : rig_draw(&tiny->rig, 4); n > 0; n--) {
        uint32_t first = rig_draw(&tiny->rig, tiny->rig.plan->n_devices), end = first + 1;
        uint32_t i = rig_draw(&tiny->rig, tiny->length - 1);
        if (tiny->alike || rig_draw(&tiny->rig, 2) == 0) {
            end = tiny->first[tiny->group_of[first] + 1];
            first = tiny->first[tiny->group_of[first]];
        }
        for (uint32_t d = first; d < end; d++) {
            if (i + 1 < tiny->rig.plan->devices[d].n_instrs) {
                struct pst_instr kept = tiny->lists[d][i];
                tiny->lists[d][i] = tiny->lists[d][i + 1];
                tiny->lists[d][i + 1] = kept;
            }
        }
    }
}

/* Parts have waits in the same places, or each their own. */
static inline void tiny_add_waits(struct tiny *tiny)
{
    bool alike = tiny->alike || rig_draw(&tiny->rig, 2) == 0;
    for (uint32_t d = 0; d < tiny->rig.plan->n_devices; d++) {
        bool copied = alike && !tiny_is_first(tiny, d);
        for (uint32_t i = 0; i < tiny->rig.plan->devices[d].n_instrs; i++) {
            struct pst_instr *instr = &tiny->lists[d][i];
            if (copied && i < tiny->rig.plan->devices[d - 1].n_instrs) {
                instr->n_waits = tiny->lists[d - 1][i].n_waits;
                memcpy(tiny->waits[d][i], tiny->waits[d - 1][i], sizeof tiny->waits[d][i]);
            }
            for (uint32_t j = 0; j < i && !copied; j++) {
                if (rig_draw(&tiny->rig, 6) == 0) {
                    tiny->waits[d][i][instr->n_waits++] = j;
                }
            }
            instr->waits = instr->n_waits > 0 ? tiny->waits[d][i] : NULL;
        }
    }
}

static inline void tiny_draw_lists(struct tiny *tiny)
{
    struct pst_plan *plan = tiny->rig.plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        plan->devices[d].n_instrs = 0;
        plan->devices[d].body = tiny->lists[d];
    }
    tiny->alike = rig_draw(&tiny->rig, 2) == 0;
    for (uint32_t n = rig_draw(&tiny->rig, 3 * tiny->length); n > 0; n--) {
        tiny_draw_instr(tiny);
    }
    tiny_swap_some(tiny);
    tiny_add_waits(tiny);
}

/* Up to two stages a group, each on one or two of n groups of as many ranks as the graph has parts;
   the model's tie joins the first and the last. */
static inline void tiny_make(struct tiny *tiny, uint32_t n)
{
    uint32_t chunks = n == 1 ? 2 : 1 + rig_draw(&tiny->rig, 2);
    struct rig_shape shape = {.devices = n, .chunks = chunks, .batch = 2, .microbatch = 2};
    shape.batch *= tiny->rig.graph->parts; /* different passes */
    shape.batch *= tiny->zero > 0 ? 2 : 1;
    shape.zero = tiny->zero;
    shape.ends = tiny->ends;
    shape.chunks = tiny->ends != NULL ? 1 : chunks;
    rig_cut(&tiny->rig, &shape);
    struct pst_plan *plan = tiny->rig.plan;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint32_t *ranks = pst_arena_array(&plan->arena, 2, sizeof *ranks);
        ranks[0] = s % n;
        ranks[1] = (s + 1) % n;
        plan->stages[s].ranks = ranks;
        plan->stages[s].n_ranks =
            n == 1 || tiny->ends != NULL || plan->n_stages > 4 ? 1 : 1 + rig_draw(&tiny->rig, 2);
    }
    assert_true(plan->n_ties == 1 || tiny->ends != NULL);
    if (tiny->rig.graph->parts > 1) {
        expand_groups(plan, tiny->rig.graph, &tiny->rig.plan);
        pst_plan_destroy(plan);
    }
    assert_true(tiny->rig.plan->n_devices <= XP_RANKS);
    tiny->n_groups = pst_plan_groups(tiny->rig.plan, tiny->group_of);
    for (uint32_t d = tiny->rig.plan->n_devices; d-- > 0;) {
        tiny->first[tiny->group_of[d]] = d;
    }
    tiny->first[tiny->n_groups] = tiny->rig.plan->n_devices;
}

/* The checker's verdict; false: there are so many other violations that it is not shown. */
static inline bool tiny_judge(struct tiny *tiny, struct pst_check_report *report, bool *ret_live)
{
    struct pst_error err = {0};
    rig_check(&tiny->rig, false, report, &err);
    assert_false(rig_has_rule(report, "FORM1"));
    *ret_live = !rig_has_rule(report, "LIVE1") && !rig_has_rule(report, "LIVE2");
    if (report->n_violations >= PST_CHECK_MAX) {
        return false;
    }
    assert_int_equal(*ret_live, !rig_has_rule(report, "LIVE4"));
    return true;
}

static inline uint32_t tiny_setting(const char *name, uint32_t initial)
{
    const char *text = getenv(name);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : initial;
}

#endif
