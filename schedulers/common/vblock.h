/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules made of a building block: the slots of one micro-batch on every device of a V,
 * repeated every six slots, then filled and drained faster by moving passes forward as long as no
 * device holds more than the block needs. Qi, Wan, Amar, Lin, "Pipeline Parallelism with
 * Controllable Memory", NeurIPS 2024. Costs have no say in it.
 */
#ifndef SCHEDULERS_COMMON_VBLOCK_H
#define SCHEDULERS_COMMON_VBLOCK_H

#include "vtable.h"

/* Slots of micro-batch 0: f0, f1, b1, b0 of device d sit at first + d * step, modulo 6 all
   different. Fields are indexed by V_F0 .. V_B0. */
struct vblock {
    int64_t first[4], step[4];
};

/*
 * Between the ramps the block is kept as it is: from the first backward of stage 0 until the last
 * micro-batch's forward on the way down. With few micro-batches that forward has run on device 0
 * before the first such backward. As published, the ramps are then apart until the forward runs on
 * the next device that is still to come; if there is none, nothing is drained. Early: the
 * drain begins at once.
 */
enum vdrain { VDRAIN_PUBLISHED, VDRAIN_EARLY };

/*
 * The schedule of p devices and m micro-batches, its weight halves told apart by chunk. cap: chunk
 * activations that a device may hold; 0: as many as the block needs by itself. PST_ERR_INFEASIBLE:
 * the block needs more than that, host not told. PST_ERR_NOMEM. Call vtable_finish after PST_OK.
 */
pst_status vblock_build(const struct vblock *block, uint32_t p, uint32_t m, uint32_t cap,
                        enum vdrain drain, struct vtable *ret_table);

/*
 * The shortest schedule, all passes taking one slot, among those of `published` and of many other
 * blocks at which no device holds more than `cap`, drained early. Of equally short ones, the first
 * with the lowest peak. Large problems get a short list of blocks. PST_ERR_NOMEM.
 */
pst_status vblock_search(const struct vblock *published, uint32_t p, uint32_t m, uint32_t cap,
                         struct vtable *ret_table);

/*
 * Moves passes of the ramps forward, in order of time, each to the earliest empty slot behind all
 * that it needs at which no device holds more than `cap`. w: the table has weight halves, which
 * move too, and both ramps are worked on; otherwise only the second one is, and every empty slot
 * counts as a weight half where one is due. PST_ERR_NOMEM.
 */
pst_status vreorder(struct vtable *table, bool w, uint32_t cap, enum vdrain drain);

#endif
