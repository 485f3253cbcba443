/* SPDX-License-Identifier: Apache-2.0
 *
 * The orders that zb-auto tries.
 */
#ifndef ZB_AUTO_ROUNDS_H
#define ZB_AUTO_ROUNDS_H

#include "greedy_search.h"

/* Eight runs, one for each combination of three ways to decide, and where it may help the orders of
   ZB-H1 and ZB-H2. */
void zb_auto_runs(struct greedy *g, const struct greedy_attempt *attempt);

#endif
