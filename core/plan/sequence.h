/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs again in the backward passes of a stage, in which order. Either runs of recomputed
 * operators, each replayed once; or a list of replays (struct pst_replay) that may lie within each
 * other: first a long one that leaves few results, later shorter ones from these. Of a list an
 * operator runs only where something reads what comes of it, a backward pass or a later replay,
 * before it is made anew; so the lives of all results follow from the list.
 * Griewank, Walther, "Revolve", ACM TOMS 2000; Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova,
 * "Optimal checkpointing for heterogeneous chains", 2019.
 */
#ifndef PST_PLAN_SEQUENCE_H
#define PST_PLAN_SEQUENCE_H

#include "plan/plan.h"

/* Operators that all replays of a stage together name, at most. */
#define PST_MOST_REPLAYED (1u << 24)

/* Operator `node` of the stage runs again just before the backward of operator `before`. */
struct pst_replay_call {
    uint32_t before, node;
};

struct pst_replays {
    uint32_t n;
    struct pst_replay_call *calls; /* in the order of a backward pass */
};

/* Lists the replays of a stage, which may have its own list; that must have no fault. */
void pst_plan_replays(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                      struct pst_arena *arena, struct pst_replays *ret_replays);

/* The rule of struct pst_replay that a list for n nodes breaks, and the replay that does; NULL:
   none. */
const char *pst_sequence_fault(const struct pst_replay *replays, uint32_t n_replays,
                               uint32_t n_nodes, uint32_t *ret_replay);

/*
 * Finds a fault of a stage whose list has none: a recomputed operator that no replay names, or
 * whose result is read before it is replayed; or the first operator of a replay that makes nothing,
 * such as a replay that is listed twice. Offloaded operators do not run again.
 * *ret_node: its position; PST_NONE: nothing. *ret_what: in words.
 */
void pst_sequence_check(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                        uint32_t *ret_node, const char **ret_what);

/* Removes from the stage's list, which is `replays`, replays that make nothing, since no backward
   pass and no later replay reads what they would make. Returns how many are left. */
uint32_t pst_sequence_prune(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            struct pst_replay *replays);

/* The actions that follow from the list: RECOMPUTE where nothing of an operator is read before its
   first replay, and it does not have to stay. actions: n_nodes, KEEP or OFFLOAD before. */
void pst_sequence_actions(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                          uint8_t *actions);

#endif
