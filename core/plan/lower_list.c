/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction lists of every rank: fill, body and drain; of a synchronous plan the body alone.
 * A list is its passes in their order, with ends of transfers (lower_transfers.c) and copies
 * (lower_copies.c) between them, the sums and the optimizer step of a stage behind its last
 * gradient where they need nobody else, and all others at the end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "plan/lower.h"

/* While one list is written. */
struct writer {
    struct pst_list list;
    struct pst_instr *instrs;
    size_t room, pair_room;
    struct pst_wait_pair *pairs;
    uint32_t n, n_pairs;
    struct pst_ends ends;
    struct pst_copies copies;
    uint32_t n_copied;          /* of those, written */
    uint32_t *pass_at;          /* [pass] its place in the list */
    uint32_t *reduced, *tied;   /* [stage], [tie] the last REDUCE, TIE, or PST_NONE */
    uint32_t norm;              /* its place, or PST_NONE */
    uint8_t *closes[PST_PARTS]; /* [pass] it adds the last gradient of an update of its stage */
    uint32_t *in_turn;          /* of copies: stages as their last gradients are made */
    uint32_t *closed;           /* [stage] the pass that has made its last, or PST_NONE */
    uint32_t n_turn, turn;      /* stages on the rank; how many of them are reduced */
};

static struct pst_instr *append(struct writer *w, uint8_t op, uint32_t stage)
{
    pst_grow(&w->instrs, &w->room, w->n, sizeof *w->instrs);
    w->instrs[w->n] = (struct pst_instr){.op = op, .stage = stage};
    return &w->instrs[w->n++];
}

/* PST_NONE on either side: nobody waits. */
static void wait_for(struct writer *w, uint32_t instr, uint32_t wait)
{
    if (instr == PST_NONE || wait == PST_NONE) {
        return;
    }
    pst_grow(&w->pairs, &w->pair_room, w->n_pairs, sizeof *w->pairs);
    w->pairs[w->n_pairs++] = (struct pst_wait_pair){instr, wait};
}

/* --- sums and steps ----------------------------------------------------------------------------*/

static bool is_member(const struct pst_plan_tie *tie, uint32_t stage)
{
    for (uint32_t s = 0; s < tie->n_stages; s++) {
        if (tie->stages[s] == stage) {
            return true;
        }
    }
    return false;
}

