/* SPDX-License-Identifier: Apache-2.0
 *
 * 1F1B without a flush, lowered and checked for every small shape: models that are a chain, with a
 * tied parameter, and with branches; with and without a barrier.
 */
#include "unit/prove/async_rig.h"
#include "unit/prove/legal_rig.h"

static const char *const models[][2] = {
    {"mlp", "inputs=5 hidden=6 layers=9 classes=3"},
    {"gpt", "layers=2 dim=4 heads=1 context=2 vocab=3"},
    {"mmt", "branches=3 layers=1 dim=8 heads=2 context=4 vocab=7"},
};

static uint32_t count(const struct pst_instr *list, uint32_t n, uint8_t op)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        found += list[i].op == op;
    }
    return found;
}

/* One step a batch: none in fill, one in body and drain; NORM with a barrier alone. */
static void expect_steps(const struct rig *rig, const struct async_shape *shape)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        for (uint32_t part = 0; part < PST_PARTS; part++) {
            uint32_t n;
            const struct pst_instr *list =
                pst_plan_list(&rig->plan->devices[d], (enum pst_part)part, &n);
            uint32_t steps = part == PST_FILL ? 0 : 1;
            assert_int_equal(count(list, n, PST_I_STEP), steps);
            assert_int_equal(count(list, n, PST_I_NORM), shape->barrier ? steps : 0);
        }
    }
}

/* The same bytes after reading them. */
static void expect_same_file(struct rig *rig)
{
    struct pst_error err = {0};
    struct pst_plan *read = NULL;
    char *text = pst_plan_to_json(rig->plan, rig->graph), *again;
    assert_ok(pst_plan_parse("test.json", text, strlen(text), rig->graph, &read, &err), &err);
    again = pst_plan_to_json(read, rig->graph);
    assert_string_equal(text, again);
    pst_plan_destroy(read);
    free(text);
    free(again);
}

/* How many were refused. */
static uint32_t every_shape(const char *model, const char *settings, bool offload)
{
    struct rig rig;
    uint32_t n_refused = 0;
    rig_open(&rig, model, settings, 7);
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 12; m++) {
            for (uint32_t barrier = 0; barrier < 2; barrier++) {
                struct async_shape shape = {.p = p,
                                            .m = m,
                                            .size = 1 + m % 2,
                                            .barrier = barrier != 0,
                                            .recompute = m > 4,
                                            .offload = offload};
                if (!async_plan(&rig, &shape)) {
                    rig_drop_plan(&rig);
                    n_refused++;
                    continue;
                }
                assert_true(rig.plan->asynchronous);
                assert_int_equal(rig.plan->version_rule, PST_VERSION_DELAYED);
                expect_steps(&rig, &shape);
                expect_legal(&rig, "p=%u m=%u barrier=%d", shape.p, shape.m, shape.barrier);
                if (m == 3) {
                    rig.plan->drain_every = p;
                    expect_same_file(&rig);
                    check_twin(&rig, rig.plan->batch);
                }
                rig_drop_plan(&rig);
            }
        }
    }
    rig_close(&rig);
    print_message("%s: %u of 192 refused\n", model, n_refused);
    return n_refused;
}

/* One to three ranks a stage, of which neighbours have different numbers. */
TEST(replicas)
{
    struct rig rig;
    uint32_t n_refused = 0;
    for (uint32_t i = 0; i < 180; i++) {
        struct async_shape shape = {.p = 1 + i % 5,
                                    .m = 1 + i / 5 % 6,
                                    .size = 6,
                                    .barrier = i / 30 % 2 != 0,
                                    .recompute = i % 2 == 0,
                                    .offload = i % 3 == 0,
                                    .replicas = true};
        rig_open(&rig, models[i / 60][0], models[i / 60][1], i);
        if (async_plan(&rig, &shape)) {
            expect_steps(&rig, &shape);
            expect_legal(&rig, "p=%u m=%u barrier=%d", shape.p, shape.m, shape.barrier);
        } else {
            n_refused++;
        }
        rig_close(&rig);
    }
    print_message("replicas: %u of 180 refused\n", n_refused);
    assert_true(n_refused < 20);
}

TEST(chain)
{
    assert_int_equal(every_shape(models[0][0], models[0][1], false), 0);
}

TEST(tied)
{
    assert_true(every_shape(models[1][0], models[1][1], false) < 10);
}

TEST(offloaded)
{
    assert_int_equal(every_shape(models[0][0], models[0][1], true), 0);
    assert_true(every_shape(models[1][0], models[1][1], true) < 10);
}

TEST(branches)
{
    assert_true(every_shape(models[2][0], models[2][1], false) < 40);
}

/* Synchronous plans without a norm: STEP follows the sums of its own stage. */
TEST(no_barrier)
{
    static struct pst_check_report report;
    struct rig rig;
    uint32_t early = 0;
    for (uint32_t i = 0; i < 200; i++) {
        rig_open(&rig, models[i % 3][0], models[i % 3][1], i);
        struct rig_shape shape = rig_draw_shape(&rig);
        struct pst_error err = {0};
        shape.no_barrier = true;
        shape.replicas = shape.replicas && i % 4 == 0; /* their STEP ends the list */
        rig_plan(&rig, &shape);
        expect_legal(&rig, "%s", models[i % 3][0]);
        for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
            const struct pst_plan_device *device = &rig.plan->devices[d];
            assert_int_equal(count(device->body, device->n_instrs, PST_I_NORM), 0);
            for (uint32_t k = 0; k + 1 < device->n_instrs; k++) {
                early += device->body[k].op == PST_I_STEP && device->body[k + 1].op <= PST_I_R;
            }
        }
        rig.plan->barrier = true; /* then a norm is missing */
        rig_check(&rig, false, &report, &err);
        assert_true(rig_has_rule(&report, "COMM3"));
        rig_close(&rig);
    }
    assert_true(early > 20);
}
