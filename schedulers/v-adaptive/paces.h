/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders that need no building block: micro-batches are dispatched at a pace, with the real costs.
 */
#ifndef V_ADAPTIVE_PACES_H
#define V_ADAPTIVE_PACES_H

#include "improve.h"

/*
 * Offers orders to the search in which one micro-batch walks down and up the V with a gap after
 * each pass, and the next ones follow in one period each: the slopes of a building block, in time
 * instead of slots. Gaps whose walk would hold far less or more than the caps are left out.
 * `brief`: one walk without gaps only.
 */
void va_dispatch_paces(struct va_search *search, bool brief);

#endif
