/* SPDX-License-Identifier: Apache-2.0
 *
 * What lowering makes is legal by all rules, buffers included: random cuts, placements, orders and
 * sizes of four models; and the forward-only twins.
 */
#include "unit/prove/rig.h"

static void expect_legal(struct rig *rig, const char *what, uint32_t draw)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    if (rig_check(rig, true, &report, &err) != PST_OK || report.n_violations != 0) {
        fail_msg("%s, seed %llu, plan %u: %s\n%s", what, (unsigned long long)rig->seed, draw,
                 err.message, err.details);
    }
}

static void check_twin(struct rig *rig, uint32_t batch)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    struct pst_plan *twin, *plan = rig->plan;
    if (pst_plan_forward_twin(plan, rig->graph, &rig->cost, batch, 0, &twin, &err) != PST_OK) {
        fail_msg("twin: %s\n%s", err.message, err.details);
    }
    rig->plan = twin;
    rig_programs(rig);
    rig->limits.forward_only = true;
    expect_legal(rig, "twin", batch);
    /* it is no training plan */
    rig->limits.forward_only = false;
    assert_int_equal(rig_check(rig, true, &report, &err), PST_ERR_BUG);
    assert_true(rig_has_rule(&report, "PASS1"));
    pst_plan_destroy(twin);
    rig->plan = plan;
}

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, 20240611);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        rig_plan(&rig, &shape);
        expect_legal(&rig, model, i);
        if (shape.microbatch != 0) {
            check_twin(&rig, shape.batch * 2);
        }
        rig_drop_plan(&rig);
    }
}

TEST(mlp)
{
    check_model("mlp", "inputs=12 hidden=16 layers=6 classes=5", 100);
}

TEST(gpt)
{
    check_model("gpt", "layers=3 dim=16 heads=2 context=8 vocab=11 dropout=0.1", 60);
}

TEST(mmt)
{
    check_model("mmt", "", 20);
}

TEST(resnet)
{
    check_model("resnet", "", 10);
}

/*
 * Two stages on one device, the first recomputes its last result, which the W of the second still
 * reads after the B of the first.
 */
TEST(late_weights)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err = {0};
    const uint32_t rank = 0;
    const struct pst_pass order[] = {
        {PST_PASS_F, 0, 0}, {PST_PASS_F, 1, 0},  {PST_PASS_F, 0, 1}, {PST_PASS_B, 1, 0},
        {PST_PASS_B, 0, 0}, {PST_PASS_F, 1, 1},  {PST_PASS_W, 1, 0}, {PST_PASS_BW, 1, 1},
        {PST_PASS_W, 0, 0}, {PST_PASS_BW, 0, 1},
    };
    const struct pst_pass *orders[] = {order};
    const uint32_t n_passes = sizeof order / sizeof order[0];
    rig_open(&rig, "mmt", "", 1);
    uint32_t n = rig.graph->n_ops, cut = find_op(rig.graph, "join");
    uint32_t *nodes = calloc(n, sizeof *nodes);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(rig.graph, 4, 1, &rig.plan);
    pst_plan_add_stage(rig.plan, nodes, cut, &rank, 1, 2, 1);
    pst_plan_add_stage(rig.plan, nodes + cut, n - cut, &rank, 1, 2, 1);
    memset((uint8_t *)rig.plan->stages[0].actions, PST_ACTION_RECOMPUTE, cut);
    assert_int_equal(pst_plan_connect(rig.plan, rig.graph, &err), PST_OK);
    assert_int_equal(pst_plan_lower(rig.plan, rig.graph, &rig.cost, orders, &n_passes, true, &err),
                     PST_OK);
    rig_programs(&rig);
    expect_legal(&rig, "late weights", 0);
    free(nodes);
}
