/* SPDX-License-Identifier: Apache-2.0
 *
 * A building block, and what is made of it: repeat the block, fill in weight halves, reorder the
 * ramps with them and again without, squeeze.
 */
#include "vblock.h"

/* --- the block ---------------------------------------------------------------------------------*/

static uint32_t residue_at(const struct vshape *shape, uint32_t kind, uint32_t d)
{
    int32_t period = shape->period, steep = d < shape->bend ? (int32_t)d : shape->bend;
    int32_t moved = kind == V_F0 || kind == V_B1
                        ? steep * shape->slope + ((int32_t)d - steep) * shape->slope_after
                        : -(int32_t)d;
    int32_t r = (shape->residue[kind] + moved) % period;

    return (uint32_t)(r < 0 ? r + period : r);
}

static bool collides(const struct vshape *shape, uint32_t d)
{
    uint32_t taken = 0;

    for (uint32_t kind = V_F0; kind <= V_B0; kind++) {
        taken |= 1U << residue_at(shape, kind, d);
    }
    return __builtin_popcount(taken) != 4;
}

/* Down the V and up, backwards down and up. */
bool vblock_lay(const struct vshape *shape, struct vblock *block)
{
    uint32_t p = block->p, next = 0;

    block->period = shape->period;
    for (uint32_t d = 0; d < p; d++) {
        if (collides(shape, d)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < 4 * p; i++) {
        uint32_t kind = i / p, d = kind == V_F1 || kind == V_B0 ? p - 1 - i % p : i % p;
        uint32_t wait = residue_at(shape, kind, d) + shape->period - next % shape->period;

        next += wait % shape->period;
        vblock_slots(block, d)[kind] = next++;
    }
    return true;
}

void vblock_weights(const struct vblock *block, uint32_t device, uint32_t weights[2])
{
    const uint32_t *slots = vblock_slots(block, device);
    uint64_t taken = 0;

    for (uint32_t kind = V_F0; kind <= V_B0; kind++) {
        taken |= 1ULL << slots[kind] % block->period;
    }
    for (uint32_t i = 0; i < 2; i++) {
        weights[i] = slots[V_B1 + i] + 1;
        while (taken >> weights[i] % block->period & 1) {
            weights[i]++;
        }
        taken |= 1ULL << weights[i] % block->period;
    }
}

uint32_t vblock_peak(const struct vblock *block)
{
    uint32_t period = block->period, peak = 0;

    for (uint32_t d = 0; d < block->p; d++) {
        const uint32_t *slots = vblock_slots(block, d);
        uint32_t weights[2], base;

        vblock_weights(block, d, weights);
        base = period * (weights[0] / period + weights[1] / period + 2);
        for (uint32_t t = base; t < base + period; t++) {
            uint32_t held = (t - slots[V_F0]) / period - (t - weights[1] + period - 1) / period +
                            (t - slots[V_F1]) / period - (t - weights[0] + period - 1) / period + 2;

            peak = peak > held ? peak : held;
        }
    }
    return peak;
}

/* --- the schedule ------------------------------------------------------------------------------*/

static void repeat(const struct vblock *block, struct vtable *table)
{
    for (uint32_t d = 0; d < table->p; d++) {
        for (uint32_t kind = V_F0; kind <= V_B0; kind++) {
            for (uint32_t j = 0; j < table->m; j++) {
                vtable_put(table, d, kind, j, vblock_slots(block, d)[kind] + block->period * j);
            }
        }
    }
}

/* Steps that follow the repeated block with its weight halves. */
static void shape_ramps(struct vtable *table, uint32_t cap, enum vdrain drain)
{
    vreorder(table, true, cap, drain);
    vtable_squeeze(table);
    vtable_drop_w(table);
    vreorder(table, false, cap, drain);
    vtable_insert_w(table, false);
    vtable_squeeze(table);
    vtable_drop_w(table);
    vtable_insert_w(table, true);
    vtable_squeeze(table);
}

bool vblock_build(const struct vblock *block, uint32_t m, uint32_t cap, enum vdrain drain,
                  struct vtable *ret_table)
{
    uint32_t last = 0, own;

    for (uint32_t d = 0; d < block->p; d++) {
        uint32_t slot = vblock_slots(block, d)[V_B0];

        last = slot > last ? slot : last;
    }
    vtable_init(ret_table, block->p, m, last + (uint64_t)block->period * (m - 1));
    repeat(block, ret_table);
    vtable_insert_w(ret_table, false);
    own = vtable_peak(ret_table);
    if (cap > 0 && own > cap) {
        vtable_finish(ret_table);
        return false;
    }
    shape_ramps(ret_table, cap > 0 ? cap : own, drain);
    return true;
}
