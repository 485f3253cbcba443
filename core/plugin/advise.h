/* SPDX-License-Identifier: Apache-2.0
 *
 * One search for a plan, and what follows it: a second opinion on a plan that keeps host links
 * busy, another way of strategies that know two, and what to tell a user whose job does not fit.
 */
#ifndef PST_PLUGIN_ADVISE_H
#define PST_PLUGIN_ADVISE_H

#include "plugin/planner.h"

/* What is searched for, and until when. */
struct pst_search {
    const struct pst_job *job;
    struct pst_graph *graph;
    const struct pst_cluster *cluster;
    const struct pst_cost_model *cost;
    bool (*cancelled)(void);  /* may be NULL */
    pst_planner_clock *clock; /* may be NULL */
    uint64_t deadline_ns;     /* UINT64_MAX: none */
    bool brief;               /* fewer attempts: what they do not find is not said to be enough */
    bool few;                 /* advice: only what two or three plans more can tell */
    uint64_t *least_bytes;    /* [operators of the graph] room for a figure per stage of the plan
                                 found: what its memory optimizers could do with; NULL: not wanted */
};

/* One search, without advice. Errors as of pst_planner_run. *ret_need, written in any case: what
   the best plan takes on its largest device, also if that is too much; 0: there was no plan. */
pst_status pst_planner_try(const struct pst_search *search, struct pst_planned *ret_planned,
                           uint64_t *ret_need, struct pst_error *err);

/* Of a plan whose copies to host memory take most of its stages' time: plans again, as though the
   links were slower, and keeps the plan of the shorter step. Failure leaves the plan as it is. */
void pst_planner_lighten(const struct pst_search *search, struct pst_planned *planned);

/* Plans once more as the strategies' rivals would (rival.c). found: *planned is a plan; the one of
   the shorter step takes its place, and any if there was none. Returns whether there is one. */
bool pst_planner_rival(const struct pst_search *search, bool found, struct pst_planned *planned);

/*
 * After a search that ended in *err, a PST_ERR_INFEASIBLE, with `found` as its *ret_need: if memory
 * is what is missing, adds a table of what takes the space to err->details, where there is none
 * yet, and to err->hint how much would be enough, and which memory optimizer helps. Returns
 * PST_ERR_INFEASIBLE; or PST_OK and a plan, where planning without a limit found one that fits
 * after all.
 */
pst_status pst_planner_advise(const struct pst_search *search, uint64_t found,
                              struct pst_planned *ret_planned, struct pst_error *err);

#endif
