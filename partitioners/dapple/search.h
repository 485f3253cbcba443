/* SPDX-License-Identifier: Apache-2.0
 *
 * DAPPLE's planning recursion over one order of the operators. Numbers in, stages out; knows no
 * host.
 */
#ifndef DAPPLE_SEARCH_H
#define DAPPLE_SEARCH_H

#include <stddef.h>

#include <penstock/abi.h>

#include "downsets.h"
#include "latency.h"
#include "place.h"

/* Stages may end at positions 1 .. n; position n is the end of the model. */
struct dapple_question {
    uint32_t n;
    const uint32_t *degrees; /* allowed, ascending */
    uint32_t n_degrees;
    /* [n_degrees][n + 1] sums over what is before a position, one micro-batch on one of d replicas
     */
    const double *const *forward, *const *backward;
    const double *weight, *saved; /* [n + 1] bytes; saved per sample */
    const double *workspace;      /* [n] of what is between positions i and i + 1 */
    const double *cut;            /* [n + 1] bytes of one micro-batch that cross a position */
    double inside, between;       /* bytes per unit of time, inside a machine or not; 0: free */
    double sync_inside, sync_between;
    struct dapple_machines machines;
    uint32_t m, b;                      /* micro-batches; their samples */
    double capacity, weight_multiplier; /* INFINITY: no limit */
    uint32_t beam;                      /* ways to go on that are kept; 0: all */
    const struct pst_host *host;
};

struct dapple_stage {
    uint32_t from, to, degree; /* positions */
    uint32_t first_rank;       /* row of ranks */
};

struct dapple_answer {
    struct dapple_stage *stages; /* in order */
    uint32_t n_stages, *ranks;   /* [machines.n_devices] */
    double latency;              /* INFINITY: nothing fits, and no stage */
    uint64_t states;
};

/*
 * From a cut into first stages on some devices: let the rest be one stage on as many of the other
 * devices as a degree allows, and take the latency; and cut off one more stage, with every end,
 * every degree and every placement, and go on. What follows is the same for all first stages that
 * end at the same position in the same seat: the ways to go on of which none is better in all that
 * counts, the `beam` most promising of them. A stage holds as many micro-batches as there are
 * stages from it on (1F1B).
 */
void dapple_solve(const struct dapple_question *question, struct dapple_answer *ret_answer);

#endif
