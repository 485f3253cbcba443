/* SPDX-License-Identifier: Apache-2.0
 *
 * From a repeated building block to an order: the steady state of a block is good, its ramps are
 * not. The warm-up is laid out again so that forwards of both chunks alternate up to the peak, the
 * cool-down so that the last backwards leave in a staircase, and holes are filled from the right.
 */
#include <string.h>

#include "ramps.h"

/* A chain of stages, every pass costs 1, each chunk holds 1, links are free. */
static void init_unit(struct va_problem *q, uint32_t p, uint32_t m)
{
    struct va_link *links = call_alloc(2 * (size_t)p, sizeof *links);

    for (uint32_t s = 1; s < 2 * p; s++) {
        links[s - 1] = (struct va_link){s - 1, s, 0};
    }
    va_problem_init(q, p, m, links, 2 * p - 1);
    for (uint32_t i = 0; i < p * VA_KINDS; i++) {
        uint32_t kind = i % VA_KINDS;

        q->passes[i].cost_ns = 1;
        q->passes[i].at_start = kind <= VA_F1;
        q->passes[i].at_end = kind >= VA_W1 ? -1 : 0;
    }
}

void va_loom_init(struct va_loom *loom, const struct va_problem *q, uint32_t longest_period)
{
    uint32_t full_m = q->m > 2 * q->p ? q->m : 2 * q->p;

    loom->width = longest_period * (full_m + 4 * q->p + 16);
    init_unit(&loom->full, q->p, full_m);
    init_unit(&loom->unit, q->p, q->m);
    va_work_init(&loom->full_work, &loom->full);
    va_work_init(&loom->unit_work, &loom->unit);
    CALL_TAKE(loom->grid, (size_t)q->p * loom->width);
    loom->order = va_order(&loom->full);
    loom->scratch = va_order(&loom->full);
}

static uint8_t *sequence_of(struct va_loom *loom, const struct va_problem *q, uint32_t d)
{
    return &loom->order[d * va_sequence_length(q)];
}

/* Reads the grid from left to right into loom->order. */
static void read_grid(struct va_loom *loom, const struct va_problem *q)
{
    for (uint32_t d = 0; d < q->p; d++) {
        const uint8_t *row = &loom->grid[(size_t)d * loom->width];
        uint8_t *to = sequence_of(loom, q, d), *end = to + va_sequence_length(q);

        for (uint32_t slot = 0; slot < loom->width && to < end; slot++) {
            if (row[slot] != VA_IDLE) {
                *to++ = row[slot];
            }
        }
        while (to < end) {
            *to++ = VA_W0; /* a pass is missing: evaluation will refuse it */
        }
    }
}

/* Times loom->order in slots and draws it into the grid. */
static bool squeeze(struct va_loom *loom, const struct va_problem *q, struct va_work *work,
                    uint32_t *ret_peak)
{
    struct va_cost cost;

    if (!va_evaluate(q, loom->order, work, &cost) || cost.first + 3 * q->p >= loom->width ||
        cost.second + 3 * q->p >= loom->width) {
        return false;
    }
    memset(loom->grid, VA_IDLE, (size_t)q->p * loom->width);
    for (uint32_t d = 0; d < q->p; d++) {
        for (uint32_t i = 0; i < VA_KINDS * q->m; i++) {
            uint64_t slot = work->start[(size_t)va_pass_index(d, 0) * q->m + i];

            loom->grid[(size_t)d * loom->width + slot] = (uint8_t)(i / q->m);
        }
    }
    loom->used = (uint32_t)(cost.first > cost.second ? cost.first : cost.second);
    *ret_peak = (uint32_t)cost.memory;
    return true;
}

static void repeat(struct va_loom *loom, const struct vblock *block)
{
    memset(loom->grid, VA_IDLE, (size_t)loom->full.p * loom->width);
    for (uint32_t d = 0; d < block->p; d++) {
        uint8_t *row = &loom->grid[(size_t)d * loom->width];
        uint32_t slots[VA_KINDS];

        memcpy(slots, vblock_slots(block, d), 4 * sizeof *slots);
        vblock_weights(block, d, &slots[VA_W1]);
        for (uint32_t i = 0; i < VA_KINDS * loom->full.m; i++) {
            row[slots[i % VA_KINDS] + block->period * (i / VA_KINDS)] = (uint8_t)(i % VA_KINDS);
        }
    }
}

struct writer {
    uint8_t *to;
    uint32_t left[VA_KINDS];
};

static void put(struct writer *w, uint32_t kind)
{
    if (w->left[kind] > 0) {
        w->left[kind]--;
        *w->to++ = (uint8_t)kind;
    }
}

/* Lays out again what device d runs before its first B0; q chunks may be held. */
static void warm_up_device(struct va_loom *loom, uint32_t d, uint32_t q)
{
    const struct va_problem *full = &loom->full;
    uint32_t p = full->p, m = full->m, half = q / 2;
    uint8_t *sequence = sequence_of(loom, full, d);
    struct writer w = {.to = loom->scratch};
    uint32_t f1 = d + 1 < half ? d + 1 : half, f0, n = 0;

    while (sequence[n] != VA_B0) {
        w.left[sequence[n++]]++;
    }
    f1 = f1 < m ? f1 : m;
    f0 = q - f1 < m ? q - f1 : m;
    for (uint32_t i = 0; i < 2 * (p - 1 - d) && f0 > 0; i++, f0--) {
        put(&w, VA_F0);
    }
    for (uint32_t i = 0; i < d + 1; i++) {
        if (f0 > 0) {
            put(&w, VA_F0);
            f0--;
        }
        if (f1 > 0) {
            put(&w, VA_F1);
            f1--;
        }
    }
    while (w.to < loom->scratch + n) {
        put(&w, VA_B1);
        put(&w, VA_W1);
        put(&w, w.left[VA_F1] > 0 ? VA_F1 : VA_F0);
    }
    memcpy(sequence, loom->scratch, n);
}

