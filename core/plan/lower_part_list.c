/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of an asynchronous plan. Nothing here looks at times, so every repetition of body is
 * the same list: sends follow their pass, receives are posted one pass ahead in the order in which
 * their rows are read, copies of what is offloaded stand behind passes of their own part, the
 * optimizer step ends a batch.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "plan/lower.h"

/* While one part of one rank is written. */
struct writer {
    const struct pst_parts *parts;
    uint32_t rank;
    bool ahead; /* what the first pass of body and drain reads is posted in the part before */
    struct pst_instr *instrs;
    size_t room, pair_room;
    struct pst_wait_pair *pairs;
    uint32_t n, n_pairs;
    bool no_memory;
    uint32_t *recv_first, *recv_n; /* [pass of the part] its receives, where posted in this part */
    uint32_t *send_first, *send_n; /* [pass of the part] its sends */
    uint32_t *pass_at;             /* [pass of the part] */
    struct pst_copies copies;      /* of the part */
    uint32_t n_copied;             /* of those, written */
    uint32_t longest;              /* stages that an edge spans at most */
    uint32_t *reduced;             /* [stage] its REDUCE in this part, or PST_NONE */
    uint8_t *closes[PST_PARTS];    /* [pass] it adds the last gradient of an update of its stage */
};

static struct pst_instr *append(struct writer *w, uint8_t op, uint32_t stage)
{
    if (!pst_grow(&w->instrs, &w->room, w->n, sizeof *w->instrs)) {
        w->no_memory = true;
        return NULL;
    }
    w->instrs[w->n] = (struct pst_instr){.op = op, .stage = stage};
    return &w->instrs[w->n++];
}

static void wait_for(struct writer *w, uint32_t instr, uint32_t wait)
{
    if (!pst_grow(&w->pairs, &w->pair_room, w->n_pairs, sizeof *w->pairs)) {
        w->no_memory = true;
        return;
    }
    w->pairs[w->n_pairs++] = (struct pst_wait_pair){instr, wait};
}

/* --- transfers --------------------------------------------------------------------------------
 */

/* One row for each part of the pass's samples that one rank of `other` has in one micro-batch. */
static void append_rows(struct writer *w, const struct pst_pass *pass, uint32_t edge,
                        uint32_t other, bool send, uint32_t batches)
{
    const struct pst_plan *plan = w->parts->plan;
    const struct pst_plan_stage *self = &plan->stages[pass->stage], *peer = &plan->stages[other];
    uint32_t first =
        pst_plan_first_sample(self, w->parts->low->replica[w->rank], pass->microbatch) +
        batches * plan->batch;
    uint32_t end = first + pst_plan_samples(self), share = pst_plan_samples(peer);

    if (peer->ranks[0] == self->ranks[0]) {
        return;
    }
    while (first < end) {
        uint32_t border = (first / share + 1) * share, next = border < end ? border : end;
        struct pst_instr *instr = append(w, send ? PST_I_SEND : PST_I_RECV, edge);

        if (instr == NULL) {
            return;
        }
        instr->payload = pass->op == PST_PASS_F ? PST_PAYLOAD_ACT : PST_PAYLOAD_GRAD;
        instr->first_sample = first;
        instr->n_samples = next - first;
        instr->peer = pst_plan_rank_of(peer, first);
        first = next;
    }
}

/*
 * All that a pass sends, or receives, `batches` batches on: activations from or to the lowest stage
 * first, gradients from or to the highest, as that is the order in which they are made and read.
 */
static void append_transfers(struct writer *w, const struct pst_pass *pass, bool send,
                             uint32_t batches)
{
    const struct pst_lowering *low = w->parts->low;
    bool forward = pass->op == PST_PASS_F, out = forward == send;
    const uint32_t *first = out ? low->out_first : low->in_first;
    uint32_t n = first[pass->stage + 1] - first[pass->stage];

    for (uint32_t i = 0; i < n && pass->op != PST_PASS_W; i++) {
        uint32_t row = first[pass->stage] + (forward ? i : n - 1 - i);
        uint32_t e = out ? row : low->in_edges[row];
        const struct pst_plan_edge *edge = &low->plan->edges[e];

        if (forward || low->edge_grad[e]) {
            append_rows(w, pass, e, out ? edge->to : edge->from, send, batches);
        }
    }
}

