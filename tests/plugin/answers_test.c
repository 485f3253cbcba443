/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions and answers of plugins that cannot be: refused with a word about why, never computed
 * with. And what an answer or a stop leads to: who is asked again, and what of it the plan says.
 */
#include "test.h"

#include "job_expect.h"
#include "tune/advise.h"

/* Who asks about what cannot be is told so, not answered. */
TEST(test_wrong_questions)
{
    static const struct lie lies[] = {
        {"large", "plugin.contract", 3, "no larger than the batch"},
        {"many", "plugin.contract", 3, "the scheduler has not so many stages"},
        {"far", "plugin.contract", 3, "ask.in_flight: the scheduler has not so many stages"},
    };

    check_lies(MODEL TRAIN TWO "[partitioner]\nuse = \"asker\"\nway = \"%s\"\n"
                               "[scheduler]\nuse = \"looper\"\n",
               lies, sizeof lies / sizeof lies[0]);
    check_lies(MODEL TRAIN TWO "[partitioner]\nuse = \"asker\"\nway = \"%s\"\n"
                               "[scheduler]\nuse = \"zbv\"\n",
               lies, sizeof lies / sizeof lies[0]);
}

/* One optimizer may list replays, and those that decide stage by stage stand before it. */
TEST(test_who_lists_replays)
{
    struct pst_error err;

    expect(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
           "[[memopt]]\nuse = \"nester\"\n[[memopt]]\nuse = \"both\"\n",
           "config.value", 2, "memopt \"nester\" and memopt \"both\" both list replays");
    expect(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
           "[[memopt]]\nuse = \"both\"\n[[memopt]]\nuse = \"bpipe\"\n[[memopt]]\nuse = "
           "\"nester\"\n",
           "config.value", 2, "memopt \"both\" and memopt \"nester\" both list replays");
    expect(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
           "[[memopt]]\nuse = \"nester\"\n[[memopt]]\nuse = \"none\"\n",
           "config.value", 2, "must come after that of \"none\"");
    assert_int_equal(try(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
                         "[[memopt]]\nuse = \"none\"\n[[memopt]]\nuse = \"nester\"\n"
                         "[[memopt]]\nuse = \"bpipe\"\n",
                         &err),
                     PST_OK);
}

/* A list that cannot be on top of what was decided before: the message names the operator. */
TEST(test_fault_of_a_list)
{
    expect(MODEL TRAIN TWO
           "[partitioner]\nuse = \"uniform\"\n" ONE_F_ONE_B
           "[[memopt]]\nuse = \"full\"\nskip_last = false\n[[memopt]]\nuse = \"replays\"\npath = "
           "\"" GALLERY "/told/memopt-replays.so\"\n",
           "plan.illegal", 3, "node \"layers.0\": an earlier memory optimizer recomputes");
}

static uint32_t n_looks;

static bool count_looks(void)
{
    n_looks++;
    return false;
}

/* A partitioner that says no is asked again with an eighth more memory, and then no more. */
TEST(test_a_no_is_a_no)
{
    struct pst_planned planned = {.plan = NULL};
    FINISHED_BY(job_rig_finish) struct job_rig rig;

    assert_int_equal(job_rig_init(&rig, MODEL TRAIN TWO
                                  "memory = \"1 MiB\"\n[partitioner]\nuse = \"asker\"\nway = "
                                  "\"refuse\"\n" ONE_F_ONE_B "[[memopt]]\nuse = \"full\"\n"),
                     PST_OK);
    rig.job.advice = PST_ADVICE_NONE;
    n_looks = 0;
    assert_int_equal(pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL,
                                     count_looks, &planned, &rig.err),
                     PST_ERR_INFEASIBLE);
    assert_contains(rig.err.message, "is not to my liking");
    assert_int_equal(n_looks, 2 + 1); /* the host itself looks once, at the end */
}

/* Few stages are fast ones. */
static pst_status clock_stages(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, bool quick, uint64_t *ret_ns,
                               struct pst_error *err)
{
    *ret_ns = 1000 * (uint64_t)plan->n_stages;
    return PST_OK;
}

/* Time is up before there is a plan. */
TEST(test_a_stop_is_no_refusal)
{
    expect(MODEL TRAIN TWO "memory = \"1 KiB\"\n[plugins]\ntime_limit = \"100 ms\"\n"
                           "[partitioner]\nuse = \"doubter\"\nlie = \"wait\"\n" ONE_F_ONE_B,
           "plugin.timeout", 3,
           "partitioner-doubter.so): made no plan in 100 ms, the plugins.time_limit; it was "
           "in partition()");
}

/* Whatever a strategy calls its rival, and however long a step takes: the one that is named, with
   the parameters that are named, is run. */
TEST(test_named_is_run)
{
    static const struct {
        const char *option;
        uint32_t n_stages;
    } rows[] = {{"", 2}, {"lie = \"none\"\n", 2}, {"lie = \"few\"\n", 1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pst_planned planned = {.plan = NULL};
        FINISHED_BY(job_rig_finish) struct job_rig rig;
        char toml[1024];

        snprintf(toml, sizeof toml, "%s[partitioner]\nuse = \"doubter\"\n%s",
                 MODEL TRAIN TWO ONE_F_ONE_B, rows[i].option);
        assert_int_equal(job_rig_init(&rig, toml), PST_OK);
        rig.job.advice = PST_ADVICE_FASTER;
        assert_ok(pst_tune_plan(&rig.job, rig.graph, &rig.cluster, &rig.cost, clock_stages, NULL,
                                &planned, &rig.err),
                  &rig.err);
        assert_int_equal(planned.plan->n_stages, rows[i].n_stages);
        assert_string_equal(planned.plan->partitioner, "doubter 0");
        assert_string_equal(planned.plan->scheduler, "1f1b 1.0");
        pst_planned_finish(&planned);
    }
}

TEST_GROUP(with_gallery, without_gallery)
