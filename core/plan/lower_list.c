/* SPDX-License-Identifier: Apache-2.0
 *
 * Second half of lowering: where each transfer is posted, what waits for what, and the instruction
 * lists themselves.
 */
#include "plan/lower.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SEND_BUFFERS 4 /* of a stage and direction; beyond that the link is what is slow */

/* While a rank's list is written. */
struct list {
    struct pst_instr *instrs;
    uint32_t n, room;
    uint32_t *pass_at;     /* final position of each pass of the order */
    uint32_t *transfer_at; /* final position of each transfer's end here (send or recv), by index */
};

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/*
 * In key order: a SEND right behind its producer, a RECV before the pass that runs when the data
 * leaves, neither before an earlier transfer of its rank. The consumer ends after the data leaves,
 * so a RECV never comes behind it.
 */
static pst_status place_transfers(struct pst_lowering *low, struct pst_error *err)
{
    uint32_t *last = pst_arena_array(&low->arena, low->plan->n_devices, sizeof *last);

    if (last == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t i = 0; i < low->n_transfers; i++) {
        struct pst_transfer *t = &low->transfers[i];

        t->send_gap = t->payload == PST_PAYLOAD_LOAD /* has been there for long */
                          ? pst_lowering_running_at(low, t->from_rank, t->time_ns)
                          : t->from_pass + 1;
        t->send_gap = max_u32(t->send_gap, last[t->from_rank]);
        last[t->from_rank] = t->send_gap;
        t->recv_gap =
            max_u32(pst_lowering_running_at(low, t->to_rank, t->time_ns), last[t->to_rank]);
        last[t->to_rank] = t->recv_gap;
        if (t->recv_gap > t->to_pass) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "LIVE1: no place for the receive of edge %u, samples %u.., before its "
                            "consumer on device %u",
                            t->edge, t->first_sample, t->to_rank);
        }
    }
    return PST_OK;
}

static struct pst_instr *append(struct list *list, uint8_t op, uint32_t stage)
{
    struct pst_instr *instr = &list->instrs[list->n++];

    PST_ASSERT(list->n <= list->room);
    memset(instr, 0, sizeof *instr);
    instr->op = op;
    instr->stage = stage;
    return instr;
}

static void append_transfer(struct list *list, const struct pst_transfer *t, bool send,
                            uint32_t index)
{
    struct pst_instr *instr = append(list, send ? PST_I_SEND : PST_I_RECV, t->edge);

    instr->payload = t->payload;
    instr->first_sample = t->first_sample;
    instr->n_samples = t->n_samples;
    instr->peer = send ? t->to_rank : t->from_rank;
    list->transfer_at[index] = list->n - 1;
}

/* Which pass of each stage is the last that adds to its gradients. */
static pst_status find_last_gradients(struct pst_lowering *low, struct pst_error *err)
{
    uint32_t n = low->plan->n_stages;

    low->last_gradient = pst_arena_array(&low->arena, n, sizeof *low->last_gradient);
    if (low->last_gradient == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < n && low->training; s++) {
        for (uint32_t j = 0; j < low->plan->stages[s].n_microbatches; j++) {
            uint32_t row = low->base[s] + j, at = low->at[PST_PASS_W][row];

            at = at != PST_NONE ? at : low->at[PST_PASS_BW][row];
            low->last_gradient[s] = max_u32(low->last_gradient[s], at);
        }
    }
    return PST_OK;
}

static bool tie_on_rank(const struct pst_lowering *low, const struct pst_plan_tie *tie,
                        uint32_t rank)
{
    for (uint32_t i = 0; i < tie->n_stages; i++) {
        if (pst_lowering_holds(low, rank, tie->stages[i])) {
            return true;
        }
    }
    return false;
}

static bool is_tied(const struct pst_plan *plan, uint32_t stage)
{
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        for (uint32_t i = 0; i < plan->ties[t].n_stages; i++) {
            if (plan->ties[t].stages[i] == stage) {
                return true;
            }
        }
    }
    return false;
}

