/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether lists compute what the plan's rule says, found by running them sample by sample: a
 * transfer counts as arrived only once somebody waits for it, matched by what it says, whatever the
 * order. Of an asynchronous plan the parts are run batch after batch: weight slots hold version
 * numbers, accumulators the batch whose gradients they sum. It knows no unrolled plan, no queues
 * and no tables of overlaps, so that it can judge mutants beside the checker.
 */
#ifndef TESTS_CHECK_ORACLE_H
#define TESTS_CHECK_ORACLE_H

#include "unit/prove/rig.h"

/* Rows and passes of a run. */
struct flow {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    uint8_t *arrived[2];           /* [payload][edge * batch + sample] */
    uint8_t *sent[2], *awaited[2]; /* posted on its rank */
    uint8_t *f, *b, *w;            /* [stage * batch + sample] */
    bool wrong;
};

static inline bool or_all(const uint8_t *flags, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (flags[first + i] != 1) {
            return false;
        }
    }
    return true;
}

static inline bool or_edge_has_grad(const struct flow *o, uint32_t e)
{
    for (uint32_t i = 0; i < o->plan->edges[e].n_tensors; i++) {
        if (o->graph->tensors[o->plan->edges[e].tensors[i]].needs_grad) {
            return true;
        }
    }
    return false;
}

/* Who has a sample: it is dealt to the replicas in blocks, micro-batch by micro-batch. */
static inline uint32_t or_rank_at(const struct flow *o, uint32_t stage, uint32_t sample)
{
    const struct pst_plan_stage *s = &o->plan->stages[stage];
    uint32_t within = sample % s->microbatch_size;
    return s->ranks[within * s->n_ranks / s->microbatch_size];
}

static inline bool or_holds(const struct flow *o, uint32_t stage, uint32_t rank)
{
    bool holds = false;
    for (uint32_t r = 0; r < o->plan->stages[stage].n_ranks; r++) {
        holds |= o->plan->stages[stage].ranks[r] == rank;
    }
    return holds;
}

/* Whether a transfer has ended. Marks what has come in. */
static inline bool or_wait(struct flow *o, const struct pst_instr *instr)
{
    size_t at = (size_t)instr->stage * o->plan->batch + instr->first_sample;
    if (instr->op == PST_I_SEND) {
        return or_all(o->awaited[instr->payload], at, instr->n_samples);
    }
    if (!or_all(o->sent[instr->payload], at, instr->n_samples)) {
        return false;
    }
    memset(o->arrived[instr->payload] + at, 1, instr->n_samples);
    return true;
}

/* Slices of a sequence: forward passes in their order, backward passes against it. */
static inline bool or_slices(const struct flow *o, const struct pst_instr *instr, size_t at,
                             size_t size)
{
    size_t others = o->plan->stages[instr->stage].microbatch_size;
    uint32_t n = o->graph->slices, slice = n > 1 ? instr->microbatch % n : 0;
    if (instr->op == PST_I_F) {
        return slice == 0 || or_all(o->f, at - others, size);
    }
    return n <= 1 || slice + 1 == n || instr->op == PST_I_W || or_all(o->b, at + others, size);
}

