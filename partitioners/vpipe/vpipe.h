/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to vpipe: blocks, what a run of them costs as a stage, and the search over partitions.
 * Times are nanoseconds in double.
 */
#ifndef VPIPE_H
#define VPIPE_H

#include "answer.h"
#include "ranges.h"

enum { UNIT_LAYER = 0, UNIT_NODE = 1 };
enum { VERSIONS_ONE = 0, VERSIONS_TWO = 1, VERSIONS_STASH = 2 };

struct config {
    uint32_t unit, versions;
    int64_t exact_blocks;
    uint64_t swap_bandwidth;
};

/* Blocks are what moves between stages. Sums before a block. */
struct blocks {
    uint32_t n;
    uint32_t *first;   /* [n + 1] first node of each */
    double *ns, *f_ns; /* [n + 1] F + B + W; F */
    double *saved;     /* [n + 1] bytes of one micro-batch */
    double *weight;    /* [n + 1] parameter bytes */
};

/* A run of blocks as a stage under its best swap and recompute. */
struct stage_cost {
    double ns;        /* period */
    double missing;   /* bytes beyond the capacity, whatever is done; 0: it fits */
    double bytes;     /* of the device */
    double swapped;   /* bytes of one micro-batch */
    double recompute; /* of the stage's blocks, how large a part */
};

struct vpipe {
    const struct part_problem *problem;
    const struct config *config;
    struct blocks blocks;
    uint32_t n_stages, size;
    struct part_asker asker; /* when planning */
    struct part_map costs;   /* struct stage_cost; when alone */
    uint32_t *by_price;      /* [n] scratch of the inner problem */
    uint8_t *action;         /* [n] */
    uint32_t n_moves;
};

pst_status vpipe_init(struct vpipe *pipe, const struct part_problem *problem,
                      const struct config *config, const struct part_ranges *ranges,
                      uint32_t n_stages, uint32_t size);

/* Micro-batches and weight versions of a stage, when alone. */
uint32_t vpipe_held(const struct vpipe *pipe, uint32_t stage);
uint32_t vpipe_versions(const struct vpipe *pipe, uint32_t stage);

/* Blocks [first, end) as that stage. */
void vpipe_cost(struct vpipe *pipe, uint32_t stage, uint32_t first, uint32_t end,
                struct stage_cost *ret_cost);
/* The inner problem: which blocks to swap, which to recompute. */
void vpipe_inner(struct vpipe *pipe, uint32_t stage, uint32_t first, uint32_t end,
                 struct stage_cost *ret_cost);

/* Partitions are compared by these, in this order. */
struct worth {
    double missing, longest, sum;
};
/* From the compute-balanced partition by chain moves. cuts[n_stages + 1], in blocks. */
void vpipe_search(struct vpipe *pipe, uint32_t *ret_cuts, struct worth *ret_worth);

#endif
