/* SPDX-License-Identifier: Apache-2.0
 *
 * The one evaluator of memory plans, which pst.eval/1 calls. It charges a stage as follows.
 *
 * Each node is kept (K), dropped and recomputed (R), or offloaded to the host and back (O). a is
 * what a node leaves for the backward passes, wf and wb are the workspaces of its forward and
 * backward, tf and tb their times. A run is a maximal block of consecutive R nodes; it is replayed
 * as a whole, just before the backward of the node t(run): the largest in-stage consumer of any
 * member, or the last member itself. With k micro-batches in flight,
 *
 *     peak   = static + (k - 1) (input + sum of a over K) + (min(k, staging) - 1) (sum of a over O)
 *              + input + the largest residency of the active micro-batch
 *     period = max(sum of tf + tb, plus tf of R once more; directions x (sum of a over O) / link)
 *
 * Residency in the forward of v: a of all earlier K and O, of earlier R that a node from v on still
 * reads, of v itself, and wf. In its backward: a of K and O up to v, of restored runs up to v, and
 * wb. While run r is replayed: a of K and O up to t(r), of the members so far, of members up to
 * t(r) of runs that were restored before it (larger t, or equal t and later begin), and wf.
 *
 * A node that is not dropped while one that reads it is also holds its result for the replay, where
 * no backward pass reads it and it is not in a for that: a is larger by that much.
 *
 * Legal: every in-stage producer of an input of a run's member is in the run or not R; flags and
 * earlier decisions are respected; offloading needs a host link and host memory.
 */
#ifndef PST_PLANNER_EVAL_H
#define PST_PLANNER_EVAL_H

#include <penstock/ext/eval.h>

#include "base/arena.h"

/* Scratch space that grows with the largest stage evaluated. All zero is valid. */
struct pst_evaluator {
    struct pst_arena arena;
    uint32_t room;
    uint32_t *last; /* [room] largest in-stage consumer */
    uint64_t *held; /* [room] saved bytes, and the result where a replay of another needs it */
    uint32_t *next, *head; /* [room] nodes by position: who leaves after it, who returns before */
};

void pst_evaluator_finish(struct pst_evaluator *evaluator);

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

/* Has an earlier memory optimizer decided about the node? What the host presets is no decision. */
static inline bool pst_stage_node_decided(const struct pst_stage_node *node)
{
    return node->action != PST_ACTION_KEEP && (node->flags & PST_NODE_PRESET) == 0;
}

/* actions: one per node, NULL for those of the view. */
void pst_evaluate(struct pst_evaluator *evaluator, const struct pst_stage_view *view,
                  const uint8_t *actions, struct pst_stage_value *ret_value);

/* Lists in `arena`, by time, what the active micro-batch holds; and sums. Actions must be legal. */
void pst_memory_events(const struct pst_stage_view *view, const uint8_t *actions,
                       struct pst_arena *arena, struct pst_memory_event **ret_events,
                       uint32_t *ret_n_events, struct pst_memory_sums *ret_sums);

/* Time of the host link for these bytes of a micro-batch, out and back, rounded up. */
uint64_t pst_eval_link_ns(const struct pst_stage_view *view, uint64_t bytes);

/* The end of an evaluation: from what a micro-batch keeps, offloads and holds at most (all but its
   input; UINT64_MAX: too much to count) and the times, all other sums, and peak and period. */
void pst_memory_settle(const struct pst_stage_view *view, uint64_t most,
                       struct pst_memory_sums *sums, struct pst_stage_value *value);
/* Events had only the active micro-batch in view, without its input: the device's bytes. */
void pst_memory_lift(const struct pst_stage_view *view, const struct pst_memory_sums *sums,
                     struct pst_memory_event *events, uint32_t n_events);

#endif
