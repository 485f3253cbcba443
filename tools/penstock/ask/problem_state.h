/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind the planning of problem files: the planner of one; and who judges a partition.
 */
#ifndef PST_ASK_PROBLEM_STATE_H
#define PST_ASK_PROBLEM_STATE_H

#include "ask/costed_stage.h"
#include "ask/problem_partition.h"
#include "ask/rcm.h"
#include "planner/order_question.h"
#include "planner/state.h"

/* The costs of a problem file; answers find the problem from the model, its first member. */
struct pst_problem_cost {
    struct pst_cost_model model;
    const struct pst_problem *problem;
};

/* The planner of a problem file. Do not move it: parts of it point to others. */
struct pst_problem_planner {
    struct pst_planner planner; /* first, so that answers find the rest from it */
    struct pst_rcm rcm;
    struct pst_costed_stage costed; /* for strategies (pst_problem_open) */
    struct pst_cluster cluster;     /* devices that are all alike; only the size of nodes is set */
    struct pst_problem_cost cost;
};

/* problem_answers.c: the reference cost model answers about stages, or the file's strategies do. */
extern const struct pst_answers pst_reference_answers, pst_planned_answers;
/* problem_answers.c: fills the figures of pst.profile/1. */
void pst_problem_figures(struct pst_problem_planner *planner);

/* problem.c: a planner that answers by the reference cost model; pst_planner_finish. `problem` is
   kept. */
void pst_problem_planner_init(struct pst_problem_planner *planner,
                              const struct pst_problem *problem, bool (*cancelled)(void));
/* problem.c: an instance with parameters from an object (or NULL), `what` it stands
   under in the problem. */
pst_status pst_problem_create(struct pst_planner *planner, const struct pst_plugin *plugin,
                              const json_t *options, const char *what,
                              struct pst_instance **ret_instance, struct pst_error *err);
/* problem.c: from here on the problem's strategies answer. Errors: of finding, matching, creating.
 */
pst_status pst_problem_open(struct pst_problem_planner *planner,
                            const struct pst_plugin *partitioner, struct pst_error *err);

/* problem_partition.c: the problem's question, and the answer held against the rules of stages.
   *answer was all zero. Errors: as the partitioner fails; plan.illegal; config.value where no
   degree of the problem is small enough. */
pst_status pst_partition_ask(struct pst_problem_planner *planner, struct pst_instance *partitioner,
                             struct pst_partition_result *answer, struct pst_error *err);

/* problem_arrange.c: has the strategies plan the answer's stages; fills its figures. */
pst_status pst_problem_arrange(struct pst_problem_planner *planner,
                               struct pst_partition_result *answer, struct pst_error *err);

/* A stage graph as edges by (from, to); bytes of a sample, one direction. */
struct pst_problem_edge {
    uint32_t from, to;
    double bytes;
};

/* problem_step.c: one edge for every two stages of which one feeds the other; bytes of all node
   edges between them. */
struct pst_problem_edge *pst_problem_connect(const struct pst_costed *graph,
                                             const struct pst_partition_result *answer,
                                             struct pst_arena *arena, uint32_t *ret_n_edges);

/*
 * problem_step.c: stages as a question to schedulers, and the time that an order takes.
 */
struct pst_problem_run {
    const struct pst_problem *problem;
    uint32_t n_devices, n_stages, n_edges;
    const struct pst_partition_stage *stages;
    const struct pst_problem_edge *edges;
};

static inline struct pst_rcm_stage pst_partition_rcm(const struct pst_partition_stage *stage)
{
    return (struct pst_rcm_stage){stage->nodes, stage->n_nodes, stage->n_ranks,
                                  stage->microbatch_size};
}

static inline struct pst_successor pst_problem_successor(const struct pst_partition_stage *to)
{
    return (struct pst_successor){to->microbatch_size, to->k, to->in_flight};
}

/* Returns the micro-batches of a step. The last one may be smaller; it counts as a whole one. */
static inline uint32_t pst_problem_microbatches(const struct pst_problem_run *run, uint32_t s)
{
    return (run->problem->mini_batch - 1) / run->stages[s].microbatch_size + 1;
}

/* Stage s, with what feeds on it in `next`, which has room for n_edges + 1. Asked from the last
   stage to the first; *edge: n_edges before, then the first edge of s. */
struct pst_place pst_problem_run_place(const struct pst_problem_run *run, uint32_t s,
                                       uint32_t *edge, struct pst_successor *next);
/* Times are multiplied and rounded. Finish the question; it was all zero. */
void pst_problem_run_state(const struct pst_problem_run *run, double scale,
                           struct pst_order_question *asked);
/* Nanoseconds of `in`, stated at that scale, in this order, the all-reduces at its end included.
   plan.illegal where the order cannot be kept. */
pst_status pst_problem_run_time(const struct pst_problem_run *run, const struct pst_schedule_in *in,
                                double scale, struct pst_pass *const *passes,
                                const uint32_t *n_passes, double *ret_ns, struct pst_error *err);
/* The finest scale at which n_steps steps are counted exactly in 62 bits. */
double pst_problem_run_scale(const struct pst_problem_run *run, uint32_t n_steps);

#endif