/* REDUCE behind the last gradient of a stage, and STEP where that needs no other rank. */
static void write_sums(const struct pst_lowering *low, uint32_t stage, struct list *list)
{
    append(list, PST_I_REDUCE, stage);
    if (!low->plan->barrier && !is_tied(low->plan, stage) &&
        low->plan->stages[stage].n_ranks == 1) {
        append(list, PST_I_STEP, stage);
    }
}

static void write_pass(const struct pst_pass *pass, uint32_t p, const struct pst_copies *copies,
                       uint32_t *next_copy, struct list *list)
{
    append(list, pass->op, pass->stage)->microbatch = pass->microbatch;
    list->pass_at[p] = list->n - 1;
    for (; *next_copy < copies->n && copies->places[*next_copy]->behind == p; ++*next_copy) {
        struct pst_copy *copy = copies->places[*next_copy];
        struct pst_instr *instr = append(list, copy->op, copy->stage);

        instr->microbatch = copy->microbatch;
        instr->node = copy->node;
        copy->at = list->n - 1;
    }
}

/* Passes with the copies behind them and the transfers between. Of a stage with replicas REDUCE
   follows what is sent behind its last gradient: the others may wait for that. */
static void write_body(struct pst_lowering *low, uint32_t rank, const struct pst_copies *copies,
                       struct list *list)
{
    uint32_t next = 0, next_copy = 0, put_off = PST_NONE;

    for (uint32_t p = 0; p <= low->n_passes[rank]; p++) {
        for (; next < low->n_transfers; next++) {
            const struct pst_transfer *t = &low->transfers[next];
            uint32_t gap = t->from_rank == rank ? t->send_gap : t->recv_gap;

            if (t->from_rank != rank && t->to_rank != rank) {
                continue;
            }
            if (gap > p) {
                break;
            }
            append_transfer(list, t, t->from_rank == rank, next);
        }
        if (put_off != PST_NONE) {
            write_sums(low, put_off, list);
            put_off = PST_NONE;
        }
        if (p < low->n_passes[rank]) {
            const struct pst_pass *pass = &low->orders[rank][p];

            write_pass(pass, p, copies, &next_copy, list);
            if (low->training && pass->op >= PST_PASS_W && p == low->last_gradient[pass->stage]) {
                if (low->plan->stages[pass->stage].n_ranks > 1) {
                    put_off = pass->stage;
                } else {
                    write_sums(low, pass->stage, list);
                }
            }
        }
    }
}

static void write_tail(struct pst_lowering *low, uint32_t rank, struct list *list)
{
    const struct pst_plan *plan = low->plan;

    for (uint32_t i = 0; i < plan->n_ties; i++) {
        if (tie_on_rank(low, &plan->ties[i], rank)) {
            append(list, PST_I_TIE, i);
        }
    }
    if (plan->barrier) {
        append(list, PST_I_NORM, 0);
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (pst_lowering_holds(low, rank, s) &&
            (plan->barrier || is_tied(plan, s) || plan->stages[s].n_ranks > 1)) {
            append(list, PST_I_STEP, s);
        }
    }
}

/* --- waits -------------------------------------------------------------------------------------
 */

/* The pass after `gap` that writes the same buffer again: same stage, same direction. */
static uint32_t next_alike(const struct pst_lowering *low, uint32_t rank, uint32_t producer,
                           uint32_t gap)
{
    const struct pst_pass *pass = &low->orders[rank][producer];
    bool forward = pass->op == PST_PASS_F;

    for (uint32_t p = max_u32(gap, producer + 1); p < low->n_passes[rank]; p++) {
        const struct pst_pass *other = &low->orders[rank][p];

        if (other->stage == pass->stage && other->op != PST_PASS_W &&
            (other->op == PST_PASS_F) == forward) {
            return p;
        }
    }
    return PST_NONE;
}

static uint64_t begin_ns(const struct pst_lowering *low, uint32_t rank, uint32_t pass)
{
    return low->end_ns[rank][pass] - pst_lowering_pass_ns(low, &low->orders[rank][pass]);
}

/* The pass that waits for a SEND, for it may write to the same buffer: the next one alike. Where
   that would stand still, a later one, and there is a buffer more. */
