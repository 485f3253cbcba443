/* SPDX-License-Identifier: Apache-2.0
 *
 * All interleavings of tiny lists, by brute force: states are visited with a hash set, an event is
 * whatever the rules of docs/plan.md ("lists and waits") allow next. Written from those rules
 * alone, so that the checker's one run can be held against it. At most 4 ranks of 12 instructions.
 */
#ifndef TESTS_CHECK_EXPLORER_H
#define TESTS_CHECK_EXPLORER_H

#include "graph/split.h"
#include "plan/shards.h"
#include "prove/check.h"

#include <stdlib.h>
#include <string.h>

#define XP_RANKS  4
#define XP_INSTRS 12

/* Where everybody stands. */
struct xp_state {
    union {
        struct {
            uint16_t done[XP_RANKS];
            uint8_t pc[XP_RANKS];     /* next instruction that the list looks at */
            uint8_t posted[XP_RANKS]; /* instructions before this one are posted (or have run) */
        };
        uint64_t key[2]; /* all of it */
    };
};
_Static_assert(sizeof(struct xp_state) == 16, "a state is its key");

/* What an instruction needs, as bit sets over the instructions of its list, or of another's. */
struct xp_instr {
    uint16_t waits;
    uint16_t before;         /* earlier ones of its queue */
    uint16_t earlier_groups; /* ordered: transfers before its group */
    uint8_t group_end;
    bool transfer, reduction;
    bool together; /* a pass that the parts of a replica, or all ranks of a stage, begin together */
    uint8_t op, peer;
    uint8_t sequence;         /* transfers: position on the channel */
    uint8_t partner;          /* transfers: the same position at the other end, 0xFF: none */
    uint16_t meets[XP_RANKS]; /* reductions, passes together: the same one on each member */
    bool member[XP_RANKS];
};

struct explorer {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    uint32_t capacity, n_ranks;
    bool ordered, async_reductions;
    struct xp_instr instrs[XP_RANKS][XP_INSTRS];
    uint32_t n_instrs[XP_RANKS];
    uint16_t sends[XP_RANKS][XP_RANKS], recvs[XP_RANKS][XP_RANKS]; /* [rank][peer] */
    uint16_t transfers[XP_RANKS], reductions[XP_RANKS];            /* [rank] */
    struct xp_state *set; /* open addressing; a state of all 0xFF is free */
    size_t room, n_states;
    size_t allocated; /* room at most */
    struct xp_state *stack;
    size_t n_stack, stack_room;
    bool some_end_whole, some_end_short;
};

static inline const struct pst_instr *xp_at(const struct explorer *x, uint32_t r, uint32_t i)
{
    return &x->plan->devices[r].body[i];
}

static inline bool xp_is_transfer(uint32_t op)
{
    return op == PST_I_SEND || op == PST_I_RECV;
}

static inline bool xp_is_pass(uint32_t op)
{
    return op <= PST_I_R;
}

static inline bool xp_is_reduction(uint32_t op)
{
    return op == PST_I_REDUCE || op == PST_I_MERGE || op == PST_I_TIE || op == PST_I_NORM ||
           op == PST_I_GATHER;
}

/* Returns true if the parameter is in pieces over the replicas of its stage. Stages here may share
   some ranks and not others, of which pst_plan_cuts() says nothing: a tied parameter is in pieces
   if every two of its stages have as many ranks, and the same or none in common. */
static inline bool xp_is_cut(const struct pst_plan *plan, uint32_t stage, uint32_t parameter)
{
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        const struct pst_plan_tie *tie = &plan->ties[t];
        for (uint32_t i = 0; tie->parameter == parameter && i < tie->n_stages; i++) {
            const struct pst_plan_stage *a = &plan->stages[tie->stages[i]];
            for (uint32_t j = 0; j < i; j++) {
                const struct pst_plan_stage *b = &plan->stages[tie->stages[j]];
                uint32_t n_both = 0;
                for (uint32_t r = 0; r < b->n_ranks; r++) {
                    n_both += pst_plan_place(a, b->ranks[r]) != PST_NONE;
                }
                if (a->n_ranks != b->n_ranks ||
                    (n_both > 0 && memcmp(a->ranks, b->ranks, a->n_ranks * sizeof *a->ranks))) {
                    return false;
                }
            }
        }
    }
    return plan->zero > 0 && pst_plan_replicas(&plan->stages[stage]) > 1;
}

