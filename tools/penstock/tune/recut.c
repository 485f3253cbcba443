/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts made once more when the layout of a plan that fits has shown how dear the estimates were:
 * they are on the safe side, of offloaded bytes for one, or leave out what buffers take. The plan
 * of the shorter step is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "planner/attempts.h"
#include "tune/advise.h"

#define MOST_ROUNDS 2
#define CLEARLY     50 /* part of the memory by which estimates of the cuts must be wrong */

static bool decides(const struct pst_plan_stage *stage)
{
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        if (stage->actions[i] != PST_ACTION_KEEP) {
            return true;
        }
    }
    return false;
}

/* Were the cuts made for clearly other memory than some stage has in fact? */
static bool is_worth_it(const struct pst_attempts *a)
{
    const struct pst_planner *planner = a->planner;
    const struct pst_plan *plan = a->best->plan;
    int64_t clearly = (int64_t)(a->limit / CLEARLY);

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        int64_t off = planner->attempt.bias[s] + pst_attempts_excess(plan, s) - a->cut_bias[s];

        if ((off > clearly || off < -clearly) && decides(&plan->stages[s])) {
            return true;
        }
    }
    return false;
}

static uint64_t step_of(const struct pst_attempts *a)
{
    return pst_step_of(a->planner->in.clock, a->best, a->planner->in.graph, a->planner->in.cost);
}

/* Charges every stage what its layout took, no more and no less. */
static void relearn(struct pst_planner *planner, const struct pst_plan *plan)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        planner->attempt.bias[s] += pst_attempts_excess(plan, s);
    }
}

/* One round; *step_ns: of the best plan; *ret_better: it is a new one. */
static pst_status try_again(struct pst_attempts *a, uint64_t *step_ns, bool *ret_better,
                            struct pst_error *err)
{
    struct pst_planned before = *a->best;
    uint64_t need = a->need;
    struct pst_error why = {.status = PST_OK};
    pst_status status;

    memset(a->best, 0, sizeof *a->best);
    relearn(a->planner, before.plan);
    status = pst_attempts_round(a, &why);
    *ret_better = false;
    if (status == PST_OK && pst_planned_need(a->best) <= a->limit) {
        uint64_t ns = step_of(a);

        *ret_better = ns < *step_ns;
        *step_ns = *ret_better ? ns : *step_ns;
    }
    if (*ret_better) {
        pst_planned_finish(&before);
        return PST_OK;
    }
    pst_planned_finish(a->best);
    *a->best = before;
    a->need = need;
    if (status == PST_OK || status == PST_ERR_INFEASIBLE) {
        return PST_OK;
    }
    if (status == PST_ERR_CANCELLED &&
        !(a->planner->in.cancelled != NULL && a->planner->in.cancelled())) {
        return PST_OK; /* out of time, but there is a plan */
    }
    *err = why;
    return status;
}

static pst_status recut(struct pst_attempts *a, uint64_t bar_ns, struct pst_error *err)
{
    struct pst_planner *planner = a->planner;
    size_t size = planner->in.graph->n_ops * sizeof *planner->attempt.bias;
    int64_t *bias = pst_alloc(planner->in.graph->n_ops, sizeof *bias);
    uint64_t step_ns = step_of(a);
    bool better = step_ns / 8 * 7 <= bar_ns;
    pst_status status = PST_OK;

    memcpy(bias, planner->attempt.bias, size);
    planner->attempt.capacity_bytes = a->limit;
    for (uint32_t n = 0; status == PST_OK && n < MOST_ROUNDS && better && is_worth_it(a); n++) {
        status = try_again(a, &step_ns, &better, err);
        if (better) {
            memcpy(bias, planner->attempt.bias, size);
        }
    }
    memcpy(planner->attempt.bias, bias, size);
    free(bias);
    return status;
}

pst_status pst_recut_attempts(struct pst_attempts *a, void *bar_ns, struct pst_error *err)
{
    pst_status status = pst_attempts_find(a, err);

    /* Only of the plan that was made last is it known what its layout shows. */
    if (status == PST_OK && pst_attempts_found(a) && a->planner->strategies.n_memopt > 0 &&
        a->planner->in.clock != NULL && a->need == pst_planned_need(a->best)) {
        status = recut(a, bar_ns == NULL ? UINT64_MAX : *(const uint64_t *)bar_ns, err);
    }
    return status;
}
