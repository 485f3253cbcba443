/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots of a V: filling in weight halves, squeezing, counting.
 */
#include "vtable.h"

#include <string.h>

void vtable_init(struct vtable *table, uint32_t p, uint32_t m, uint64_t last)
{
    uint64_t n_slots = last + 1 + 2 * (uint64_t)m;
    size_t n_cells;

    if (m > UINT32_MAX >> 3 || n_slots > UINT32_MAX / 8) {
        call_end(PST_ERR_NOMEM);
    }
    *table = (struct vtable){.p = p, .m = m, .n_slots = (uint32_t)n_slots};
    n_cells = (size_t)n_slots * p;
    CALL_TAKE(table->cells, n_cells);
    CALL_TAKE(table->at, (size_t)p * 4 * m);
    CALL_TAKE(table->clock, p);
    for (size_t i = 0; i < n_cells; i++) {
        table->cells[i] = V_NONE;
    }
}

void vtable_finish(struct vtable *table)
{
    call_free(table->cells);
    call_free(table->at);
    call_free(table->clock);
    memset(table, 0, sizeof *table);
}

static void insert_on_device(struct vtable *table, uint32_t device, bool by_chunk)
{
    uint32_t *row = vtable_row(table, device);
    uint32_t left = 2 * table->m;               /* weight halves not placed yet */
    uint32_t due[2] = {0, 0}, done[2] = {0, 0}; /* of chunk 1, of chunk 0 */
    uint32_t t;

    for (t = 0; left > 0; t++) {
        uint32_t kind = vtable_kind(row[t]), chunk;

        if (kind == V_B1 || kind == V_B0) {
            due[by_chunk && kind == V_B0]++;
        } else if (kind == V_NONE && due[0] + due[1] > 0) {
            chunk = due[0] == 0;
            due[chunk]--;
            row[t] = done[chunk]++ << 3 | (V_W1 + chunk);
            left--;
        }
    }
}

void vtable_insert_w(struct vtable *table, bool by_chunk)
{
    uint32_t d;

    for (d = 0; d < table->p; d++) {
        insert_on_device(table, d, by_chunk);
    }
}

void vtable_drop_w(struct vtable *table)
{
    uint32_t d, t;

    for (d = 0; d < table->p; d++) {
        uint32_t *row = vtable_row(table, d);

        for (t = 0; t < table->n_slots; t++) {
            if (vtable_kind(row[t]) >= V_W1) {
                row[t] = V_NONE;
            }
        }
    }
}

/* First slot at which everything that the pass needs has ended. */
static uint32_t ready(const struct vtable *table, uint32_t d, uint32_t kind, uint32_t j)
{
    uint32_t after = 0;
    bool down = kind == V_F0 || kind == V_B1; /* from device d - 1 to d */

    if (kind >= V_W1) {
        return 0; /* after its backward in the same list */
    }
    if (down ? d > 0 : d + 1 < table->p) {
        after = vtable_at(table, down ? d - 1 : d + 1, kind)[j] + 1;
    }
    if (kind > V_F0) {
        uint32_t own = vtable_at(table, d, kind - 1)[j] + 1;

        after = own > after ? own : after;
    }
    return after;
}

void vtable_squeeze(struct vtable *table)
{
    uint32_t *clock = table->clock;
    uint32_t d, t;

    memset(clock, 0, table->p * sizeof *clock);
    for (t = 0; t < table->n_slots; t++) {
        for (d = 0; d < table->p; d++) {
            uint32_t *row = vtable_row(table, d), cell = row[t];
            uint32_t kind = vtable_kind(cell), j = vtable_microbatch(cell), slot;

            if (kind == V_NONE) {
                continue;
            }
            slot = ready(table, d, kind, j);
            slot = slot > clock[d] ? slot : clock[d];
            row[t] = V_NONE;
            row[slot] = cell;
            if (kind < V_W1) {
                vtable_at(table, d, kind)[j] = slot;
            }
            clock[d] = slot + 1;
        }
    }
}

uint32_t vtable_peak(const struct vtable *table)
{
    uint32_t peak = 0;

    for (uint32_t d = 0; d < table->p; d++) {
        const uint32_t *row = vtable_row(table, d);
        uint32_t live = 0;

        for (uint32_t t = 0; t < table->n_slots; t++) {
            uint32_t kind = vtable_kind(row[t]);

            live += kind == V_F0 || kind == V_F1;
            peak = live > peak ? live : peak;
            live -= kind == V_W1 || kind == V_W0;
        }
    }
    return peak;
}

uint32_t vtable_length(const struct vtable *table)
{
    uint32_t d, t, length = 0;

    for (d = 0; d < table->p; d++) {
        const uint32_t *row = vtable_row(table, d);

        for (t = table->n_slots; t > length; t--) {
            if (vtable_kind(row[t - 1]) != V_NONE) {
                length = t;
            }
        }
    }
    return length;
}

void vtable_order(const struct vtable *table, struct order *order)
{
    static const uint8_t passes[] = {PST_PASS_F, PST_PASS_F, PST_PASS_B,
                                     PST_PASS_B, PST_PASS_W, PST_PASS_W};
    uint32_t d, t;

    for (d = 0; d < table->p; d++) {
        const uint32_t *row = vtable_row(table, d);
        uint32_t device = pst_schedule_stage_at(order->in, d)->device;

        for (t = 0; t < table->n_slots; t++) {
            uint32_t kind = vtable_kind(row[t]);
            bool second = kind == V_F1 || kind == V_B1 || kind == V_W1;

            if (kind != V_NONE) {
                order_add(order, device, passes[kind], second ? 2 * table->p - 1 - d : d,
                          vtable_microbatch(row[t]));
            }
        }
    }
}