/* It makes gradients which the replicas of its stage sum in it (ZeRO 2), or is any pass of such a
   stage, which gathers weights from them (ZeRO 3). */
static inline bool xp_is_sum(const struct explorer *x, const struct pst_instr *instr)
{
    const struct pst_plan_stage *stage = &x->plan->stages[instr->stage];
    bool any = false;
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        const struct pst_op *op = &x->graph->ops[stage->nodes[i]];
        for (uint32_t p = 0; p < op->n_param; p++) {
            any |= op->param[p] != PST_NONE && x->plan->zero >= 2 &&
                   xp_is_cut(x->plan, instr->stage, op->param[p]);
        }
    }
    return any && (instr->op == PST_I_W || instr->op == PST_I_BW || x->plan->zero == 3);
}

/* Its stage has something for which the parts of a replica need each other, or its replicas sum
   gradients or gather weights: then they begin it together. Otherwise only W has nothing of the
   kind. */
static inline bool xp_is_together(const struct explorer *x, const struct pst_instr *instr)
{
    if (xp_is_pass(instr->op) && xp_is_sum(x, instr)) {
        return true;
    }
    const struct pst_plan_stage *stage = &x->plan->stages[instr->stage];
    if (!xp_is_pass(instr->op) || instr->op == PST_I_W || stage->tensor == 1) {
        return false;
    }
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        const struct pst_op *op = &x->graph->ops[stage->nodes[i]];
        if (pst_op_meets(op, 0) || pst_op_meets(op, 1)) {
            return true;
        }
    }
    return false;
}

static inline bool xp_holds(const struct pst_plan_stage *stage, uint32_t r)
{
    return pst_plan_place(stage, r) != PST_NONE;
}

/* The place of a rank in the stages of a tie, which is one in all of them if the parameter is in
   pieces; PST_NONE: it has none of these stages. */
static inline uint32_t xp_place(const struct pst_plan *plan, const struct pst_plan_tie *tie,
                                uint32_t r)
{
    uint32_t place = PST_NONE;
    for (uint32_t k = 0; k < tie->n_stages && place == PST_NONE; k++) {
        place = pst_plan_place(&plan->stages[tie->stages[k]], r);
    }
    return place;
}

/* Which part of its replica a rank is, the same in all of its stages; 0 where it has none. */
static inline uint32_t xp_part(const struct pst_plan *plan, uint32_t r)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (xp_holds(&plan->stages[s], r)) {
            return pst_plan_place(&plan->stages[s], r) % plan->stages[s].tensor;
        }
    }
    return 0;
}

/* Returns true if rank q is in the meeting of rank r: all ranks are in NORM, the parts of r's
   replica in MERGE and passes, all of a stage in passes where its replicas sum gradients, those
   with the same piece in TIE of pieces, the same part of each replica in the others. */
static inline bool xp_is_member(const struct explorer *x, const struct pst_instr *instr, uint32_t r,
                                uint32_t q)
{
    const struct pst_plan *plan = x->plan;
    if (instr->op == PST_I_NORM) {
        return true;
    }
    if (xp_is_pass(instr->op) && xp_is_sum(x, instr)) {
        return xp_holds(&plan->stages[instr->stage], r) && xp_holds(&plan->stages[instr->stage], q);
    }
    if (instr->op == PST_I_MERGE || xp_is_pass(instr->op)) {
        const struct pst_plan_stage *stage = &plan->stages[instr->stage];
        return xp_holds(stage, r) && xp_holds(stage, q) &&
               pst_plan_place(stage, q) / stage->tensor == pst_plan_place(stage, r) / stage->tensor;
    }
    const struct pst_plan_tie *tie = instr->op == PST_I_TIE ? &plan->ties[instr->stage] : NULL;
    if (tie != NULL && xp_is_cut(plan, tie->stages[0], tie->parameter)) {
        return xp_place(plan, tie, q) != PST_NONE &&
               xp_place(plan, tie, q) == xp_place(plan, tie, r);
    }
    for (uint32_t k = 0; k < (tie != NULL ? tie->n_stages : 1); k++) {
        if (xp_holds(&plan->stages[tie != NULL ? tie->stages[k] : instr->stage], q)) {
            return xp_part(plan, q) == xp_part(plan, r);
        }
    }
    return false;
}

