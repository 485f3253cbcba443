/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's verdict on progress against all interleavings of 100,000 random tiny plans, of
 * 12,500 with replicas of two ranks, and of others whose replicas meet inside passes, through the
 * public function only; the simulator agrees where its machine is the same.
 */
#include "sim/sim.h"

#include "unit/prove/tiny.h"

/* "channels hold c messages, k would do": k does, k - 1 does not. */
static void check_capacity(struct tiny *tiny, struct explorer *x,
                           const struct pst_check_report *report)
{
    for (uint32_t i = 0; i < report->n_violations; i++) {
        const char *at = strstr(report->violations[i].text, "messages, ");
        bool agree;
        if (strcmp(report->violations[i].rule, "LIVE2") == 0 && at != NULL) {
            uint32_t k = (uint32_t)strtoul(at + strlen("messages, "), NULL, 10);
            bool async = tiny->rig.limits.async_reductions;
            assert_true(k > tiny->rig.limits.channel_capacity);
            assert_true(xp_explore(x, tiny->rig.plan, tiny->rig.graph, k, false, async, &agree));
            assert_false(
                xp_explore(x, tiny->rig.plan, tiny->rig.graph, k - 1, false, async, &agree));
        }
    }
}

static void complain(const struct tiny *tiny, uint32_t index, const char *what)
{
    for (uint32_t d = 0; d < tiny->rig.plan->n_devices; d++) {
        print_message("device %u:", d);
        for (uint32_t i = 0; i < tiny->rig.plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &tiny->lists[d][i];
            print_message(" %s %u.%u(%u)", pst_instr_name(instr->op), instr->stage,
                          instr->microbatch, instr->peer);
            for (uint32_t w = 0; w < instr->n_waits; w++) {
                print_message("/%u", instr->waits[w]);
            }
        }
        print_message("\n");
    }
    fail_msg("seed %llu, plan %u (capacity %u, ordered %d, async %d): %s",
             (unsigned long long)tiny->rig.seed, index, tiny->rig.limits.channel_capacity,
             tiny->rig.limits.ordered, tiny->rig.limits.async_reductions, what);
}

static void check_simulator(struct tiny *tiny, uint32_t index, bool live)
{
    struct pst_error err = {0};
    uint64_t makespan;
    pst_status status =
        pst_sim_run(tiny->rig.plan, tiny->rig.graph, &tiny->rig.cost, NULL, NULL, &makespan, &err);
    if (status != (live ? PST_OK : PST_ERR_BUG)) {
        complain(tiny, index, live ? "live, the simulator stops" : "dead, the simulator ends");
    }
}

struct tally {
    uint32_t n_plans, n_live;
    uint32_t n_alike_dead; /* the parts of each replica have the same lists */
    uint32_t n_hidden;     /* the checker's verdict is not shown */
    uint64_t states;
};

/* The parts of each replica have the same lists but for peers. */
static bool parts_are_alike(const struct pst_plan *plan)
{
    uint32_t group_of[XP_RANKS];
    pst_plan_groups(plan, group_of);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const bool first = d == 0 || group_of[d] != group_of[d - 1];
        const struct pst_plan_device *a = &plan->devices[first ? d : d - 1];
        const struct pst_plan_device *b = &plan->devices[d];
        if (a->n_instrs != b->n_instrs) {
            return false;
        }
        for (uint32_t i = 0; i < b->n_instrs; i++) {
            const struct pst_instr *x = &a->body[i], *y = &b->body[i];
            if (x->op != y->op || x->stage != y->stage || x->microbatch != y->microbatch ||
                x->n_waits != y->n_waits ||
                (x->n_waits > 0 && memcmp(x->waits, y->waits, x->n_waits * sizeof *x->waits))) {
                return false;
            }
        }
    }
    return true;
}

/* Random limits; the checker says of the plan what all its interleavings say. */
static void judge(struct tiny *tiny, struct explorer *x, struct tally *tally)
{
    static struct pst_check_report report;
    struct pst_check_limits *limits = &tiny->rig.limits;
    uint32_t index = tally->n_plans++;
    bool agree, says_live;
    limits->channel_capacity = rig_draw(&tiny->rig, 3);
    limits->ordered = rig_draw(&tiny->rig, 3) == 0;
    limits->async_reductions = rig_draw(&tiny->rig, 2) == 0;
    bool live = xp_explore(x, tiny->rig.plan, tiny->rig.graph, limits->channel_capacity,
                           limits->ordered, limits->async_reductions, &agree);
    if (!agree) {
        complain(tiny, index, "interleavings end differently: not confluent");
    }
    if (!tiny_judge(tiny, &report, &says_live)) {
        tally->n_hidden++;
        return;
    }
    if (says_live != live) {
        complain(tiny, index, live ? "live, the checker says dead" : "dead, the checker says live");
    }
    tally->states += x->n_states;
    tally->n_live += live;
    tally->n_alike_dead += !live && parts_are_alike(tiny->rig.plan);
    check_capacity(tiny, x, &report);
    if (limits->async_reductions && limits->channel_capacity == 0 && !limits->ordered) {
        check_simulator(tiny, index, live);
    }
}

static void print_tally(const struct tally *tally)
{
    print_message("%u plans, %u hidden, %u live, %u dead with parts alike, %llu states\n",
                  tally->n_plans, tally->n_hidden, tally->n_live, tally->n_alike_dead,
                  (unsigned long long)tally->states);
    assert_true(tally->n_hidden < tally->n_plans / 100);
    assert_true(tally->n_live > tally->n_plans / 10 &&
                tally->n_live < tally->n_plans - tally->n_plans / 10);
}