static void post_receives(struct writer *w, const struct pst_pass *passes, uint32_t i)
{
    w->recv_first[i] = w->n;
    append_transfers(w, &passes[i], false, 0);
    w->recv_n[i] = w->n - w->recv_first[i];
}

/* --- updates ---------------------------------------------------------------------------------
 */

/* Behind the last gradient of an update. Ties of one stage need nobody else. */
static void close_update(struct writer *w, uint32_t stage)
{
    const struct pst_plan *plan = w->parts->plan;
    uint32_t pass = w->n - 1, reduce;

    for (; w->instrs[pass].op >= PST_I_SEND; pass--) {
        ;
    }
    reduce = w->n;
    append(w, PST_I_REDUCE, stage);
    wait_for(w, reduce, pass);
    w->reduced[stage] = reduce;
    if (plan->deferred_step) {
        return;
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        if (plan->ties[t].stages[0] == stage) {
            append(w, PST_I_TIE, t);
            wait_for(w, w->n - 1, reduce);
        }
    }
    append(w, PST_I_STEP, stage);
    for (uint32_t i = reduce; i + 1 < w->n; i++) {
        wait_for(w, w->n - 1, i);
    }
}

/* TIE i of this rank's members; behind those REDUCE that the part holds. */
static void append_tie(struct writer *w, uint32_t tie)
{
    const struct pst_plan *plan = w->parts->plan;
    uint32_t at = w->n;
    bool here = false;

    for (uint32_t i = 0; i < plan->ties[tie].n_stages; i++) {
        here |= pst_lowering_holds(w->parts->low, w->rank, plan->ties[tie].stages[i]);
    }
    if (!here) {
        return;
    }
    append(w, PST_I_TIE, tie);
    for (uint32_t i = 0; i < plan->ties[tie].n_stages; i++) {
        uint32_t reduce = w->reduced[plan->ties[tie].stages[i]];

        if (reduce != PST_NONE) {
            wait_for(w, at, reduce);
        }
    }
}

/* What has been put off: sums over stages, the norm, the step of every stage. */
static void append_steps(struct writer *w)
{
    const struct pst_plan *plan = w->parts->plan;
    uint32_t first_tie = w->n, norm;

    for (uint32_t t = 0; t < plan->n_ties; t++) {
        append_tie(w, t);
    }
    norm = w->n;
    if (plan->barrier) {
        append(w, PST_I_NORM, 0);
        for (uint32_t s = 0; s < plan->n_stages; s++) {
            if (w->reduced[s] != PST_NONE) {
                wait_for(w, norm, w->reduced[s]);
            }
        }
        for (uint32_t i = first_tie; i < norm; i++) {
            wait_for(w, norm, i);
        }
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (!pst_lowering_holds(w->parts->low, w->rank, s)) {
            continue;
        }
        append(w, PST_I_STEP, s);
        for (uint32_t i = plan->barrier ? norm : first_tie; i < (plan->barrier ? norm + 1 : norm);
             i++) {
            wait_for(w, w->n - 1, i);
        }
        if (!plan->barrier && w->reduced[s] != PST_NONE) {
            wait_for(w, w->n - 1, w->reduced[s]);
        }
    }
}

/* --- lists ------------------------------------------------------------------------------------
 */

/*
 * Waits for the SENDs of an earlier pass of the same stage and direction: the last one for what
 * went to a neighbour, the k-th last for what went k stages far, where it is read that much later.
 */
static void wait_for_sends(struct writer *w, const struct pst_pass *passes, uint32_t i, uint32_t at)
{
    const struct pst_plan *plan = w->parts->plan;
    const struct pst_pass *pass = &passes[i];
    uint32_t back = 0;

    for (uint32_t p = i; p-- > 0;) {
        if (passes[p].stage != pass->stage || passes[p].op == PST_PASS_W ||
            (passes[p].op == PST_PASS_F) != (pass->op == PST_PASS_F)) {
            continue;
        }
        back++;
        for (uint32_t k = w->send_first[p]; k < w->send_first[p] + w->send_n[p]; k++) {
            const struct pst_plan_edge *edge = &plan->edges[w->instrs[k].stage];

            if (edge->to - edge->from == back) {
                wait_for(w, at, k);
            }
        }
        if (back == w->longest) {
            break;
        }
    }
}

