/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: where stages may end, when there are more places than can be looked at.
 */
#ifndef PARTITIONERS_COMMON_PLACES_H
#define PARTITIONERS_COMMON_PLACES_H

#include "downsets.h"

/*
 * Runs of a topological order of about as much work[v] >= 0 each, about `most` of them: a run ends
 * between half of its share of all work and all of it, where the least edge_bytes cross. An
 * operator of more than that is alone, or with idle ones in front of it. Run r is
 * order[ret_first[r]]
 * .. order[ret_first[r + 1] - 1]; ret_first[dag->n + 1].
 */
void part_runs(const struct part_dag *dag, const double *edge_bytes, const int64_t *work,
               const uint32_t *order, uint32_t most, uint32_t *ret_first, uint32_t *ret_n);

#endif
