/* SPDX-License-Identifier: Apache-2.0
 *
 * The best point of a grid whose points are dear: all of them where there are no more than may be
 * tried; else a search that samples evenly, then varies one dimension of the best points at a time,
 * tries the variants of every value at the best point with it, and some at random. What it does
 * depends on the seed and on what the points come to, not on when they do: points are made in
 * rounds, each by what all before it came to. Whoever waits for the slowest of a round may guess.
 */
#ifndef PST_TUNE_JOINT_H
#define PST_TUNE_JOINT_H

#include "tune/objective.h"

#define PST_JOINT_DIMS  8
#define PST_JOINT_ROUND 64u /* points of a round at most */

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
    /* It cannot be better than `best`, of the search so far: it is passed over. NULL: nobody
       knows. */
    bool (*hopeless)(void *context, uint32_t point, const struct pst_score *best);
};

struct pst_joint_found {
    uint64_t n_points, n_tried; /* of the grid; tried */
    uint64_t n_hopeless;        /* that were passed over */
    bool all;                   /* none was left out: no other can be better */
};

struct pst_joint_search;
/* *joint stays as it is until the end. */
struct pst_joint_search *pst_joint_begin(const struct pst_joint *joint);
/* The next point to try, none of them twice. False: there is none before another one is told; where
   all are, the search is through. */
bool pst_joint_next(struct pst_joint_search *search, uint32_t *ret_point);
/* Reports the score of a point that has none yet. Points may be reported in any order. */
void pst_joint_report(struct pst_joint_search *search, uint32_t point, struct pst_score score);
/* Points that may be next, as if those that are not told came to nothing: [PST_JOINT_ROUND]. The
   search stays as it is. Returns how many. */
uint32_t pst_joint_guess(const struct pst_joint_search *search, uint32_t *ret_points);
/* At any time. */
void pst_joint_end(struct pst_joint_search *search, struct pst_joint_found *ret_found);

#endif
