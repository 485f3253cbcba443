/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeat the block, fill in weight halves, reorder the ramps with them and again without, squeeze.
 */
#include "vblock.h"

static int64_t offset(const struct vblock *block, uint32_t kind, uint32_t d)
{
    return block->first[kind] + block->step[kind] * (int64_t)d;
}

static void repeat(const struct vblock *block, struct vtable *table)
{
    uint32_t d, kind, j;

    for (d = 0; d < table->p; d++) {
        for (kind = V_F0; kind <= V_B0; kind++) {
            for (j = 0; j < table->m; j++) {
                vtable_put(table, d, kind, j, (uint32_t)offset(block, kind, d) + 6 * j);
            }
        }
    }
}

static uint32_t most_held(const struct vtable *table)
{
    uint32_t d, most = 0;

    for (d = 0; d < table->p; d++) {
        uint32_t peak = vtable_peak(table, d);

        most = peak > most ? peak : most;
    }
    return most;
}

/* Steps that follow the repeated block with its weight halves. */
static pst_status shape_ramps(struct vtable *table, uint32_t cap, enum vdrain drain)
{
    pst_status st = vreorder(table, true, cap, drain);

    if (st != PST_OK) {
        return st;
    }
    vtable_squeeze(table);
    vtable_drop_w(table);
    st = vreorder(table, false, cap, drain);
    if (st != PST_OK) {
        return st;
    }
    vtable_insert_w(table, false);
    vtable_squeeze(table);
    vtable_drop_w(table);
    vtable_insert_w(table, true);
    vtable_squeeze(table);
    return PST_OK;
}

pst_status vblock_build(const struct vblock *block, uint32_t p, uint32_t m, uint32_t cap,
                        enum vdrain drain, struct vtable *ret_table)
{
    struct vtable table;
    int64_t last = 0;
    uint32_t d, own;
    pst_status st;

    for (d = 0; d < p; d++) {
        last = offset(block, V_B0, d) > last ? offset(block, V_B0, d) : last;
    }
    st = vtable_init(&table, p, m, (uint64_t)last + 6 * (uint64_t)(m - 1));
    if (st != PST_OK) {
        return st;
    }
    repeat(block, &table);
    vtable_insert_w(&table, false);
    own = most_held(&table);
    st =
        cap > 0 && own > cap ? PST_ERR_INFEASIBLE : shape_ramps(&table, cap > 0 ? cap : own, drain);
    if (st != PST_OK) {
        vtable_finish(&table);
        return st;
    }
    *ret_table = table;
    return PST_OK;
}