/* The copies behind a pass; PST_NONE: at the head of the part. */
static void write_copies(struct writer *w, uint32_t behind)
{
    const struct pst_copies *copies = &w->copies;

    for (; w->n_copied < copies->n && copies->places[w->n_copied]->behind == behind;
         w->n_copied++) {
        struct pst_copy *copy = copies->places[w->n_copied];
        struct pst_instr *instr = append(w, copy->op, copy->stage);

        if (instr == NULL) {
            return;
        }
        instr->microbatch = copy->microbatch;
        instr->node = copy->node;
        copy->at = w->n - 1;
    }
}

/* What copies wait for, and who waits for them. */
static void wait_for_copies(struct writer *w)
{
    size_t room = w->n_pairs + 3 * (size_t)w->copies.n;

    while (w->pair_room < room && !w->no_memory) {
        w->no_memory = !pst_grow(&w->pairs, &w->pair_room, w->pair_room, sizeof *w->pairs);
    }
    if (!w->no_memory) {
        w->n_pairs = pst_lowering_copy_waits(&w->copies, w->pass_at, w->pairs, w->n_pairs);
    }
}

static void write_pass(struct writer *w, const struct pst_pass *passes, uint32_t i)
{
    uint32_t at = w->n;
    struct pst_instr *instr = append(w, passes[i].op, passes[i].stage);

    if (instr == NULL) {
        return;
    }
    instr->microbatch = passes[i].microbatch;
    w->pass_at[i] = at;
    for (uint32_t k = 0; k < w->recv_n[i]; k++) {
        wait_for(w, at, w->recv_first[i] + k);
    }
    if (passes[i].op != PST_PASS_W) {
        wait_for_sends(w, passes, i, at);
    }
    write_copies(w, i);
    w->send_first[i] = w->n;
    append_transfers(w, &passes[i], true, 0);
    w->send_n[i] = w->n - w->send_first[i];
    for (uint32_t k = 0; k < w->send_n[i]; k++) {
        wait_for(w, w->send_first[i] + k, at);
    }
}

static void write_list(struct writer *w, uint32_t part)
{
    const struct pst_plan *plan = w->parts->plan;
    const struct pst_pass *passes = w->parts->passes[part][w->rank];
    uint32_t n = w->parts->n_passes[part][w->rank];
    bool next_first = w->ahead && part != PST_DRAIN;

    w->n_copied = 0;
    write_copies(w, PST_NONE);
    for (uint32_t i = 0; i <= n && !w->no_memory; i++) {
        if (i == 0 && n > 0 && (part == PST_FILL || !w->ahead)) {
            post_receives(w, passes, 0);
        }
        if (i + 1 < n) {
            post_receives(w, passes, i + 1);
        } else if (next_first && (i + 1 == n || n == 0)) {
            append_transfers(w, w->parts->passes[PST_BODY][w->rank], false, part == PST_BODY);
        }
        if (i < n) {
            write_pass(w, passes, i);
        }
        if (i < n && w->closes[part][i] && !w->no_memory) {
            close_update(w, passes[i].stage);
        }
    }
    if (plan->deferred_step && part != PST_FILL && !w->parts->bare) {
        append_steps(w);
    }
    wait_for_copies(w);
}

static pst_status write_part(struct writer *w, uint32_t part, struct pst_arena *arena,
                             struct pst_error *err)
{
    struct pst_plan *plan = w->parts->plan;
    struct pst_plan_device *device = &plan->devices[w->rank];
    uint32_t n = w->parts->n_passes[part][w->rank];
    struct pst_instr *list = NULL;
    pst_status st =
        pst_parts_copies(w->parts, w->rank, (enum pst_part)part, arena, &w->copies, err);

    if (st != PST_OK) {
        return st;
    }
    w->n = w->n_pairs = 0;
    memset(w->recv_n, 0, n * sizeof *w->recv_n);
    memset(w->reduced, 0xFF, plan->n_stages * sizeof *w->reduced);
    write_list(w, part);
    if (!w->no_memory) {
        st = pst_lowering_join(&plan->arena, w->instrs, w->pairs, w->n_pairs, err);
        list = pst_arena_array(&plan->arena, w->n, sizeof *list);
    }
    if (st == PST_OK && list == NULL) {
        st = pst_fail_nomem(err);
    }
    if (st != PST_OK) {
        return st;
    }
    if (w->n > 0) {
        memcpy(list, w->instrs, w->n * sizeof *list);
    }
    if (part == PST_FILL) {
        device->fill = list;
        device->n_fill = w->n;
    } else if (part == PST_BODY) {
        device->body = list;
        device->n_instrs = w->n;
    } else {
        device->drain = list;
        device->n_drain = w->n;
    }
    return PST_OK;
}

