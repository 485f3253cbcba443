/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: what operators and blocks cost, in ticks, for every lane: one size and one
 * degree. Blocks that look alike in all numbers share a class, operators likewise, so that a search
 * solves them once.
 */
#ifndef GRAPHPIPE_COSTS_H
#define GRAPHPIPE_COSTS_H

#include "block.h"
#include "levels.h"

struct gp_lane {
    uint32_t b, d;
    int64_t *comp, *sync; /* [n] per operator; NULL: there is no such time */
    int64_t *p2p;         /* [n_edges] */
};

/* The memory of an operator, or of all inside a block. */
struct gp_load {
    double weight, saved, workspace;
    uint32_t n_real;
};

enum {
    GP_COMP = 0, /* comp, and sync unless the largest of the three counts */
    GP_SYNC = 1,
    GP_OUT = 2,    /* block: bytes of its edges at s, but for direct ones; operator: of all out */
    GP_IN = 3,     /* at t; of all in */
    GP_DIRECT = 4, /* from s to t; - */
    GP_TIMES = 5
};

/* An operator's class; the last one is that of virtual operators. */
struct gp_op_class {
    struct gp_load load;
    int64_t *times; /* [GP_TIMES][n_lanes] */
};

struct gp_class {
    uint32_t kind, block; /* block: the first of the class */
    uint32_t n_ops, n_kids;
    uint32_t *ops;  /* [n_ops] classes of operators */
    uint32_t *kids; /* [n_kids] classes of blocks */
    struct gp_load load;
    int64_t *times; /* [GP_TIMES][n_lanes] */
    /* Series: sums over the items before a position; items 1 .. 2p+1 are X0 v1 X1 .. Xp, positions
       0 .. 2p+2 (0 and 1: no items). */
    uint32_t n_sums;
    int64_t *sums;          /* [2][n_lanes][n_sums] of GP_COMP, GP_SYNC */
    double *weight, *saved; /* [n_sums] */
    double *workspace;      /* [n_sums] of the item at a position, not a sum */
    uint32_t *real;         /* [n_sums] */
    int64_t *left, *right;  /* [n_lanes][2p+4] bytes cut at a position; NULL: free */
};

struct gp_costs {
    const struct part_problem *problem;
    const struct gp_tree *tree;
    uint32_t comm_model;
    bool links;      /* do transfers take time at all? */
    bool workspaces; /* does any operator need one? */
    double ns_per_tick;
    uint32_t n_lanes;
    struct gp_lane *lanes;
    uint32_t n_op_classes, n_classes;
    struct gp_op_class *op_classes;
    struct gp_class *classes;
    uint32_t *class_of_op;    /* [n + virtual + 2] */
    uint32_t *class_of_block; /* [n_blocks] */
    int64_t lower_bound;      /* ticks; below no plan goes at the first size */
};

/* One size: as part_costs says. Sets the lanes of the groups of `levels`. */
void gp_costs_init(struct gp_costs *costs, const struct part_problem *problem,
                   const struct gp_tree *tree, struct gp_levels *levels);

static inline int64_t gp_tps(const struct gp_costs *costs, int64_t comp, int64_t sync, int64_t p2p)
{
    if (costs->comm_model == PST_COMM_MAX) {
        int64_t most = comp > sync ? comp : sync;

        return most > p2p ? most : p2p;
    }
    return comp + p2p; /* sync is in comp; p2p is 0 where transfers are free */
}

#endif
