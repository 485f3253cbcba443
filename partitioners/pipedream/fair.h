/* SPDX-License-Identifier: Apache-2.0
 *
 * PipeDream's search for the cost model of the problem itself: the same states, but stages cost
 * what everybody else's cost and hold what 1F1B holds. For comparisons on equal terms.
 */
#ifndef PIPEDREAM_FAIR_H
#define PIPEDREAM_FAIR_H

#include "levels.h"
#include "problem.h"

/*
 * Least bottleneck of a sequence of stages over the sets on at most n_devices devices, with the
 * degrees of `costs`. `dag`, `node` and `edge`: the graph that the sets speak of, and what its
 * nodes and edges are in the problem. A stage with s - 1 stages behind it holds s micro-batches;
 * where there is a capacity, numbers of stages are a dimension of the search. ret_answer's
 * bottleneck is in nanoseconds per sample.
 */
struct fair_question {
    const struct part_problem *problem;
    const struct part_costs *costs;
    const struct part_downsets *sets;
    const struct part_dag *dag;
    const uint32_t *node, *edge;
    uint32_t n_devices;
    double capacity; /* INFINITY: no limit */
    const struct part_stop *stop;
};

pst_status fair_solve(const struct fair_question *question, struct pd_answer *ret_answer);

#endif
