/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's verdict on progress against all interleavings of random tiny lists, through the
 * public function only; the simulator agrees where its machine is the same. PENSTOCK_EXPLORER_PLANS
 * sets how many, PENSTOCK_EXPLORER_LENGTH how long the lists get, PENSTOCK_SEED another seed.
 */
#include "sim/sim.h"

#include "unit/check/explorer.h"
#include "unit/check/rig.h"

struct tiny {
    struct rig rig;
    struct pst_instr parts[PST_PARTS][XP_RANKS][XP_INSTRS];
    uint32_t part_waits[PST_PARTS][XP_RANKS][XP_INSTRS][XP_INSTRS];
    struct pst_instr lists[XP_RANKS][XP_INSTRS];
    uint32_t waits[XP_RANKS][XP_INSTRS][XP_INSTRS];
    uint32_t length; /* at most */
};

static struct pst_instr *append(struct tiny *tiny, uint32_t rank, uint8_t op, uint32_t stage)
{
    struct pst_plan_device *device = &tiny->rig.plan->devices[rank];
    if (device->n_instrs >= tiny->length) {
        return NULL;
    }
    struct pst_instr *instr = &tiny->lists[rank][device->n_instrs++];
    *instr = (struct pst_instr){.op = op, .stage = stage};
    return instr;
}

static void append_transfer(struct tiny *tiny, uint32_t from, uint32_t to)
{
    struct pst_instr *send = append(tiny, from, PST_I_SEND, 0);
    struct pst_instr *recv = append(tiny, to, PST_I_RECV, 0);
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
static void append_reduction(struct tiny *tiny, uint8_t op, uint32_t stage)
{
    struct explorer x = {.plan = tiny->rig.plan};
    struct pst_instr instr = {.op = op, .stage = stage};
    for (uint32_t d = 0; d < tiny->rig.plan->n_devices; d++) {
        if (xp_is_member(&x, &instr, d) && rig_draw(&tiny->rig, 40) != 0) {
            append(tiny, d, op, stage);
        }
    }
}

static void swap_some(struct tiny *tiny)
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

static void add_waits(struct tiny *tiny)
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

static void draw_lists(struct tiny *tiny)
{
    struct pst_plan *plan = tiny->rig.plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        plan->devices[d].n_instrs = 0;
        plan->devices[d].body = tiny->lists[d];
    }
    for (uint32_t n = rig_draw(&tiny->rig, 3 * tiny->length); n > 0; n--) {
        uint32_t what = rig_draw(&tiny->rig, 10), d = rig_draw(&tiny->rig, plan->n_devices);
        if (what < 6) {
            append_transfer(tiny, d,
                            (d + 1 + rig_draw(&tiny->rig, plan->n_devices - 1)) % plan->n_devices);
        } else if (what < 8) {
            append(tiny, d, what == 6 ? PST_I_F : PST_I_STEP, rig_draw(&tiny->rig, plan->n_stages));
        } else {
            uint32_t kind = rig_draw(&tiny->rig, 3);
            append_reduction(tiny, (uint8_t)(PST_I_REDUCE + kind),
                             kind == 0 ? rig_draw(&tiny->rig, plan->n_stages) : 0);
        }
    }
    swap_some(tiny);
    add_waits(tiny);
}

/* Stages on one or two of n ranks; the model's tie joins the first and the last. */
static void make_tiny(struct tiny *tiny, uint32_t n)
{
    struct rig_shape shape = {.devices = n, .chunks = 1, .batch = 2, .microbatch = 2};
    rig_cut(&tiny->rig, &shape);
    struct pst_plan *plan = tiny->rig.plan;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint32_t *ranks = pst_arena_array(&plan->arena, 2, sizeof *ranks);
        ranks[0] = s;
        ranks[1] = (s + 1) % n;
        plan->stages[s].ranks = ranks;
        plan->stages[s].n_ranks = 1 + rig_draw(&tiny->rig, 2);
    }
    assert_int_equal(plan->n_ties, 1);
}

static bool says_live(struct tiny *tiny, struct pst_check_report *report)
{
    struct pst_error err = {0};
    rig_check(&tiny->rig, false, report, &err);
    assert_true(report->n_violations < PST_CHECK_MAX);
    assert_false(rig_has_rule(report, "FORM1"));
    bool live = !rig_has_rule(report, "LIVE1") && !rig_has_rule(report, "LIVE2");
    assert_int_equal(live, !rig_has_rule(report, "LIVE4"));
    return live;
}

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

static uint32_t setting(const char *name, uint32_t initial)
{
    const char *text = getenv(name);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : initial;
}

