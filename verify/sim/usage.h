/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank of a timeline spent its time.
 */
#ifndef PST_SIM_USAGE_H
#define PST_SIM_USAGE_H

#include "sim/timeline.h"

/* Idle shares of n_devices, busy for all_ns in total within length_ns, the busiest for most_ns. */
struct pst_idle pst_idle_of(uint64_t length_ns, uint32_t n_devices, uint64_t all_ns,
                            uint64_t most_ns);

/* The usage of a rank in a finished timeline. Linear in the spans of the rank. */
struct pst_usage pst_timeline_usage(const struct pst_timeline *timeline, uint32_t rank);

/* Idle shares from the first span to the last. */
struct pst_idle pst_timeline_idle(const struct pst_timeline *timeline);

#endif
