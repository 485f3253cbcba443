/* SPDX-License-Identifier: Apache-2.0
 *
 * OFFLOAD and FETCH of one rank. What a micro-batch leaves is copied out behind its F, and back
 * behind the pass before the backward pass that first reads it, so that both are hidden behind
 * passes and there is room on the device for two micro-batches' worth: one on its way out, one on
 * its way in or read. Where no pass stands between, the bytes stay. Where the link is too slow for
 * that copies back begin some passes earlier, but never before the stage is through with the
 * micro-batch before.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/lower.h"
#include "plan/pass_calls.h"

/* What of a stage is moved. */
struct moved {
    uint64_t *bytes;             /* [node]; NULL: nothing */
    struct pst_pass_calls *call; /* [pass] */
};

static int by_place(const void *a, const void *b)
{
    const struct pst_copy *x = *(const struct pst_copy *const *)a;
    const struct pst_copy *y = *(const struct pst_copy *const *)b;

    if (x->behind != y->behind) {
        return x->behind < y->behind ? -1 : 1;
    }
    if (x->op != y->op) {
        return x->op < y->op ? -1 : 1;
    }
    if (x->waited_by != y->waited_by) {
        return x->waited_by < y->waited_by ? -1 : 1;
    }
    if (x->order != y->order) {
        return x->order < y->order ? -1 : 1;
    }
    return x->node > y->node ? -1 : x->node < y->node; /* read by one call: as B goes */
}

static pst_status find_moved(struct pst_lowering *low, uint32_t s, struct moved *moved,
                             struct pst_error *err)
{
    const struct pst_plan_stage *stage = &low->plan->stages[s];
    uint32_t n = 0;

    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        n += stage->actions[i] == PST_ACTION_OFFLOAD;
    }
    if (n == 0) {
        return PST_OK;
    }
    moved->bytes = pst_arena_array(&low->arena, stage->n_nodes, sizeof *moved->bytes);
    moved->call = pst_arena_array(&low->arena, PST_I_BW + 1, sizeof *moved->call);
    if (moved->bytes == NULL || moved->call == NULL ||
        !pst_plan_offload_bytes(stage, low->graph, moved->bytes) ||
        !pst_pass_calls_init(stage, low->graph, &low->arena, moved->call)) {
        return pst_fail_nomem(err);
    }
    return PST_OK;
}

/* The pass that first reads what a node left, as a position in the order. */
static uint32_t reading_pass(const struct pst_lowering *low, const struct pst_pass *forward,
                             const struct moved *moved, uint32_t v)
{
    uint32_t row = low->base[forward->stage] + forward->microbatch;
    uint32_t fused = low->at[PST_PASS_BW][row];

    if (fused != PST_NONE) {
        return fused;
    }
    return low->at[moved->call[PST_I_B].first_read[v] != PST_NONE ? PST_PASS_B : PST_PASS_W][row];
}

/* Whether the pass behind which a FETCH stands reads the same bytes of its own micro-batch for the
   last time: then the copy back waits until their place is free. */
static bool takes_turns(const struct pst_pass *behind, uint32_t stage, const struct moved *moved,
                        uint32_t v)
{
    bool weights = moved->call[PST_I_W].first_read[v] != PST_NONE;

    return behind->stage == stage &&
           (behind->op == PST_PASS_BW || behind->op == (weights ? PST_PASS_W : PST_PASS_B));
}

/* The copies of the micro-batch whose F stands at `at`; `next`: the next F of the stage, or none.
 */
