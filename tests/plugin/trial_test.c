/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.trial/1: what the host says of an answer beforehand is what comes of it, a question leaves no
 * trace, and what is no plan is the plugin's fault.
 */
#include "job_rig.h"
#include "session/session.h"
#include "sim/sim.h"

#include "test.h"

#define JOB                                                                                        \
    "[model]\nuse = \"mlp\"\nlayers = 5\ninputs = 32\nhidden = 48\n[data]\nkind = \"synthetic\"\n" \
    "[train]\nbatch = 16\nmicrobatch = 2\n[[memopt]]\nuse = \"none\"\n"
#define CLUSTER "[cluster]\ndevices = 2\n"
#define SMALL   "[cluster]\ndevices = 2\nmemory = \"100 KiB\"\n"
#define TESTER  "[partitioner]\nuse = \"tester\"\n"
#define FLOWING "[scheduler]\nuse = \"1f1b\"\n"
#define PATIENT "[scheduler]\nuse = \"patient\"\n"

static pst_status plan(struct job_rig *rig, const char *toml, pst_planner_clock *clock,
                       struct pst_planned *ret_planned)
{
    pst_status st = job_rig_init(rig, toml);

    return st == PST_OK ? pst_planner_run(&rig->job, rig->graph, &rig->cluster, &rig->cost, clock,
                                          NULL, ret_planned, &rig->err)
                        : st;
}

static double number(const struct pst_planned *planned, const char *key)
{
    const struct pst_partition_remark *remark =
        pst_remarks_find(planned->remarks, planned->n_remarks, key, PST_REMARK_NUMBER);

    assert_non_null(remark);
    return remark->number;
}

TEST(test_it_comes_true)
{
    struct pst_planned planned = {.plan = NULL}, without = {.plan = NULL};
    struct pst_sim_result result;
    FINISHED_BY(job_rig_finish) struct job_rig rig, other;
    char *text, *same;

    assert_ok(plan(&rig, JOB FLOWING CLUSTER TESTER, pst_predict_step, &planned), &rig.err);
    assert_int_equal(pst_sim_steps(planned.plan, rig.graph, &rig.cost, 1, &result, &rig.err),
                     PST_OK);
    assert_true(result.period_ns > 0);
    assert_true(number(&planned, "step_ns") == (double)result.period_ns);
    assert_true(number(&planned, "quick_ns") ==
                (double)result.period_ns); /* a plain 1F1B repeats */
    assert_true(pst_remarks_flag(planned.remarks, planned.n_remarks, "fits"));
    assert_true(number(&planned, "peak_bytes") > 0);

    /* whoever does not ask gets the same plan */
    assert_int_equal(plan(&other, JOB FLOWING CLUSTER TESTER, NULL, &without), PST_OK);
    assert_true(pst_remarks_flag(without.remarks, without.n_remarks, "no_trial"));
    text = pst_plan_to_json(planned.plan, rig.graph);
    same = pst_plan_to_json(without.plan, other.graph);
    assert_string_equal(text, same);
    free(text);
    free(same);
    pst_planned_finish(&planned);
    pst_planned_finish(&without);
}

static double step_of(const char *toml, double *ret_tried)
{
    struct pst_planned planned = {.plan = NULL};
    FINISHED_BY(job_rig_finish) struct job_rig rig;
    struct pst_sim_result result;

    assert_ok(plan(&rig, toml, pst_predict_step, &planned), &rig.err);
    assert_int_equal(pst_sim_steps(planned.plan, rig.graph, &rig.cost, 1, &result, &rig.err),
                     PST_OK);
    *ret_tried = number(&planned, "step_ns");
    pst_planned_finish(&planned);
    return (double)result.period_ns;
}

/* A trial asks in haste, the plan does not, unless the config says so itself. */
TEST(test_in_haste)
{
    double tried, lazy_tried, much_tried;
    double step = step_of(JOB CLUSTER TESTER PATIENT, &tried);
    double lazy = step_of(JOB CLUSTER TESTER PATIENT "patience = \"none\"\n", &lazy_tried);
    double much = step_of(JOB CLUSTER TESTER PATIENT "patience = \"much\"\n", &much_tried);

    assert_true(step < lazy);
    assert_true(tried == lazy && lazy_tried == lazy);
    assert_true(much == step && much_tried == step);
}

/* More than a device has: an answer to the question, though no plan. */
TEST(test_too_large)
{
    struct pst_planned planned = {.plan = NULL};
    FINISHED_BY(job_rig_finish) struct job_rig rig;

    assert_int_equal(plan(&rig, JOB FLOWING SMALL TESTER, pst_predict_step, &planned),
                     PST_ERR_INFEASIBLE);
    assert_string_equal(rig.err.kind, "plan.infeasible");
}

static void expect_blame(const char *toml, const char *kind, const char *words)
{
    struct pst_planned planned = {.plan = NULL};
    FINISHED_BY(job_rig_finish) struct job_rig rig;

    assert_int_equal(plan(&rig, toml, pst_predict_step, &planned), PST_ERR_BUG);
    assert_string_equal(rig.err.kind, kind);
    if (strstr(rig.err.message, "partitioner \"tester\"") == NULL ||
        strstr(rig.err.message, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", rig.err.message, words);
    }
}

TEST(test_no_plan)
{
    expect_blame(JOB FLOWING CLUSTER TESTER "ask = \"hole\"\n", "plan.illegal",
                 "made an illegal plan");
    expect_blame(JOB FLOWING CLUSTER TESTER "ask = \"early\"\n", "plugin.contract",
                 "trial.step was called outside of partition()");
}

static int with_the_gallery(void **state)
{
    return setenv("PENSTOCK_PLUGIN_PATH", GALLERY, 1);
}

TEST_GROUP(with_the_gallery, NULL)
