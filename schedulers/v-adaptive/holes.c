/* SPDX-License-Identifier: Apache-2.0
 *
 * Last touch on a grown order: passes from the right move into idle slots on their left.
 */
#include <string.h>

#include "ramps.h"

struct filler {
    struct va_loom *loom;
    uint32_t limit;
    uint32_t *next; /* [p * VA_KINDS] passes of a kind that lie left of the slot */
    int64_t *held;  /* [p] */
};

/* Have the needs of the next pass of this kind ended? */
static bool ready(const struct filler *f, uint32_t d, uint32_t kind)
{
    const struct va_problem *q = &f->loom->unit;
    const struct va_pass *pass = &q->passes[va_pass_index(d, kind)];
    uint32_t j = f->next[va_pass_index(d, kind)];

    /* `next` counts what lies in earlier slots, whatever the device: all of it has ended */
    for (uint32_t i = 0; i < pass->n_needs; i++) {
        if (f->next[q->needs[pass->first_need + i].pass] <= j) {
            return false;
        }
    }
    return true;
}

/* The slot whose pass may move to the idle `slot` of device d; 0: none. */
static uint32_t choose(const struct filler *f, uint32_t d, uint32_t slot, uint32_t length)
{
    const uint8_t *row = &f->loom->grid[(size_t)d * f->loom->width];
    uint32_t seen = 0;
    int32_t change = 0, most = 0;

    for (uint32_t s = slot + 1; s < length; s++) {
        uint32_t kind = row[s];
        bool forward = kind == VA_F0 || kind == VA_F1;

        if (kind == VA_IDLE) {
            continue;
        }
        if (!(seen >> kind & 1)) {
            seen |= 1U << kind;
            if (ready(f, d, kind) && (!forward || f->held[d] + most < (int64_t)f->limit)) {
                return s;
            }
            if (seen == (1U << VA_KINDS) - 1) {
                break;
            }
        }
        change += forward;
        most = most > change ? most : change;
        change -= kind == VA_W0 || kind == VA_W1;
    }
    return 0;
}

/* Counts the pass that now lies in `slot` of device d as run. */
static void pass_by(struct filler *f, uint32_t d, uint32_t slot)
{
    uint32_t kind = f->loom->grid[(size_t)d * f->loom->width + slot];

    if (kind != VA_IDLE) {
        f->next[va_pass_index(d, kind)]++;
        f->held[d] += kind == VA_F0 || kind == VA_F1;
        f->held[d] -= kind == VA_W0 || kind == VA_W1;
    }
}

void va_fill_holes(struct va_loom *loom, uint32_t length, uint32_t limit)
{
    uint32_t p = loom->unit.p;
    struct filler f = {loom, limit, loom->unit_work.done, loom->unit_work.held};

    memset(f.next, 0, (size_t)p * VA_KINDS * sizeof *f.next);
    memset(f.held, 0, p * sizeof *f.held);
    for (uint32_t slot = 0; slot < length; slot++) {
        for (uint32_t d = 0; d < p; d++) {
            uint8_t *row = &loom->grid[(size_t)d * loom->width];
            uint32_t from = row[slot] == VA_IDLE ? choose(&f, d, slot, length) : 0;

            if (from > 0) {
                row[slot] = row[from];
                row[from] = VA_IDLE;
            }
        }
        for (uint32_t d = 0; d < p; d++) {
            pass_by(&f, d, slot);
        }
    }
}
