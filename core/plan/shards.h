/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer state, gradients and weights that the ranks of a stage share (ZeRO 1, 2, 3: Rajbhandari
 * et al., SC 2020, section 5): which elements of each parameter a rank updates.
 *
 *   bucket      the parameters of a layer of the stage, in the order of use
 *     blocks    | w: 0 | w: 1 | w: 2 | w: 3 | b | v: 0 | v: 1 |      of PST_SHARD_BLOCK elements
 *     pieces    |   member 0         |  member 1  | member 2  |      one of each member
 *
 * A block belongs to the member in whose n-th of the bucket's elements it begins. Members are
 * counted from the bucket's number modulo n, so that the remainders of buckets are spread. A matrix
 * that Muon updates is one block. A tied parameter is a separate bucket, with equal pieces in all
 * of its stages; where these have other ranks in another order, it is whole everywhere.
 *
 * With tensor parallelism the members are the replicas, and all parts of a replica have the same
 * pieces of what they hold. Parts of different numbers meet in NORM alone, and inside passes.
 */
#ifndef PST_PLAN_SHARDS_H
#define PST_PLAN_SHARDS_H

#include "plan/plan.h"

#define PST_SHARD_BLOCK 4096 /* square sums are trees over such blocks (device.h) */

struct pst_shard {
    uint64_t first, elems;
};

/* The pieces of a stage's parameters. Its arrays are in the arena of who made it. */
struct pst_shards {
    uint32_t n;               /* members: the replicas of the stage in order; 1: nothing is cut */
    uint32_t *row_of;         /* [parameter] PST_NONE: whole on all members, or not here */
    struct pst_shard *pieces; /* [row][member] */
};

/* Makes those of n members with these operators; whole[parameter]: it is not cut; NULL: all are. */
void pst_shards_make(const struct pst_graph *graph, const uint32_t *nodes, uint32_t n_nodes,
                     uint32_t n_members, const bool *whole, struct pst_arena *arena,
                     struct pst_shards *ret_shards);
/* Makes those of a stage; without plan->zero nothing is cut. */
void pst_plan_shards(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t stage,
                     struct pst_arena *arena, struct pst_shards *ret_shards);

static inline bool pst_shards_cut(const struct pst_shards *shards, uint32_t parameter)
{
    return shards->n > 1 && shards->row_of[parameter] != PST_NONE;
}

/* The elements that a member updates: all of a parameter that is not cut. */
static inline struct pst_shard pst_shard_of(const struct pst_shards *shards,
                                            const struct pst_graph *graph, uint32_t parameter,
                                            uint32_t member)
{
    return pst_shards_cut(shards, parameter)
               ? shards->pieces[(size_t)shards->row_of[parameter] * shards->n + member]
               : (struct pst_shard){0, graph->params[parameter].elems};
}

/* --- meetings of a plan ------------------------------------------------------------------------*/

/* Is a parameter that this stage uses cut? */
bool pst_plan_cuts(const struct pst_plan *plan, uint32_t stage, uint32_t parameter);
/* Are its gradients summed over the replicas in each pass that makes them, and accumulated in
   pieces (ZeRO 2: section 5.2)? */
bool pst_plan_scatters(const struct pst_plan *plan, uint32_t stage, uint32_t parameter);
/* Does each replica keep a piece of what passes read of it, so that these gather it (ZeRO 3:
   section 5.3)? */
bool pst_plan_gathers(const struct pst_plan *plan, uint32_t stage, uint32_t parameter);
/* Bytes of the gradients that a pass W or BW of a stage sums so; 0: it sums none. */
uint64_t pst_plan_scattered_bytes(const struct pst_plan *plan, const struct pst_graph *graph,
                                  uint32_t stage);
/* The piece of a tied parameter that is cut for n members. */
struct pst_shard pst_shard_tied(const struct pst_graph *graph, uint32_t parameter, uint32_t n,
                                uint32_t member);

/* REDUCE, TIE, NORM and GATHER of a step have numbers from 0 on, below n; the ranks that meet have
   one number. Each piece of a tied parameter has a separate sum, and so has each part. */
uint32_t pst_plan_n_meetings(const struct pst_plan *plan);
uint32_t pst_plan_meeting_of(const struct pst_plan *plan, const struct pst_instr *instr,
                             uint32_t rank);
/* Ascending ranks that meet; NORM: all. ret_members: n_devices. Returns how many. */
uint32_t pst_plan_members(const struct pst_plan *plan, const struct pst_instr *instr, uint32_t rank,
                          uint32_t *ret_members);
/*
 * What they do; of other instructions nothing. REDUCE: one f32 gradient for each use of a parameter
 * in its stage that no pass sums, of which parameters in pieces are not sent to all. GATHER: the
 * weights of these, in the type that passes read. NORM: square sums, and the loss or, where
 * replicas have the losses, that of each sample (exec/update.c).
 */
struct pst_meet_bytes pst_plan_meet_bytes(const struct pst_plan *plan,
                                          const struct pst_graph *graph,
                                          const struct pst_instr *instr, uint32_t rank);

/*
 * Square sums are binary trees over the blocks of a parameter, aligned at powers of two; missing
 * blocks are 0. A piece is a few trees, whose sums NORM collects: so the norm has the bits that it
 * has without pieces.
 */
struct pst_square_tree {
    uint32_t parameter;
    uint32_t part, member; /* of the first stage that uses it; part 0 where it is not split */
    uint64_t first, elems; /* of what the part has */
};
/* Lists them, ascending by parameter, part and element, in the arena. Returns how many. */
uint32_t pst_plan_square_trees(const struct pst_plan *plan, const struct pst_graph *graph,
                               struct pst_arena *arena, struct pst_square_tree **ret_trees);
/* The sum over all parameters of a plan, of a split one part by part; sums[tree]. */
double pst_square_trees_sum(const struct pst_square_tree *trees, uint32_t n, const double *sums);

#endif
