/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: memory that is given back all at once.
 */
#ifndef GRAPHPIPE_POOL_H
#define GRAPHPIPE_POOL_H

#include <stddef.h>

struct gp_chunk;

/* All zero: empty. */
struct gp_pool {
    struct gp_chunk *first, *now;
    size_t used; /* bytes handed out since the last reset */
};

/* Not zeroed, aligned to 16; NULL: out of memory. */
void *gp_pool_take(struct gp_pool *pool, size_t count, size_t size);
/* Keeps the memory for what comes next. */
void gp_pool_reset(struct gp_pool *pool);

#endif
