/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: the least T, and over which sizes it is looked for.
 */
#ifndef GRAPHPIPE_SEARCH_H
#define GRAPHPIPE_SEARCH_H

#include "answer.h"
#include "block.h"
#include "probe.h"

struct gp_options {
    uint32_t grouping, sp; /* GP_CONTIGUOUS ..; GP_SP_AUTO .. */
    bool per_stage, refine, exact, force_chain;
    bool by_step; /* with refine: the shortest step is wanted, else the least T */
    double tolerance;
    const uint32_t *ks; /* of per_stage */
    uint32_t n_ks;
    uint64_t max_states, refine_steps; /* 0: no limit; 0: as by default */
    uint32_t max_depth;                /* stages on a path; 0: any number */
    double above_ns;                   /* what is looked for is known to have a larger T */
    double time_limit_s;               /* 0: none */
};

enum { GP_SP_AUTO = 4 }; /* beside those of block.h */

/* When to stop. One for a whole search. */
struct gp_watch {
    const struct part_problem *problem;
    double until_s;   /* monotonic clock; 0: no limit */
    bool has_expired; /* time or states are spent */
};

void gp_watch_start(struct gp_watch *watch, const struct part_problem *problem, double limit_s);
bool gp_watch_stop(void *watch);

/* The result of a search. */
struct gp_result {
    bool found, proven; /* proven: the least T of the family, for these sizes */
    struct part_plan plan;
    struct part_value value;
    double bound_ns; /* no plan of the family is below; of all plans: lower_ns */
    double lower_ns;
    uint64_t probes, states;
};

/* value.step_ns, where it is not known yet. Finds itself done where nothing was found. */
void gp_result_step(const struct part_problem *problem, struct gp_result *result);

/*
 * The least T with one size b for all stages (0: those of the problem, a size and a k for each
 * stage), only plans below `below_ns` (INFINITY: any). When time or states are spent, the best so
 * far, not proven.
 */
void gp_search_size(const struct part_problem *problem, const struct gp_tree *tree,
                    const struct gp_options *options, uint32_t b, double below_ns,
                    struct gp_watch *watch, struct gp_result *ret_result);

/* gp_search_size for a graph that is one row of operators, up to 1e5 of them, by the solver for
   orders. *ret_exact false: no result, because it could not be certain. */
void gp_search_chain(const struct part_problem *problem, uint32_t b, uint32_t max_stages,
                     double below_ns, struct gp_result *ret_result, bool *ret_exact);

#endif
