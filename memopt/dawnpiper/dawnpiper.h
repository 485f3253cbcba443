/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMOPT_DAWNPIPER_H
#define MEMOPT_DAWNPIPER_H

#include "search.h"

/*
 * Capuchin's order: free swaps by falling free time, then whatever costs least per byte freed, a
 * swap that is not free or a replay; then what turned out to be superfluous is undone, dearest
 * first. The result is search->starts[0], whether it fits or not. search has begun
 * (mem_search_begin) with one start. PST_ERR_NOMEM, PST_ERR_CANCELLED.
 */
pst_status capuchin_run(struct mem_search *search);

#endif
