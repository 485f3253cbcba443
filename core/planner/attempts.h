/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts at a plan that fits: of the planner, and of programs that go about it in their own way
 * (struct pst_search).
 */
#ifndef PST_PLANNER_ATTEMPTS_H
#define PST_PLANNER_ATTEMPTS_H

#include "planner/state.h"

struct pst_attempts {
    struct pst_planner *planner;
    struct pst_planned *best; /* fits, or needs least */
    uint64_t limit, need;     /* need: of the last plan */
    uint32_t n_learned;
    struct pst_plan *cuts; /* stages alone; of the last answer of the partitioner */
    int64_t *cut_bias;     /* [n_ops] what it was charged by stage, room of the caller */
};

/* Bytes that the stage's device takes beyond its estimates, divided by the number of its stages. */
int64_t pst_attempts_excess(const struct pst_plan *plan, uint32_t stage);

/* One plan, on new cuts or on the last ones, for planner->attempt.capacity_bytes. */
pst_status pst_attempts_make(struct pst_attempts *a, bool same_cuts, struct pst_planned *planned,
                             struct pst_error *err);
/* The stages of that plan are the last cuts. */
pst_status pst_attempts_keep_cuts(struct pst_attempts *a, const struct pst_plan *plan,
                                  struct pst_error *err);
/* New cuts alone. PST_ERR_INFEASIBLE: none, and the last ones stay. */
pst_status pst_attempts_cut(struct pst_attempts *a, struct pst_error *err);

/* One plan, on new cuts, then on the same ones as long as it does not fit and that helps. The best
   is kept. PST_ERR_INFEASIBLE: no cuts. */
pst_status pst_attempts_round(struct pst_attempts *a, struct pst_error *err);

/* Tries until a plan fits. *a->best: that one, or else of least need. PST_ERR_INFEASIBLE: none. */
pst_status pst_attempts_find(struct pst_attempts *a, struct pst_error *err);
bool pst_attempts_found(const struct pst_attempts *a);

#endif
