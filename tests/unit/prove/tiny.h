/* SPDX-License-Identifier: Apache-2.0
 *
 * Random tiny lists for the explorer: transfers, reductions and passes of stages that sit one or
 * two on a rank, in any order, with any waits. PENSTOCK_EXPLORER_PLANS sets how many,
 * PENSTOCK_EXPLORER_LENGTH how long the lists get, PENSTOCK_SEED another seed.
 */
#ifndef TESTS_CHECK_TINY_H
#define TESTS_CHECK_TINY_H

#include "unit/prove/explorer.h"
#include "unit/prove/rig.h"

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
    uint32_t length; /* at most */
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

static inline void tiny_add_transfer(struct tiny *tiny, uint32_t from, uint32_t to)
{
    struct pst_instr *send = tiny_add(tiny, from, PST_I_SEND, 0);
    struct pst_instr *recv = tiny_add(tiny, to, PST_I_RECV, 0);
    bool lonely = rig_draw(&tiny->rig, 60) == 0;
    if (send != NULL) {
        send->n_samples = 1;
        send->peer = to;
    }
    if (recv != NULL) {
        recv->n_samples = 1;
        recv->peer = from;
        tiny->rig.plan->devices[to].n_instrs -= lonely; /* nobody receives it */
    }
}

/* A meeting of all its members, now and then without one of them. */
static inline void tiny_add_reduction(struct tiny *tiny, uint8_t op, uint32_t stage)
{
    struct explorer x = {.plan = tiny->rig.plan};
    struct pst_instr instr = {.op = op, .stage = stage};
    for (uint32_t d = 0; d < tiny->rig.plan->n_devices; d++) {
        if (xp_is_member(&x, &instr, d) && rig_draw(&tiny->rig, 40) != 0) {
            tiny_add(tiny, d, op, stage);
        }
    }
}

static inline void tiny_swap_some(struct tiny *tiny)
{
    for (uint32_t n = rig_draw(&tiny->rig, 4); n > 0; n--) {
        uint32_t d = rig_draw(&tiny->rig, tiny->rig.plan->n_devices);
        uint32_t length = tiny->rig.plan->devices[d].n_instrs;
        if (length < 2) {
            continue;
        }
        uint32_t i = rig_draw(&tiny->rig, length - 1);
        struct pst_instr kept = tiny->lists[d][i];
        tiny->lists[d][i] = tiny->lists[d][i + 1];
        tiny->lists[d][i + 1] = kept;
    }
}

static inline void tiny_add_waits(struct tiny *tiny)
{
    for (uint32_t d = 0; d < tiny->rig.plan->n_devices; d++) {
        for (uint32_t i = 0; i < tiny->rig.plan->devices[d].n_instrs; i++) {
            struct pst_instr *instr = &tiny->lists[d][i];
            for (uint32_t j = 0; j < i; j++) {
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
    for (uint32_t n = rig_draw(&tiny->rig, 3 * tiny->length); n > 0; n--) {
        uint32_t what = rig_draw(&tiny->rig, 10), d = rig_draw(&tiny->rig, plan->n_devices);
        if (what < 6) {
            tiny_add_transfer(
                tiny, d, (d + 1 + rig_draw(&tiny->rig, plan->n_devices - 1)) % plan->n_devices);
        } else if (what < 8) {
            tiny_add(tiny, d, what == 6 ? PST_I_F : PST_I_STEP,
                     rig_draw(&tiny->rig, plan->n_stages));
        } else {
            uint32_t kind = rig_draw(&tiny->rig, 3);
            tiny_add_reduction(tiny, (uint8_t)(PST_I_REDUCE + kind),
                               kind == 0 ? rig_draw(&tiny->rig, plan->n_stages) : 0);
        }
    }
    tiny_swap_some(tiny);
    tiny_add_waits(tiny);
}

/* Up to two stages a rank, on one or two of n ranks each; the model's tie joins the first and the
   last. */
static inline void tiny_make(struct tiny *tiny, uint32_t n)
{
    uint32_t chunks = 1 + rig_draw(&tiny->rig, 2);
    struct rig_shape shape = {.devices = n, .chunks = chunks, .batch = 2, .microbatch = 2};
    rig_cut(&tiny->rig, &shape);
    struct pst_plan *plan = tiny->rig.plan;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint32_t *ranks = pst_arena_array(&plan->arena, 2, sizeof *ranks);
        ranks[0] = s % n;
        ranks[1] = (s + 1) % n;
        plan->stages[s].ranks = ranks;
        plan->stages[s].n_ranks = plan->n_stages > 4 ? 1 : 1 + rig_draw(&tiny->rig, 2);
    }
    assert_int_equal(plan->n_ties, 1);
}

static inline bool tiny_says_live(struct tiny *tiny, struct pst_check_report *report)
{
    struct pst_error err = {0};
    rig_check(&tiny->rig, false, report, &err);
    assert_true(report->n_violations < PST_CHECK_MAX);
    assert_false(rig_has_rule(report, "FORM1"));
    bool live = !rig_has_rule(report, "LIVE1") && !rig_has_rule(report, "LIVE2");
    assert_int_equal(live, !rig_has_rule(report, "LIVE4"));
    return live;
}

static inline uint32_t tiny_setting(const char *name, uint32_t initial)
{
    const char *text = getenv(name);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : initial;
}

#endif
