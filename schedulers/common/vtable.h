/* SPDX-License-Identifier: Apache-2.0
 *
 * An order of passes on a V of 2p stages, laid out in slots of one pass each: device d runs stage d
 * on the way down (f0, b0, w0) and stage 2p - 1 - d on the way up (f1, b1, w1). The workbench of
 * the schedulers that repeat a building block (Qi et al., "Pipeline Parallelism with Controllable
 * Memory", NeurIPS 2024).
 */
#ifndef SCHEDULERS_COMMON_VTABLE_H
#define SCHEDULERS_COMMON_VTABLE_H

#include "order.h"

/* Passes in the order in which one micro-batch meets them on a device; ties go to the smaller. */
enum vkind { V_F0, V_F1, V_B1, V_B0, V_W1, V_W0, V_NONE };

struct vtable {
    uint32_t p, m;
    uint32_t n_slots; /* slots of a device; later ones are never needed */
    uint32_t *cells;  /* [p][n_slots]: 8 * micro-batch + kind, or V_NONE */
    uint32_t *at;     /* [p][4][m]: slot of f0, f1, b1, b0 */
    uint32_t *clock;  /* [p]: for squeezing */
};

/* `last`: the last slot that a forward or backward will take. */
void vtable_init(struct vtable *table, uint32_t p, uint32_t m, uint64_t last);
void vtable_finish(struct vtable *table); /* accepts one that is all zero */

static inline uint32_t *vtable_row(const struct vtable *table, uint32_t device)
{
    return table->cells + (size_t)device * table->n_slots;
}

static inline uint32_t *vtable_at(const struct vtable *table, uint32_t device, uint32_t kind)
{
    return table->at + ((size_t)device * 4 + kind) * table->m;
}

static inline uint32_t vtable_kind(uint32_t cell)
{
    return cell & 7;
}

static inline uint32_t vtable_microbatch(uint32_t cell)
{
    return cell >> 3;
}

/* Puts a forward or backward into an empty slot. */
static inline void vtable_put(struct vtable *table, uint32_t device, uint32_t kind,
                              uint32_t microbatch, uint32_t slot)
{
    vtable_row(table, device)[slot] = microbatch << 3 | kind;
    vtable_at(table, device, kind)[microbatch] = slot;
}

/*
 * Gives every backward its weight half: each empty slot takes one that is due, what is left goes to
 * the end. by_chunk: w1 before w0 where both are due; else all are w1, numbered in order.
 */
void vtable_insert_w(struct vtable *table, bool by_chunk);
void vtable_drop_w(struct vtable *table);
/* Moves every pass to the earliest slot that the order of each device and the V allow. */
void vtable_squeeze(struct vtable *table);
/* Most chunk activations that any device holds: +1 at a forward, -1 after a weight half. */
uint32_t vtable_peak(const struct vtable *table);
/* Slots from 0 to the end of the last pass. */
uint32_t vtable_length(const struct vtable *table);
/* The order of every device, for a chain of 2p stages; stages d and 2p - 1 - d share a device. */
void vtable_order(const struct vtable *table, struct order *order);

#endif
