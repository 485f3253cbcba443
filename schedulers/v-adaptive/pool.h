/* SPDX-License-Identifier: Apache-2.0
 *
 * The rungs of memory, and the best order of a building block for each.
 */
#ifndef V_ADAPTIVE_POOL_H
#define V_ADAPTIVE_POOL_H

#include "problem.h"

struct va_rung {
    struct va_problem problem; /* with the caps of this rung */
    uint8_t *order;
    struct va_cost cost; /* first is UINT64_MAX where there is no order yet */
};

struct va_pool {
    const struct va_problem *q;
    const struct pst_host *host;
    struct va_rung *rungs; /* rising caps; the last has q's own */
    uint32_t n_rungs;
    bool beyond;   /* the last has room for more than what buys much, which the one below has */
    uint64_t work; /* passes that blocks may be grown to, in all */
    uint32_t longest_period;
};

void va_pool_init(struct va_pool *pool, const struct va_problem *q, const struct pst_host *host);

/* Gives rung r the order of the one below where that is better. */
void va_pool_inherit(struct va_pool *pool, uint32_t r);

/* Grows blocks and keeps the best for the lowest rung that holds it, and for those above; ends
   early when one is at `bound`. */
void va_pool_fill(struct va_pool *pool, uint64_t bound);

#endif
