/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole search. Memory is climbed in rungs of one chunk: what a lower rung found is where the
 * next one starts, and nothing on a rung depends on the rungs above it. So more memory never gives
 * a worse order.
 */
#ifndef V_ADAPTIVE_LADDER_H
#define V_ADAPTIVE_LADDER_H

#include "improve.h"
#include "prove.h"

struct va_options {
    uint32_t effort; /* 0..3 */
    uint64_t exact;  /* steps of the exact search on small instances */
    double noise;    /* 0: judge by the given costs; else relative noise of costs and links */
};

struct va_answer {
    uint8_t *order; /* [6m * p] */
    struct va_cost cost;
    uint64_t bound; /* that no order goes below */
};

/* The best order found under q's caps, each of which holds a micro-batch. */
struct va_answer va_solve(const struct va_problem *q, const struct va_options *options,
                          struct va_prover *prover);

#endif
