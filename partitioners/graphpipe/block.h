/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: a graph as nested series and parallel blocks. A block hangs between two
 * operators s and t:
 *
 *   edge      a bare edge s -> t, or nothing at virtual ends
 *   series    operators v1 .. vp in a row, a block in every gap: X0 v1 X1 .. vp Xp
 *   parallel  two or more blocks side by side, between the same s and t
 *
 * A graph is series-parallel iff replacing parallel edges by one edge and operators with one edge
 * in and one out by an edge leaves one edge (Valdes, Tarjan, Lawler: The Recognition of Series
 * Parallel Digraphs, SIAM J. Comput. 1982). What remains of other graphs is first rewritten with
 * virtual operators, which cost nothing and belong to no stage: where two layers are completely
 * joined one between them changes nothing; elsewhere one between an upper and a lower part is a
 * point of synchronisation, which only forbids plans.
 */
#ifndef GRAPHPIPE_BLOCK_H
#define GRAPHPIPE_BLOCK_H

#include "problem.h"

#define GP_NONE UINT32_MAX

enum { GP_EDGE = 0, GP_SERIES = 1, GP_PARALLEL = 2 };

struct gp_block {
    uint32_t kind;
    uint32_t first_op, n_ops;   /* series: rows of tree.ops */
    uint32_t first_kid, n_kids; /* series: n_ops + 1 blocks; parallel: two or more */
    uint32_t first_edge,
        n_edges;  /* edge: the graph's edges that it stands for: rows of tree.edges */
    uint32_t key; /* least operator inside, or after a bare edge: order of branches */
};

/* Kids come before their parents; the last block is the root, a series between virtual ends. */
struct gp_tree {
    struct gp_block *blocks;
    uint32_t *ops; /* below the problem's n: operators; from n on: virtual */
    uint32_t *kids, *edges;
    uint32_t n_blocks, n_ops, n_virtual;
    bool reduced;         /* by the two rules alone */
    bool series_parallel; /* no synchronisation was added */
    uint32_t kernel[3];   /* else: some of the operators of what could not be reduced */
    uint32_t n_kernel;    /* how many it has */
};

/* How graphs that are not series-parallel are rewritten. */
enum {
    GP_SP_FLEXIBLE = 0,  /* one synchronisation at a time, where both parts' paths stay short */
    GP_SP_STRATA = 1,    /* layers by longest path, one after the other */
    GP_SP_ESCRIBANO = 2, /* likewise, but only within what hangs together */
    GP_SP_REQUIRE = 3    /* not at all: tree.kernel is set, the tree has no blocks */
};

/* work[v]: weight of an operator on paths, of any unit. */
void gp_tree_init(struct gp_tree *tree, const struct part_problem *problem, const int64_t *work,
                  uint32_t rule);

#endif