/* How many transfers of this kind and peer come before instruction i. */
static inline uint8_t xp_sequence(const struct explorer *x, uint32_t r, uint32_t i)
{
    uint8_t n = 0;
    for (uint32_t j = 0; j < i; j++) {
        n += xp_at(x, r, j)->op == xp_at(x, r, i)->op &&
             xp_at(x, r, j)->peer == xp_at(x, r, i)->peer;
    }
    return n;
}

static inline void xp_note_queue(struct explorer *x, uint32_t r, uint32_t i, struct xp_instr *to)
{
    uint32_t begin = i, end = i + 1;
    while (begin > 0 && xp_is_transfer(xp_at(x, r, begin - 1)->op)) {
        begin--;
    }
    while (end < x->n_instrs[r] && xp_is_transfer(xp_at(x, r, end)->op)) {
        end++;
    }
    to->group_end = (uint8_t)end;
    for (uint32_t j = 0; j < i; j++) {
        uint32_t op = xp_at(x, r, j)->op;
        if (to->reduction ? xp_is_reduction(op) : op == to->op) {
            to->before |= (uint16_t)(1u << j);
        }
        if (j < begin && xp_is_transfer(op)) {
            to->earlier_groups |= (uint16_t)(1u << j);
        }
    }
}

static inline void xp_note_others(struct explorer *x, uint32_t r, uint32_t i, struct xp_instr *to)
{
    const struct pst_instr *self = xp_at(x, r, i);
    to->partner = 0xFF;
    for (uint32_t q = 0; q < x->n_ranks; q++) {
        to->member[q] = (to->reduction || to->together) && xp_is_member(x, self, r, q);
        for (uint32_t j = 0; j < x->n_instrs[q]; j++) {
            const struct pst_instr *other = xp_at(x, q, j);
            if (to->transfer && q == self->peer && xp_is_transfer(other->op) &&
                other->op != self->op && other->peer == r && xp_sequence(x, q, j) == to->sequence) {
                to->partner = (uint8_t)j;
            }
            if ((to->reduction || to->together) && other->op == self->op &&
                other->stage == self->stage && other->microbatch == self->microbatch) {
                to->meets[q] |= (uint16_t)(1u << j);
            }
        }
    }
}

static inline void xp_note_plan(struct explorer *x)
{
    x->n_ranks = x->plan->n_devices;
    memset(x->instrs, 0, sizeof x->instrs);
    memset(x->sends, 0, sizeof x->sends);
    memset(x->recvs, 0, sizeof x->recvs);
    memset(x->transfers, 0, sizeof x->transfers);
    memset(x->reductions, 0, sizeof x->reductions);
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        x->n_instrs[r] = x->plan->devices[r].n_instrs;
    }
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        for (uint32_t i = 0; i < x->n_instrs[r]; i++) {
            const struct pst_instr *from = xp_at(x, r, i);
            struct xp_instr *to = &x->instrs[r][i];
            to->op = from->op;
            to->peer = (uint8_t)from->peer;
            to->transfer = xp_is_transfer(from->op);
            to->reduction = xp_is_reduction(from->op);
            to->together = xp_is_together(x, from);
            to->sequence = xp_sequence(x, r, i);
            for (uint32_t w = 0; w < from->n_waits; w++) {
                to->waits |= (uint16_t)(1u << from->waits[w]);
            }
            if (from->op == PST_I_SEND) {
                x->sends[r][from->peer] |= (uint16_t)(1u << i);
            } else if (from->op == PST_I_RECV) {
                x->recvs[r][from->peer] |= (uint16_t)(1u << i);
            }
            x->transfers[r] |= (uint16_t)(to->transfer << i);
            x->reductions[r] |= (uint16_t)(to->reduction << i);
            xp_note_queue(x, r, i, to);
            xp_note_others(x, r, i, to);
        }
    }
}

static inline bool xp_is_done(const struct xp_state *s, uint32_t r, uint32_t i)
{
    return s->done[r] >> i & 1;
}

/* It is posted, open, and the first such of its queue; ordered: its group is posted and the first.
 */
static inline bool xp_may_go(const struct explorer *x, const struct xp_state *s, uint32_t r,
                             uint32_t i)
{
    const struct xp_instr *instr = &x->instrs[r][i];
    if (xp_is_done(s, r, i) || i >= s->posted[r]) {
        return false;
    }
    if (x->ordered && instr->transfer) {
        return s->posted[r] >= instr->group_end &&
               (s->done[r] & instr->earlier_groups) == instr->earlier_groups;
    }
    return (s->done[r] & instr->before) == instr->before;
}

