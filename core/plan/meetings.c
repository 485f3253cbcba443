/* SPDX-License-Identifier: Apache-2.0
 *
 * The meetings of a plan: which ranks meet, how many bytes they move; the square sums that NORM
 * collects.
 */
#include "plan/shards.h"

#include <stdlib.h>

#include "base/util.h"
#include "graph/split.h"

/* --- numbers and members -----------------------------------------------------------------------*/

/* Sums of a tie in each part: one, or one for each piece. */
static uint32_t sums_of(const struct pst_plan *plan, uint32_t tie)
{
    const struct pst_plan_tie *of = &plan->ties[tie];

    return pst_plan_cuts(plan, of->stages[0], of->parameter)
               ? pst_plan_replicas(&plan->stages[of->stages[0]])
               : 1;
}

/* Ranks with one seat meet: parts of one number, and where each replica has a piece, those of one
   replica. A seat is that of a part in a replica, the first where replicas meet. PST_NONE: the rank
   does not hold the stage. */
static uint32_t seat_in(const struct pst_plan_stage *stage, bool pieces, uint32_t rank)
{
    const uint32_t place = pst_plan_place(stage, rank);

    return place == PST_NONE || pieces ? place : place % stage->tensor;
}

static uint32_t seat_of(const struct pst_plan *plan, const struct pst_instr *instr, uint32_t rank)
{
    uint32_t seat = PST_NONE;

    if (instr->op == PST_I_REDUCE || instr->op == PST_I_GATHER) {
        return seat_in(&plan->stages[instr->stage], false, rank);
    }
    if (instr->op == PST_I_MERGE) {
        return pst_plan_replica(&plan->stages[instr->stage], rank);
    }
    if (instr->op == PST_I_TIE) {
        const struct pst_plan_tie *tie = &plan->ties[instr->stage];
        const bool pieces = sums_of(plan, instr->stage) > 1;

        for (uint32_t s = 0; s < tie->n_stages && seat == PST_NONE; s++) {
            seat = seat_in(&plan->stages[tie->stages[s]], pieces, rank);
        }
        return seat;
    }
    return 0; /* all ranks meet */
}

/* The seat of a rank that has the instruction; the first one where it does not belong there. */
static uint32_t own_seat(const struct pst_plan *plan, const struct pst_instr *instr, uint32_t rank)
{
    const uint32_t seat = seat_of(plan, instr, rank);

    return seat != PST_NONE ? seat : 0;
}

/* The meetings of MERGE come last: one for each replica of the stages before this one. */
static uint32_t first_merge(const struct pst_plan *plan, uint32_t stage)
{
    uint32_t n = 2 * plan->n_stages + 1;

    for (uint32_t t = 0; t < plan->n_ties; t++) {
        n += sums_of(plan, t);
    }
    n *= pst_plan_tensor(plan);
    for (uint32_t s = 0; s < stage; s++) {
        n += pst_plan_replicas(&plan->stages[s]);
    }
    return n;
}

uint32_t pst_plan_n_meetings(const struct pst_plan *plan)
{
    return first_merge(plan, plan->n_stages);
}

uint32_t pst_plan_meeting_of(const struct pst_plan *plan, const struct pst_instr *instr,
                             uint32_t rank)
{
    uint32_t n = 2 * plan->n_stages + (instr->op == PST_I_TIE);

    if (instr->op == PST_I_MERGE) {
        return first_merge(plan, instr->stage) + own_seat(plan, instr, rank);
    }
    if (instr->op == PST_I_REDUCE || instr->op == PST_I_GATHER) {
        n = instr->stage + (instr->op == PST_I_GATHER ? plan->n_stages : 0);
    }
    for (uint32_t t = 0; instr->op == PST_I_TIE && t < instr->stage; t++) {
        n += sums_of(plan, t);
    }
    return n * pst_plan_tensor(plan) + own_seat(plan, instr, rank);
}

uint32_t pst_plan_members(const struct pst_plan *plan, const struct pst_instr *instr, uint32_t rank,
                          uint32_t *ret_members)
{
    const uint32_t seat = own_seat(plan, instr, rank);
    uint32_t n = 0;

    for (uint32_t r = 0; r < plan->n_devices; r++) {
        if (seat_of(plan, instr, r) == seat) {
            ret_members[n++] = r;
        }
    }
    return n;
}

/* --- bytes -------------------------------------------------------------------------------------*/

static uint64_t norm_values(const struct pst_plan *plan, const struct pst_graph *graph)
{
    const uint32_t op = graph->tensors[graph->loss].producer;
    struct pst_arena arena = {0};
    struct pst_square_tree *trees;
    uint64_t n = plan->zero > 0 || pst_plan_tensor(plan) > 1
                     ? pst_plan_square_trees(plan, graph, &arena, &trees)
                     : graph->n_params;

    pst_arena_finish(&arena);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        if (pst_plan_replicas(stage) > 1 && pst_plan_node(stage, op) != PST_NONE) {
            return n + plan->step_batch;
        }
    }
    return n + 1;
}

