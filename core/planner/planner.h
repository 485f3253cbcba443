/* SPDX-License-Identifier: Apache-2.0
 *
 * From a job to a plan: partition, memory actions per stage, schedule, lowering, check; repeated up
 * to three times where a device exceeds its capacity or holds more than was promised.
 */
#ifndef PST_PLANNER_PLANNER_H
#define PST_PLANNER_PLANNER_H

#include "config/job.h"
#include "graph/cost.h"
#include "prove/check.h"
#include "plan/plan.h"
#include "plan/program.h"
#include "host/remark.h"

struct pst_planned {
    struct pst_plan *plan;
    struct pst_program **programs; /* one per rank */
    double search_seconds;
    /* Of the partitioner, in the plan's arena; none where it ran in a process of its own. */
    uint32_t n_remarks;
    struct pst_partition_remark *remarks;
};

/* Nanoseconds of a step of a lowered plan in the long run; quick: about. */
typedef pst_status pst_planner_clock(const struct pst_plan *plan, const struct pst_graph *graph,
                                     const struct pst_cost_model *cost, bool quick,
                                     uint64_t *ret_ns, struct pst_error *err);

/*
 * config.* 2; plugin.* 2 or 3; plan.mismatch 2; plan.infeasible 1 (details: a table of what takes
 * the space, and what would make it fit); plan.illegal 3 naming the plugin whose answer it is.
 * `cancelled` may be NULL.
 */
pst_status pst_planner_run(const struct pst_job *job, struct pst_graph *graph,
                           const struct pst_cluster *cluster, const struct pst_cost_model *cost,
                           bool (*cancelled)(void), struct pst_planned *ret_planned,
                           struct pst_error *err);
/* The same for a caller who can simulate: partitioners get pst.trial/1, and plans are the better
   for it. clock: NULL as above. */
pst_status pst_planner_run_timed(const struct pst_job *job, struct pst_graph *graph,
                                 const struct pst_cluster *cluster,
                                 const struct pst_cost_model *cost, pst_planner_clock *clock,
                                 bool (*cancelled)(void), struct pst_planned *ret_planned,
                                 struct pst_error *err);
void pst_planned_finish(struct pst_planned *planned);

#endif
