/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: borders between stages of one order, moved as long as the step gets shorter.
 */
#ifndef PARTITIONERS_COMMON_BORDERS_H
#define PARTITIONERS_COMMON_BORDERS_H

#include "problem.h"

/* Values a cut; cuts[n_stages + 1], no stage empty. INFINITY: it does not fit, or there is no time
   left to ask. */
typedef void part_cut_fn(void *impl, const uint32_t *cuts, double *ret_ns);

struct part_borders {
    uint32_t n, n_stages;
    void *impl;
    part_cut_fn *guess; /* quick: says what to look at first */
    part_cut_fn *step;  /* decides */
};

/*
 * cuts takes *step_ns; afterwards no more. Moves one border, or two neighbours together, first
 * where the guess is least, until none of the first few is better. Short rows are moved to every
 * place, long ones by steps that double.
 */
void part_borders_move(const struct part_borders *borders, uint32_t *cuts, double *step_ns);

#endif
