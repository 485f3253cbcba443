/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to attempts.c, recut.c and tightest.c: attempts at a plan that fits.
 */
#ifndef PST_PLANNER_ATTEMPTS_H
#define PST_PLANNER_ATTEMPTS_H

#include "planner/state.h"

struct attempts {
    struct pst_planner *planner;
    struct pst_planned *best; /* fits, or needs least */
    uint64_t limit, need;     /* need: of the last plan */
    uint32_t n_learned;
    bool relaxed;          /* planned for an eighth more than there is */
    struct pst_plan *cuts; /* stages alone; of the last answer of the partitioner */
    int64_t *cut_bias;     /* [n_ops] what it was charged by stage, room of the caller */
};

/* What its device takes beyond the estimates of its stages: the part of this one of them. Of the
   plan that was made last. */
int64_t pst_attempts_excess(const struct pst_planner *planner, const struct pst_plan *plan,
                            uint32_t stage);

/* One plan, on new cuts or on the last ones, for planner->capacity_bytes. */
pst_status pst_attempts_make(struct attempts *a, bool same_cuts, struct pst_planned *planned,
                             struct pst_error *err);
/* The stages of that plan are the last cuts. */
pst_status pst_attempts_keep_cuts(struct attempts *a, const struct pst_plan *plan,
                                  struct pst_error *err);
/* UINT64_MAX: the clock does not say. */
uint64_t pst_attempts_step(const struct pst_planner *planner, const struct pst_planned *planned);
/* New cuts alone. PST_ERR_INFEASIBLE: none, and the last ones stay. */
pst_status pst_attempts_cut(struct attempts *a, struct pst_error *err);

/* One plan, on new cuts, then on the same ones as long as it does not fit and that helps. The best
   is kept. PST_ERR_INFEASIBLE: no cuts. */
pst_status pst_attempts_round(struct attempts *a, struct pst_error *err);

/* recut.c: estimates are on the safe side, of offloaded bytes for one, or leave out what buffers
   take. Where the layout of the best plan, the last one that was made and one that fits, took
   clearly less or more than was known when the cuts were made, cuts and actions are made once more
   with what is known now, and the plan of the shorter step is kept. Needs a clock. */
pst_status pst_attempts_recut(struct attempts *a, struct pst_error *err);

/* tightest.c: the plan that takes least, whatever there is; where that is less than `fit`, and
   there is a clock, a faster one that takes no more than `fit` if such is found. few: the job takes
   long to plan. */
pst_status pst_attempts_tightest(struct attempts *a, bool few, uint64_t fit, struct pst_error *err);

#endif
