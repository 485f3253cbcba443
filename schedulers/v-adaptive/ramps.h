/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders grown from a building block, with the ramps at both ends laid out anew. Qi et al.,
 * "Pipeline Parallelism with Controllable Memory", 2024. Works in slots of one pass each, whatever
 * the passes cost.
 */
#ifndef V_ADAPTIVE_RAMPS_H
#define V_ADAPTIVE_RAMPS_H

#include "problem.h"
#include "vblock.h"

/* Buffers to grow blocks; one per (p, m), reused for every block. Blocks are of a chain; an order
   of a chain suits any links that go forward. */
struct va_loom {
    struct va_problem full, unit; /* max(m, 2p) and m micro-batches, unit costs */
    struct va_work full_work, unit_work;
    uint8_t *grid;    /* [p * width] kinds, VA_IDLE where nothing runs */
    uint8_t *order;   /* [p * 6 * full.m] */
    uint8_t *scratch; /* the same size */
    uint32_t width;
    uint32_t used; /* slots of a row up to the last pass */
};

void va_loom_init(struct va_loom *loom, const struct va_problem *q, uint32_t longest_period);

/*
 * Grows the block to loom->unit.m micro-batches, into loom->order. `limit`: chunks that a device
 * may hold. False when the ramps cannot be laid out for this block.
 */
bool va_block_grow(struct va_loom *loom, const struct vblock *block, uint32_t limit);

/* Moves passes of the grid into idle slots left of them; `limit` chunks may be held. */
void va_fill_holes(struct va_loom *loom, uint32_t length, uint32_t limit);

#endif
