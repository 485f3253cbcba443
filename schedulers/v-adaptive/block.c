/* SPDX-License-Identifier: Apache-2.0
 *
 * A building block: slots of one micro-batch, its repetition, its peak in the steady state.
 */
#include "block.h"

pst_status va_loom_init(struct va_loom *loom, const struct va_problem *q, uint32_t longest_period,
                        struct scratch *scratch)
{
    uint32_t full_m = q->m > 2 * q->p ? q->m : 2 * q->p;

    loom->width = longest_period * (full_m + 4 * q->p + 16);
    if (va_problem_init_unit(&loom->full, q->p, full_m, scratch) != PST_OK ||
        va_problem_init_unit(&loom->unit, q->p, q->m, scratch) != PST_OK) {
        return PST_ERR_NOMEM;
    }
    va_work_init(&loom->full_work, &loom->full, scratch);
    va_work_init(&loom->unit_work, &loom->unit, scratch);
    SCRATCH_TAKE(scratch, loom->offset, (size_t)VA_KINDS * q->p);
    SCRATCH_TAKE(scratch, loom->grid, (size_t)q->p * loom->width);
    SCRATCH_TAKE(scratch, loom->order, va_order_length(&loom->full));
    SCRATCH_TAKE(scratch, loom->scratch, va_order_length(&loom->full));
    return scratch_status(scratch);
}

/* First slot after `after` that is congruent to `residue`. */
static int32_t next_slot(int32_t after, int32_t residue, int32_t period)
{
    int32_t slot = after + 1;
    int32_t wait = (residue - slot) % period;

    return slot + (wait < 0 ? wait + period : wait);
}

/* Residue of kind 0..3 on device d. */
static int32_t residue_at(const struct va_block *block, uint32_t kind, int32_t d)
{
    int32_t steep = d < block->bend ? d : block->bend;
    int32_t moved = kind == VA_F0 || kind == VA_B1
                        ? steep * block->slope + (d - steep) * block->slope_after
                        : -d;
    int32_t r = (block->residue[kind] + moved) % block->period;

    return r < 0 ? r + block->period : r;
}

/* Walks the chain of one micro-batch. */
static void lay_chain(struct va_loom *loom, const struct va_block *block)
{
    uint32_t p = loom->full.p;
    int32_t slot = -1;

    for (uint32_t i = 0; i < 4 * p; i++) {
        uint32_t pass = va_pass_in_order(p, i);

        slot = next_slot(slot, residue_at(block, pass % VA_KINDS, (int32_t)(pass / VA_KINDS)),
                         block->period);
        loom->offset[pass] = slot;
    }
}

/* Weight halves take the first free residues after their B. False when residues collide. */
static bool lay_weights(struct va_loom *loom, const struct va_block *block)
{
    int32_t period = block->period;

    for (uint32_t d = 0; d < loom->full.p; d++) {
        int32_t *offset = &loom->offset[va_pass_index(d, 0)];
        uint32_t taken = 0;

        for (uint32_t kind = VA_F0; kind < VA_KINDS; kind++) {
            int32_t slot = kind == VA_W1 ? offset[VA_B1] + 1 : offset[VA_B0] + 1;

            if (kind < VA_W1) {
                slot = offset[kind];
            } else {
                while (taken >> slot % period & 1) {
                    slot++;
                }
                offset[kind] = slot;
            }
            if (taken >> slot % period & 1) {
                return false;
            }
            taken |= 1U << slot % period;
        }
    }
    return true;
}

/* Chunks that device d holds in the steady state, at the fullest of the `period` slots. */
static uint32_t steady_peak(const struct va_loom *loom, const struct va_block *block, uint32_t d)
{
    const int32_t *offset = &loom->offset[va_pass_index(d, 0)];
    int32_t period = block->period, peak = 0;
    int32_t base = period * (offset[VA_W0] / period + offset[VA_W1] / period + 2);

    for (int32_t t = base; t < base + period; t++) {
        int32_t held = 0;

        for (int32_t chunk = 0; chunk < 2; chunk++) {
            int32_t from = offset[chunk == 0 ? VA_F0 : VA_F1];
            int32_t until = offset[chunk == 0 ? VA_W0 : VA_W1];

            held += (t - from) / period - (t - until + period - 1) / period + 1;
        }
        peak = peak > held ? peak : held;
    }
    return (uint32_t)peak;
}

bool va_block_check(struct va_loom *loom, struct va_block *block)
{
    uint32_t peak = 0;

    for (int32_t d = 0; d < (int32_t)loom->full.p; d++) { /* cheap: most blocks end here */
        uint32_t taken = 0;

        for (uint32_t kind = VA_F0; kind <= VA_B0; kind++) {
            uint32_t bit = 1U << residue_at(block, kind, d);

            if (taken & bit) {
                return false;
            }
            taken |= bit;
        }
    }
    lay_chain(loom, block);
    if (!lay_weights(loom, block)) {
        return false;
    }
    for (uint32_t d = 0; d < loom->full.p; d++) {
        uint32_t held = steady_peak(loom, block, d);

        peak = peak > held ? peak : held;
    }
    block->peak = (uint16_t)peak;
    return true;
}
