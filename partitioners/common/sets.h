/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: the least bottleneck over sequences of nested sets that hold all predecessors
 * of their nodes, by the cost model of the problem. Every valid partition is a cut of some
 * topological order and so such a sequence: over all sets the search is exact, where memory does
 * not matter.
 */
#ifndef PARTITIONERS_COMMON_SETS_H
#define PARTITIONERS_COMMON_SETS_H

#include "downsets.h"
#include "problem.h"

/* `dag`, `node` and `edge`: the graph that the sets speak of, and what its nodes and edges are in
   the problem. A stage with s - 1 stages behind it holds s micro-batches; where there is a
   capacity, numbers of stages are a dimension of the search. */
struct part_sets_question {
    const struct part_problem *problem;
    const struct part_costs *costs;
    const struct part_downsets *sets;
    const struct part_dag *dag;
    const uint32_t *node, *edge;
    uint32_t n_devices;
    double capacity; /* INFINITY: no limit */
    int64_t below;   /* ticks: only bottlenecks strictly below; INT64_MAX: any */
    const struct pst_host *host;
};

struct part_sets_stage {
    uint32_t from, to; /* nodes of set `to` that are not in set `from` */
    uint32_t degree;
};

struct part_sets_answer {
    struct part_sets_stage *stages; /* in order */
    uint32_t n_stages;              /* 0: there is no such sequence */
    int64_t ticks;
};

/* O(sets^2 * degrees) at least. PST_ERR_NOMEM: tables would be too large. */
pst_status part_sets_solve(const struct part_sets_question *question,
                           struct part_sets_answer *ret_answer);

#endif
