/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning as the program does it: the named plugins first; then, as the job's advice says, more.
 */
#include "tune/advise.h"
#include "tune/smallest.h"

uint64_t pst_step_of(pst_planner_clock *clock, const struct pst_planned *planned,
                     const struct pst_graph *graph, const struct pst_cost_model *cost)
{
    struct pst_error unused;
    uint64_t ns = UINT64_MAX;

    return clock != NULL && clock(planned->plan, graph, cost, false, &ns, &unused) == PST_OK
               ? ns
               : UINT64_MAX;
}

pst_status pst_tune_plan(const struct pst_job *job, struct pst_graph *graph,
                         const struct pst_cluster *cluster, const struct pst_cost_model *cost,
                         pst_planner_clock *clock, bool (*cancelled)(void),
                         struct pst_planned *ret_planned, struct pst_error *err)
{
    struct pst_planned planned = {.plan = NULL};
    struct pst_advice advice = {.few = false};
    struct pst_error unused;
    uint64_t found = 0;
    bool faster = job->advice == PST_ADVICE_FASTER && clock != NULL;
    pst_status st;

    err = err == NULL ? &unused : err;
    pst_search_begin(job, graph, cluster, cost, clock, cancelled, &advice.search);
    advice.search.work = &advice.work;
    advice.search.attempts = faster ? pst_recut_attempts : NULL;
    st = pst_search_plan(&advice.search, &planned, &found, err);
    if (st == PST_OK && faster) {
        pst_try_slower_links(&advice.search, &planned);
    } else if (pst_smallest_may_help(st) &&
               (job->advice == PST_ADVICE_ALL || job->advice == PST_ADVICE_MEMORY)) {
        st = pst_advise(&advice, found, &planned, err);
    }
    pst_search_end(&advice.search, &planned);
    if (st == PST_OK) {
        *ret_planned = planned;
    }
    return st;
}