static void add_copies(const struct pst_lowering *low, uint32_t rank, uint32_t at, uint32_t next,
                       const struct moved *moved, struct pst_copies *copies)
{
    const struct pst_pass *order = low->orders[rank], *pass = &order[at];
    const struct pst_plan_stage *stage = &low->plan->stages[pass->stage];

    for (uint32_t v = 0; v < stage->n_nodes; v++) {
        struct pst_copy *copy = &copies->rows[copies->n];
        uint32_t reader = moved->bytes[v] > 0 ? reading_pass(low, pass, moved, v) : at + 1;

        if (reader == at + 1) {
            continue;
        }
        copy[0] = (struct pst_copy){.op = PST_I_OFFLOAD,
                                    .behind = at,
                                    .waits_behind = true,
                                    .waited_by = next,
                                    .order = v,
                                    .stage = pass->stage,
                                    .microbatch = pass->microbatch,
                                    .node = stage->nodes[v]};
        copy[1] = copy[0];
        copy[1].op = PST_I_FETCH;
        copy[1].behind = reader - 1;
        copy[1].waits_behind = takes_turns(&order[reader - 1], pass->stage, moved, v);
        copy[1].waited_by = reader;
        copy[1].order = moved->call[order[reader].op].first_read[v];
        copies->n += 2;
    }
}

/* --- how early ---------------------------------------------------------------------------------
 */

static uint64_t copy_ns(const struct pst_lowering *low, const struct moved *moved,
                        const struct pst_copy *copy)
{
    const struct pst_plan_stage *stage = &low->plan->stages[copy->stage];
    uint32_t v = 0;

    while (stage->nodes[v] != copy->node) {
        v++;
    }
    return pst_cost_host_ns(low->cost, moved[copy->stage].bytes[v]) *
           (uint64_t)low->cost->cluster->link_directions;
}

/* What the copies back of one pass are too late by, at worst, if they begin with it. */
static uint64_t late_by(const struct pst_lowering *low, uint32_t rank, const struct moved *moved,
                        struct pst_copy *const *group, uint32_t n)
{
    const struct pst_pass *reader = &low->orders[rank][group[0]->waited_by];
    const struct pst_pass_calls *calls = &moved[reader->stage].call[reader->op];
    uint64_t pass_ns = pst_lowering_pass_ns(low, reader), end_ns = 0, worst = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t need_ns = pass_ns / calls->n_calls * group[i]->order;

        end_ns += copy_ns(low, moved, group[i]);
        worst = end_ns > need_ns && end_ns - need_ns > worst ? end_ns - need_ns : worst;
    }
    return worst;
}

/* Passes earlier until there is time enough; not past what the stage does backward before, nor into
   the F of the micro-batch. */
static void begin_earlier(const struct pst_lowering *low, uint32_t rank, const struct moved *moved,
                          struct pst_copy *const *group, uint32_t n)
{
    const struct pst_pass *order = low->orders[rank];
    uint32_t stage = group[0]->stage, behind = group[0]->behind, forward = group[0][-1].behind;
    uint64_t late_ns = late_by(low, rank, moved, group, n);
    uint64_t ahead_ns = pst_lowering_pass_ns(low, &order[behind]);

    while (ahead_ns < late_ns && behind > forward + 1 &&
           !(order[behind].stage == stage && order[behind].op != PST_PASS_F) &&
           !(order[behind - 1].stage == stage && order[behind - 1].op != PST_PASS_F)) {
        ahead_ns += pst_lowering_pass_ns(low, &order[--behind]);
    }
    for (uint32_t i = 0; i < n; i++) {
        group[i]->behind = behind;
    }
}

static void place_copies(const struct pst_lowering *low, uint32_t rank, const struct moved *moved,
                         struct pst_copies *copies)
{
    for (uint32_t i = 0; i < copies->n; i++) {
        copies->places[i] = &copies->rows[i];
    }
    if (copies->n == 0) {
        return;
    }
    qsort(copies->places, copies->n, sizeof(struct pst_copy *), by_place);
    if (!low->plan->spread_sends) {
        return; /* memory is short */
    }
    for (uint32_t i = 0, end; i < copies->n; i = end) {
        for (end = i + 1; end < copies->n && copies->places[end]->op == copies->places[i]->op &&
                          copies->places[end]->waited_by == copies->places[i]->waited_by;
             end++) {
        }
        if (copies->places[i]->op == PST_I_FETCH) {
            begin_earlier(low, rank, moved, &copies->places[i], end - i);
        }
    }
    qsort(copies->places, copies->n, sizeof(struct pst_copy *), by_place);
}

/* Who waits for the way out of a micro-batch that no F follows, where memory is short: the next
   pass of the stage. */
