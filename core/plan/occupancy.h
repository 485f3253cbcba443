/* SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses are taken when, for the layout of an arena. A segment tree over times whose nodes
 * hold sets of address spans: a buffer costs a logarithm of the times, and neighbours that live
 * together melt into one span. Of few times all buffers are a list, which is walked faster than a
 * tree. Private to plan.
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
    struct pst_spans any;   /* taken at some of its times, by what `whole` holds here and below */
};

/* The union of `whole` of a node and of all above it. */
struct pst_occupancy_path {
    uint32_t node; /* 0: none yet */
    struct pst_spans spans;
};

#define PST_OCCUPANCY_FEW 1024u /* times of a list at most */

/* Buffers, ascending by begin; behind the n-th such as live at no time, up to a whole block. */
struct pst_lives {
    uint32_t n, room; /* a number of blocks */
    uint32_t *first, *last;
    uint64_t *begin, *end;
};

struct pst_occupancy {
    uint32_t n_leaves; /* a power of two; 0: a list */
    struct pst_occupancy_node *nodes;
    struct pst_occupancy_path paths[2]; /* of the last query: above its first and its last time */
    struct pst_arena arena;             /* of their spans */
    struct pst_lives lives;
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
