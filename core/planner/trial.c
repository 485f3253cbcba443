/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.trial/1 of a planning run: stages that a partitioner thinks of go the way of an answer, up to
 * the lists, and the caller of the planner times these. The run itself is as before afterwards.
 */
#include "planner/state.h"

#include <string.h>

#define NEAR_OF 8 /* part of the memory by which estimates may be wrong */

/* Bytes of the fullest device by estimates, plus what it lacks to the largest one. */
static uint64_t peak_of(const struct pst_plan *plan)
{
    uint64_t most = 0;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint64_t bytes = 0;

        for (uint32_t t = 0; t < plan->n_stages; t++) {
            if (pst_plan_shares(&plan->stages[t], &plan->stages[s])) {
                bytes += plan->stages[t].estimated_bytes;
            }
        }
        bytes += pst_plan_lacks(plan, &plan->stages[s]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Estimates may be a little low, so near the limit the layout decides. */
static bool is_near(uint64_t peak_bytes, uint64_t capacity_bytes)
{
    return peak_bytes <= capacity_bytes && peak_bytes > capacity_bytes / NEAR_OF * (NEAR_OF - 1);
}

static pst_status try_stages(struct pst_planner *planner, const struct pst_stage_decl *stages,
                             uint32_t n_stages, struct pst_trial_value *value,
                             struct pst_error *err)
{
    struct pst_planned planned = {.plan = pst_planner_empty(planner)};
    pst_status status = pst_planner_suppose(planner, stages, n_stages, planned.plan, err);

    if (status == PST_OK) {
        status = pst_planner_complete(planner, planned.plan, err);
        if (status == PST_OK) {
            status = planner->in.clock(planned.plan, planner->in.graph, planner->in.cost,
                                       value->quick != 0, &value->step_ns, err);
        }
        value->peak_bytes = peak_of(planned.plan);
        if (status == PST_OK && value->quick == 0 &&
            is_near(value->peak_bytes, planner->attempt.capacity_bytes)) {
            status = pst_planned_lay_out(planner, &planned, err);
            value->peak_bytes = status == PST_OK ? pst_planned_need(&planned) : 0;
        }
        value->fits = value->peak_bytes <= planner->attempt.capacity_bytes;
        if (status == PST_ERR_INFEASIBLE || status == PST_ERR_CONFIG ||
            status == PST_ERR_UNSUPPORTED) {
            *value = (struct pst_trial_value){.size = sizeof *value};
            status = PST_OK; /* not with these stages */
        }
    }
    pst_planned_finish(&planned);
    return status;
}

static pst_status try_step(const struct pst_host *host, const struct pst_stage_decl *stages,
                           uint32_t n_stages, struct pst_trial_value *ret_value)
{
    struct pst_planner *planner = pst_questions_planner(host);
    struct pst_trial_value value = {.size = sizeof value};
    struct pst_error err = {.status = PST_OK};
    const struct pst_topology topology = planner->devices.topology; /* what trying changes */
    uint32_t *first_rank = planner->devices.first_rank;
    pst_status status;

    if (!PST_HAS(ret_value, peak_bytes) || n_stages == 0 || !PST_HAS(stages, k)) {
        return (host->fail)(host, PST_ERR_BUG,
                            "trial.step: no stages, stages[0].size or ret_value->size is not set");
    }
    if (planner->asked == NULL) {
        return (host->fail)(host, PST_ERR_BUG, "trial.step was called outside of partition()");
    }
    value.quick = ret_value->quick;
    status = try_stages(planner, stages, n_stages, &value, &err);
    planner->devices.topology = topology;
    planner->devices.first_rank = first_rank;
    memset(&planner->pending, 0, sizeof planner->pending);
    if (status != PST_OK) {
        planner->pending = err;
        return status;
    }
    ret_value->fits = value.fits;
    ret_value->step_ns = value.step_ns;
    ret_value->peak_bytes = value.peak_bytes;
    return PST_OK;
}

const struct pst_trial pst_planner_trial = {.size = sizeof pst_planner_trial, .step = try_step};
