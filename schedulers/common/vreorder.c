/* SPDX-License-Identifier: Apache-2.0
 *
 * The greedy reordering of the ramps of a V. What a device holds is kept per slot, so that a move
 * is judged by the slots it jumps over.
 */
#include "vblock.h"

struct ramp {
    struct vtable *table;
    bool w;
    uint32_t cap;
    enum vdrain drain;
    uint32_t *live, *due; /* [p][n_slots + 1]: before the slot: held, weight halves due */
    uint32_t *end;        /* [p]: after the last pass */
    uint32_t *last_w;     /* [p]: first slot that the next weight half may take */
};

/* State of a device before slot t + 1, from that before slot t. */
static void advance(const struct ramp *r, uint32_t cell, uint32_t *live, uint32_t *due)
{
    switch (vtable_kind(cell)) {
    case V_F0:
    case V_F1:
        ++*live;
        break;
    case V_B1:
    case V_B0:
        ++*due;
        break;
    case V_W1:
    case V_W0:
        --*live;
        break;
    default:
        if (!r->w && *due > 0) {
            --*due;
            --*live;
        }
    }
}

/* Writes the state of device d from slot `from` on, until it is as before after slot `to`. */
static void replay(struct ramp *r, uint32_t d, uint32_t from, uint32_t to)
{
    const uint32_t *row = vtable_row(r->table, d);
    size_t base = (size_t)d * (r->table->n_slots + 1);
    uint32_t live = r->live[base + from], due = r->due[base + from], t;

    for (t = from; t < r->end[d]; t++) {
        advance(r, row[t], &live, &due);
        if (t >= to && live == r->live[base + t + 1] && due == r->due[base + t + 1]) {
            return;
        }
        r->live[base + t + 1] = live;
        r->due[base + t + 1] = due;
    }
}

/* Returns true if device d stays within the cap from slot `from` on; looks no further after slot
   `to` once the state is as it was recorded. */
static bool fits(const struct ramp *r, uint32_t d, uint32_t from, uint32_t to)
{
    const uint32_t *row = vtable_row(r->table, d);
    size_t base = (size_t)d * (r->table->n_slots + 1);
    uint32_t live = r->live[base + from], due = r->due[base + from], t;

    for (t = from; t < r->end[d]; t++) {
        advance(r, row[t], &live, &due);
        if (live > r->cap) {
            return false;
        }
        if (t >= to && live == r->live[base + t + 1] && due == r->due[base + t + 1]) {
            return true;
        }
    }
    return true;
}

/* First slot after the n-th backward of device d, n from 0. */
static uint32_t behind_backward(const struct ramp *r, uint32_t d, uint32_t n)
{
    const uint32_t *row = vtable_row(r->table, d);
    uint32_t t, seen = 0;

    for (t = 0; seen <= n; t++) {
        seen += vtable_kind(row[t]) == V_B1 || vtable_kind(row[t]) == V_B0;
    }
    return t;
}

/* First slot after all that the pass waits for. */
static uint32_t earliest(const struct ramp *r, uint32_t d, uint32_t kind, uint32_t j)
{
    const struct vtable *table = r->table;
    bool down = kind == V_F0 || kind == V_B1;
    uint32_t slot = 0, other;

    if (kind >= V_W1) {
        slot = behind_backward(r, d, j);
        return slot > r->last_w[d] ? slot : r->last_w[d];
    }
    if (down ? d > 0 : d + 1 < table->p) {
        slot = vtable_at(table, down ? d - 1 : d + 1, kind)[j] + 1;
    }
    if (kind > V_F0) {
        other = vtable_at(table, d, kind - 1)[j] + 1;
        slot = other > slot ? other : slot;
    }
    if (j > 0) {
        other = vtable_at(table, d, kind)[j - 1] + 1;
        slot = other > slot ? other : slot;
    }
    return slot;
}

/* Moves the pass at slot t to slot u if the device does not hold more than the cap then. */
static bool try_move(struct ramp *r, uint32_t d, uint32_t t, uint32_t u)
{
    uint32_t *row = vtable_row(r->table, d);
    uint32_t cell = row[t], kind = vtable_kind(cell);

    row[u] = cell;
    row[t] = V_NONE;
    if (!fits(r, d, u, t)) {
        row[t] = cell;
        row[u] = V_NONE;
        return false;
    }
    replay(r, d, u, t);
    if (kind < V_W1) {
        vtable_at(r->table, d, kind)[vtable_microbatch(cell)] = u;
    }
    return true;
}

/* Returns the slot that the pass at slot t of device d ends up in. */
static uint32_t move(struct ramp *r, uint32_t d, uint32_t t)
{
    const uint32_t *row = vtable_row(r->table, d);
    uint32_t u = earliest(r, d, vtable_kind(row[t]), vtable_microbatch(row[t]));

    while (u < t && (vtable_kind(row[u]) != V_NONE || !try_move(r, d, t, u))) {
        u++;
    }
    return u < t ? u : t;
}

/* Where the walk is: in the fill, between the ramps, in the drain. */
enum phase { FILL, BETWEEN, DRAIN };

static void walk(struct ramp *r, uint32_t length)
{
    const struct vtable *table = r->table;
    uint32_t forwards = 0, d, t; /* f0 of device 0 that the walk has met */
    enum phase phase = FILL;

    for (t = 0; t < length; t++) {
        for (d = 0; d < table->p; d++) {
            uint32_t cell = vtable_row(table, d)[t], kind = vtable_kind(cell), slot;

            if (kind == V_NONE) {
                continue;
            }
            if (d == 0 && kind == V_B0 && phase == FILL) {
                phase = r->drain == VDRAIN_EARLY && forwards == table->m ? DRAIN : BETWEEN;
            }
            slot = phase == DRAIN || (phase == FILL && r->w) ? move(r, d, t) : t;
            forwards += d == 0 && kind == V_F0;
            if (kind == V_F0 && vtable_microbatch(cell) == table->m - 1 && phase == BETWEEN) {
                phase = DRAIN;
            }
            if (kind >= V_W1) {
                r->last_w[d] = slot + 1;
            }
        }
    }
}

void vreorder(struct vtable *table, bool w, uint32_t cap, enum vdrain drain)
{
    struct ramp r = {.table = table, .w = w, .cap = cap, .drain = drain};
    size_t n = (size_t)table->p * ((size_t)table->n_slots + 1);
    uint32_t length = vtable_length(table);

    CALL_TAKE(r.live, 2 * n);
    r.due = r.live + n;
    CALL_TAKE(r.end, 2 * (size_t)table->p);
    r.last_w = r.end + table->p;
    for (uint32_t d = 0; d < table->p; d++) {
        r.end[d] = length;
        replay(&r, d, 0, length);
    }
    walk(&r, length);
    call_free(r.live);
    call_free(r.end);
}
