/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders in rounds, as v-zb makes them.
 */
#ifndef V_ADAPTIVE_ROUNDS_H
#define V_ADAPTIVE_ROUNDS_H

#include "pool.h"
#include "prove.h"

/* Gives each rung the best such order within its caps where that is better; the last rung gets one
   that costs no more than the order of v-zb. */
void va_rounds_offer(struct va_pool *pool, struct va_prover *prover);

#endif
