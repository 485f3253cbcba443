/* SPDX-License-Identifier: Apache-2.0
 *
 * The orders that v-zb tries.
 */
#ifndef V_ZB_ROUNDS_H
#define V_ZB_ROUNDS_H

#include "greedy_search.h"

/* Four ways to decide, each repeated as long as knowing where the last run idled helps. */
void v_zb_runs(struct greedy *g, const struct greedy_attempt *attempt);

#endif
