/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's verdict on progress against all interleavings of 100,000 random tiny plans, through
 * the public function only; the simulator agrees where its machine is the same.
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
            assert_true(xp_explore(x, tiny->rig.plan, k, false, async, &agree));
            assert_false(xp_explore(x, tiny->rig.plan, k - 1, false, async, &agree));
        }
    }
}

static void complain(const struct tiny *tiny, uint32_t index, const char *what)
{
    for (uint32_t d = 0; d < tiny->rig.plan->n_devices; d++) {
        print_message("device %u:", d);
        for (uint32_t i = 0; i < tiny->rig.plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &tiny->lists[d][i];
            print_message(" %s %u(%u)", pst_instr_name(instr->op), instr->stage, instr->peer);
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

TEST(verdicts_agree)
{
    struct tiny tiny;
    struct explorer x = {0};
    static struct pst_check_report report;
    uint32_t n_plans = tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS), n_live = 0;
    uint32_t longest = tiny_setting("PENSTOCK_EXPLORER_LENGTH", 6);
    uint64_t states = 0;
    assert_true(longest >= 3 && longest <= XP_INSTRS);
    rig_open(&tiny.rig, "gpt", "layers=1 dim=4 heads=1 context=2 vocab=3",
             tiny_setting("PENSTOCK_SEED", 4711));
    print_message("seed %llu\n", (unsigned long long)tiny.rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        bool agree;
        if (i % 50 == 0) {
            rig_drop_plan(&tiny.rig);
            tiny_make(&tiny, 2 + rig_draw(&tiny.rig, i % 100 == 0 ? 3 : 2));
        }
        tiny.length = 2 + rig_draw(&tiny.rig, longest - (i % 3 == 0 ? 1 : 2));
        tiny_draw_lists(&tiny);
        struct pst_check_limits *limits = &tiny.rig.limits;
        limits->channel_capacity = rig_draw(&tiny.rig, 3);
        limits->ordered = rig_draw(&tiny.rig, 3) == 0;
        limits->async_reductions = rig_draw(&tiny.rig, 2) == 0;
        bool live = xp_explore(&x, tiny.rig.plan, limits->channel_capacity, limits->ordered,
                               limits->async_reductions, &agree);
        states += x.n_states;
        if (!agree) {
            complain(&tiny, i, "interleavings end differently: not confluent");
        }
        if (tiny_says_live(&tiny, &report) != live) {
            complain(&tiny, i,
                     live ? "live, the checker says dead" : "dead, the checker says live");
        }
        check_capacity(&tiny, &x, &report);
        if (limits->async_reductions && limits->channel_capacity == 0 && !limits->ordered) {
            check_simulator(&tiny, i, live);
        }
        n_live += live;
    }
    print_message("%u plans, %u live, %llu states\n", n_plans, n_live, (unsigned long long)states);
    assert_true(n_live > n_plans / 10 && n_live < n_plans - n_plans / 10);
    xp_close(&x);
    rig_close(&tiny.rig);
}
