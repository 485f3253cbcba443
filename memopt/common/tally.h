/* SPDX-License-Identifier: Apache-2.0
 *
 * For memory optimizers that search: what a plan of one stage costs, kept up to date while actions
 * change one by one. Equal to the host's evaluator (pst.eval/1) on every plan; a change is a few
 * walks up a tree, O(log n), but for edges that pass over the node. Illegal plans may be passed
 * through: what breaks the rule of replays is counted.
 */
#ifndef MEMOPT_COMMON_TALLY_H
#define MEMOPT_COMMON_TALLY_H

#include "costs.h"

/* A subtree of nodes: sum of the changes, and the largest sum up to a node plus its work. */
struct mem_branch {
    int64_t sum, most;
};

struct mem_tally {
    const struct mem_costs *costs;
    uint32_t leaves;
    uint8_t *actions;                         /* [n] */
    uint64_t kept, moved, replay_ns, link_ns; /* link_ns: planned */
    uint64_t violations; /* reads of a replay whose source is dropped in another run */
    uint64_t *stays;     /* bits: not dropped */
    uint32_t *wanted;    /* [n] dropped nodes that read it */
    struct mem_branch *forward, *backward; /* [2 * leaves] heaps; leaf v at leaves + v */
    uint32_t *run_end;                     /* [n] of the run that begins there: position after it */
    uint32_t *next; /* [n] of the run that begins there: the next with the same target */
    uint32_t *head; /* [n] first run that is restored before the backward of the node */
};

/* Smaller is better; legal plans only. */
struct mem_score {
    uint64_t over;            /* bytes over the capacity */
    uint64_t period_ns, peak; /* period: with the link as full as the rules want it */
};

/* Everything as earlier optimizers decided, KEEP elsewhere. costs must be sound (not absurd) and
   outlive the tally. tally: zero at first; may be loaded again for as many nodes. */
void mem_tally_load(struct mem_tally *tally, const struct mem_costs *costs);
/* Gives its memory back before the call ends. */
void mem_tally_finish(struct mem_tally *tally);

/* Any action at any time; what is allowed there is the caller's care. */
void mem_tally_set(struct mem_tally *tally, uint32_t v, uint8_t action);

/* Would that action make reads of replays illegal, more of them than it makes legal? Far cheaper
   than to set it, to look, and to take it back. */
bool mem_tally_breaks(const struct mem_tally *tally, uint32_t v, uint8_t action);

/* Does v hold its result for the replay of another node? */
static inline bool mem_tally_holds(const struct mem_tally *tally, uint32_t v)
{
    return tally->wanted[v] > 0 && tally->actions[v] != PST_ACTION_RECOMPUTE &&
           tally->costs->results[v] > 0;
}

bool mem_tally_legal(const struct mem_tally *tally);
uint64_t mem_tally_peak(const struct mem_tally *tally);
uint64_t mem_tally_period(const struct mem_tally *tally);
struct mem_score mem_tally_score(const struct mem_tally *tally);

static inline bool mem_score_less(const struct mem_score *a, const struct mem_score *b)
{
    if (a->over != b->over) {
        return a->over < b->over;
    }
    return a->period_ns != b->period_ns ? a->period_ns < b->period_ns : a->peak < b->peak;
}

#endif