/* Bytes of the stage's gradients that its passes sum, or of the others, which REDUCE does. */
static struct pst_meet_bytes gradient_bytes(const struct pst_plan *plan,
                                            const struct pst_graph *graph, uint32_t s, bool inside)
{
    const struct pst_plan_stage *stage = &plan->stages[s];
    struct pst_meet_bytes bytes = {0, 0};

    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        const struct pst_op *op = &graph->ops[stage->nodes[n]];

        for (uint32_t i = 0; i < op->n_param; i++) {
            const uint32_t p = op->param[i];
            const uint64_t own = p != PST_NONE && pst_plan_scatters(plan, s, p) == inside
                                     ? graph->params[p].elems * sizeof(float)
                                     : 0;

            bytes.added += own;
            bytes.copied += own > 0 && !pst_plan_cuts(plan, s, p) ? own : 0;
        }
    }
    return bytes;
}

uint64_t pst_plan_scattered_bytes(const struct pst_plan *plan, const struct pst_graph *graph,
                                  uint32_t stage)
{
    return plan->zero >= 2 ? gradient_bytes(plan, graph, stage, true).added : 0;
}

/* Bytes of partial gradients in the pieces that the replica updates. */
static uint64_t merged_bytes(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t s,
                             uint32_t replica)
{
    const struct pst_plan_stage *stage = &plan->stages[s];
    struct pst_arena arena = {0};
    struct pst_shards shards;
    uint64_t bytes = 0;

    pst_plan_shards(plan, graph, s, &arena, &shards);
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        const struct pst_op *op = &graph->ops[stage->nodes[n]];

        for (uint32_t i = 0; i < op->n_param; i++) {
            bytes += op->partial >> i & 1
                         ? pst_shard_of(&shards, graph, op->param[i], replica).elems * sizeof(float)
                         : 0;
        }
    }
    pst_arena_finish(&arena);
    return bytes;
}

/* Is the parameter updated by the STEP of this stage? That of the first stage with these ranks. */
static bool is_updated(const struct pst_plan *plan, const struct pst_parameter *parameter,
                       uint32_t s)
{
    for (uint32_t before = 0; before < s; before++) {
        for (uint32_t u = 0;
             pst_plan_shares(&plan->stages[before], &plan->stages[s]) && u < parameter->n_users;
             u++) {
            if (pst_plan_node(&plan->stages[before], parameter->users[u]) != PST_NONE) {
                return false;
            }
        }
    }
    return true;
}

static uint64_t weight_bytes(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t s)
{
    uint64_t bytes = 0;

    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct pst_parameter *parameter = &graph->params[p];
        bool used = false;

        for (uint32_t u = 0; u < parameter->n_users && !used; u++) {
            used = pst_plan_node(&plan->stages[s], parameter->users[u]) != PST_NONE;
        }
        if (used && pst_plan_cuts(plan, s, p) &&
            (parameter->n_users == 1 || is_updated(plan, parameter, s))) {
            bytes += parameter->elems * pst_dtype_bytes(parameter->dtype);
        }
    }
    return bytes;
}

struct pst_meet_bytes pst_plan_meet_bytes(const struct pst_plan *plan,
                                          const struct pst_graph *graph,
                                          const struct pst_instr *instr, uint32_t rank)
{
    const struct pst_plan_tie *tie;
    uint32_t n_pieces;
    uint64_t bytes;

    switch (instr->op) {
    case PST_I_REDUCE:
        return gradient_bytes(plan, graph, instr->stage, false);
    case PST_I_MERGE:
        bytes = merged_bytes(plan, graph, instr->stage, own_seat(plan, instr, rank));
        return (struct pst_meet_bytes){bytes, bytes};
    case PST_I_GATHER:
        return (struct pst_meet_bytes){0, weight_bytes(plan, graph, instr->stage)};
    case PST_I_TIE:
        n_pieces = sums_of(plan, instr->stage);
        tie = &plan->ties[instr->stage];
        bytes = pst_shard_tied(graph, tie->parameter, n_pieces,
                               own_seat(plan, instr, rank) / plan->stages[tie->stages[0]].tensor)
                    .elems *
                sizeof(float);
        return (struct pst_meet_bytes){bytes, bytes};
    case PST_I_NORM:
        bytes = norm_values(plan, graph) * sizeof(double);
        return (struct pst_meet_bytes){bytes, bytes};
    default:
        return (struct pst_meet_bytes){0, 0};
    }
}

/* --- the norm ----------------------------------------------------------------------------------*/

/* Blocks of the largest tree that begins at this one and has no more than `most` blocks, or reaches
   the end of the parameter. */
static uint64_t width_at(uint64_t block, uint64_t end, bool last)
{
    uint64_t width = 1;

    while (block % (2 * width) == 0 &&
           (block + 2 * width <= end || (last && block + width < end))) {
        width *= 2;
    }
    return width;
}

