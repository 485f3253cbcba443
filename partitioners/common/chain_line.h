/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to partitioners/common: one order of the nodes as prefix sums, and what cuts it.
 */
#ifndef PARTITIONERS_COMMON_CHAIN_LINE_H
#define PARTITIONERS_COMMON_CHAIN_LINE_H

#include "chain.h"
#include "ranges.h"

/* No stage takes more ticks: totals times D stay below it. */
#define LINE_TICKS_MAX (INT64_C(1) << 60)

/* Positions 0..n lie between nodes; a stage is the range [i, j) of positions. */
struct line {
    const struct part_problem *problem;
    const struct part_costs *costs;
    const uint32_t *order;
    uint32_t n, n_degrees, *position; /* of a node */
    uint32_t max_devices, max_stages;
    bool memory, layered; /* layered: the number of stages matters */
    bool straight;        /* no edge spans more than one node, or transfers are free */
    int64_t **work;  /* [degree][n + 1] prefix sums: compute; with the all-reduce where added */
    int64_t **sync;  /* the same of the all-reduce, where it overlaps; else NULL */
    int64_t **cross; /* [degree][n + 1] transfers over a position; NULL: free */
    int64_t *least;  /* [n + 1] device ticks: prefix sums of each node's least d * work */
    int64_t cap;     /* no useful T is above */
    double *weight, *saved; /* [n + 1] prefix sums of bytes */
    /* [level][n] largest of 2^level from a position on; NULL: all 0, no guesses of depths */
    double **workspace, **depths;
};

void line_init(struct line *line, const struct part_problem *problem,
               const struct part_costs *costs, const uint32_t *order,
               const struct part_chain_limits *limits);

/* Does [i, j), which has `depth` stages from itself to the end (or as deep as its nodes are said to
   be), fit degree k's devices? */
bool line_fits(const struct line *line, uint32_t i, uint32_t j, uint32_t k, uint32_t depth);

/* Compute and all-reduce of [i, j) alone within T? */
static inline bool line_works(const struct line *line, uint32_t i, uint32_t j, uint32_t k,
                              int64_t ticks)
{
    return line->work[k][j] - line->work[k][i] <= ticks &&
           (line->sync == NULL || line->sync[k][j] - line->sync[k][i] <= ticks);
}

/* An answer: stage s is [first[s], first[s + 1]), first[n] = n of the line; degree index k[s]. */
struct cuts {
    uint32_t n, *first, *k;
};

/* Room for max_stages. */
void cuts_init(struct cuts *cuts, uint32_t max_stages);

/* Scratch of a solver, and one probe: is there a cut at T? */
struct probe {
    const struct line *line;
    struct part_chain_stats *stats;
    void *scratch;
    void (*run)(struct probe *probe, int64_t ticks, bool *ret_found, struct cuts *cuts);
};

/* From the end, furthest positions by devices and, where that matters, stages. *ret_inexact is set
   once a position had to be dropped that might have been of use. */
void front_init(struct probe *probe, bool *ret_inexact);
/* Everything, exactly, by scanning windows. */
void scan_init(struct probe *probe);
/* Steps of one probe of that at T. */
double scan_steps(const struct line *line, int64_t ticks);

#endif
