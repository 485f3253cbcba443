/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning that a program adds to the core's: it looks for plans with a shorter step than the named
 * plugins find alone, and advises users whose job does not fit. All of it plans again (struct
 * pst_search), so the advice is true.
 */
#ifndef PST_TUNE_ADVISE_H
#define PST_TUNE_ADVISE_H

#include "planner/planner.h"

/* pst_planner_run, and what job->advice says. A refusal gets in err->details a table of what takes
   the space, and in err->hint how much would be enough, and which memory optimizer helps. */
pst_job_planner pst_tune_plan;

/* --- after a refusal ---------------------------------------------------------------------------*/

struct pst_advice {
    struct pst_search search; /* of the refusal; adds to `work` */
    bool few;                 /* a plan may take long: the one that takes least is sought in a
                                 single round */
    bool huge;                /* a plan takes very long: of pieces (ZeRO) none is made */
    bool ended;               /* the search for the least memory came to a limit: less may do */
    uint64_t work, most;      /* done; where looking ends, with what has been found */
};

/* tightest.c: the plan that takes least, whatever there is; where that is less than `fit_bytes`, a
   faster one that takes no more if such is found. Ends with what there is where the advice ends. */
struct pst_tightest {
    const struct pst_advice *advice;
    bool few; /* the job takes long to plan */
    uint64_t fit_bytes;
};
pst_attempts_fn pst_tightest_attempts; /* context: struct pst_tightest */

/* --- of a plan that fits -----------------------------------------------------------------------*/

/* Time of a plan's step; UINT64_MAX: there is no clock, or it does not say. */
uint64_t pst_step_of(pst_planner_clock *clock, const struct pst_planned *planned,
                     const struct pst_graph *graph, const struct pst_cost_model *cost);

/* recut.c: pst_attempts_find, then new cuts where estimates were wrong. context: the step in ns of
   a plan that is there: one that is clearly longer is not refined; NULL: none is. */
pst_attempts_fn pst_recut_attempts;

/* slower_links.c: of a plan whose copies to host memory take most of its stages' time: plans again,
   as though the links were slower, and keeps the plan of the shorter step. Failure leaves the plan
   as it is. */
void pst_try_slower_links(const struct pst_search *search, struct pst_planned *planned);

#endif