static uint64_t blocks_of(uint64_t elems)
{
    return (elems + PST_SHARD_BLOCK - 1) / PST_SHARD_BLOCK;
}

struct trees {
    struct pst_square_tree *rows;
    uint32_t n;
    size_t room;
};

/* Adds the trees of a piece; `tree` has what they share. */
static void add_trees(struct trees *trees, struct pst_square_tree tree, uint64_t elems,
                      struct pst_shard piece)
{
    const uint64_t until = piece.first + piece.elems, end = blocks_of(until);

    for (uint64_t block = piece.first / PST_SHARD_BLOCK; piece.elems > 0 && block < end;) {
        const uint64_t width = width_at(block, end, until == elems);
        const uint64_t all = width * PST_SHARD_BLOCK;

        tree.first = block * PST_SHARD_BLOCK;
        tree.elems = until - tree.first < all ? until - tree.first : all;
        pst_grow(&trees->rows, &trees->room, trees->n, sizeof *trees->rows);
        trees->rows[trees->n++] = tree;
        block += width;
    }
}

/* The piece that begins at this element. */
static uint32_t member_at(const struct pst_shards *shards, const struct pst_graph *graph,
                          uint32_t parameter, uint64_t first)
{
    uint32_t m = 0;
    struct pst_shard piece = pst_shard_of(shards, graph, parameter, m);

    while (piece.first != first || piece.elems == 0) {
        piece = pst_shard_of(shards, graph, parameter, ++m);
    }
    return m;
}

/* Adds the trees of a part; shards: NULL where nothing is cut. */
static void add_parameter(struct trees *trees, const struct pst_graph *graph,
                          const struct pst_shards *shards, uint32_t p, uint32_t part)
{
    const uint64_t elems = graph->params[p].elems;
    struct pst_square_tree tree = {.parameter = p, .part = part};
    struct pst_shard piece = {0, elems};

    for (uint64_t first = 0; first < elems; first += piece.elems) {
        if (shards != NULL) {
            tree.member = member_at(shards, graph, p, first);
            piece = pst_shard_of(shards, graph, p, tree.member);
        }
        add_trees(trees, tree, elems, piece);
    }
}

/* The parts whose elements count: all of a split parameter; else the first, for all have the same.
   A group counts as one, whose parts are not told apart. */
static uint32_t counted_parts(const struct pst_plan *plan, const struct pst_parameter *parameter)
{
    return pst_is_split(parameter) && pst_plan_tensor(plan) > 1 ? parameter->box.parts : 1;
}

uint32_t pst_plan_square_trees(const struct pst_plan *plan, const struct pst_graph *graph,
                               struct pst_arena *arena, struct pst_square_tree **ret_trees)
{
    struct pst_shards *shards = pst_arena_array(arena, plan->n_stages, sizeof *shards);
    uint32_t *stage_of = pst_arena_none(arena, graph->n_ops);
    struct trees trees = {0};

    for (uint32_t s = 0; s < plan->n_stages && plan->zero > 0; s++) {
        pst_plan_shards(plan, graph, s, arena, &shards[s]);
        for (uint32_t n = 0; n < plan->stages[s].n_nodes; n++) {
            stage_of[plan->stages[s].nodes[n]] = s;
        }
    }
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct pst_shards *of =
            plan->zero > 0 ? &shards[stage_of[graph->params[p].users[0]]] : NULL;

        for (uint32_t part = 0; part < counted_parts(plan, &graph->params[p]); part++) {
            add_parameter(&trees, graph, of, p, part);
        }
    }
    *ret_trees = pst_arena_copy(arena, trees.rows, trees.n, sizeof *trees.rows);
    free(trees.rows);
    return trees.n;
}

struct subtree {
    uint64_t block, width;
    double sum;
};

/* Neighbours of equal width first; what is missing at the end is 0. */
double pst_square_trees_sum(const struct pst_square_tree *trees, uint32_t n, const double *sums)
{
    struct subtree stack[65];
    double total = 0;

    for (uint32_t i = 0; i < n;) {
        const struct pst_square_tree *of = &trees[i];
        uint32_t depth = 0;

        for (; i < n && trees[i].parameter == of->parameter && trees[i].part == of->part; i++) {
            struct subtree next = {trees[i].first / PST_SHARD_BLOCK, 1, sums[i]};

            while (next.width < blocks_of(trees[i].elems)) {
                next.width *= 2;
            }
            for (; depth > 0 && stack[depth - 1].width == next.width &&
                   stack[depth - 1].block % (2 * next.width) == 0;
                 depth--) {
                next = (struct subtree){stack[depth - 1].block, 2 * next.width,
                                        stack[depth - 1].sum + next.sum};
            }
            stack[depth++] = next;
        }
        for (; depth > 1; depth--) {
            stack[depth - 2].sum += stack[depth - 1].sum;
        }
        total += stack[0].sum;
    }
    return total;
}