static inline void or_pass(struct flow *o, uint32_t rank, const struct pst_instr *instr)
{
    const struct pst_plan *plan = o->plan;
    uint32_t s = instr->stage, size = plan->stages[s].microbatch_size;
    size_t first = (size_t)instr->microbatch * size, at;
    if (!or_holds(o, s, rank)) {
        o->wrong = true;
        return;
    }
    while (or_rank_at(o, s, (uint32_t)first) != rank) {
        first++;
    }
    size /= plan->stages[s].n_ranks;
    at = (size_t)s * plan->batch + first;
    bool forward = instr->op == PST_I_F, weights = instr->op == PST_I_W || instr->op == PST_I_BW;
    o->wrong |= !forward && !or_all(o->f, at, size);
    o->wrong |= instr->op == PST_I_W && !or_all(o->b, at, size);
    o->wrong |= !or_slices(o, instr, at, size);
    for (uint32_t e = 0; e < plan->n_edges && instr->op != PST_I_W; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        bool reads = forward ? edge->to == s : edge->from == s && or_edge_has_grad(o, e);
        bool makes = forward ? edge->from == s : edge->to == s && or_edge_has_grad(o, e);
        uint8_t *arrived = o->arrived[forward ? PST_PAYLOAD_ACT : PST_PAYLOAD_GRAD];
        o->wrong |= reads && !or_all(arrived, (size_t)e * plan->batch + first, size);
        if (makes && or_rank_at(o, edge->from, (uint32_t)first) == rank &&
            or_rank_at(o, edge->to, (uint32_t)first) == rank) {
            memset(arrived + (size_t)e * plan->batch + first, 1, size);
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        o->f[at + i] += forward;
        o->b[at + i] += !forward && instr->op != PST_I_W;
        o->w[at + i] += weights;
    }
}

static inline void or_transfer(struct flow *o, uint32_t rank, const struct pst_instr *instr)
{
    const struct pst_plan_edge *edge = &o->plan->edges[instr->stage];
    bool act = instr->payload == PST_PAYLOAD_ACT, send = instr->op == PST_I_SEND;
    uint32_t from = act ? edge->from : edge->to, to = act ? edge->to : edge->from;
    uint32_t self = send ? from : to, other = send ? to : from;
    size_t at = (size_t)instr->stage * o->plan->batch + instr->first_sample;
    for (uint32_t i = instr->first_sample; i < instr->first_sample + instr->n_samples; i++) {
        o->wrong |= or_rank_at(o, self, i) != rank || or_rank_at(o, other, i) != instr->peer;
    }
    if (send) {
        o->wrong |= !or_all(act ? o->f : o->b, (size_t)from * o->plan->batch + instr->first_sample,
                            instr->n_samples);
    }
    for (uint32_t i = 0; i < instr->n_samples; i++) {
        (send ? o->sent : o->awaited)[instr->payload][at + i]++;
    }
}

/* --- a run ---------------------------------------------------------------------------------- */

#define AO_EMPTY 0xFFFFFFFFu

/* A stage on one of its ranks. */
struct ao_stage {
    uint32_t slot[64];               /* version that each weight slot holds */
    uint32_t acc_batch[2], acc_n[2]; /* batch and samples of each accumulator */
    uint32_t reduces, steps, reduces_seen;
};

struct ao_rank {
    uint32_t part, batch, pc; /* part: 0 fill, 1 body, 2 drain, 3 done */
    bool seen[3][4096];       /* waited for, in this run of the part; room for small lists */
    uint32_t n_open;
    struct pst_instr open[256]; /* left by earlier parts, moved to the numbers of the whole run */
    uint32_t norms, norms_seen;
    uint32_t *ties, *ties_seen; /* [tie] */
};

struct ao {
    const struct pst_plan *plan;
    struct flow flow; /* rows and passes of the whole run; batch of `wide` */
    struct pst_plan wide;
    uint32_t n_batches;
    struct ao_stage *stages;
    struct ao_rank *ranks;
    bool wrong;
};

static inline struct ao_stage *ao_at(const struct ao *o, uint32_t stage, uint32_t rank)
{
    return &o->stages[stage * o->plan->n_devices + rank];
}

static inline const struct pst_instr *ao_list(const struct ao *o, uint32_t r, uint32_t *n)
{
    const struct pst_plan_device *d = &o->plan->devices[r];
    switch (o->ranks[r].part) {
    case 0:
        *n = d->n_fill;
        return d->fill;
    case 1:
        *n = d->n_instrs;
        return d->body;
    default:
        *n = d->n_drain;
        return d->drain;
    }
}

static inline struct pst_instr ao_move(const struct ao *o, const struct pst_instr *from,
                                       uint32_t batch)
{
    struct pst_instr instr = *from;
    if (instr.op == PST_I_SEND || instr.op == PST_I_RECV) {
        instr.first_sample += batch * o->plan->batch;
        if (instr.first_sample + instr.n_samples > o->wide.batch) {
            instr.n_samples = 0; /* of a batch that is never closed */
        }
    } else if (instr.op <= PST_I_R) {
        instr.microbatch += batch * o->plan->stages[instr.stage].n_microbatches;
    }
    return instr;
}

/* Whether what is waited for has ended; notes that it has been waited for. */
static inline bool ao_ended(struct ao *o, uint32_t r, const struct pst_instr *instr)
{
    struct ao_rank *rank = &o->ranks[r];
    if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
        return or_wait(&o->flow, instr);
    }
    if (instr->op == PST_I_NORM) {
        for (uint32_t d = 0; d < o->plan->n_devices; d++) {
            if (o->ranks[d].norms < rank->norms_seen + 1) {
                return false;
            }
        }
        rank->norms_seen++;
    } else if (instr->op == PST_I_TIE) {
        const struct pst_plan_tie *tie = &o->plan->ties[instr->stage];
        for (uint32_t s = 0; s < tie->n_stages; s++) {
            for (uint32_t d = 0; d < o->plan->n_devices; d++) {
                if (or_holds(&o->flow, tie->stages[s], d) &&
                    o->ranks[d].ties[instr->stage] < rank->ties_seen[instr->stage] + 1) {
                    return false;
                }
            }
        }
        rank->ties_seen[instr->stage]++;
    } else if (instr->op == PST_I_REDUCE) {
        for (uint32_t d = 0; d < o->plan->n_devices; d++) {
            if (or_holds(&o->flow, instr->stage, d) &&
                ao_at(o, instr->stage, d)->reduces < ao_at(o, instr->stage, r)->reduces_seen + 1) {
                return false;
            }
        }
        ao_at(o, instr->stage, r)->reduces_seen++;
    }
    return true;
}

