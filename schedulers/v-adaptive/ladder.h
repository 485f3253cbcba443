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
    uint8_t *order; /* [6m * p], room given by the caller */
    struct va_cost cost;
    uint64_t bound; /* that no order goes below */
};

/*
 * The best order found under q's caps.
 * PST_ERR_NOMEM
 * PST_ERR_INFEASIBLE  a cap holds less than one micro-batch; nothing is said to the host
 */
pst_status va_solve(const struct va_problem *q, const struct va_options *options,
                    struct va_prover *prover, struct scratch *scratch,
                    struct va_answer *ret_answer);

#endif
