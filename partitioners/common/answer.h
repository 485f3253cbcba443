/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: a partition under construction, what it is worth, and giving it as the answer.
 */
#ifndef PARTITIONERS_COMMON_ANSWER_H
#define PARTITIONERS_COMMON_ANSWER_H

#include "problem.h"

struct part_stage {
    uint32_t *nodes; /* ascending */
    uint32_t n_nodes;
    uint32_t d, b, k; /* replicas; micro-batch size over all replicas; of kFkB */
};

/* Stages in any order, over all nodes. All zero: empty. */
struct part_plan {
    struct part_stage *stages;
    uint32_t n_stages;
};

/* stage_of[v] < n_stages. Stages without nodes are dropped. d = 1, k = 1 everywhere. */
void part_plan_init(struct part_plan *plan, const struct part_problem *problem,
                    const uint32_t *stage_of, uint32_t n_stages, uint32_t b);
void part_plan_finish(struct part_plan *plan);
/* A deep copy. */
void part_plan_copy(const struct part_plan *plan, struct part_plan *ret_copy);

/* Its stages in the order in which the host is given them; the plan is legal. */
void part_plan_sort(struct part_plan *plan, const struct part_problem *problem);

/* A step that nobody looked at. */
#define PART_STEP_UNKNOWN (-1.0)

/* The value of a plan, from the plan alone. */
struct part_value {
    bool legal;     /* every node once, convex, acyclic, enough devices */
    bool fits;      /* memory of every stage */
    uint32_t worst; /* stage that takes most of a device's memory */
    double worst_bytes;
    double bottleneck_ns; /* per sample: most over stages */
    double step_ns;       /* one mini-batch: the stage graph run in kFkB order, all-reduce at the
                             end; transfers lengthen passes ("sum") or are the least they take
                             ("max"); more than 8M passes: estimated; INFINITY: it
                             does not run to its end */
    double peak_bytes;    /* most over stages */
    uint32_t depth, devices;
};

/* In flight by the closed form over the stage graph, capped at B; in planning runs by pst.ask/1 in
   the end (price of every stage; the step with what the scheduler
   holds in flight), where `ask` is set. */
void part_plan_value(const struct part_plan *plan, const struct part_problem *problem, bool ask,
                     struct part_value *ret_value);

/* All but step_ns, which takes most of the time: enough for part_value_better. */
void part_plan_rank(const struct part_plan *plan, const struct part_problem *problem,
                    struct part_value *ret_value);

/* Ticks per sample of the slowest stage; sizes and degrees must be those of `costs`. */
int64_t part_plan_ticks(const struct part_plan *plan, const struct part_problem *problem,
                        const struct part_costs *costs);

/* Is a better than b? What is legal and fits; smaller bottleneck, smaller peak, smaller depth,
   fewer devices; equal: false. Bottlenecks and peaks within 1e-12 relative are equal. */
bool part_value_better(const struct part_value *a, const struct part_value *b);
/* part_value_better with step time before everything except legal and fits: for comparing
   micro-batch sizes, since a larger one lowers the bottleneck but lengthens the warm-up. */
bool part_value_faster(const struct part_value *a, const struct part_value *b);

/*
 * The stages of a plan as the host is given them: as they stand in it where that is a topological
 * order, else in one (by least node where free), ranks in depth-first order of the stage graph,
 * replicas on adjacent ranks, inside a node where they fit. A chain of single devices gets ranks in
 * order.
 */
struct pst_stage_decl *part_plan_decls(const struct part_plan *plan,
                                       const struct part_problem *problem);
/* Gives them as the answer. */
void part_plan_answer(const struct part_plan *plan, const struct part_problem *problem,
                      struct pst_partition_out *out);
/* One stage of a plan on ranks[stage->d]. */
struct pst_stage_decl part_stage_decl(const struct part_stage *stage, const uint32_t *ranks);

/* PST_ERR_INFEASIBLE with a message that names the stage or node that cannot fit and the bytes:
   the largest single node where one alone is too large, else what is missing in all. */
pst_status part_infeasible(const struct part_problem *problem, uint32_t b);

/* Remarks; nothing where the host has no such extension (or in tests, no host). */
void part_remark_number(const struct part_problem *problem, const char *key, double value);
void part_remark_text(const struct part_problem *problem, const char *key, const char *value);
/* "stage_bytes" and "worst_stage_bytes": what each stage of the answer holds by the partitioner's
   own count, in the order of the answer. */
void part_remark_stage_bytes(const struct part_problem *problem, const double *bytes, uint32_t n);
void part_remark_flag(const struct part_problem *problem, const char *key, bool value);

#endif