/*
 * Marks the passes that end an update, as a rule a batch. The stream is fill, three bodies, drain,
 * so no more than four batches; body must end batches at the same place each time.
 */
static bool find_closing(struct writer *w, uint32_t *counts)
{
    static const uint8_t stream[] = {PST_FILL, PST_BODY, PST_BODY, PST_BODY, PST_DRAIN};
    const struct pst_plan *plan = w->parts->plan;

    for (uint32_t k = 0; k < sizeof stream; k++) {
        uint32_t part = stream[k], batches = k == 0 ? 0 : k - 1;

        for (uint32_t i = 0; i < w->parts->n_passes[part][w->rank]; i++) {
            const struct pst_pass *pass = &w->parts->passes[part][w->rank][i];
            uint32_t m = plan->stages[pass->stage].n_microbatches;
            uint32_t batch = batches + pass->microbatch / m;
            bool gradient = pass->op >= PST_PASS_W;
            bool closes =
                gradient &&
                ++counts[8 * pass->stage + batch] % pst_rule_unit(plan->version_rule, m) == 0;

            if (part == PST_BODY && k > 1 && closes != w->closes[part][i]) {
                return false;
            }
            w->closes[part][i] = closes;
        }
    }
    return true;
}

static pst_status prepare(struct writer *w, struct pst_arena *arena, struct pst_error *err)
{
    const struct pst_parts *parts = w->parts;
    const uint32_t *const *n = parts->n_passes;
    uint32_t n_stages = parts->plan->n_stages, most = 1;
    uint32_t *counts = pst_arena_array(arena, 8 * (size_t)n_stages, sizeof *counts);

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        most = n[part][w->rank] > most ? n[part][w->rank] : most;
        w->closes[part] = pst_arena_array(arena, n[part][w->rank], sizeof *w->closes[part]);
        w->no_memory |= w->closes[part] == NULL;
    }
    w->recv_first = pst_arena_array(arena, most, sizeof *w->recv_first);
    w->recv_n = pst_arena_array(arena, most, sizeof *w->recv_n);
    w->send_first = pst_arena_array(arena, most, sizeof *w->send_first);
    w->send_n = pst_arena_array(arena, most, sizeof *w->send_n);
    w->pass_at = pst_arena_array(arena, most, sizeof *w->pass_at);
    w->reduced = pst_arena_array(arena, n_stages, sizeof *w->reduced);
    if (w->no_memory || counts == NULL || w->recv_first == NULL || w->recv_n == NULL ||
        w->send_first == NULL || w->send_n == NULL || w->pass_at == NULL || w->reduced == NULL) {
        return pst_fail_nomem(err);
    }
    if (n[PST_BODY][w->rank] > 0 && n[PST_DRAIN][w->rank] > 0) {
        const struct pst_pass *body = parts->passes[PST_BODY][w->rank];
        const struct pst_pass *drain = parts->passes[PST_DRAIN][w->rank];

        w->ahead = body->op == drain->op && body->stage == drain->stage &&
                   body->microbatch == drain->microbatch;
    }
    if (!find_closing(w, counts)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "device %u: the last backward of a batch must come at the same place in "
                        "each repetition of body",
                        w->rank);
    }
    return PST_OK;
}

pst_status pst_parts_emit(const struct pst_parts *parts, struct pst_error *err)
{
    struct writer w = {.parts = parts};
    pst_status st = PST_OK;

    for (uint32_t e = 0; e < parts->plan->n_edges; e++) {
        uint32_t span = parts->plan->edges[e].to - parts->plan->edges[e].from;

        w.longest = span > w.longest ? span : w.longest;
    }
    for (uint32_t r = 0; st == PST_OK && r < parts->plan->n_devices; r++) {
        struct pst_arena arena = {0};

        w.rank = r;
        w.ahead = false;
        st = prepare(&w, &arena, err);
        for (uint32_t part = 0; st == PST_OK && part < PST_PARTS; part++) {
            st = write_part(&w, part, &arena, err);
        }
        pst_arena_finish(&arena);
    }
    free(w.instrs);
    free(w.pairs);
    return st;
}
