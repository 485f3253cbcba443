/* SPDX-License-Identifier: Apache-2.0
 *
 * For schedulers whose pipeline never runs empty between batches: one forward, one backward on a
 * chain of stages, one a device, in the parts fill, body and drain. Pure.
 */
#ifndef SCHEDULERS_COMMON_ENDLESS_H
#define SCHEDULERS_COMMON_ENDLESS_H

#include "order.h"

/* Fills what the host asks first: any number of micro-batches from `least` on; a stage holds those
   that it runs ahead, as many as stages are after it but no more than a batch has, and one more.
 */
void endless_topology(uint32_t version_rule, uint32_t least, struct pst_topology *ret_topology);
uint32_t endless_in_flight(const struct pst_place *place);

/*
 * Fill: the forwards ahead. Body: a forward and a backward in turn, as many of each as a batch has
 * micro-batches. Drain: the same without the forwards of the next batch. Where there are fewer
 * micro-batches than stages, the call ends with a message that names the scheduler and ends in
 * `advice`; NULL: these are accepted too. Edges that skip stages add nothing that could close a
 * cycle: in a chain F(s, j) already waits for all F(q, j) with q < s, and a backward for those with
 * q > s.
 */
pst_status endless_schedule(const struct pst_host *host, const char *scheduler, const char *advice,
                            const struct pst_schedule_in *in, struct pst_schedule_out *out);

#endif
