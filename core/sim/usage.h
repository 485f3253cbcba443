/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank of a timeline spent its time.
 */
#ifndef PST_SIM_USAGE_H
#define PST_SIM_USAGE_H

#include "sim/timeline.h"

struct pst_usage {
    uint64_t busy_ns;    /* passes and updates, less their stalls */
    uint64_t idle_ns;    /* the rest of the timeline, from its first span to its last */
    uint64_t exposed_ns; /* the part of idle_ns in which a transfer, copy or reduction of the rank
                            was under way, or a pass stood still for a copy */
    uint64_t stall_ns;   /* in which a pass stood still for a copy */
};

/* Of a timeline that is built. Linear in the spans of the rank. */
struct pst_usage pst_timeline_usage(const struct pst_timeline *timeline, uint32_t rank);

#endif
