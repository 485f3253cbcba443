/* SPDX-License-Identifier: Apache-2.0
 *
 * What lowering makes is legal by all rules, buffers included: random cuts, placements, orders and
 * sizes of four models; and the forward-only twins.
 */
#include "unit/prove/legal_rig.h"

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, 20240611);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        rig_plan(&rig, &shape);
        expect_legal(&rig, "%s, plan %u", model, i);
        if (shape.microbatch != 0) {
            check_twin(&rig, shape.batch * 2);
        }
        rig_drop_plan(&rig);
    }
}

/* Slim programs take the place of whole ones, which they are built again to. */
static void slim(struct rig *rig)
{
    struct pst_error err = {0};
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        pst_program_destroy(rig->programs[d]);
        rig->programs[d] = NULL;
    }
    rig->limits.cost = &rig->cost;
    assert_int_equal(pst_programs_create(rig->plan, rig->graph, &rig->cost, PST_PROGRAM_SLIM, NULL,
                                         rig->programs, &err),
                     PST_OK);
}

static void check_restored(const struct rig *rig, const struct pst_program *whole)
{
    const struct pst_program *slim = rig->programs[whole->rank];
    struct pst_program *again;
    struct pst_error err = {0};
    uint32_t at = 0;
    assert_int_equal(pst_program_restore(rig->plan, rig->graph, &rig->cost, slim, &again, &err),
                     PST_OK);
    assert_int_equal(again->n_values, whole->n_values);
    assert_int_equal(again->n_calls, whole->n_calls);
    for (uint32_t v = 0; v < whole->n_values; v++) {
        const struct pst_value *value = &whole->values[v];
        assert_int_equal(again->values[v].offset, value->offset);
        assert_int_equal(again->values[v].bytes, value->bytes);
        if (value->kind != PST_V_HOST && value->first <= whole->peak_tick &&
            whole->peak_tick <= value->last) { /* what the slim one has, and nothing else */
            assert_int_equal(slim->values[at].what, value->what);
            assert_int_equal(slim->values[at++].offset, value->offset);
        }
    }
    assert_int_equal(slim->n_values, at);
    assert_int_equal(slim->peak_bytes, whole->peak_bytes);
    assert_int_equal(slim->peak_tick, whole->peak_tick);
    assert_int_equal(slim->arena_bytes, whole->arena_bytes);
    assert_int_equal(again->static_bytes, whole->static_bytes);
    pst_program_destroy(again);
}

/* The same buffer among those of the peak, if it is one. */
static void move_at_peak(struct pst_program *slim, const struct pst_value *value)
{
    for (uint32_t i = 0; i < slim->n_values; i++) {
        struct pst_value *said = &slim->values[i];
        if (said->kind == value->kind && said->what == value->what &&
            said->offset == value->offset) {
            said->offset = 0;
        }
    }
}

/* The first buffer of a step that a rank with weights has, onto these; false: there is none. */
static bool move_onto_weights(struct rig *rig, struct pst_program *const *whole)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        for (uint32_t v = 0; whole[d]->static_bytes > 0 && v < whole[d]->n_values; v++) {
            const struct pst_value *value = &whole[d]->values[v];
            if (!value->is_static && value->kind != PST_V_HOST && value->bytes > 0) {
                rig->programs[d]->places[v] = 0;
                move_at_peak(rig->programs[d], value);
                return true;
            }
        }
    }
    return false;
}

/* What a slim program says of the peak is held against what its plan makes, and so is the number of
   its offsets. */
static void expect_no_other_slim(struct rig *rig)
{
    static struct pst_check_report report;
    struct pst_program *slim = rig->programs[0];
    struct pst_error err = {0};
    if (slim->n_values == 0) {
        return;
    }
    slim->values[slim->n_values - 1].bytes++;
    assert_int_equal(rig_check(rig, true, &report, &err), PST_ERR_BUG);
    assert_true(rig_has_rule(&report, "MEM2"));
    slim->values[slim->n_values - 1].bytes--;
    slim->n_places--;
    assert_int_equal(rig_check(rig, true, &report, &err), PST_ERR_BUG);
    assert_true(rig_has_rule(&report, "MEM2"));
    slim->n_places++;
}

/* Slim programs are proven as whole ones are: a buffer of the step on a weight is found. */
TEST(slim_programs)
{
    static struct pst_check_report report;
    FINISHED_BY(rig_close) struct rig rig;
    uint32_t n_moved = 0;
    rig_open(&rig, "gpt", "layers=3 dim=16 heads=2 context=8 vocab=11", 20261128);
    for (uint32_t i = 0; i < 30; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        struct pst_program *whole[RIG_MAX];
        struct pst_error err = {0};
        rig_plan(&rig, &shape);
        uint32_t n = rig.plan->n_devices;
        memcpy(whole, rig.programs, sizeof whole);
        memset(rig.programs, 0, sizeof rig.programs);
        slim(&rig);
        for (uint32_t d = 0; d < n; d++) {
            check_restored(&rig, whole[d]);
        }
        expect_no_other_slim(&rig);
        expect_legal(&rig, "slim, plan %u", i);
        if (move_onto_weights(&rig, whole)) {
            assert_int_equal(rig_check(&rig, true, &report, &err), PST_ERR_BUG);
            assert_true(rig_has_rule(&report, "MEM3"));
            n_moved++;
        }
        for (uint32_t d = 0; d < n; d++) {
            pst_program_destroy(whole[d]);
        }
        rig_drop_plan(&rig);
    }
    assert_true(n_moved > 10);
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
    expect_legal(&rig, "late weights");
    free(nodes);
}
