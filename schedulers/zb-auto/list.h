/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders for devices that hold fewer micro-batches than there are devices after them.
 */
#ifndef ZB_AUTO_LIST_H
#define ZB_AUTO_LIST_H

#include "greedy_search.h"

/*
 * List scheduling: the device that can begin first begins, and takes the pass that a rule puts
 * first; a run for each of six rules. A device runs no more forwards ahead of its backwards than it
 * has time for until the first gradient is back.
 */
void zb_auto_lists(struct greedy *g, const struct greedy_attempt *attempt);

#endif
