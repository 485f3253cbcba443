/* SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses are taken when, for the layout of an arena. Times make up blocks. A buffer is
 * listed in the blocks of which it takes a part: no more than two. A segment tree over blocks,
 * whose nodes hold sets of address spans, has those that it takes whole; neighbours that live
 * together melt into one span. Private to plan.
 */
#ifndef PST_PLAN_OCCUPANCY_H
#define PST_PLAN_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct pst_span {
    uint64_t begin, end;
};

/* Ascending, neither overlapping nor touching. Most sets have one span, which takes no memory. */
struct pst_spans {
    uint32_t n, room; /* room 0: `one`, if any, else at[room] */
    union {
        struct pst_span one, *at;
    };
};

struct pst_occupancy_node {
    struct pst_spans whole; /* taken at all times of the node, not of its parent */
    struct pst_spans any;   /* taken at some of its times, by what is listed or `whole` below */
};

/* Buffers, ascending by begin; after the n-th such as live at no time, up to a whole vector. */
struct pst_lives {
    uint32_t n, room; /* a number of vectors */
    uint32_t *first, *last;
    uint64_t *begin, *end;
};

/* Taken at some of all times that begin in block low and end in block high: all such addresses but
   those of lives that are listed in one of the two. */
struct pst_occupancy_base {
    uint32_t low, high;
    struct pst_spans spans;
};

#define PST_OCCUPANCY_BASES 4u
#define PST_OCCUPANCY_FEW   1024u /* times that are one block at most */

struct pst_occupancy {
    uint32_t block_bits; /* of a time: which one of its block */
    uint32_t n_leaves;   /* blocks, a power of two */
    struct pst_occupancy_node *nodes;
    struct pst_lives *lives;                              /* of each block */
    struct pst_occupancy_base bases[PST_OCCUPANCY_BASES]; /* of the last queries, by high - low */
    struct pst_arena arena;                               /* of spans and lives */
    struct pst_span *living;                              /* [most_living] of a query */
    uint32_t most_living;
};

/* Times 0 ... n - 1. */
void pst_occupancy_init(struct pst_occupancy *occupancy, uint32_t n_times);
void pst_occupancy_finish(struct pst_occupancy *occupancy);

/* Addresses [begin, end) are taken at times first ... last. */
void pst_occupancy_add(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                       uint64_t begin, uint64_t end);

/* The smallest gap of at least `size` from `origin` on that is free at times first ... last, the
   lowest of several; behind everything where there is none. */
uint64_t pst_occupancy_best_gap(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                                uint64_t size, uint64_t origin);

#endif
