/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules made of a building block: the slots of one micro-batch on every device of a V,
 * repeated every few slots, then filled and drained faster by moving passes forward as long as no
 * device holds more than the block needs. Qi, Wan, Amar, Lin, "Pipeline Parallelism with
 * Controllable Memory", NeurIPS 2024. Costs have no say in it.
 */
#ifndef SCHEDULERS_COMMON_VBLOCK_H
#define SCHEDULERS_COMMON_VBLOCK_H

#include "vtable.h"

/* Slots of micro-batch 0; on a device no two are the same modulo `period`. */
struct vblock {
    uint32_t p, period;
    uint32_t *slots; /* [p][4] of f0, f1, b1, b0 */
};

static inline uint32_t *vblock_slots(const struct vblock *block, uint32_t device)
{
    return &block->slots[4 * (size_t)device];
}

/*
 * A block by residues modulo its period: f0, f1, b1 and b0 of device 0 have those given; from
 * device to device f0 and b1 move by `slope` for the first `bend` steps and by `slope_after` from
 * there on, f1 and b0 by -1. The passes follow each other as closely as that allows.
 */
struct vshape {
    uint8_t period, residue[4], slope, slope_after;
    uint16_t bend;
};

/* Lays it into `block`, which has its p and room. False: two passes would share a slot. */
bool vblock_lay(const struct vshape *shape, struct vblock *block);

/* Slots of w1 and w0 of micro-batch 0: the first after their backwards that nothing else takes. */
void vblock_weights(const struct vblock *block, uint32_t device, uint32_t weights[2]);

/* Chunks that the fullest device holds in the steady state. */
uint32_t vblock_peak(const struct vblock *block);

/*
 * Between the ramps the block is kept as it is: from the first backward of stage 0 until the last
 * micro-batch's forward on the way down. With few micro-batches that forward has run on device 0
 * before the first such backward. As published, the ramps are then apart until the forward runs on
 * the next device that is still to come; if there is none, nothing is drained. Early: the
 * drain begins at once.
 */
enum vdrain { VDRAIN_PUBLISHED, VDRAIN_EARLY };

/*
 * The schedule of m micro-batches, its weight halves told apart by chunk. cap: chunk activations
 * that a device may hold; 0: as many as the block needs by itself. False: it needs more than that.
 * Call vtable_finish where it is true.
 */
bool vblock_build(const struct vblock *block, uint32_t m, uint32_t cap, enum vdrain drain,
                  struct vtable *ret_table);

/*
 * Moves passes of the ramps forward, in order of time, each to the earliest empty slot after all
 * that it needs at which no device holds more than `cap`. w: the table has weight halves, which
 * move too, and both ramps are worked on; otherwise only the second one is, and every empty slot
 * counts as a weight half where one is due.
 */
void vreorder(struct vtable *table, bool w, uint32_t cap, enum vdrain drain);

#endif
