/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank of a timeline spent its time.
 */
#ifndef PST_SIM_USAGE_H
#define PST_SIM_USAGE_H

#include "sim/timeline.h"

/* Parts of a time, 0 to 1, in which devices neither compute nor update. */
struct pst_idle {
    double all;     /* mean over all devices of the cluster; those without a stage are idle */
    double busiest; /* of the device that has least of it: what papers call the bubble */
};

/* Of n_devices that do all_ns together within length_ns, the busiest of them most_ns. */
struct pst_idle pst_idle_of(uint64_t length_ns, uint32_t n_devices, uint64_t all_ns,
                            uint64_t most_ns);

struct pst_usage {
    uint64_t busy_ns;    /* passes and updates, less their stalls */
    uint64_t idle_ns;    /* the rest of the timeline, from its first span to its last */
    uint64_t exposed_ns; /* the part of idle_ns in which a transfer, copy or reduction of the rank
                            was under way, or a pass stood still for a copy */
    uint64_t stall_ns;   /* in which a pass stood still for a copy */
};

/* Of a timeline that is built. Linear in the spans of the rank. */
struct pst_usage pst_timeline_usage(const struct pst_timeline *timeline, uint32_t rank);

/* From the first span to the last. */
struct pst_idle pst_timeline_idle(const struct pst_timeline *timeline);

#endif
