/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: general graphs. Improving a plan by local moves, and a plan from nothing but
 * the graph: several orders, each cut optimally, the best improved.
 */
#ifndef PARTITIONERS_COMMON_REFINE_H
#define PARTITIONERS_COMMON_REFINE_H

#include "chain.h"
#include "sequence.h"

/* How long to look. Counted in steps, not in seconds, so that answers repeat. */
#define PART_REFINE_STEPS UINT64_C(200000000)
struct part_refine_limits {
    uint64_t steps;  /* about as many looks at a node; 0: those above, some seconds */
    uint64_t seed;   /* of random orders */
    uint32_t orders; /* random orders to cut; 0: by the size of the graph */
    bool moves_only; /* nodes move between stages; no order is cut anew: the graph of stages stays
                        much as it is */
};

struct part_refine_stats {
    int64_t ticks; /* T of the plan */
    int64_t bound; /* no plan at this size is below: T if optimal, else part_lower_bound */
    bool optimal;
    uint64_t moves, orders, probes; /* moves kept, orders cut, values of T tried */
};

/*
 * Improves a plan that is legal and fits, all of whose stages have the size of `costs`; afterwards
 * it is again, and not worse by part_value_better. Up to 10 nodes: the optimum of all partitions
 * and degrees (PST_COMM_* and memory by true depths included). More: nodes move out of the slowest
 * stage, also in chains over several stages; the order that the plan implies is cut anew; random
 * orders near it. Degrees change by cutting only. limits: NULL for the defaults; ret_stats may be
 * NULL.
 */
void part_refine(const struct part_problem *problem, const struct part_costs *costs,
                 const struct part_refine_limits *limits, struct part_plan *plan,
                 struct part_refine_stats *ret_stats);

/* All sets of a problem that hold their predecessors. */
struct part_set_search {
    const struct part_problem *problem;
    const struct part_costs *costs;
    struct part_dag dag;
    struct part_downsets sets;
    double looks; /* at pairs of sets: what one search may take */
};

/* For searches of so many steps each; false: there are too many sets. Lives as long as problem and
   costs. */
bool part_set_open(const struct part_problem *problem, const struct part_costs *costs,
                   uint64_t steps, struct part_set_search *ret_search);

/* ret_ns, per sample: its T, or its path. The plan of the least T, if one below `below_ns` is
   found; complete: else there is none, in any order. shortest: of plans whose stages keep a device
   busy for less than that one that a micro-batch gets through soon, its stages in a row, or parts
   that no edge connects side by side; never complete. */
void part_set_plan(const struct part_set_search *search, bool shortest, double below_ns,
                   struct part_plan *ret_plan, double *ret_ns, bool *ret_found, bool *ret_complete);

/*
 * A plan for any graph: the orders of part_order and random ones are cut, the best plan refined.
 * *ret_found: false where none was found that fits (with ret_stats->optimal: there is none).
 * 1e5 nodes on 64 devices: seconds.
 */
void part_dag_solve(const struct part_problem *problem, const struct part_costs *costs,
                    const struct part_refine_limits *limits, bool *ret_found,
                    struct part_plan *ret_plan, struct part_refine_stats *ret_stats);

#endif