/* zero: 2: replicas sum gradients inside passes; 3: they gather weights, too. */
static void judge_all(uint32_t zero, uint32_t n_plans)
{
    struct tiny tiny = {.zero = zero};
    struct explorer x = {0};
    struct tally tally = {0};
    uint32_t longest = tiny_setting("PENSTOCK_EXPLORER_LENGTH", 6);
    assert_true(longest >= 3 && longest <= XP_INSTRS);
    rig_open(&tiny.rig, "gpt", "layers=1 dim=4 heads=1 context=2 vocab=3",
             tiny_setting("PENSTOCK_SEED", 4711));
    print_message("seed %llu\n", (unsigned long long)tiny.rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        if (i % 50 == 0) {
            rig_drop_plan(&tiny.rig);
            tiny_make(&tiny, 2 + rig_draw(&tiny.rig, i % 100 == 0 ? 3 : 2));
        }
        tiny.length = 2 + rig_draw(&tiny.rig, longest - (i % 3 == 0 ? 1 : 2));
        tiny_draw_lists(&tiny);
        judge(&tiny, &x, &tally);
    }
    print_tally(&tally);
    xp_close(&x);
    rig_close(&tiny.rig);
}

TEST(verdicts_agree)
{
    judge_all(0, tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS));
}

TEST(verdicts_agree_of_sums)
{
    judge_all(2, tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS / 4));
}

TEST(verdicts_agree_of_gathers)
{
    judge_all(3, tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS / 4));
}

/* Replicas of two parts, which meet within passes: two stages on one group of ranks, or two or
   four, each on one or both of two groups. */
static void judge_of_parts(bool sequence, uint32_t zero, uint32_t n_plans)
{
    struct tiny tiny = {.zero = zero};
    struct explorer x = {0};
    struct tally tally = {0};
    uint32_t longest = tiny_setting("PENSTOCK_EXPLORER_LENGTH", 6);
    open_parts(&tiny.rig, "gpt", "layers=1 dim=4 heads=2 context=2 vocab=4", 2, sequence,
               tiny_setting("PENSTOCK_SEED", 4712) + sequence);
    for (uint32_t i = 0; i < n_plans; i++) {
        if (i % 50 == 0) {
            rig_drop_plan(&tiny.rig);
            tiny_make(&tiny, i % 150 == 0 ? 1 : 2);
        }
        tiny.length = 2 + rig_draw(&tiny.rig, longest - 1);
        tiny_draw_lists(&tiny);
        judge(&tiny, &x, &tally);
    }
    print_tally(&tally);
    assert_true(tally.n_alike_dead > n_plans / 20);
    xp_close(&x);
    rig_close(&tiny.rig);
}

TEST(verdicts_agree_of_parts)
{
    uint32_t n_plans = tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS / 8);
    judge_of_parts(false, 0, n_plans / 2);
    judge_of_parts(true, 0, n_plans / 2);
}

TEST(verdicts_agree_of_sums_and_parts)
{
    judge_of_parts(true, 2, tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS / 16));
}

TEST(verdicts_agree_of_gathers_and_parts)
{
    uint32_t n_plans = tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS / 16);
    judge_of_parts(false, 3, n_plans / 2);
    judge_of_parts(true, 3, n_plans / 2);
}

/* Stages of unlike numbers of parts, one on a group each. */
static void judge_of_degrees(const char *settings, const uint32_t *degrees, uint32_t n_stages,
                             uint32_t n_plans)
{
    struct tiny tiny = {0};
    struct explorer x = {0};
    struct tally tally = {0};
    struct rig_shape shape = {.devices = n_stages, .chunks = 1};
    uint32_t longest = tiny_setting("PENSTOCK_EXPLORER_LENGTH", 6), ends[XP_RANKS];
    uint64_t seed = tiny_setting("PENSTOCK_SEED", 4713);
    while (!open_degrees(&tiny.rig, "gpt", settings, false, &shape, degrees, ends, seed)) {
        seed++;
    }
    tiny.ends = ends;
    tiny_make(&tiny, n_stages);
    for (uint32_t i = 0; i < n_plans; i++) {
        tiny.length = 2 + rig_draw(&tiny.rig, longest - 1);
        tiny_draw_lists(&tiny);
        judge(&tiny, &x, &tally);
    }
    print_tally(&tally);
    xp_close(&x);
    rig_close(&tiny.rig);
}

TEST(verdicts_agree_of_degrees)
{
    static const char untied[] = "layers=1 dim=4 heads=2 context=2 vocab=4 tied=false";
    static const char thirds[] = "layers=1 dim=6 heads=3 context=2 vocab=6 tied=false";
    uint32_t n_plans = tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS / 8) / 6;
    judge_of_degrees(untied, (uint32_t[]){1, 2}, 2, n_plans);
    judge_of_degrees(untied, (uint32_t[]){2, 1}, 2, n_plans);
    judge_of_degrees(untied, (uint32_t[]){2, 1, 1}, 3, n_plans);
    judge_of_degrees("layers=1 dim=4 heads=2 context=2 vocab=4", (uint32_t[]){1, 2, 1}, 3, n_plans);
    judge_of_degrees(thirds, (uint32_t[]){1, 3}, 2, n_plans);
    judge_of_degrees(thirds, (uint32_t[]){3, 1}, 2, n_plans);
}
