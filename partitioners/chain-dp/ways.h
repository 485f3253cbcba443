/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to chain-dp: the search for stages with replicas and tensor degrees (ways.c).
 */
#ifndef CHAIN_WAYS_H
#define CHAIN_WAYS_H

#include "chain_dp.h"

#define NO_LIMIT (UINT64_MAX / 4)

/* A number of replicas and a tensor degree that a stage may have. */
struct way {
    uint32_t replicas, tensor, width; /* width: ranks, the product */
    uint32_t at;                      /* in in->tensors */
    uint64_t *least_ns; /* [n + 1] time of the nodes before a position, whatever is replayed */
    uint32_t *others;   /* [n + 1] how many of these have another degree by now */
};

/* A stage in its row; stages of other rows may be one place, whose prices are the same. */
struct place {
    uint32_t stage, n_stages, in_flight, versions;
};

/* The best of all ways to go on from a position and a rank. */
struct cell {
    uint64_t sum_ns, bytes; /* of this stage and those after it; UINT64_MAX: there is no way */
    uint32_t way, end, round;
};

/* The rest of a row from a place on; rows that end alike share it. */
struct tail {
    uint32_t place, next, n_stages;
    struct cell *cells; /* [(n + 1) * (n_ranks + 1)] by first node and first rank that is free */
};

struct plan {
    uint32_t n, size, *first, *rank; /* [n] first node and rank of each stage */
    const struct way **way;
    uint64_t longest_ns, sum_ns, bytes;
    double step_ns; /* INFINITY: there is no plan */
};

struct ways {
    struct chain chain; /* whose prices are struct known */
    const struct part_problem *problem;
    const struct pst_ask *ask;
    struct part_asker asker; /* of the row that is being made */
    uint32_t *nodes;         /* [n] 0, 1, 2, ... */
    uint32_t n_ranks, n_ways, n_places, n_tails, n_rows, round;
    struct way *ways;
    struct place *places;
    struct tail *tails;
    uint32_t *rows;        /* each the tail that is all of it */
    double *weight;        /* [n + 1] bytes of parameters before a position */
    uint64_t *work;        /* [n + 1] least time times ranks of the nodes before a position */
    uint64_t least_sum_ns; /* of all stages */
    uint64_t least_ns;     /* of the longest stage */
    uint64_t limit_ns;
    bool *allowed; /* [n_tensors] degrees that divide each other, in this search */
    uint32_t *group, n_groups, *degree_of; /* [n] of tied nodes, else PST_NONE; [n_groups] */
    struct plan best, found;
};

/* The price of a range as a stage, whatever rank it begins on. */
struct known {
    uint64_t period_ns, peak_bytes, sync_ns, in_bytes, out_bytes;
    bool fits, hopeless;
};

/* ways_price.c */
struct pst_stage_question ways_question(const struct ways *w, const struct place *place,
                                        const struct way *way, uint32_t first, uint32_t end);
void ways_ask(const struct ways *w, const struct place *place, const struct way *way,
              uint32_t first, uint32_t end, struct pst_stage_price *ret_price);
/* Returns a price that is remembered; it is valid until the next call. */
const struct known *ways_price(struct ways *w, uint32_t place, uint32_t way, uint32_t first,
                               uint32_t end);
/* Node that a rank is in. */
uint32_t ways_node(const struct ways *w, uint32_t rank);
/* Returns the time that a micro-batch takes a stage which begins on this rank. */
uint64_t ways_cost(const struct ways *w, const struct place *place, const struct way *way,
                   const struct known *known, uint32_t rank);
/* The row of so many stages, where the scheduler takes as many. */
void ways_add_row(struct ways *w, uint32_t n_stages);

/* ways_search.c: makes w->best the best plan with these degrees of tied nodes, if it was not. */
void ways_improve(struct ways *w);

#endif
