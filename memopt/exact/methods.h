/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to the plan of least period that fits, each proven, beside branch and bound
 * (mem_oracle_branch).
 */
#ifndef MEMOPT_EXACT_METHODS_H
#define MEMOPT_EXACT_METHODS_H

#include "oracle.h"

/* Letter by letter; as long as a beginning of a plan is not longer than the best. */
void oracle_enumerate(struct mem_oracle *oracle);

/*
 * Chains, nothing offloaded: for every number of kept bytes the least time of replays, from left to
 * right over (bytes kept so far). Bytes are counted in units of a power-of-two multiple of their
 * greatest common divisor such that there are at most `quanta` of them in all, rounded up: exact if
 * the unit is the divisor, else a plan that fits and is nearly the shortest.
 */
void oracle_chain(struct mem_oracle *oracle, uint32_t quanta);
bool oracle_is_chain(const struct mem_costs *costs);

#endif