static uint32_t send_join(const struct pst_lowering *low, uint32_t rank,
                          const struct pst_transfer *t)
{
    uint64_t bytes = low->plan->edges[t->edge].bytes_per_sample * t->n_samples;
    uint64_t free_ns =
        t->time_ns + pst_cost_transfer_ns(low->cost, bytes, t->from_rank, t->to_rank);
    uint32_t join = next_alike(low, rank, t->from_pass, t->send_gap);

    for (uint32_t n = 1; low->plan->spread_sends && n < MOST_SEND_BUFFERS && join != PST_NONE &&
                         begin_ns(low, rank, join) < free_ns;
         n++) {
        join = next_alike(low, rank, join, join + 1);
    }
    return join;
}

static void add_pair(struct pst_wait_pair *pairs, uint32_t *n, uint32_t instr, uint32_t wait)
{
    pairs[(*n)++] = (struct pst_wait_pair){instr, wait};
}

/* Transfers: a SEND for its producer; the producer's next run for the SEND; a consumer for its
 * RECV. */
static void transfer_waits(const struct pst_lowering *low, uint32_t rank, const struct list *list,
                           uint32_t norm, struct pst_wait_pair *pairs, uint32_t *n)
{
    for (uint32_t i = 0; i < low->n_transfers; i++) {
        const struct pst_transfer *t = &low->transfers[i];
        uint32_t at = list->transfer_at[i];

        if (t->payload >= PST_PAYLOAD_EVICT) {
            pst_lowering_guest_waits(low, rank, i, list->pass_at, list->transfer_at, norm, pairs,
                                     n);
        } else if (t->from_rank == rank) {
            uint32_t join = send_join(low, rank, t);

            add_pair(pairs, n, at, list->pass_at[t->from_pass]);
            if (join != PST_NONE) {
                add_pair(pairs, n, list->pass_at[join], at);
            } else if (norm != PST_NONE) {
                add_pair(pairs, n, norm, at);
            }
        } else if (t->to_rank == rank) {
            add_pair(pairs, n, list->pass_at[t->to_pass], at);
        }
    }
}

static bool is_member(const struct pst_plan_tie *tie, uint32_t stage)
{
    for (uint32_t s = 0; s < tie->n_stages; s++) {
        if (tie->stages[s] == stage) {
            return true;
        }
    }
    return false;
}

/* TIE and STEP: for the REDUCE of their stages; STEP also for their TIE. */
static void sum_waits(const struct pst_lowering *low, const struct list *list, uint32_t at,
                      struct pst_wait_pair *pairs, uint32_t *n)
{
    const struct pst_instr *instr = &list->instrs[at];
    const struct pst_plan_tie *ties = low->plan->ties;

    for (uint32_t r = 0; r < at; r++) {
        const struct pst_instr *other = &list->instrs[r];
        bool needed = other->op == PST_I_REDUCE
                          ? (instr->op == PST_I_TIE ? is_member(&ties[instr->stage], other->stage)
                                                    : other->stage == instr->stage)
                          : instr->op == PST_I_STEP && other->op == PST_I_TIE &&
                                is_member(&ties[other->stage], instr->stage);

        if (needed) {
            add_pair(pairs, n, at, r);
        }
    }
}

static void tail_waits(const struct pst_lowering *low, const struct list *list, uint32_t norm,
                       struct pst_wait_pair *pairs, uint32_t *n)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const struct pst_instr *instr = &list->instrs[i];
        bool sum = instr->op == PST_I_REDUCE || instr->op == PST_I_TIE;

        if (instr->op == PST_I_REDUCE) {
            add_pair(pairs, n, i, list->pass_at[low->last_gradient[instr->stage]]);
        }
        if (sum && norm != PST_NONE) {
            add_pair(pairs, n, norm, i);
        }
        if (instr->op == PST_I_STEP && norm != PST_NONE) {
            add_pair(pairs, n, i, norm);
        } else if (instr->op == PST_I_TIE || instr->op == PST_I_STEP) {
            sum_waits(low, list, i, pairs, n);
        }
    }
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pst_wait_pair *x = a, *y = b;

    if (x->instr != y->instr) {
        return x->instr < y->instr ? -1 : 1;
    }
    return x->wait < y->wait ? -1 : x->wait > y->wait;
}