static inline bool xp_is_free(const struct xp_state *s)
{
    return s->key[0] == UINT64_MAX && s->key[1] == UINT64_MAX;
}

/* The slot of the set that holds the state, or where it goes. */
static inline struct xp_state *xp_slot(const struct explorer *x, const struct xp_state *s)
{
    uint64_t hash = (s->key[0] ^ s->key[1] * 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull;
    size_t at = (size_t)(hash >> 32) & (x->room - 1);
    while (!xp_is_free(&x->set[at]) &&
           (x->set[at].key[0] != s->key[0] || x->set[at].key[1] != s->key[1])) {
        at = (at + 1) & (x->room - 1);
    }
    return &x->set[at];
}

/* An empty set of `room` slots, a power of two. */
static inline void xp_clear(struct explorer *x, size_t room)
{
    if (room > x->allocated) {
        free(x->set);
        x->set = malloc(room * sizeof *x->set);
        x->allocated = room;
    }
    memset(x->set, 0xFF, room * sizeof *x->set);
    x->room = room;
}

static inline void xp_grow(struct explorer *x)
{
    size_t old_room = x->room;
    struct xp_state *old = malloc(old_room * sizeof *old);
    memcpy(old, x->set, old_room * sizeof *old);
    xp_clear(x, 4 * old_room);
    for (size_t i = 0; i < old_room; i++) {
        if (!xp_is_free(&old[i])) {
            *xp_slot(x, &old[i]) = old[i];
        }
    }
    free(old);
}

static inline void xp_push(struct explorer *x, const struct xp_state *s)
{
    struct xp_state *slot = xp_slot(x, s);
    if (!xp_is_free(slot)) {
        return;
    }
    *slot = *s;
    if (2 * ++x->n_states >= x->room) {
        xp_grow(x);
    }
    if (x->n_stack == x->stack_room) {
        x->stack_room = x->stack_room == 0 ? 1024 : 2 * x->stack_room;
        x->stack = realloc(x->stack, x->stack_room * sizeof *x->stack);
    }
    x->stack[x->n_stack++] = *s;
}

/* The list of rank r is at a pass that others begin with it. The pass runs when
   all their lists are at it and their waits are over. */
static inline bool xp_pass_event(struct explorer *x, const struct xp_state *s, uint32_t r)
{
    const struct xp_instr *self = &x->instrs[r][s->pc[r]];
    struct xp_state next = *s;
    for (uint32_t q = 0; q < x->n_ranks; q++) {
        uint32_t j = s->pc[q];
        if (!self->member[q]) {
            continue;
        }
        if (!(self->meets[q] >> j & 1) ||
            (s->done[q] & x->instrs[q][j].waits) != x->instrs[q][j].waits) {
            return false;
        }
        next.posted[q] = next.pc[q] = (uint8_t)(j + 1);
        next.done[q] |= (uint16_t)(1u << j);
    }
    xp_push(x, &next);
    return true;
}

/* The list of rank r looks at its next instruction. */
static inline bool xp_list_event(struct explorer *x, const struct xp_state *s, uint32_t r)
{
    uint32_t i = s->pc[r];
    struct xp_state next = *s;
    const struct xp_instr *instr = &x->instrs[r][i];
    if (i >= x->n_instrs[r] || (s->done[r] & instr->waits) != instr->waits) {
        return false;
    }
    if (instr->together) {
        return xp_pass_event(x, s, r);
    }
    bool stays = (instr->op == PST_I_TIE || instr->op == PST_I_NORM) && !x->async_reductions;
    if (stays && s->posted[r] == i + 1) {
        if (!xp_is_done(s, r, i)) {
            return false; /* until the reduction has ended */
        }
        next.pc[r]++;
    } else {
        next.posted[r] = (uint8_t)(i + 1);
        next.pc[r] = (uint8_t)(stays ? i : i + 1);
        if (!instr->reduction && !instr->transfer) {
            next.done[r] |= (uint16_t)(1u << i);
        }
    }
    xp_push(x, &next);
    return true;
}

/* A SEND of rank a that may go: into the channel, or to its RECV. */
static inline bool xp_send_event(struct explorer *x, const struct xp_state *s, uint32_t a,
                                 uint32_t i)
{
    const struct xp_instr *send = &x->instrs[a][i];
    uint32_t b = send->peer, j = send->partner;
    bool any = false;
    if (!xp_may_go(x, s, a, i)) {
        return false;
    }
    int held = __builtin_popcount(s->done[a] & x->sends[a][b]) -
               __builtin_popcount(s->done[b] & x->recvs[b][a]);
    if (!x->ordered && held < (int)x->capacity) {
        struct xp_state next = *s;
        next.done[a] |= (uint16_t)(1u << i);
        xp_push(x, &next);
        any = true;
    }
    if (j != 0xFF && xp_may_go(x, s, b, j)) {
        struct xp_state next = *s;
        next.done[a] |= (uint16_t)(1u << i);
        next.done[b] |= (uint16_t)(1u << j);
        xp_push(x, &next);
        any = true;
    }
    return any;
}

/* A RECV whose message is in the channel. */
static inline bool xp_recv_event(struct explorer *x, const struct xp_state *s, uint32_t b,
                                 uint32_t j)
{
    const struct xp_instr *recv = &x->instrs[b][j];
    if (x->ordered || recv->partner == 0xFF || !xp_is_done(s, recv->peer, recv->partner) ||
        !xp_may_go(x, s, b, j)) {
        return false;
    }
    struct xp_state next = *s;
    next.done[b] |= (uint16_t)(1u << j);
    xp_push(x, &next);
    return true;
}

/* A reduction ends when it is at the head of every member. */
static inline bool xp_reduction_event(struct explorer *x, const struct xp_state *s, uint32_t r,
                                      uint32_t i)
{
    const struct xp_instr *self = &x->instrs[r][i];
    struct xp_state next = *s;
    if (!self->member[r] || !xp_may_go(x, s, r, i)) {
        return false;
    }
    for (uint32_t q = 0; q < x->n_ranks; q++) {
        uint32_t open = self->member[q] ? (uint32_t)(self->meets[q] & ~s->done[q]) : 0;
        bool found = false;
        for (; open != 0; open &= open - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(open);
            if (xp_may_go(x, s, q, j)) {
                next.done[q] |= (uint16_t)(1u << j);
                found = true;
            }
        }
        if (self->member[q] && !found) {
            return false;
        }
    }
    xp_push(x, &next);
    return true;
}

static inline void xp_expand(struct explorer *x, const struct xp_state *s)
{
    bool any = false, whole = true;
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        any |= xp_list_event(x, s, r);
        whole &= s->done[r] == (1u << x->n_instrs[r]) - 1u;
        uint32_t open = ((1u << s->posted[r]) - 1u) & ~s->done[r];
        for (uint32_t set = open & x->transfers[r]; set != 0; set &= set - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(set);
            any |= x->instrs[r][i].op == PST_I_SEND ? xp_send_event(x, s, r, i)
                                                    : xp_recv_event(x, s, r, i);
        }
        for (uint32_t set = open & x->reductions[r]; set != 0; set &= set - 1) {
            any |= xp_reduction_event(x, s, r, (uint32_t)__builtin_ctz(set));
        }
    }
    if (!any) {
        *(whole ? &x->some_end_whole : &x->some_end_short) = true;
    }
}

/* Whether every interleaving runs to the end. *ret_agree: all of them end alike. */
static inline bool xp_explore(struct explorer *x, const struct pst_plan *plan,
                              const struct pst_graph *graph, uint32_t capacity, bool ordered,
                              bool async_reductions, bool *ret_agree)
{
    struct xp_state start;
    memset(&start, 0, sizeof start);
    x->plan = plan;
    x->graph = graph;
    x->capacity = capacity;
    x->ordered = ordered;
    x->async_reductions = async_reductions;
    xp_note_plan(x);
    x->some_end_whole = x->some_end_short = false;
    x->n_states = x->n_stack = 0;
    xp_clear(x, 256);
    xp_push(x, &start);
    while (x->n_stack > 0) {
        struct xp_state s = x->stack[--x->n_stack];
        xp_expand(x, &s);
    }
    *ret_agree = !(x->some_end_whole && x->some_end_short);
    return !x->some_end_short;
}

static inline void xp_close(struct explorer *x)
{
    free(x->set);
    free(x->stack);
}

#endif
