/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: plans of a job that may turn out to be the best when their step is
 * simulated. By a model of the step that knows no queues at links they cannot be told apart.
 */
#ifndef GRAPHPIPE_CANDIDATES_H
#define GRAPHPIPE_CANDIDATES_H

#include "answer.h"

/* All different. */
struct gp_candidates {
    bool wanted; /* false: none are taken */
    uint32_t n, room;
    struct part_plan *list;
};

/* Takes a copy, unless it is known. */
void gp_candidates_add(struct gp_candidates *candidates, const struct part_plan *plan);
/* Cuts of an order (PART_ORDER_*) as sequential planners make them: of every number of stages the
   least T, as long as the step could be the shortest of them; with one device a stage also filled
   up to all devices, and cut evenly by time. */
void gp_candidates_cuts(struct gp_candidates *candidates, const struct part_problem *problem,
                        const struct part_costs *costs, uint32_t order);

#endif
