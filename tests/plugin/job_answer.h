/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job comes to, searched as the program does it: a plan with its memory and the time of its
 * step, or a refusal.
 */
#ifndef TEST_JOB_ANSWER_H
#define TEST_JOB_ANSWER_H

#include "job_rig.h"
#include "sim/sim.h"
#include "test.h"
#include "session/session.h"

struct job_answer {
    bool fits;
    uint64_t step_ns, need, capacity; /* need: of the device that takes most */
    uint64_t enough;                  /* that the refusal names */
    struct pst_error err;             /* the refusal */
};

/* The simulated step of the plan that one run of the planner makes, which there is; clock: may be
   NULL. The rig is to be finished. */
static inline uint64_t job_step(struct job_rig *rig, const char *toml, pst_planner_clock *clock)
{
    struct pst_planned planned = {.plan = NULL};
    uint64_t ns = 0;
    pst_status status = job_rig_init(rig, toml);

    if (status == PST_OK) {
        rig->job.advice = PST_ADVICE_NONE;
        status = pst_planner_run(&rig->job, rig->graph, &rig->cluster, &rig->cost, clock, NULL,
                                 &planned, &rig->err);
    }
    if (status == PST_OK) {
        status = pst_predict_step(planned.plan, rig->graph, &rig->cost, false, &ns, &rig->err);
    }
    if (status != PST_OK) {
        fail_msg("%s\n%s", toml, rig->err.message);
    }
    pst_planned_finish(&planned);
    return ns;
}

/* advice: PST_ADVICE_* */
static inline struct job_answer job_answer(const char *toml, uint32_t advice)
{
    struct pst_planned planned = {.plan = NULL};
    struct job_answer answer = {.fits = false};
    FINISHED_BY(job_rig_finish) struct job_rig rig;
    pst_status st = job_rig_init(&rig, toml);

    assert_ok(st, &rig.err);
    rig.job.advice = advice;
    st = pst_tune_plan(&rig.job, rig.graph, &rig.cluster, &rig.cost, pst_predict_step, NULL,
                       &planned, &rig.err);
    if (st != PST_OK) {
        assert_int_equal(st, PST_ERR_INFEASIBLE);
        answer.err = rig.err;
        answer.enough = job_rig_enough(&rig.err);
        return answer;
    }
    answer.fits = true;
    answer.capacity = planned.plan->capacity_bytes;
    for (uint32_t d = 0; d < planned.plan->n_devices; d++) {
        uint64_t bytes = planned.plan->devices[d].arena_bytes;

        answer.need = bytes > answer.need ? bytes : answer.need;
    }
    assert_true(answer.need <= answer.capacity);
    assert_ok(
        pst_predict_step(planned.plan, rig.graph, &rig.cost, false, &answer.step_ns, &rig.err),
        &rig.err);
    pst_planned_finish(&planned);
    return answer;
}

#endif
