/* SPDX-License-Identifier: Apache-2.0
 *
 * From a job to a plan: partition, memory actions per stage, schedule, lowering, check; repeated up
 * to three times where a device exceeds its capacity or holds more than was promised.
 */
#ifndef PST_PLANNER_PLANNER_H
#define PST_PLANNER_PLANNER_H

#include <penstock/partitioner.h>

#include "base/util.h"
#include "config/job.h"
#include "graph/cost.h"
#include "host/remark.h"
#include "plan/judge.h"
#include "plan/plan.h"
#include "plan/program.h"

struct pst_planned {
    struct pst_plan *plan;
    struct pst_program **programs; /* one per rank */
    double search_seconds;
    /* Remarks of the partitioner, in the plan's arena. */
    uint32_t n_remarks;
    struct pst_partition_remark *remarks;
};

/*
 * By the plugins that the job names, and nothing else. config.* 2; plugin.* 2 or 3; plan.mismatch
 * 2; plan.infeasible 1 (details: a table of what takes the space); plan.illegal 3 naming the plugin
 * whose answer it is. clock: of a caller who can simulate; then partitioners get pst.trial/1. It
 * and `cancelled` may be NULL.
 */
pst_job_planner pst_planner_run;
void pst_planned_finish(struct pst_planned *planned);
/* Bytes that the largest device must have for this plan to fit everywhere. */
uint64_t pst_planned_need(const struct pst_planned *planned);

/* Stages that are settled before a plan is searched. */
struct pst_cuts {
    const struct pst_stage_decl *stages;
    uint32_t n_stages;
    uint64_t n_ranks;           /* of the cluster, of which each device may be several */
    struct pst_remarks remarks; /* of the partitioner whose answer they are */
};

struct pst_attempts;
/* How one planning run looks for a plan, with its strategies at hand (attempts.h). */
typedef pst_status pst_attempts_fn(struct pst_attempts *attempts, void *context,
                                   struct pst_error *err);

/* One planning run, for callers who make many. */
struct pst_search {
    const struct pst_job *job;
    struct pst_graph *graph;
    const struct pst_cluster *cluster;
    const struct pst_cost_model *cost;
    bool (*cancelled)(void);  /* may be NULL */
    pst_planner_clock *clock; /* may be NULL */
    uint64_t begin_ns;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    bool ways; /* the partitioner gives stages degrees, any of parallel.tensor; devices are ranks */
    /* With that: fills in graph, cluster and costs of a part of so many, where devices are groups
       of ranks. config.value, plan.mismatch: there can be none. */
    pst_status (*divide)(void *divider, uint32_t tensor, struct pst_search *ret_search,
                         struct pst_error *err);
    void *divider;
    uint64_t *work; /* adds up what is planned, about: operators that strategies are asked
                       about, passes that are lowered; NULL: not wanted */
    pst_attempts_fn *attempts; /* NULL: pst_attempts_find */
    void *context;             /* of that */
    uint64_t *least_bytes;     /* [operators of the graph] room for a figure per stage of the plan
                                  found: what its memory optimizers could do with; NULL: not wanted */
    uint64_t worth_bytes; /* of a plan made for less memory: one that takes no more than this is
                             an answer, too; 0: what does not fit is none */
};

/* Planning begins: its time limit runs, and messages of plugins are collected until the end. */
void pst_search_begin(const struct pst_job *job, struct pst_graph *graph,
                      const struct pst_cluster *cluster, const struct pst_cost_model *cost,
                      pst_planner_clock *clock, bool (*cancelled)(void),
                      struct pst_search *ret_search);
/* planned: what was found; may be empty. */
void pst_search_end(const struct pst_search *search, struct pst_planned *planned);
/* Errors as of pst_planner_run. *ret_need, written in any case: what the best plan takes, also if
   that is too much; 0: there was no plan. */
pst_status pst_search_plan(const struct pst_search *search, struct pst_planned *ret_planned,
                           uint64_t *ret_need, struct pst_error *err);
/* The stages of the partitioner's answer alone, in `arena`, with search->ways. */
pst_status pst_search_cut(const struct pst_search *search, struct pst_arena *arena,
                          struct pst_cuts *ret_cuts, struct pst_error *err);
/* Has the time passed? */
static inline bool pst_search_is_late(uint64_t deadline_ns)
{
    return deadline_ns != UINT64_MAX && pst_now_ns() >= deadline_ns;
}

/* fast_scheduler.c: gives the job's scheduler the setting that avoids a long search, if it has one.
 */
void pst_hasten(struct pst_arena *arena, struct pst_job *job);

/* topology.c: may the ranks of the job's devices meet inside passes, as far as its modules are
   known? */
bool pst_job_meets(const struct pst_job *job);

/* Does the strategy of this table provide the word? Not where it cannot be opened, which the
   planner reports. */
bool pst_job_provides(const struct pst_job *job, struct pst_config_node *table, const char *kind,
                      const char *word);

/* Slices per sequence, by the scheduler's parameter; 1 where it orders whole sequences or cannot be
   opened, which the planner reports. */
uint32_t pst_job_slices(const struct pst_job *job);
/* Like pst_job_slices, but fails with plugin.timeout where opening the scheduler does not end:
   opening it again would not end either. */
pst_status pst_job_read_slices(const struct pst_job *job, uint32_t *ret_slices,
                               struct pst_error *err);

#endif
