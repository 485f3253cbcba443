/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: topological orders, and the optimal cut of one order into consecutive stages.
 * Every valid partition is a cut of some order, so solving several orders is a search of all.
 */
#ifndef PARTITIONERS_COMMON_CHAIN_H
#define PARTITIONERS_COMMON_CHAIN_H

#include "answer.h"

enum {
    PART_ORDER_INDEX = 0,   /* topological, ties by index */
    PART_ORDER_DFS = 1,     /* depth first, branch after branch */
    PART_ORDER_BFS = 2,     /* by longest path from a source */
    PART_ORDER_LONGEST = 3, /* longest remaining path first */
    PART_ORDER_KEYS = 4     /* least key first among what is ready */
};

/* ret_order[n]: nodes in that order. keys: [n] for PART_ORDER_KEYS, else NULL. */
void part_order(const struct part_problem *problem, uint32_t kind, const uint64_t *keys,
                uint32_t *ret_order);

/* Stage s is nodes first[s] up to first[s + 1] of the order; first[n_stages] = n. d = k = 1. Empty
   stages are dropped. */
void part_plan_cut(struct part_plan *plan, const struct part_problem *problem,
                   const uint32_t *order, const uint32_t *first, uint32_t n_stages, uint32_t b);

/* Statistics of a solver. */
struct part_chain_stats {
    bool exact;      /* the least bottleneck of this order is proven */
    uint64_t probes; /* values of T tried */
    uint64_t states; /* positions looked at in all */
};

/* The limits of a cut. */
struct part_chain_limits {
    uint32_t max_stages;    /* 0: as many as there are devices */
    uint32_t max_devices;   /* 0: all */
    int64_t below;          /* ticks: only bottlenecks strictly below; INT64_MAX: any */
    bool memory;            /* hold stages against the capacity, run index as depth */
    const uint32_t *depths; /* NULL, or [n] by node: a stage is taken to have the largest depth of
                               its nodes instead of its place in the row. For stage graphs with
                               branches; the answer may then not fit: value it */
    double scan_steps;      /* most that may be scanned; 0: 3e8 */
    struct part_chain_stats *stats; /* NULL, or added up here (exact: set) */
};

/*
 * The least bottleneck of `order` cut into consecutive stages with degrees of `costs`, at 1F1B's
 * in-flight counts; among those of least T few devices, with a memory limit few stages. Bisection
 * over T in ticks with a cut from the end per probe (chain-dp/README.md). Exact whenever transfers
 * are free, without a memory limit also where edges join neighbours of the order only, and always
 * while the windows that a stage may span are small enough to be scanned (some 1e8 steps in all);
 * else what such cuts find, which count an edge that spans a whole stage as though it touched it.
 * Here stats->exact tells. *ret_found: false where nothing fits (or is below). ret_plan is set only
 * then. 1e5 nodes on 1024 devices: about a second.
 */
void part_chain_solve(const struct part_problem *problem, const struct part_costs *costs,
                      const uint32_t *order, const struct part_chain_limits *limits,
                      bool *ret_found, int64_t *ret_ticks, struct part_plan *ret_plan);

/* A bound that no partition of this problem at this size goes below, in ticks: work over devices,
   heaviest node at its best degree, packing of nodes heavier than half. */
int64_t part_lower_bound(const struct part_problem *problem, const struct part_costs *costs);

/* [n] ticks times devices that a node takes of a stage at least, at its best degree. */
void part_least_work(const struct part_problem *problem, const struct part_costs *costs,
                     int64_t *ret_work);

#endif