/* Drops the micro-batches from m on. */
static void drop_surplus(struct va_loom *loom)
{
    size_t n = va_sequence_length(&loom->full);
    uint8_t *to = loom->order;

    for (uint32_t d = 0; d < loom->full.p; d++) {
        uint32_t seen[VA_KINDS] = {0};

        for (size_t i = 0; i < n; i++) {
            uint8_t kind = loom->order[d * n + i];

            if (seen[kind]++ < loom->unit.m) {
                *to++ = kind;
            }
        }
    }
}

/* Takes the last `count` passes of one kind out of a row. */
static void take_last(uint8_t *row, uint32_t width, uint32_t kind, uint32_t count)
{
    for (uint32_t slot = width; slot-- > 0 && count > 0;) {
        if (row[slot] == kind) {
            row[slot] = VA_IDLE;
            count--;
        }
    }
}

/* Takes weight halves from the right until enough of each chunk and `total` in all are gone. */
static void take_weights(uint8_t *row, uint32_t width, uint32_t w1, uint32_t w0, uint32_t total,
                         uint32_t ret_taken[2])
{
    ret_taken[0] = ret_taken[1] = 0;
    for (uint32_t slot = width; slot-- > 0;) {
        if (ret_taken[0] >= w1 && ret_taken[1] >= w0 && ret_taken[0] + ret_taken[1] >= total) {
            return;
        }
        if (row[slot] == VA_W1 || row[slot] == VA_W0) {
            ret_taken[row[slot] == VA_W0]++;
            row[slot] = VA_IDLE;
        }
    }
}

/* Puts `count` passes of a kind at `last`, last - 2, ... False when one of the slots is taken. */
static bool put_stairs(uint8_t *row, uint32_t width, uint32_t kind, uint32_t last, uint32_t count)
{
    for (uint32_t z = 0; z < count; z++) {
        uint32_t slot = last - 2 * z;

        if (last < 2 * z || slot >= width || row[slot] != VA_IDLE) {
            return false;
        }
        row[slot] = (uint8_t)kind;
    }
    return true;
}

/* Puts the weight halves that were taken back into free slots from `slot` on, W1 first. */
static bool put_weights(const struct va_loom *loom, uint8_t *row, uint32_t slot,
                        const uint32_t taken[2])
{
    uint32_t due[2] = {0, 0}, given[2], m = loom->unit.m;

    given[0] = m - taken[0];
    given[1] = m - taken[1];
    for (uint32_t s = 0; s < loom->width && given[0] + given[1] < 2 * m; s++) {
        uint32_t chunk = due[0] > given[0] && given[0] < m ? 0 : 1;

        if (row[s] == VA_B1 || row[s] == VA_B0) {
            due[row[s] == VA_B0]++;
        } else if (row[s] == VA_IDLE && s >= slot && due[chunk] > given[chunk]) {
            row[s] = chunk == 0 ? VA_W1 : VA_W0;
            given[chunk]++;
        }
    }
    return given[0] + given[1] == 2 * m;
}

static uint32_t last_of(const uint8_t *row, uint32_t width, uint32_t low, uint32_t high)
{
    uint32_t found = 0;

    for (uint32_t slot = 0; slot < width; slot++) {
        found = row[slot] >= low && row[slot] <= high ? slot : found;
    }
    return found;
}

static bool cool_down(struct va_loom *loom, uint32_t q)
{
    uint32_t p = loom->unit.p, m = loom->unit.m, width = loom->width;
    uint32_t high = (q + 1) / 2 < m ? (q + 1) / 2 : m, low = q - high < m ? q - high : m;
    uint32_t x = last_of(loom->grid, width, VA_F1, VA_F1);

    for (uint32_t d = 0; d < p; d++) {
        uint8_t *row = &loom->grid[(size_t)d * width];
        uint32_t b1 = d + 1 < low ? d + 1 : low, taken[2];
        uint32_t after;

        take_last(row, width, VA_B0, high);
        take_last(row, width, VA_B1, b1);
        take_weights(row, width, b1, high, q, taken);
        after = last_of(row, width, VA_W1, VA_W0);
        if (!put_stairs(row, width, VA_B0, x - d + 2 * p, high) ||
            !put_stairs(row, width, VA_B1, x + 1 + d, b1) ||
            !put_weights(loom, row, after, taken)) {
            return false;
        }
    }
    return true;
}

bool va_block_grow(struct va_loom *loom, const struct vblock *block, uint32_t limit)
{
    uint32_t p = loom->full.p, m = loom->unit.m, peak, again;

    repeat(loom, block);
    read_grid(loom, &loom->full);
    if (!squeeze(loom, &loom->full, &loom->full_work, &peak) ||
        (m == loom->full.m && peak > limit)) {
        return false;
    }
    for (uint32_t d = 0; d < p; d++) {
        warm_up_device(loom, d, peak);
    }
    if (!squeeze(loom, &loom->full, &loom->full_work, &again) || again > peak) {
        return false;
    }
    if (m < loom->full.m) {
        drop_surplus(loom);
        if (!squeeze(loom, &loom->unit, &loom->unit_work, &peak) || peak > limit) {
            return false;
        }
    }
    if (!cool_down(loom, peak)) {
        return false;
    }
    read_grid(loom, &loom->unit);
    if (!squeeze(loom, &loom->unit, &loom->unit_work, &again) || again > peak) {
        return false;
    }
    va_fill_holes(loom, loom->used, peak);
    read_grid(loom, &loom->unit);
    return true;
}
