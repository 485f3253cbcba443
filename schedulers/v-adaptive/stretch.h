/* SPDX-License-Identifier: Apache-2.0
 *
 * An order of few micro-batches made into one of many: its middle is repeated. Local search finds
 * good steady states where orders are short; this carries them to where they are long.
 */
#ifndef V_ADAPTIVE_STRETCH_H
#define V_ADAPTIVE_STRETCH_H

#include "improve.h"

/* Micro-batches of the short problem for m; m itself where it is too few to gain from it. */
uint32_t va_short_of(uint32_t p, uint32_t m);

/* Offers stretched forms of an order of `from`, whose m is va_short_of the search's, to the search;
   `brief`: a few. PST_ERR_NOMEM */
pst_status va_stretch(struct va_search *search, const struct va_problem *from, const uint8_t *order,
                      bool brief);

#endif