static bool is_tied(const struct pst_plan *plan, uint32_t stage)
{
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        if (is_member(&plan->ties[t], stage)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the ties and the STEP of a stage come at the end of the list. */
static bool steps_last(const struct pst_plan *plan, uint32_t stage)
{
    return plan->asynchronous
               ? plan->deferred_step
               : plan->barrier || is_tied(plan, stage) || plan->stages[stage].n_ranks > 1;
}

/* Appends a TIE, which waits for the REDUCE of each of its stages that the list holds. */
static void append_tie(struct writer *w, uint32_t tie)
{
    const struct pst_plan_tie *members = &w->list.parts->plan->ties[tie];

    w->tied[tie] = w->n;
    append(w, PST_I_TIE, tie);
    for (uint32_t i = 0; i < members->n_stages; i++) {
        wait_for(w, w->tied[tie], w->reduced[members->stages[i]]);
    }
}

/* Appends a STEP, which waits for NORM, or without NORM for the sums of its stage. */
static void append_step(struct writer *w, uint32_t stage)
{
    const struct pst_plan *plan = w->list.parts->plan;
    uint32_t at = w->n;

    append(w, PST_I_STEP, stage);
    if (w->norm != PST_NONE) {
        wait_for(w, at, w->norm);
        return;
    }
    wait_for(w, at, w->reduced[stage]);
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        if (is_member(&plan->ties[t], stage)) {
            wait_for(w, at, w->tied[t]);
        }
    }
}

/* A STEP, and where its ranks have updated pieces, what brings these together. */
static void append_update(struct writer *w, uint32_t stage)
{
    const uint32_t zero = w->list.parts->plan->zero;

    append_step(w, stage);
    if (zero > 0 && zero < 3 && w->list.parts->plan->stages[stage].n_ranks > 1) {
        append(w, PST_I_GATHER, stage);
        wait_for(w, w->n - 1, w->n - 2);
    }
}

/* Ends an update after its last gradient, which pass p makes. */
static void close_update(struct writer *w, uint32_t p)
{
    const struct pst_plan *plan = w->list.parts->plan;
    uint32_t stage = w->list.passes[p].stage;

    w->reduced[stage] = w->n;
    append(w, PST_I_REDUCE, stage);
    wait_for(w, w->reduced[stage], w->pass_at[p]);
    if (pst_plan_merges(&plan->stages[stage], w->list.parts->low->graph)) {
        append(w, PST_I_MERGE, stage);
        wait_for(w, w->n - 1, w->reduced[stage]);
        w->reduced[stage] = w->n - 1;
    }
    if (steps_last(plan, stage)) {
        return;
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        if (plan->ties[t].stages[0] == stage) {
            append_tie(w, t); /* a tie of this stage alone */
        }
    }
    append_update(w, stage);
}

/*
 * Ranks that share stages sum them up in one order. Copies end theirs in different ones: a stage
 * waits for those whose last gradient of all is made before.
 */
static void close_in_turn(struct writer *w, uint32_t p)
{
    if (w->list.parts->plan->copies == 1) {
        close_update(w, p);
        return;
    }
    w->closed[w->list.passes[p].stage] = p;
    for (; w->turn < w->n_turn && w->closed[w->in_turn[w->turn]] != PST_NONE; w->turn++) {
        close_update(w, w->closed[w->in_turn[w->turn]]);
    }
}

/* Appends the deferred ties, the norm and the deferred steps. */
static void append_tail(struct writer *w)
{
    const struct pst_plan *plan = w->list.parts->plan;

    for (uint32_t t = 0; t < plan->n_ties; t++) {
        if (pst_plan_tie_has(plan, t, w->list.rank)) {
            append_tie(w, t);
        }
    }
    if (plan->barrier) {
        w->norm = w->n;
        append(w, PST_I_NORM, 0);
        for (uint32_t s = 0; s < plan->n_stages; s++) {
            wait_for(w, w->norm, w->reduced[s]);
        }
        for (uint32_t t = 0; t < plan->n_ties; t++) {
            wait_for(w, w->norm, w->tied[t]);
        }
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (w->list.replica[s] != PST_NONE && steps_last(plan, s)) {
            append_update(w, s);
        }
    }
}

static bool has_tail(const struct writer *w)
{
    return w->list.parts->plan->asynchronous ? w->list.parts->plan->deferred_step &&
                                                   w->list.part != PST_FILL && !w->list.parts->bare
                                             : w->list.parts->low->training;
}

/* --- passes, transfers and copies --------------------------------------------------------------*/

static void append_end(struct writer *w, struct pst_end *end)
{
    struct pst_instr *instr = append(w, end->send ? PST_I_SEND : PST_I_RECV, end->edge);

    instr->payload = end->payload;
    instr->first_sample = end->first_sample;
    instr->n_samples = end->n_samples;
    instr->peer = end->peer;
    end->at = w->n - 1;
}

/* The copies behind a pass; PST_NONE: at the head of the list. */
static void append_copies(struct writer *w, uint32_t behind)
{
    const struct pst_copies *copies = &w->copies;

    for (; w->n_copied < copies->n && copies->places[w->n_copied]->behind == behind;
         w->n_copied++) {
        struct pst_copy *copy = copies->places[w->n_copied];
        struct pst_instr *instr = append(w, copy->op, copy->stage);

        instr->microbatch = copy->microbatch;
        instr->node = copy->node;
        copy->at = w->n - 1;
    }
}

static void append_pass(struct writer *w, uint32_t p)
{
    append(w, w->list.passes[p].op, w->list.passes[p].stage)->microbatch =
        w->list.passes[p].microbatch;
    w->pass_at[p] = w->n - 1;
    append_copies(w, p);
}

/*
 * Returns true if an end posted after pass p, the last of an update, comes before the sums. If the
 * stage has replicas, all do: the others may wait for a SEND. In the parts of an asynchronous plan
 * the sums come after the SENDs of the pass.
 */
static bool stands_before_sums(const struct writer *w, const struct pst_end *end, uint32_t p)
{
    const struct pst_plan *plan = w->list.parts->plan;

    return plan->asynchronous ? end->send : plan->stages[w->list.passes[p].stage].n_ranks > 1;
}

static void write_list(struct writer *w)
{
    const uint8_t *closes = w->closes[w->list.part];
    uint32_t next = 0;

    append_copies(w, PST_NONE);
    for (uint32_t p = 0; p <= w->list.n_passes; p++) {
        bool closing = p > 0 && closes[p - 1];

        for (; next < w->ends.n && w->ends.rows[next].gap == p; next++) {
            if (closing && !stands_before_sums(w, &w->ends.rows[next], p - 1)) {
                close_in_turn(w, p - 1);
                closing = false;
            }
            append_end(w, &w->ends.rows[next]);
        }
        if (closing) {
            close_in_turn(w, p - 1);
        }
        if (p < w->list.n_passes) {
            append_pass(w, p);
        }
    }
    if (has_tail(w)) {
        append_tail(w);
    }
}

/* --- waits -------------------------------------------------------------------------------------*/

/* A SEND for its producer, the pass that may write to the same buffer for the SEND, a consumer for
   its RECV. NORM joins what no pass of a synchronous plan does; of a part, a later part. */
static void wait_for_ends(struct writer *w)
{
    bool whole = !w->list.parts->plan->asynchronous;

    for (uint32_t i = 0; i < w->ends.n; i++) {
        const struct pst_end *end = &w->ends.rows[i];
        uint32_t pass = end->pass != PST_NONE ? w->pass_at[end->pass] : PST_NONE;

        if (!end->send) {
            wait_for(w, pass, end->at);
            continue;
        }
        wait_for(w, end->at, pass);
        if (end->behind != PST_NONE) {
            wait_for(w, end->at, w->ends.rows[end->behind].at);
        }
        if (end->before != PST_NONE) {
            wait_for(w, w->ends.rows[end->before].at, end->at);
        }
        if (end->join != PST_NONE) {
            wait_for(w, w->pass_at[end->join], end->at);
        } else if (whole) {
            wait_for(w, w->norm, end->at);
        }
    }
}

/* Adds the waits of copies, and of passes for copies. */
static void wait_for_copies(struct writer *w)
{
    for (uint32_t i = 0; i < w->copies.n; i++) {
        const struct pst_copy *copy = &w->copies.rows[i];

        if (copy->waits_behind) {
            wait_for(w, copy->at, w->pass_at[copy->behind]);
        }
        if (copy->out != PST_NONE) {
            wait_for(w, copy->at, w->copies.rows[copy->out].at);
        }
        if (copy->waited_by != PST_NONE) {
            wait_for(w, w->pass_at[copy->waited_by], copy->at);
        }
    }
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pst_wait_pair *x = a, *y = b;

    return PST_COMPARE_KEYS({x->instr, y->instr}, {x->wait, y->wait});
}

/* Sorts the pairs, drops doubles, and gives each instruction its waits. */
static void join_waits(struct writer *w)
{
    uint32_t *waits = pst_arena_array(&w->list.parts->plan->arena, w->n_pairs, sizeof *waits);
    uint32_t kept = 0;

    if (w->n_pairs > 0) {
        qsort(w->pairs, w->n_pairs, sizeof *w->pairs, compare_pairs);
    }
    for (uint32_t i = 0; i < w->n_pairs; i++) {
        const struct pst_wait_pair *pair = &w->pairs[i];
        struct pst_instr *instr = &w->instrs[pair->instr];

        if (i > 0 && compare_pairs(pair, pair - 1) == 0) {
            continue;
        }
        PST_ASSERT(pair->wait < pair->instr);
        if (instr->n_waits == 0) {
            instr->waits = &waits[kept];
        }
        waits[kept++] = pair->wait;
        instr->n_waits++;
    }
}

/* --- all lists ---------------------------------------------------------------------------------*/

static void keep_list(struct writer *w)
{
    struct pst_plan *plan = w->list.parts->plan;
    struct pst_plan_device *device = &plan->devices[w->list.rank];
    struct pst_instr *list = pst_arena_copy(&plan->arena, w->instrs, w->n, sizeof *list);

    if (w->list.part == PST_FILL) {
        device->fill = list;
        device->n_fill = w->n;
    } else if (w->list.part == PST_BODY) {
        device->body = list;
        device->n_instrs = w->n;
    } else {
        device->drain = list;
        device->n_drain = w->n;
    }
}

static pst_status write_part(struct writer *w, enum pst_part part, struct pst_arena *arena,
                             struct pst_error *err)
{
    const struct pst_parts *parts = w->list.parts;
    pst_status status;

    w->list.part = part;
    w->list.passes = parts->passes[part][w->list.rank];
    w->list.n_passes = parts->n_passes[part][w->list.rank];
    status = pst_lowering_ends(&w->list, &w->ends, err);
    if (status != PST_OK) {
        return status;
    }
    pst_lowering_copies(&w->list, arena, &w->copies);
    w->n = w->n_pairs = w->n_copied = 0;
    w->norm = PST_NONE;
    memset(w->reduced, 0xFF, parts->plan->n_stages * sizeof *w->reduced);
    memset(w->tied, 0xFF, parts->plan->n_ties * sizeof *w->tied);
    write_list(w);
    wait_for_ends(w);
    wait_for_copies(w);
    join_waits(w);
    keep_list(w);
    return PST_OK;
}

/*
 * Marks the passes that end an update, as a rule a batch. The stream is fill, three bodies, drain,
 * so no more than four batches; body must end batches at the same place each time.
 */
static bool find_closing(struct writer *w, uint32_t *counts)
{
    static const uint8_t stream[] = {PST_FILL, PST_BODY, PST_BODY, PST_BODY, PST_DRAIN};
    const struct pst_plan *plan = w->list.parts->plan;

    for (uint32_t k = 0; k < sizeof stream; k++) {
        uint32_t part = stream[k], batches = k == 0 ? 0 : k - 1;

        for (uint32_t i = 0; i < w->list.parts->n_passes[part][w->list.rank]; i++) {
            const struct pst_pass *pass = &w->list.parts->passes[part][w->list.rank][i];
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

struct turn {
    uint64_t end_ns;
    uint32_t stage;
};

static int compare_turns(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    return PST_COMPARE_KEYS({x->end_ns, y->end_ns}, {x->stage, y->stage});
}

/* The stages of the rank by the time at which all their copies have made their gradients. */
static void find_turns(struct writer *w, struct pst_arena *arena)
{
    const struct pst_lowering *low = w->list.parts->low;
    uint32_t n_stages = low->plan->n_stages;
    struct turn *turns = pst_arena_array(arena, n_stages, sizeof *turns);

    w->in_turn = pst_arena_array(arena, n_stages, sizeof *w->in_turn);
    w->closed = pst_arena_none(arena, n_stages);
    w->turn = w->n_turn = 0;
    for (uint32_t s = 0; s < n_stages; s++) {
        const struct pst_plan_stage *stage = &low->plan->stages[s];

        if (w->list.replica[s] == PST_NONE) {
            continue;
        }
        turns[w->n_turn] = (struct turn){0, s};
        for (uint32_t c = 0; c < low->plan->copies; c++) {
            uint32_t rank = pst_plan_copy_ranks(low->plan, stage, c)[0];

            for (uint32_t i = 0; i < low->n_passes[rank]; i++) {
                const struct pst_pass *pass = &low->orders[rank][i];

                if (pass->stage == s && low->end_ns[rank][i] > turns[w->n_turn].end_ns) {
                    turns[w->n_turn].end_ns = low->end_ns[rank][i];
                }
            }
        }
        w->n_turn++;
    }
    qsort(turns, w->n_turn, sizeof *turns, compare_turns);
    for (uint32_t i = 0; i < w->n_turn; i++) {
        w->in_turn[i] = turns[i].stage;
    }
}

static pst_status prepare(struct writer *w, struct pst_arena *arena, struct pst_error *err)
{
    const struct pst_plan *plan = w->list.parts->plan;
    uint32_t *counts = pst_arena_array(arena, 8 * (size_t)plan->n_stages, sizeof *counts);
    uint32_t *replica = pst_arena_array(arena, plan->n_stages, sizeof *replica);
    uint32_t most = 1;

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        uint32_t n = w->list.parts->n_passes[part][w->list.rank];

        most = n > most ? n : most;
        w->closes[part] = pst_arena_array(arena, n, sizeof *w->closes[part]);
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        replica[s] = pst_lowering_replica(w->list.parts->low, w->list.rank, s);
    }
    w->list.replica = replica;
    w->pass_at = pst_arena_array(arena, most, sizeof *w->pass_at);
    w->reduced = pst_arena_array(arena, plan->n_stages, sizeof *w->reduced);
    w->tied = pst_arena_array(arena, plan->n_ties, sizeof *w->tied);
    if (plan->copies > 1) {
        find_turns(w, arena);
    }
    if (!find_closing(w, counts)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "device %u: the last backward of a batch must come at the same place in "
                        "each repetition of body",
                        w->list.rank);
    }
    return PST_OK;
}

pst_status pst_lowering_write(const struct pst_parts *parts, struct pst_error *err)
{
    struct writer w = {.list.parts = parts};
    pst_status status = PST_OK;

    for (uint32_t r = 0; status == PST_OK && r < parts->plan->n_devices; r++) {
        struct pst_arena arena = {0};

        w.list.rank = r;
        status = prepare(&w, &arena, err);
        for (uint32_t part = 0; status == PST_OK && part < PST_PARTS; part++) {
            if (part == PST_BODY || parts->plan->asynchronous) {
                status = write_part(&w, (enum pst_part)part, &arena, err);
            }
        }
        pst_arena_finish(&arena);
    }
    free(w.instrs);
    free(w.pairs);
    free(w.ends.rows);
    return status;
}
