/* SPDX-License-Identifier: Apache-2.0
 *
 * What lowering makes is legal by all rules, buffers included: random cuts, placements, orders and
 * sizes of four models; and the forward-only twins.
 */
#include "unit/check/rig.h"

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
    if (pst_plan_forward_twin(plan, rig->graph, &rig->cost, batch, &twin, &err) != PST_OK) {
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
    struct rig rig;
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
    rig_close(&rig);
}

static void mlp(void **state)
{
    (void)state;
    check_model("mlp", "inputs=12 hidden=16 layers=6 classes=5", 100);
}

static void gpt(void **state)
{
    (void)state;
    check_model("gpt", "layers=3 dim=16 heads=2 context=8 vocab=11 dropout=0.1", 60);
}

static void mmt(void **state)
{
    (void)state;
    check_model("mmt", "", 20);
}

static void resnet(void **state)
{
    (void)state;
    check_model("resnet", "", 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp),
        cmocka_unit_test(gpt),
        cmocka_unit_test(mmt),
        cmocka_unit_test(resnet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
