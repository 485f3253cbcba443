/* SPDX-License-Identifier: Apache-2.0
 *
 * The best point of a grid whose points are dear: all of them where there are no more than may be
 * tried; else a search that samples evenly, then varies one dimension of the best points at a time,
 * tries the variants of every value at the best point with it, and some at random. What it does
 * depends on the seed and on what the points come to, not on the order in which those of one round
 * are tried.
 */
#ifndef PST_TUNE_JOINT_H
#define PST_TUNE_JOINT_H

#include "tune/objective.h"

#define PST_JOINT_DIMS  8
#define PST_JOINT_ROUND 64u /* points of a round at most: they may be tried side by side */

struct pst_joint {
    uint32_t n_dims;
    uint32_t size[PST_JOINT_DIMS]; /* a point is a number; its last dimension goes round fastest */
    /* [size] For each value the first one that it is a variant of, itself where it is none: first
       ones are tried widely, variants beside them. NULL: there are no variants. */
    const uint32_t *group[PST_JOINT_DIMS];
    /* Dimensions, as bits, of which none may be good for anything without another value of another,
       such as how a batch is divided: they are varied together, too. Few points. */
    uint32_t coupled;
    uint32_t start;  /* the point to begin with */
    uint32_t budget; /* points that may be tried */
    uint64_t seed;
    bool blind; /* by chance alone, where not all are tried: what a search has to be better than */
    void *context;
    /* Tries points, none of them twice in a search. Errors end it; scores are known unless it is
       over. */
    pst_status (*try_all)(void *context, const uint32_t *points, uint32_t n,
                          struct pst_score *ret_scores, struct pst_error *err);
    /* It cannot be better than the best so far: it is passed over. NULL: nobody knows. */
    bool (*hopeless)(void *context, uint32_t point);
    bool (*over)(void *context); /* the search is to end with what there is */
};

struct pst_joint_found {
    uint64_t n_points, n_tried; /* of the grid; tried */
    uint64_t n_hopeless;        /* that were passed over */
    bool all;                   /* none was left out: no other can be better */
};

pst_status pst_joint_search(const struct pst_joint *joint, struct pst_joint_found *ret_found,
                            struct pst_error *err);

#endif