pst_status pst_lowering_join(struct pst_arena *arena, struct pst_instr *instrs,
                             struct pst_wait_pair *pairs, size_t n, struct pst_error *err)
{
    uint32_t *waits = pst_arena_array(arena, n, sizeof *waits);
    uint32_t kept = 0;

    if (waits == NULL) {
        return pst_fail_nomem(err);
    }
    if (n > 0) {
        qsort(pairs, n, sizeof *pairs, compare_pairs);
    }
    for (size_t i = 0; i < n; i++) {
        struct pst_instr *instr = &instrs[pairs[i].instr];

        if (i > 0 && compare_pairs(&pairs[i], &pairs[i - 1]) == 0) {
            continue;
        }
        PST_ASSERT(pairs[i].wait < pairs[i].instr);
        if (instr->n_waits == 0) {
            instr->waits = &waits[kept];
        }
        waits[kept++] = pairs[i].wait;
        instr->n_waits++;
    }
    return PST_OK;
}

static pst_status write_waits(struct pst_lowering *low, uint32_t rank,
                              const struct pst_copies *copies, struct list *list,
                              struct pst_error *err)
{
    uint32_t norm = PST_NONE, n = 0;
    size_t room = 4 * (size_t)low->n_transfers + 3 * (size_t)copies->n +
                  (size_t)list->n * (low->plan->n_stages + low->plan->n_ties + 3);
    struct pst_wait_pair *pairs = malloc((room + 1) * sizeof *pairs);
    pst_status st;

    if (pairs == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->instrs[i].op == PST_I_NORM) {
            norm = i;
        }
    }
    transfer_waits(low, rank, list, norm, pairs, &n);
    tail_waits(low, list, norm, pairs, &n);
    n = pst_lowering_copy_waits(copies, list->pass_at, pairs, n);
    st = pst_lowering_join(&low->plan->arena, list->instrs, pairs, n, err);
    free(pairs);
    return st;
}

static pst_status write_rank(struct pst_lowering *low, uint32_t rank, struct pst_error *err)
{
    struct pst_plan *plan = low->plan;
    struct list list = {0};
    struct pst_copies copies;
    pst_status st = pst_lowering_copies(low, rank, &copies, err);

    if (st != PST_OK) {
        return st;
    }
    list.room =
        low->n_passes[rank] + low->n_transfers + copies.n + 2 * plan->n_stages + plan->n_ties + 1;
    list.instrs = malloc((size_t)list.room * sizeof *list.instrs);
    list.pass_at = pst_arena_array(&low->arena, low->n_passes[rank], sizeof *list.pass_at);
    list.transfer_at = pst_arena_array(&low->arena, low->n_transfers, sizeof *list.transfer_at);
    if (list.instrs == NULL || list.pass_at == NULL || list.transfer_at == NULL) {
        free(list.instrs);
        return pst_fail_nomem(err);
    }
    write_body(low, rank, &copies, &list);
    if (low->training) {
        write_tail(low, rank, &list);
    }
    st = write_waits(low, rank, &copies, &list, err);
    if (st == PST_OK) {
        struct pst_instr *body = pst_arena_array(&plan->arena, list.n, sizeof *body);

        if (body == NULL) {
            st = pst_fail_nomem(err);
        } else {
            if (list.n > 0) {
                memcpy(body, list.instrs, list.n * sizeof *body);
            }
            plan->devices[rank].body = body;
            plan->devices[rank].n_instrs = list.n;
        }
    }
    free(list.instrs);
    return st;
}

pst_status pst_lowering_emit(struct pst_lowering *low, struct pst_error *err)
{
    pst_status st = find_last_gradients(low, err);

    if (st == PST_OK) {
        st = place_transfers(low, err);
    }
    for (uint32_t r = 0; r < low->plan->n_devices && st == PST_OK; r++) {
        st = write_rank(low, r, err);
    }
    return st;
}