/* Does `instr` take over `open`, which an earlier part has left? */
static inline bool ao_takes(const struct ao *o, const struct pst_instr *instr,
                            const struct pst_instr *open)
{
    if (open->op != PST_I_SEND && open->op != PST_I_RECV) {
        return instr->op >= PST_I_TIE && instr->op <= PST_I_STEP;
    }
    const struct pst_plan_edge *edge = &o->plan->edges[open->stage];
    bool forward = open->payload == PST_PAYLOAD_ACT;
    uint32_t owner = (open->op == PST_I_SEND) == forward ? edge->from : edge->to;
    bool pass = forward ? instr->op == PST_I_F : instr->op == PST_I_B || instr->op == PST_I_BW;
    return pass && instr->stage == owner;
}

/* All waits of the next instruction; false: not yet. What has ended is not asked again. */
static inline bool ao_waits(struct ao *o, uint32_t r, const struct pst_instr *list,
                            const struct pst_instr *instr)
{
    struct ao_rank *rank = &o->ranks[r];
    for (uint32_t i = 0; i < rank->n_open;) {
        if (!ao_takes(o, instr, &rank->open[i])) {
            i++;
            continue;
        }
        if (!ao_ended(o, r, &rank->open[i])) {
            return false;
        }
        memmove(&rank->open[i], &rank->open[i + 1], (--rank->n_open - i) * sizeof *rank->open);
    }
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        uint32_t at = instr->waits[w];
        struct pst_instr other = ao_move(o, &list[at], rank->batch);
        if (!rank->seen[rank->part][at] && !ao_ended(o, r, &other)) {
            return false;
        }
        rank->seen[rank->part][at] = true;
    }
    return true;
}

/* Updates of a batch; versions of a stage that are there at a time. */
static inline bool ao_stashes(const struct ao *o)
{
    return o->plan->asynchronous && o->plan->version_rule == PST_VERSION_STASHED;
}

static inline uint32_t ao_updates(const struct ao *o)
{
    return ao_stashes(o) ? o->plan->stages[0].n_microbatches : 1;
}

static inline uint32_t ao_slots(const struct ao *o, uint32_t stage)
{
    uint32_t n = ao_stashes(o)           ? o->plan->stages[stage].weight_versions
                 : o->plan->asynchronous ? 2
                                         : 1;
    assert_true(n > 0 && n <= 64);
    return n;
}

static inline void ao_pass(struct ao *o, uint32_t r, const struct pst_instr *instr)
{
    struct ao_stage *stage = ao_at(o, instr->stage, r);
    const struct pst_plan_stage *s = &o->plan->stages[instr->stage];
    uint32_t batch = instr->microbatch / (s->n_microbatches / ao_updates(o)); /* or update */
    uint32_t slots = ao_slots(o, instr->stage), late = slots - 1;
    uint32_t version = batch > late ? batch - late : 0;
    uint32_t acc = o->plan->deferred_step ? batch % 2 : 0;
    if (batch >= o->n_batches * ao_updates(o)) {
        o->wrong = true;
        return;
    }
    o->wrong |= stage->slot[version % slots] != version;
    or_pass(&o->flow, r, instr);
    if (instr->op == PST_I_W || instr->op == PST_I_BW) {
        o->wrong |= stage->acc_batch[acc] != AO_EMPTY && stage->acc_batch[acc] != batch;
        stage->acc_batch[acc] = batch;
        stage->acc_n[acc] += s->microbatch_size / s->n_ranks;
    }
}

/* The accumulator of batch k holds all that the rank has of it and nothing else. */
static inline bool ao_summed(const struct ao *o, uint32_t stage, uint32_t r, uint32_t k)
{
    uint32_t acc = o->plan->deferred_step ? k % 2 : 0;
    return ao_at(o, stage, r)->acc_batch[acc] == k &&
           ao_at(o, stage, r)->acc_n[acc] * o->plan->stages[stage].n_ranks * ao_updates(o) ==
               o->plan->batch;
}

