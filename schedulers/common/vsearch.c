/* SPDX-License-Identifier: Apache-2.0
 *
 * Which building block suits p devices and m micro-batches best: a block is given by the residues
 * modulo 6 that its passes have on device 0 and by how fast they go down the V; the passes then
 * follow each other as closely as the residues allow.
 */
#include "vblock.h"

#define ALL_BLOCKS_CELLS 4096 /* p * m up to which every block is tried */

struct found {
    struct vtable table;
    uint32_t length, peak;
    bool any;
};

static uint32_t residue(int64_t x)
{
    return (uint32_t)((x % 6 + 6) % 6);
}

/* First slot after `t` with this residue. */
static int64_t next(int64_t t, uint32_t wanted)
{
    t++;
    return t + residue((int64_t)wanted - t);
}

/* False where two passes would want one slot. */
static bool make_block(const uint32_t start[4], uint32_t slope, uint32_t p, struct vblock *block)
{
    int64_t down = (int64_t)slope * (p - 1), up = (int64_t)p - 1, t;
    uint32_t d, kind;

    *block = (struct vblock){.step = {slope, -1, slope, -1}};
    for (d = 0; d < p && d < 6; d++) {
        uint32_t taken = 0;

        for (kind = V_F0; kind <= V_B0; kind++) {
            taken |= 1u << residue((int64_t)start[kind] + block->step[kind] * (int64_t)d);
        }
        if (__builtin_popcount(taken) != 4) {
            return false;
        }
    }
    t = next(down, residue((int64_t)start[V_F1] - up)); /* device p - 1 */
    block->first[V_F1] = t + up;
    block->first[V_B1] = next(block->first[V_F1], start[V_B1]);
    t = next(block->first[V_B1] + down, residue((int64_t)start[V_B0] - up));
    block->first[V_B0] = t + up;
    return true;
}

/* Keeps the schedule of this block if it is better than the one at hand. */
static pst_status try_block(const struct vblock *block, uint32_t p, uint32_t m, uint32_t cap,
                            enum vdrain drain, struct found *found)
{
    struct vtable table;
    uint32_t d, length, peak = 0;
    pst_status st = vblock_build(block, p, m, cap, drain, &table);

    if (st != PST_OK) {
        return st == PST_ERR_INFEASIBLE ? PST_OK : st;
    }
    length = vtable_length(&table);
    for (d = 0; d < p; d++) {
        uint32_t held = vtable_peak(&table, d);

        peak = held > peak ? held : peak;
    }
    if (!found->any || length < found->length || (length == found->length && peak < found->peak)) {
        vtable_finish(&found->table);
        *found = (struct found){table, length, peak, true};
    } else {
        vtable_finish(&table);
    }
    return PST_OK;
}

static pst_status try_all(uint32_t p, uint32_t m, uint32_t cap, struct found *found)
{
    uint32_t code, slope;
    pst_status st = PST_OK;

    for (slope = 1; slope <= 2; slope++) {
        for (code = 0; code < 125 && st == PST_OK; code++) {
            uint32_t start[4] = {0, code / 25 + 1, code / 5 % 5 + 1, code % 5 + 1};
            struct vblock block;

            if (make_block(start, slope, p, &block)) {
                st = try_block(&block, p, m, cap, VDRAIN_EARLY, found);
            }
        }
    }
    return st;
}

static pst_status try_some(uint32_t p, uint32_t m, uint32_t cap, struct found *found)
{
    static const uint32_t some[][5] = {{1, 0, 3, 2, 5}, {1, 0, 1, 2, 3}, {1, 0, 5, 2, 1},
                                       {2, 0, 1, 2, 4}, {2, 0, 4, 2, 1}, {2, 0, 5, 3, 1}};
    uint32_t i;
    pst_status st = PST_OK;

    for (i = 0; i < sizeof some / sizeof some[0] && st == PST_OK; i++) {
        struct vblock block;

        if (make_block(&some[i][1], some[i][0], p, &block)) {
            st = try_block(&block, p, m, cap, VDRAIN_EARLY, found);
        }
    }
    return st;
}

pst_status vblock_search(const struct vblock *published, uint32_t p, uint32_t m, uint32_t cap,
                         struct vtable *ret_table)
{
    struct found found = {.any = false};
    pst_status st = try_block(published, p, m, 0, VDRAIN_PUBLISHED, &found);

    if (st == PST_OK) {
        st = try_block(published, p, m, 0, VDRAIN_EARLY, &found);
    }
    if (st == PST_OK) {
        st = try_block(published, p, m, cap, VDRAIN_EARLY, &found);
    }
    if (st == PST_OK) {
        st = (uint64_t)p * m <= ALL_BLOCKS_CELLS ? try_all(p, m, cap, &found)
                                                 : try_some(p, m, cap, &found);
    }
    if (st != PST_OK) {
        vtable_finish(&found.table);
        return st;
    }
    *ret_table = found.table;
    return PST_OK;
}
