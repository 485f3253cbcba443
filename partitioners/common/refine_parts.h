/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to partitioners/common: the parts of the search over general graphs.
 */
#ifndef PARTITIONERS_COMMON_REFINE_PARTS_H
#define PARTITIONERS_COMMON_REFINE_PARTS_H

#include "refine.h"

/* Up to so many nodes every partition is looked at. */
enum { SMALL_NODES = 10 };

/*
 * The best of all partitions. Of T at most `most`; *ret_found: is there one? Equal T: less memory,
 * depth, devices.
 */
void small_best(const struct part_problem *problem, const struct part_costs *costs, int64_t most,
                bool *ret_found, struct part_plan *ret_plan);

/* Moves nodes out of the slowest stage as long as that helps; at most *steps, which is counted
   down. The plan stays legal and fits. */
void moves_run(const struct part_problem *problem, const struct part_costs *costs,
               struct part_plan *plan, uint64_t *steps, uint64_t *moves);

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

#endif
