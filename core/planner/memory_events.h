/* SPDX-License-Identifier: Apache-2.0
 *
 * What the active micro-batch of a stage holds, moment by moment, by the model of plugin/eval.h:
 * all forwards, then the backwards with the replays before them. Another way to its peak.
 */
#ifndef PST_PLANNER_MEMORY_EVENTS_H
#define PST_PLANNER_MEMORY_EVENTS_H

#include <penstock/memopt.h>

#include "base/arena.h"
#include "base/error.h"

enum { PST_MEMORY_FORWARD, PST_MEMORY_REPLAY, PST_MEMORY_BACKWARD };

struct pst_memory_event {
    uint32_t pass, node; /* PST_MEMORY_*; position in the view */
    uint64_t bytes;      /* of the device, all that is parked and static included */
    uint64_t ns;         /* that it takes */
};

struct pst_memory_sums {
    uint64_t static_bytes;
    uint64_t parked_bytes; /* micro-batches in flight beside the active one, staging copies */
    uint64_t active_bytes; /* largest of the events: input, saved tensors, workspace */
    uint64_t kept_bytes, offloaded_bytes, dropped_bytes; /* of one micro-batch */
    uint64_t total_ns, replay_ns, link_ns; /* a period: computation, replays; of the host link */
};

/* In order of time; actions are legal, one per node. Sizes far below 2^64. *ret_events in
   `arena`. */
void pst_memory_events(const struct pst_stage_view *view, const uint8_t *actions,
                       struct pst_arena *arena, struct pst_memory_event **ret_events,
                       uint32_t *ret_n_events, struct pst_memory_sums *ret_sums);

#endif
