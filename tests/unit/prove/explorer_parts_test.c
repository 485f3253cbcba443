/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's verdict on progress of asynchronous plans, against all interleavings of four
 * batches written out: 25,000 plans of random tiny parts, and 10,000 of one replica of two ranks.
 */
#include "unit/prove/tiny.h"

struct parts {
    struct pst_instr lists[PST_PARTS][XP_RANKS][XP_INSTRS];
    uint32_t waits[PST_PARTS][XP_RANKS][XP_INSTRS][XP_INSTRS];
};

/* Short parts, so that four batches of them are lists that can be explored. */
static void draw_parts(struct tiny *tiny, struct parts *parts)
{
    struct pst_plan *plan = tiny->rig.plan;
    uint32_t n_body[XP_RANKS] = {0};
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        tiny->length = 1 + rig_draw(&tiny->rig, 2);
        tiny_draw_lists(tiny);
        for (uint32_t d = 0; d < plan->n_devices; d++) {
            struct pst_plan_device *device = &plan->devices[d];
            struct pst_instr *list = parts->lists[part][d];
            memcpy(list, tiny->lists[d], sizeof tiny->lists[d]);
            memcpy(parts->waits[part][d], tiny->waits[d], sizeof tiny->waits[d]);
            for (uint32_t i = 0; i < device->n_instrs; i++) {
                list[i].waits = list[i].n_waits > 0 ? parts->waits[part][d][i] : NULL;
            }
            *(part == PST_FILL ? &device->n_fill : &device->n_drain) = device->n_instrs;
            *(part == PST_FILL ? &device->fill : &device->drain) = list;
            n_body[d] = part == PST_BODY ? device->n_instrs : n_body[d];
        }
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        plan->devices[d].body = parts->lists[PST_BODY][d];
        plan->devices[d].n_instrs = n_body[d];
    }
}

static void make_asynchronous(struct tiny *tiny, uint32_t n)
{
    rig_drop_plan(&tiny->rig);
    tiny_make(tiny, n);
    tiny->rig.plan->asynchronous = true;
    tiny->rig.plan->version_rule = PST_VERSION_DELAYED;
    for (uint32_t s = 0; s < tiny->rig.plan->n_stages; s++) {
        tiny->rig.plan->stages[s].weight_versions = 2;
    }
}

/* The verdict on parts is that on four batches written out. tensor: ranks of a replica. */
static void judge(struct tiny *tiny, uint32_t tensor, uint32_t n_plans)
{
    static struct parts parts;
    static struct pst_check_report report;
    struct explorer x = {0};
    struct pst_error err = {0};
    uint32_t n_live = 0, n_judged = 0;
    for (uint32_t i = 0; i < n_plans; i++) {
        struct pst_plan *unrolled = NULL;
        bool agree, says_live;
        if (i % 50 == 0) {
            make_asynchronous(tiny, tensor > 1 ? 1 : 2 + rig_draw(&tiny->rig, 2));
        }
        draw_parts(tiny, &parts);
        struct pst_check_limits *limits = &tiny->rig.limits;
        limits->channel_capacity = rig_draw(&tiny->rig, 3);
        limits->ordered = rig_draw(&tiny->rig, 3) == 0;
        limits->async_reductions = rig_draw(&tiny->rig, 2) == 0;
        assert_int_equal(pst_plan_unroll(tiny->rig.plan, 4, 0, &unrolled, &err), PST_OK);
        bool live = xp_explore(&x, unrolled, tiny->rig.graph, limits->channel_capacity,
                               limits->ordered, limits->async_reductions, &agree);
        pst_plan_destroy(unrolled);
        if (!tiny_judge(tiny, &report, &says_live)) {
            continue;
        }
        n_judged++;
        if (says_live != live || !agree) {
            fail_msg("seed %llu, plan %u: %s", (unsigned long long)tiny->rig.seed, i,
                     live ? "live, the checker says dead" : "dead, the checker says live");
        }
        n_live += live;
    }
    print_message("%u of %u plans, %u live\n", n_judged, n_plans, n_live);
    assert_true(n_judged > n_plans / 2 && n_live > n_plans / 20 &&
                n_live < n_judged - n_plans / 20);
    xp_close(&x);
}

TEST(verdicts_agree_on_parts)
{
    static struct tiny tiny;
    rig_open(&tiny.rig, "gpt", "layers=1 dim=4 heads=1 context=2 vocab=3",
             tiny_setting("PENSTOCK_SEED", 4711));
    judge(&tiny, 1, tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS) / 4);
    rig_close(&tiny.rig);
}

TEST(verdicts_agree_on_parts_of_one_replica)
{
    static struct tiny tiny;
    open_parts(&tiny.rig, "gpt", "layers=1 dim=4 heads=2 context=2 vocab=4", 2, true,
               tiny_setting("PENSTOCK_SEED", 4711));
    judge(&tiny, 2, tiny_setting("PENSTOCK_EXPLORER_PLANS", TINY_PLANS) / 10);
    rig_close(&tiny.rig);
}