static void verdicts_agree(void **state)
{
    struct tiny tiny;
    struct explorer x = {0};
    static struct pst_check_report report;
    uint32_t n_plans = setting("PENSTOCK_EXPLORER_PLANS", 20000), n_live = 0;
    uint32_t longest = setting("PENSTOCK_EXPLORER_LENGTH", 6);
    uint64_t states = 0;
    (void)state;
    assert_true(longest >= 2 && longest <= XP_INSTRS);
    rig_open(&tiny.rig, "gpt", "layers=1 dim=4 heads=1 context=2 vocab=3",
             setting("PENSTOCK_SEED", 4711));
    print_message("seed %llu\n", (unsigned long long)tiny.rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        bool agree;
        if (i % 50 == 0) {
            rig_drop_plan(&tiny.rig);
            make_tiny(&tiny, 2 + rig_draw(&tiny.rig, i % 100 == 0 ? 3 : 2));
        }
        tiny.length = 2 + rig_draw(&tiny.rig, longest - 1);
        draw_lists(&tiny);
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
        if (says_live(&tiny, &report) != live) {
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

/* --- asynchronous ---------------------------------------------------------------------------- */

/* Short parts, so that four batches of them are lists that can be explored. */
static void draw_parts(struct tiny *tiny)
{
    struct pst_plan *plan = tiny->rig.plan;
    uint32_t n_body[XP_RANKS] = {0};
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        tiny->length = 1 + rig_draw(&tiny->rig, 2);
        draw_lists(tiny);
        for (uint32_t d = 0; d < plan->n_devices; d++) {
            struct pst_plan_device *device = &plan->devices[d];
            struct pst_instr *list = tiny->parts[part][d];
            memcpy(list, tiny->lists[d], sizeof tiny->lists[d]);
            memcpy(tiny->part_waits[part][d], tiny->waits[d], sizeof tiny->waits[d]);
            for (uint32_t i = 0; i < device->n_instrs; i++) {
                list[i].waits = list[i].n_waits > 0 ? tiny->part_waits[part][d][i] : NULL;
            }
            *(part == PST_FILL ? &device->n_fill : &device->n_drain) = device->n_instrs;
            *(part == PST_FILL ? &device->fill : &device->drain) = list;
            n_body[d] = part == PST_BODY ? device->n_instrs : n_body[d];
        }
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        plan->devices[d].body = tiny->parts[PST_BODY][d];
        plan->devices[d].n_instrs = n_body[d];
    }
}

/* The verdict on parts is that on four batches written out. */
static void verdicts_agree_on_parts(void **state)
{
    static struct tiny tiny;
    static struct pst_check_report report;
    struct explorer x = {0};
    struct pst_error err = {0};
    uint32_t n_plans = setting("PENSTOCK_EXPLORER_PLANS", 20000) / 4, n_live = 0, n_judged = 0;
    (void)state;
    rig_open(&tiny.rig, "gpt", "layers=1 dim=4 heads=1 context=2 vocab=3",
             setting("PENSTOCK_SEED", 4711));
    for (uint32_t i = 0; i < n_plans; i++) {
        struct pst_plan *unrolled = NULL;
        bool agree;
        if (i % 50 == 0) {
            rig_drop_plan(&tiny.rig);
            make_tiny(&tiny, 2 + rig_draw(&tiny.rig, 2));
            tiny.rig.plan->asynchronous = true;
            tiny.rig.plan->version_rule = PST_VERSION_DELAYED;
            for (uint32_t s = 0; s < tiny.rig.plan->n_stages; s++) {
                tiny.rig.plan->stages[s].weight_versions = 2;
            }
        }
        draw_parts(&tiny);
        struct pst_check_limits *limits = &tiny.rig.limits;
        limits->channel_capacity = rig_draw(&tiny.rig, 3);
        limits->ordered = rig_draw(&tiny.rig, 3) == 0;
        limits->async_reductions = rig_draw(&tiny.rig, 2) == 0;
        assert_int_equal(pst_plan_unroll(tiny.rig.plan, 4, &unrolled, &err), PST_OK);
        bool live = xp_explore(&x, unrolled, limits->channel_capacity, limits->ordered,
                               limits->async_reductions, &agree);
        pst_plan_destroy(unrolled);
        if (rig_check(&tiny.rig, false, &report, &err) == PST_ERR_BUG &&
            report.n_violations >= PST_CHECK_MAX) {
            continue; /* so many others that those of progress are not shown */
        }
        n_judged++;
        if (says_live(&tiny, &report) != live || !agree) {
            fail_msg("seed %llu, plan %u: %s", (unsigned long long)tiny.rig.seed, i,
                     live ? "live, the checker says dead" : "dead, the checker says live");
        }
        n_live += live;
    }
    print_message("%u of %u plans, %u live\n", n_judged, n_plans, n_live);
    assert_true(n_judged > n_plans / 2 && n_live > n_plans / 20 &&
                n_live < n_judged - n_plans / 20);
    xp_close(&x);
    rig_close(&tiny.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(verdicts_agree),
                                       cmocka_unit_test(verdicts_agree_on_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