static inline void ao_step(struct ao *o, uint32_t r, uint32_t s)
{
    struct ao_stage *stage = ao_at(o, s, r);
    uint32_t k = stage->steps++, acc = o->plan->deferred_step ? k % 2 : 0;
    o->wrong |= !or_holds(&o->flow, s, r) || !ao_summed(o, s, r, k);
    o->wrong |= o->plan->barrier ? o->ranks[r].norms_seen <= k : stage->reduces_seen <= k;
    for (uint32_t t = 0; t < o->plan->n_ties && !o->plan->barrier; t++) {
        for (uint32_t i = 0; i < o->plan->ties[t].n_stages; i++) {
            o->wrong |= o->plan->ties[t].stages[i] == s && o->ranks[r].ties_seen[t] <= k;
        }
    }
    stage->slot[(k + 1) % ao_slots(o, s)] = k + 1;
    stage->acc_batch[acc] = AO_EMPTY;
    stage->acc_n[acc] = 0;
}

/* Stages of this rank, or its members of a tie, have been reduced more than k times. */
static inline bool ao_reduced(const struct ao *o, uint32_t r, uint32_t k, uint32_t tie)
{
    for (uint32_t s = 0; s < o->plan->n_stages; s++) {
        bool member = tie == AO_EMPTY;
        for (uint32_t i = 0; !member && i < o->plan->ties[tie].n_stages; i++) {
            member = o->plan->ties[tie].stages[i] == s;
        }
        if (member && or_holds(&o->flow, s, r) && ao_at(o, s, r)->reduces <= k) {
            return false;
        }
    }
    return true;
}

static inline bool ao_is_member(const struct ao *o, uint32_t r, uint32_t tie)
{
    for (uint32_t i = 0; i < o->plan->ties[tie].n_stages; i++) {
        if (or_holds(&o->flow, o->plan->ties[tie].stages[i], r)) {
            return true;
        }
    }
    return false;
}

static inline void ao_reduction(struct ao *o, uint32_t r, const struct pst_instr *instr)
{
    struct ao_rank *rank = &o->ranks[r];
    uint32_t s = instr->stage;
    if (instr->op == PST_I_REDUCE) {
        o->wrong |= !or_holds(&o->flow, s, r) || !ao_summed(o, s, r, ao_at(o, s, r)->reduces);
        ao_at(o, s, r)->reduces++;
    } else if (instr->op == PST_I_TIE) {
        o->wrong |= !ao_is_member(o, r, s) || !ao_reduced(o, r, rank->ties[s], s);
        rank->ties[s]++;
    } else {
        o->wrong |= !o->plan->barrier || !ao_reduced(o, r, rank->norms, AO_EMPTY);
        for (uint32_t t = 0; t < o->plan->n_ties; t++) {
            o->wrong |= ao_is_member(o, r, t) && rank->ties[t] <= rank->norms;
        }
        rank->norms++;
    }
}

/* Goes on to the next part; what nobody has waited for stays open. */
static inline void ao_next_part(struct ao *o, uint32_t r)
{
    struct ao_rank *rank = &o->ranks[r];
    uint32_t n;
    const struct pst_instr *list = ao_list(o, r, &n);
    for (uint32_t i = 0; i < n && o->plan->asynchronous; i++) {
        if (list[i].op >= PST_I_SEND && list[i].op != PST_I_STEP && !rank->seen[rank->part][i]) {
            assert_true(rank->n_open < 256);
            rank->open[rank->n_open++] = ao_move(o, &list[i], rank->batch);
        }
    }
    memset(rank->seen, 0, sizeof rank->seen);
    rank->pc = 0;
    if (rank->part == 1) {
        rank->batch++;
    }
    rank->part = rank->part == 2 || !o->plan->asynchronous ? 3
                 : rank->batch + 1 < o->n_batches          ? 1
                                                           : 2;
}

static inline bool ao_advance(struct ao *o, uint32_t r)
{
    struct ao_rank *rank = &o->ranks[r];
    bool moved = false;
    while (rank->part < 3 && !o->wrong) {
        uint32_t n;
        const struct pst_instr *list = ao_list(o, r, &n);
        if (rank->pc == n) {
            ao_next_part(o, r);
            moved = true;
            continue;
        }
        struct pst_instr instr = ao_move(o, &list[rank->pc], rank->batch);
        assert_true(n < 4096);
        if (!ao_waits(o, r, list, &instr)) {
            return moved;
        }
        if (instr.op == PST_I_SEND || instr.op == PST_I_RECV) {
            o->wrong |= instr.n_samples == 0;
            if (!o->wrong) {
                or_transfer(&o->flow, r, &instr);
            }
        } else if (instr.op == PST_I_STEP) {
            ao_step(o, r, instr.stage);
        } else if (instr.op >= PST_I_REDUCE) {
            ao_reduction(o, r, &instr);
        } else {
            ao_pass(o, r, &instr);
        }
        o->wrong |= o->flow.wrong;
        rank->pc++;
        moved = true;
    }
    return moved;
}