static uint32_t next_of_stage(const struct pst_lowering *low, uint32_t rank, uint32_t at)
{
    const struct pst_pass *order = low->orders[rank];
    uint32_t next = at + 1;

    while (next < low->n_passes[rank] && order[next].stage != order[at].stage) {
        next++;
    }
    return next < low->n_passes[rank] ? next : PST_NONE;
}

static pst_status make_copies(struct pst_lowering *low, uint32_t rank, const struct moved *moved,
                              struct pst_copies *copies, struct pst_error *err)
{
    uint32_t *next = pst_arena_array(&low->arena, low->plan->n_stages, sizeof *next);
    size_t room = 0;

    for (uint32_t p = 0; p < low->n_passes[rank]; p++) {
        const struct pst_pass *pass = &low->orders[rank][p];

        room += pass->op == PST_PASS_F && moved[pass->stage].bytes != NULL
                    ? 2 * (size_t)low->plan->stages[pass->stage].n_nodes
                    : 0;
    }
    copies->rows = pst_arena_array(&low->arena, room, sizeof *copies->rows);
    copies->places = pst_arena_array(&low->arena, room, sizeof(struct pst_copy *));
    if (next == NULL || copies->rows == NULL || copies->places == NULL) {
        return pst_fail_nomem(err);
    }
    memset(next, 0xFF, low->plan->n_stages * sizeof *next);
    for (uint32_t p = low->n_passes[rank]; p-- > 0;) {
        const struct pst_pass *pass = &low->orders[rank][p];

        if (pass->op == PST_PASS_F && moved[pass->stage].bytes != NULL) {
            uint32_t waiter = next[pass->stage];

            if (waiter == PST_NONE && !low->plan->spread_sends) {
                waiter = next_of_stage(low, rank, p);
            }
            add_copies(low, rank, p, waiter, &moved[pass->stage], copies);
            next[pass->stage] = p;
        }
    }
    place_copies(low, rank, moved, copies);
    return PST_OK;
}

pst_status pst_lowering_copies(struct pst_lowering *low, uint32_t rank,
                               struct pst_copies *ret_copies, struct pst_error *err)
{
    struct moved *moved = pst_arena_array(&low->arena, low->plan->n_stages, sizeof *moved);
    struct pst_copies copies = {0};
    bool any = false;
    pst_status st = moved != NULL ? PST_OK : pst_fail_nomem(err);

    for (uint32_t s = 0; s < low->plan->n_stages && st == PST_OK && low->training; s++) {
        if (pst_lowering_holds(low, rank, s)) {
            st = find_moved(low, s, &moved[s], err);
            any |= moved[s].bytes != NULL;
        }
    }
    if (st == PST_OK && any) {
        st = make_copies(low, rank, moved, &copies, err);
    }
    if (st == PST_OK) {
        *ret_copies = copies;
    }
    return st;
}

pst_status pst_lowering_no_copies(const struct pst_plan *plan, struct pst_error *err)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            if (plan->stages[s].actions[i] == PST_ACTION_PEER) {
                return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                                "stage %u is to leave bytes to other devices in an asynchronous "
                                "schedule; this version keeps or recomputes there",
                                s);
            }
            if (plan->stages[s].actions[i] == PST_ACTION_OFFLOAD) {
                return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                                "stage %u is to offload to host memory in an asynchronous "
                                "schedule; this version keeps or recomputes there",
                                s);
            }
        }
    }
    return PST_OK;
}

uint32_t pst_lowering_copy_waits(const struct pst_copies *copies, const uint32_t *pass_at,
                                 struct pst_wait_pair *pairs, uint32_t n)
{
    for (uint32_t i = 0; i < copies->n; i++) {
        const struct pst_copy *copy = &copies->rows[i];

        if (copy->waits_behind) {
            pairs[n++] = (struct pst_wait_pair){copy->at, pass_at[copy->behind]};
        }
        if (copy->op == PST_I_FETCH) {
            pairs[n++] = (struct pst_wait_pair){copy->at, copy[-1].at};
        }
        if (copy->waited_by != PST_NONE) {
            pairs[n++] = (struct pst_wait_pair){pass_at[copy->waited_by], copy->at};
        }
    }
    return n;
}
