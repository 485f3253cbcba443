/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: the whole answer to a problem.
 */
#ifndef GRAPHPIPE_SOLVER_H
#define GRAPHPIPE_SOLVER_H

#include "candidates.h"
#include "search.h"

/* One size (0: a size and a k for each stage). */
struct gp_try {
    uint32_t b;
    bool skipped; /* its bound says that it cannot be better than a smaller size */
    struct gp_result result;
    struct gp_result fast; /* beyond the family: the shortest step seen, in jobs of a larger T
                              perhaps */
};

/* All sizes, ascending. Only those that beat smaller ones have plans. */
struct gp_table {
    uint32_t n;
    struct gp_try *tries;
};

struct gp_answer {
    bool found;
    struct part_plan plan;
    struct part_value value;
    uint32_t b;          /* 0: of each stage its own */
    bool family_optimum; /* the least T that graphpipe's rules can make, proven */
    double lower_ns;     /* no plan at all is below */
    double bound_ns;     /* no plan of the family is below */
    bool has_expired;
    bool series_parallel, exact_blocks; /* exact: nothing was rewritten */
    uint64_t probes, states;
    struct gp_table table;
    struct gp_candidates candidates; /* with refine, in jobs: what may make the shortest step */
    struct gp_candidates chains;     /* likewise of cuts of the model's order */
    bool in_row;                     /* counted as a row of stages, though not asked to */
    uint32_t tried;                  /* plans simulated by the host */
    uint64_t passes;                 /* of these; guesses count as a few */
    const char *source;              /* "family", "orders", "chain", "refined" */
};

/* Cuts of the first few kinds of topological orders (by index first), where better than the
   result so far. */
void gp_orders(const struct part_problem *problem, uint32_t b, uint32_t n_orders,
               struct gp_watch *watch, struct gp_result *result);

/* Blocks of a problem, by GP_SP_FLEXIBLE .. . */
void gp_tree_of(const struct part_problem *problem, uint32_t rule, struct gp_tree *ret_tree);

enum { GP_TAILS = 2 };

/* The problem with rows of operators after joins and before forks in one with these. */
struct gp_tail_problem {
    struct part_problem problem;
    struct gp_tree tree;
    uint32_t *group_of; /* [n] */
};

struct gp_tails {
    uint32_t n;
    struct gp_tail_problem of[GP_TAILS]; /* by how much work may become one */
};

/* With nothing merged. */
void gp_tails_whole(struct gp_tail_problem *ret_tail, const struct part_problem *problem,
                    uint32_t rule);
void gp_tails_init(struct gp_tails *ret_tails, const struct part_problem *problem, uint32_t rule);
/* gp_search_size of such a problem; plan and value are those of the whole one. */
void gp_tails_plan(const struct part_problem *problem, const struct gp_tail_problem *tail,
                   const struct gp_options *options, uint32_t b, double below_ns,
                   struct gp_watch *watch, struct gp_result *ret_result);

/* Improves the plans of all sizes by searches that go beyond the family. rule: of gp_tree_of. */
void gp_beyond(const struct part_problem *problem, const struct gp_options *options, uint32_t rule,
               struct gp_watch *watch, struct gp_answer *answer);

/*
 * The best plan by the options; found is false where there is none. PST_ERR_UNSUPPORTED, explained
 * to the host: sp = "require" and the graph is not.
 */
pst_status gp_solve(const struct part_problem *problem, const struct gp_options *options,
                    struct gp_answer *ret_answer);

/* Solves, verifies by the job's own prices where it is a planning run, answers, remarks. What the
   host has been told of: PST_ERR_INFEASIBLE, PST_ERR_UNSUPPORTED. Changes
   problem->capacity_bytes. */
pst_status gp_plan_for(struct part_problem *problem, const struct gp_options *options,
                       struct pst_partition_out *out);

#endif
