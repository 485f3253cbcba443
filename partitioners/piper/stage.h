/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to piper: what a stage costs.
 */
#ifndef PIPER_STAGE_H
#define PIPER_STAGE_H

#include "knapsack.h"
#include "search.h"

/* Nodes at one pair of degrees. */
struct piper_pair {
    uint32_t tensor, degree;
    double *time, *in_flight, *fixed; /* [n_sets] sums over sets, the fastest way of each node */
    uint32_t *lacking;                /* [n_sets] nodes of a set without a way at this degree */
};

struct piper_costs {
    const struct piper_question *q;
    uint32_t n_pairs;
    struct piper_pair *pairs; /* ascending tensor degrees, then degrees */
    bool choices;             /* has any node two ways at one degree? */
    double *leaving;          /* [n_sets] bytes of edges out of a set */
    double *skipping;         /* [n_sets] bytes from the set looked from past another */
    double *into;             /* [n] room */
    uint32_t *nodes, *first;  /* [n], [n + 1] room */
    struct knapsack_option *options;
    uint32_t *option_way;
    bool exact;
};

void piper_costs_init(struct piper_costs *costs, const struct piper_question *question);

/* Before asking for stages that start at set i. */
void piper_look_from(struct piper_costs *costs, uint32_t i);

/* No way of running j - i takes less; INFINITY: it cannot be run with this pair. */
double piper_least_time(const struct piper_costs *costs, const struct piper_pair *pair, uint32_t i,
                        uint32_t j);

/* With `held` units in flight. ret_way[dag->n], for the nodes of the stage, and ret_bytes may be
   NULL. */
void piper_stage_time(struct piper_costs *costs, const struct piper_pair *pair, uint32_t i,
                      uint32_t j, uint32_t held, double *ret_time, uint32_t *ret_way,
                      double *ret_bytes);

#endif
