/* SPDX-License-Identifier: Apache-2.0
 *
 * Building blocks in time instead of slots: one micro-batch is placed pass by pass on devices whose
 * busy times repeat every period (modulo scheduling, Rau, "Iterative Modulo Scheduling", 1996),
 * with the cost of each pass, the latency of each link and the bytes of each stage.
 */
#ifndef V_ADAPTIVE_MODULO_H
#define V_ADAPTIVE_MODULO_H

#include "improve.h"

/* Offers orders to the search whose steady state runs at the shortest period found under the caps.
   `tries`: placements to look at for each period. PST_ERR_NOMEM */
pst_status va_modulo_offer(struct va_search *search, uint32_t tries);

#endif
