/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions and answers of plugins that cannot be: refused with a word about why, never computed
 * with. And what an answer or a stop leads to: who is asked again, and what of it the plan says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job_expect.h"
#include "tune/advise.h"

/* Who asks about what cannot be is told so, not answered. */
static void test_wrong_questions(void **state)
{
    static const struct lie lies[] = {
        {"large", "plugin.contract", 3, "no larger than the batch"},
        {"many", "plugin.contract", 3, "the scheduler has not so many stages"},
        {"far", "plugin.contract", 3, "ask.in_flight: the scheduler has not so many stages"},
    };

    (void)state;
    check_lies(MODEL TRAIN TWO "[partitioner]\nuse = \"asker\"\nway = \"%s\"\n"
                               "[scheduler]\nuse = \"looper\"\n",
               lies, sizeof lies / sizeof lies[0]);
    check_lies(MODEL TRAIN TWO "[partitioner]\nuse = \"asker\"\nway = \"%s\"\n"
                               "[scheduler]\nuse = \"zbv\"\n",
               lies, sizeof lies / sizeof lies[0]);
}

/* One optimizer may list replays, and those that decide stage by stage stand before it. */
static void test_who_lists_replays(void **state)
{
    struct pst_error err;

    (void)state;
    expect(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
           "[[memopt]]\nuse = \"nester\"\n[[memopt]]\nuse = \"both\"\n",
           "config.value", 2, "memopt \"nester\" and memopt \"both\" both list replays");
    expect(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
           "[[memopt]]\nuse = \"both\"\n[[memopt]]\nuse = \"bpipe\"\n[[memopt]]\nuse = "
           "\"nester\"\n",
           "config.value", 2, "memopt \"both\" and memopt \"nester\" both list replays");
    expect(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
           "[[memopt]]\nuse = \"nester\"\n[[memopt]]\nuse = \"none\"\n",
           "config.value", 2, "must come behind that of \"none\"");
    assert_int_equal(try(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B
                         "[[memopt]]\nuse = \"none\"\n[[memopt]]\nuse = \"nester\"\n"
                         "[[memopt]]\nuse = \"bpipe\"\n",
                         &err),
                     PST_OK);
}

/* A list that cannot be on top of what was decided before: the message names the operator. */
static void test_fault_of_a_list(void **state)
{
    (void)state;
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
static void test_a_no_is_a_no(void **state)
{
    struct pst_planned planned = {.plan = NULL};
    struct job_rig rig;

    (void)state;
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
    job_rig_finish(&rig);
}

/* Few stages are fast ones. */
static pst_status clock_stages(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, bool quick, uint64_t *ret_ns,
                               struct pst_error *err)
{
    (void)graph;
    (void)cost;
    (void)quick;
    (void)err;
    *ret_ns = 1000 * (uint64_t)plan->n_stages;
    return PST_OK;
}

/* Time is up before there is a plan. */
static void test_a_stop_is_no_refusal(void **state)
{
    (void)state;
    expect(MODEL TRAIN TWO "memory = \"1 KiB\"\n[plugins]\ntime_limit = \"100 ms\"\n"
                           "[partitioner]\nuse = \"doubter\"\nlie = \"wait\"\n" ONE_F_ONE_B,
           "plugin.timeout", 3,
           "partitioner-doubter.so): made no plan in 100 ms, the plugins.time_limit; it was "
           "in partition()");
}

/* Whatever a strategy calls its rival, and however long a step takes: the one that is named, with
   the parameters that are named, is run. */
static void test_named_is_run(void **state)
{
    static const struct {
        const char *option;
        uint32_t n_stages;
    } rows[] = {{"", 2}, {"lie = \"none\"\n", 2}, {"lie = \"few\"\n", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pst_planned planned = {.plan = NULL};
        struct job_rig rig;
        char toml[1024];

        snprintf(toml, sizeof toml, "%s[partitioner]\nuse = \"doubter\"\n%s",
                 MODEL TRAIN TWO ONE_F_ONE_B, rows[i].option);
        assert_int_equal(job_rig_init(&rig, toml), PST_OK);
        rig.job.advice = PST_ADVICE_FASTER;
        if (pst_tune_plan(&rig.job, rig.graph, &rig.cluster, &rig.cost, clock_stages, NULL,
                          &planned, &rig.err) != PST_OK) {
            fail_msg("%s", rig.err.message);
        }
        assert_int_equal(planned.plan->n_stages, rows[i].n_stages);
        assert_string_equal(planned.plan->partitioner, "doubter 0");
        assert_string_equal(planned.plan->scheduler, "1f1b 1.0");
        pst_planned_finish(&planned);
        job_rig_finish(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_questions),      cmocka_unit_test(test_who_lists_replays),
        cmocka_unit_test(test_fault_of_a_list),      cmocka_unit_test(test_a_no_is_a_no),
        cmocka_unit_test(test_a_stop_is_no_refusal), cmocka_unit_test(test_named_is_run),
    };

    return cmocka_run_group_tests(tests, with_gallery, without_gallery);
}
