/* SPDX-License-Identifier: Apache-2.0
 *
 * The rounds of v-zb, whose schedulers/v-zb/README.md describes them.
 */
#ifndef SCHEDULERS_COMMON_VROUNDS_H
#define SCHEDULERS_COMMON_VROUNDS_H

#include "greedy_search.h"

void vrounds_runs(struct greedy *g, const struct greedy_attempt *attempt);

#endif
