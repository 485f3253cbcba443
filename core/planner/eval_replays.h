/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages whose replays are listed (struct pst_replay), as pst.eval/1 charges them. A node leaves
 * its result, and beside it what only its own backward reads. Each of the two is there from the
 * forward or replay that makes it to its last reader before it is made anew, or not at all:
 *
 *     the backward of v reads what v leaves, and the results of its producers that are saved at
 * all; a forward or replay of v reads the results of all its producers.
 *
 * A replay of which nothing is read does not run. Residency of the active micro-batch: what is
 * there, and in a forward or replay all that the node leaves with its workspace, in a backward its
 * workspace; during replays also the gradient of the result of the node whose backward comes next.
 * With k micro-batches in flight and P bytes that a forward pass leaves for later (S of them of
 * offloaded nodes),
 *
 *     peak   = static + (k - 1) (input + P - S) + (min(k, staging) - 1) S + input + most residency
 *     period = max(all forwards and backwards + replays; directions x S / link)
 *
 * On a chain that is the model of Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal
 * checkpointing for heterogeneous chains", 2019, with k - 1 micro-batches more.
 */
#ifndef PST_PLANNER_EVAL_REPLAYS_H
#define PST_PLANNER_EVAL_REPLAYS_H

#include "planner/eval.h"

/* Replays that a memory optimizer listed by pst_action_out.sequence; all zero: none. */
struct pst_replay_list {
    uint32_t n;
    struct pst_replay *at;
};

/* A copy. NULL, or what is wrong: a rule of struct pst_replay is broken, or it is the second
   list. */
const char *pst_replay_list_take(struct pst_replay_list *list, const struct pst_replay *replays,
                                 uint32_t n_replays, uint32_t n_nodes);
void pst_replay_list_finish(struct pst_replay_list *list);

/* ret_kept_bytes, or NULL: bytes that a forward leaves for later, offloaded nodes excepted. */
void pst_evaluate_replays(const struct pst_stage_view *view, const struct pst_replay *replays,
                          uint32_t n_replays, struct pst_stage_value *ret_value,
                          uint64_t *ret_kept_bytes);
/* The view with its actions, or with the list if that has any. */
void pst_evaluate_list(struct pst_evaluator *evaluator, const struct pst_stage_view *view,
                       const struct pst_replay_list *list, struct pst_stage_value *ret_value);

/* pst_memory_events of such a stage; the list is legal. *ret_left in `arena`: [n_nodes] what a
   forward leaves of each node for later. */
void pst_replays_events(const struct pst_stage_view *view, const struct pst_replay *replays,
                        uint32_t n_replays, struct pst_arena *arena,
                        struct pst_memory_event **ret_events, uint32_t *ret_n_events,
                        struct pst_memory_sums *ret_sums, uint64_t **ret_left);

#endif
