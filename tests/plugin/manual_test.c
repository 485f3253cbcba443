/* SPDX-License-Identifier: Apache-2.0
 *
 * The partitioner that takes its stages from the config: where operators go, and the one message
 * that each mistake gets.
 */
#include "job_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

static const char text[] = "[model]\nuse = \"mmt\"\nbranches = 2\nlayers = 1\ndim = 16\nheads = 2\n"
                           "context = 6\n[data]\nkind = \"synthetic\"\n"
                           "[train]\nbatch = 12\nmicrobatch = 2\n"
                           "[cluster]\ndevices = %u\n[scheduler]\nuse = \"%s\"\n"
                           "[partitioner]\nuse = \"manual\"\n%s\n[[memopt]]\nuse = \"none\"\n";

static pst_status plan(const char *stages, const char *scheduler, uint32_t devices,
                       struct job_rig *rig, struct pst_planned *planned)
{
    char toml[1024];

    snprintf(toml, sizeof toml, text, devices, scheduler, stages);
    if (job_rig_init(rig, toml) != PST_OK) {
        fail_msg("%s", rig->err.message);
    }
    memset(planned, 0, sizeof *planned);
    return pst_planner_run(&rig->job, rig->graph, &rig->cluster, &rig->cost, NULL, NULL, planned,
                           &rig->err);
}

static uint32_t stage_named(const struct job_rig *rig, const struct pst_plan *plan_,
                            const char *name)
{
    for (uint32_t s = 0; s < plan_->n_stages; s++) {
        for (uint32_t i = 0; i < plan_->stages[s].n_nodes; i++) {
            if (strcmp(rig->graph->ops[plan_->stages[s].nodes[i]].name, name) == 0) {
                return s;
            }
        }
    }
    return PST_NONE;
}

static void test_places(void **state)
{
    struct pst_planned planned;
    struct job_rig rig;

    (void)state;
    assert_int_equal(
        plan("stages = \"branch.0.*; branch.1.*,concat;*\"", "gpipe", 3, &rig, &planned), PST_OK);
    assert_int_equal(planned.plan->n_stages, 3);
    assert_int_equal(stage_named(&rig, planned.plan, "branch.0.wte"), 0);
    assert_int_equal(stage_named(&rig, planned.plan, "branch.1.wte"), 1);
    assert_int_equal(stage_named(&rig, planned.plan, "concat"), 1);
    assert_int_equal(stage_named(&rig, planned.plan, "loss"), 2);
    assert_int_equal(planned.plan->stages[2].microbatch_size, 2);
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    assert_int_equal(plan("stages = \"branch.0.*;branch.1.*;*\"\nmicrobatch_sizes = \"1, 2,6\"",
                          "per-stage", 3, &rig, &planned),
                     PST_OK);
    assert_int_equal(planned.plan->stages[0].microbatch_size, 1);
    assert_int_equal(planned.plan->stages[1].microbatch_size, 2);
    assert_int_equal(planned.plan->stages[2].microbatch_size, 6);
    assert_int_equal(planned.plan->stages[2].n_microbatches, 2);
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *stages, *scheduler, *message;
    } cases[] = {
        {"stages = \" ; , ;\"", "gpipe", "names no stage"},
        {"stages = \"branch.0.*\"", "gpipe", "\"branch.1.wte\" is in none of \"stages\""},
        {"stages = \"*;loss\"", "gpipe", "stage 1 of \"stages\" is left without operators"},
        {"stages = \"loss;*\"", "gpipe", "reads"},
        {"stages = \"branch.0.*;branch.1.*;concat;*\"", "gpipe", "names 4 stages for 3 devices"},
        {"stages = \"*\"\nmicrobatch_sizes = \"4\"", "1f1b", "one size for all stages"},
        {"stages = \"*\"\nmicrobatch_sizes = \"5\"", "per-stage", "must divide train.batch"},
        {"stages = \"*\"\nmicrobatch_sizes = \"2,2\"", "per-stage", "2 \"microbatch_sizes\" for 1"},
        {"stages = \"*\"\nmicrobatch_sizes = \"2,\"", "per-stage", "numbers separated by commas"},
        {"stages = \"*\"\nmicrobatch_sizes = \"-2\"", "per-stage", "numbers separated by commas"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pst_planned planned;
        struct job_rig rig;
        pst_status st = plan(cases[i].stages, cases[i].scheduler, 3, &rig, &planned);

        if (st == PST_OK || strstr(rig.err.message, cases[i].message) == NULL) {
            fail_msg("%s: status %d, \"%s\"", cases[i].stages, (int)st, rig.err.message);
        }
        assert_int_equal(pst_error_exit_code(&rig.err), 2);
        job_rig_finish(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