static inline bool ao_complete(const struct ao *o)
{
    const struct pst_plan *plan = o->plan;
    size_t samples = (size_t)plan->n_stages * o->wide.batch;
    bool all = or_all(o->flow.f, 0, samples) && or_all(o->flow.b, 0, samples) &&
               or_all(o->flow.w, 0, samples);
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        for (uint32_t s = 0; s < plan->n_stages; s++) {
            uint32_t n = or_holds(&o->flow, s, r) ? o->n_batches * ao_updates(o) : 0;
            all &= ao_at(o, s, r)->steps == n && ao_at(o, s, r)->reduces == n;
        }
        all &= o->ranks[r].part == 3 && o->ranks[r].norms == (plan->barrier ? o->n_batches : 0);
        for (uint32_t t = 0; t < plan->n_ties; t++) {
            all &=
                o->ranks[r].ties[t] == (ao_is_member(o, r, t) ? o->n_batches * ao_updates(o) : 0);
        }
    }
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        for (uint32_t i = 0; i < o->wide.batch; i++) {
            size_t at = (size_t)e * o->wide.batch + i;
            bool remote = or_rank_at(&o->flow, edge->from, i) != or_rank_at(&o->flow, edge->to, i);
            for (uint32_t p = 0; p < 2 && remote; p++) {
                bool flows = p == PST_PAYLOAD_ACT || or_edge_has_grad(&o->flow, e);
                all &= !flows || (o->flow.sent[p][at] == 1 && o->flow.awaited[p][at] == 1);
            }
        }
    }
    return all;
}

static inline bool oracle_run(const struct pst_plan *plan, const struct pst_graph *graph,
                              uint32_t n_batches)
{
    struct ao o = {.plan = plan, .n_batches = n_batches, .wide = *plan};
    o.wide.batch = plan->batch * n_batches;
    size_t edges = (size_t)plan->n_edges * o.wide.batch;
    size_t stages = (size_t)plan->n_stages * o.wide.batch;
    uint8_t *memory = calloc(6 * edges + 3 * stages + 1, 1), *at = memory;
    uint32_t *ties = calloc(2 * (size_t)plan->n_ties * plan->n_devices + 1, sizeof *ties);
    o.stages = calloc((size_t)plan->n_stages * plan->n_devices, sizeof *o.stages);
    o.ranks = calloc(plan->n_devices, sizeof *o.ranks);
    o.flow.plan = &o.wide;
    o.flow.graph = graph;
    for (uint32_t p = 0; p < 2; p++, at += 3 * edges) {
        o.flow.arrived[p] = at;
        o.flow.sent[p] = at + edges;
        o.flow.awaited[p] = at + 2 * edges;
    }
    o.flow.f = at;
    o.flow.b = at + stages;
    o.flow.w = at + 2 * stages;
    for (uint32_t s = 0; s < plan->n_stages * plan->n_devices; s++) {
        o.stages[s] = (struct ao_stage){.acc_batch = {AO_EMPTY, AO_EMPTY}};
        memset(&o.stages[s].slot[1], 0xFF, sizeof o.stages[s].slot - sizeof(uint32_t));
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        o.ranks[r].ties = &ties[2 * (size_t)r * plan->n_ties];
        o.ranks[r].ties_seen = o.ranks[r].ties + plan->n_ties;
        o.ranks[r].part = plan->asynchronous ? 0 : 1;
    }
    bool moved = true;
    while (moved && !o.wrong) {
        moved = false;
        for (uint32_t r = 0; r < plan->n_devices; r++) {
            moved |= ao_advance(&o, r);
        }
    }
    bool legal = !o.wrong && ao_complete(&o);
    free(memory);
    free(ties);
    free(o.stages);
    free(o.ranks);
    return legal;
}

/* A step, or runs of 1 to 4 batches. The lists must have the form FORM1 asks for. */
static inline bool oracle_legal(const struct pst_plan *plan, const struct pst_graph *graph)
{
    if (plan->asynchronous && plan->version_rule == PST_VERSION_STASHED &&
        (plan->barrier || plan->deferred_step)) {
        return false; /* no update of it waits for another device */
    }
    for (uint32_t n = 1; n <= (plan->asynchronous ? 4 : 1); n++) {
        if (!oracle_run(plan, graph, n)) {
            return false;
        }
    }
    return true;
}

#endif
