/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders grown from a building block: one micro-batch laid into slots, repeated every `period`
 * slots, with the ramps at both ends laid out anew. Qi et al., "Pipeline Parallelism with
 * Controllable Memory", 2024. Works in slots of one pass each, whatever the passes cost.
 */
#ifndef V_ADAPTIVE_BLOCK_H
#define V_ADAPTIVE_BLOCK_H

#include "problem.h"

/*
 * Slots of one micro-batch are taken modulo `period`. On device 0 F0, F1, B1 and B0 have the
 * residues given; from device to device F0 and B1 move by `slope` for the first `bend` steps and by
 * `slope_after` from there on, F1 and B0 by -1.
 */
struct va_block {
    uint8_t period;
    uint8_t residue[4]; /* VA_F0, VA_F1, VA_B1, VA_B0 */
    uint8_t slope, slope_after;
    uint16_t bend;
    uint16_t peak; /* chunks held on the fullest device in the steady state */
};

/* What a growth needs; one per (p, m), reused for every block. Blocks are of a chain; an order of a
   chain suits any links that go forward. */
struct va_loom {
    struct va_problem full, unit; /* max(m, 2p) and m micro-batches, unit costs */
    struct va_work full_work, unit_work;
    int32_t *offset;  /* [VA_KINDS * p] slots of micro-batch 0 */
    uint8_t *grid;    /* [p * width] kinds, VA_IDLE where nothing runs */
    uint8_t *order;   /* [p * 6 * full.m] */
    uint8_t *scratch; /* the same size */
    uint32_t width;
    uint32_t used; /* slots of a row up to the last pass */
};

pst_status va_loom_init(struct va_loom *loom, const struct va_problem *q, uint32_t longest_period,
                        struct scratch *scratch);

/* Lays the block into loom->offset and fills block->peak. False when two passes of a device would
   share a slot. */
bool va_block_check(struct va_loom *loom, struct va_block *block);

/*
 * Grows the block that was checked last to loom->unit.m micro-batches, into loom->order. `limit`:
 * chunks that a device may hold. False when the ramps cannot be laid out for this block.
 */
bool va_block_grow(struct va_loom *loom, const struct va_block *block, uint32_t limit);

/* Moves passes of the grid into idle slots left of them; `limit` chunks may be held. */
void va_fill_holes(struct va_loom *loom, uint32_t length, uint32_t limit);

#endif
