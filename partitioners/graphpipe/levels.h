/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: how a stage may be scheduled, (samples in flight, micro-batch size, k), and
 * which of these may come directly before which. With one size and k = 1 a level is a depth: the
 * number of stages to the end of the longest path, one more than that of any successor.
 */
#ifndef GRAPHPIPE_LEVELS_H
#define GRAPHPIPE_LEVELS_H

#include "problem.h"

struct gp_group { /* of one (b, k): levels by samples in flight, ascending */
    uint32_t b, k;
    uint32_t first_lane, n_lanes; /* in gp_costs: degrees, ascending */
    uint32_t first, n;
};

struct gp_levels {
    uint32_t n, n_groups;
    struct gp_group *groups;
    uint64_t *in_flight; /* [n] samples */
    uint32_t *group;     /* [n] */
    /* One group: x before y where x > y; the last one stands for all depths from there on, and
       comes before itself. Else rows of bits. */
    bool simple;
    size_t words;
    uint64_t *before; /* [n][words] bit y of row x: x may come directly before y */
    uint64_t *covers; /* [n][words] bit y of row x: whatever may precede x may precede y */
};

/* In flight of a stage before (i, b, k) of its successor: closed form of kFkB. */
uint64_t gp_in_flight(uint32_t b, uint32_t k, uint64_t next_i, uint32_t next_b, uint32_t next_k);

/* Depths 1 .. n of one size. */
void gp_levels_init_depths(struct gp_levels *levels, uint32_t b, uint32_t batch, uint32_t n);
/* All that the sizes and ks allow; b * k <= batch. PST_ERR_UNSUPPORTED: too many. */
void gp_levels_init_general(struct gp_levels *levels, const uint32_t *sizes, uint32_t n_sizes,
                            const uint32_t *ks, uint32_t n_ks, uint32_t batch);

bool gp_before(const struct gp_levels *levels, uint32_t x, uint32_t y);
bool gp_covers(const struct gp_levels *levels, uint32_t x, uint32_t y);

/* out[x] = least in[y] over y that x may precede (covering: that x covers), and such a y, the
   first; GP_NEVER and 0 where there is none. */
#define GP_NEVER (UINT32_MAX / 4)
void gp_levels_least(const struct gp_levels *levels, bool covering, const uint32_t *in,
                     uint32_t *out, uint32_t *ret_from);

#endif
