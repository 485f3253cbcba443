/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: the least bottleneck, or the shortest path, over sequences of nested sets that
 * hold all predecessors of their nodes, by the cost model of the problem. Every valid partition is
 * a cut of some topological order and so such a sequence: over all sets the search is exact, where
 * memory does not matter.
 */
#ifndef PARTITIONERS_COMMON_SETS_H
#define PARTITIONERS_COMMON_SETS_H

#include "downsets.h"
#include "problem.h"

/* `dag`, `node` and `edge`: the graph that the sets speak of, and what its nodes and edges are in
   the problem. A stage with s - 1 stages after it holds s micro-batches; where there is a
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
    bool shortest;   /* the least time of a micro-batch through all stages, computation and half of
                        each one's transfers: the sum over stages, of those side by side (not in
                        problem->in_row) the longest. `below` then holds computation and all-reduce
                        alone, which keep a device busy */
    const int64_t *work; /* of part_sets_work; NULL: the search asks for it itself */
    const struct pst_host *host;
};

struct part_sets_stage {
    uint32_t from, to; /* nodes of set `to` that are not in set `from`; `from` is the `to` of the
                          stage before, or of a path also its `from`: side by side with it */
    uint32_t degree;
};

struct part_sets_answer {
    struct part_sets_stage *stages; /* in order */
    uint32_t n_stages;              /* 0: there is no such sequence */
    int64_t ticks;                  /* of the bottleneck, or of the path */
};

/* [n_sets] ticks times devices that the nodes of a set take at least. */
int64_t *part_sets_work(const struct part_sets_question *question);

/* Counts sets that can be the border of two stages with a bottleneck below that: devices suffice
   for the nodes in the set, and for the rest. The question has its `work`; `below` is ignored.
 */
uint32_t part_sets_borders(const struct part_sets_question *question, int64_t below);

/* O((sets * borders + borders^2) * degrees) at least. PST_ERR_NOMEM: tables would be too large. */
pst_status part_sets_solve(const struct part_sets_question *question,
                           struct part_sets_answer *ret_answer);

#endif
