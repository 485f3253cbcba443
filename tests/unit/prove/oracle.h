/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether lists compute a training step, found by running them sample by sample: a transfer counts
 * as arrived only once somebody waits for it, matched by what it says, whatever the order. It knows
 * no queues and no tables of overlaps, so that it can judge mutants beside the checker.
 */
#ifndef TESTS_CHECK_ORACLE_H
#define TESTS_CHECK_ORACLE_H

#include "unit/prove/rig.h"

struct oracle {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    uint8_t *arrived[2];                        /* [payload][edge * batch + sample] */
    uint8_t *sent[2], *awaited[2];              /* posted on its rank */
    uint8_t *f, *b, *w;                         /* [stage * batch + sample] */
    uint8_t *reduced, *stepped, *tied, *normed; /* [stage * devices + rank], the same,
                                                   [tie * devices + rank], [rank] */
    uint8_t *norm_seen;                         /* [rank] something has waited for the norm */
    uint8_t *reduce_seen, *tie_seen;            /* [stage or tie * devices + rank] the same */
    uint32_t *pc;
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

static inline bool or_edge_has_grad(const struct oracle *o, uint32_t e)
{
    for (uint32_t i = 0; i < o->plan->edges[e].n_tensors; i++) {
        if (o->graph->tensors[o->plan->edges[e].tensors[i]].needs_grad) {
            return true;
        }
    }
    return false;
}

/* Who has a sample: it is dealt to the replicas in blocks, micro-batch by micro-batch. */
static inline uint32_t or_rank_at(const struct oracle *o, uint32_t stage, uint32_t sample)
{
    const struct pst_plan_stage *s = &o->plan->stages[stage];
    uint32_t within = sample % s->microbatch_size;
    return s->ranks[within * s->n_ranks / s->microbatch_size];
}

static inline bool or_holds(const struct oracle *o, uint32_t stage, uint32_t rank)
{
    bool holds = false;
    for (uint32_t r = 0; r < o->plan->stages[stage].n_ranks; r++) {
        holds |= o->plan->stages[stage].ranks[r] == rank;
    }
    return holds;
}

/* All gradients of the samples that the rank has of a stage. */
static inline bool or_summed(const struct oracle *o, uint32_t stage, uint32_t rank)
{
    for (uint32_t i = 0; i < o->plan->batch; i++) {
        if (or_rank_at(o, stage, i) == rank && o->w[(size_t)stage * o->plan->batch + i] != 1) {
            return false;
        }
    }
    return true;
}

static inline bool or_reduce_met(const struct oracle *o, uint32_t stage)
{
    for (uint32_t r = 0; r < o->plan->stages[stage].n_ranks; r++) {
        if (o->reduced[stage * o->plan->n_devices + o->plan->stages[stage].ranks[r]] != 1) {
            return false;
        }
    }
    return true;
}

/* Every rank with a member of the tie has come to it. */
static inline bool or_tie_met(const struct oracle *o, uint32_t t)
{
    const struct pst_plan_tie *tie = &o->plan->ties[t];
    for (uint32_t s = 0; s < tie->n_stages; s++) {
        for (uint32_t d = 0; d < o->plan->n_devices; d++) {
            if (or_holds(o, tie->stages[s], d) && o->tied[t * o->plan->n_devices + d] != 1) {
                return false;
            }
        }
    }
    return true;
}

/* 0: not yet; 1: yes. Marks what has come in. */
static inline bool or_wait(struct oracle *o, uint32_t rank, const struct pst_instr *instr)
{
    size_t at = (size_t)instr->stage * o->plan->batch + instr->first_sample;
    switch (instr->op) {
    case PST_I_SEND:
        return or_all(o->awaited[instr->payload], at, instr->n_samples);
    case PST_I_RECV:
        if (!or_all(o->sent[instr->payload], at, instr->n_samples)) {
            return false;
        }
        memset(o->arrived[instr->payload] + at, 1, instr->n_samples);
        return true;
    case PST_I_REDUCE:
        o->reduce_seen[instr->stage * o->plan->n_devices + rank] = or_reduce_met(o, instr->stage);
        return or_reduce_met(o, instr->stage);
    case PST_I_TIE:
        o->tie_seen[instr->stage * o->plan->n_devices + rank] = or_tie_met(o, instr->stage);
        return or_tie_met(o, instr->stage);
    case PST_I_NORM:
        o->norm_seen[rank] = or_all(o->normed, 0, o->plan->n_devices);
        return o->norm_seen[rank];
    default:
        return true;
    }
}

/* Slices of a sequence: forward passes in their order, backward passes against it. */
static inline bool or_slices(const struct oracle *o, const struct pst_instr *instr, size_t at,
                             size_t size)
{
    size_t others = o->plan->stages[instr->stage].microbatch_size;
    uint32_t n = o->graph->slices, slice = n > 1 ? instr->microbatch % n : 0;
    if (instr->op == PST_I_F) {
        return slice == 0 || or_all(o->f, at - others, size);
    }
    return n <= 1 || slice + 1 == n || instr->op == PST_I_W || or_all(o->b, at + others, size);
}

static inline void or_pass(struct oracle *o, uint32_t rank, const struct pst_instr *instr)
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

static inline void or_transfer(struct oracle *o, uint32_t rank, const struct pst_instr *instr)
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

static inline void or_reduction(struct oracle *o, uint32_t rank, const struct pst_instr *instr)
{
    const struct pst_plan *plan = o->plan;
    if (instr->op == PST_I_REDUCE) {
        o->wrong |= !or_holds(o, instr->stage, rank) || !or_summed(o, instr->stage, rank);
        o->reduced[instr->stage * plan->n_devices + rank]++;
    } else if (instr->op == PST_I_TIE) {
        const struct pst_plan_tie *tie = &plan->ties[instr->stage];
        for (uint32_t s = 0; s < tie->n_stages; s++) {
            o->wrong |= or_holds(o, tie->stages[s], rank) &&
                        o->reduced[tie->stages[s] * plan->n_devices + rank] != 1;
        }
        o->tied[instr->stage * plan->n_devices + rank]++;
    } else {
        o->wrong |= !plan->barrier;
        for (uint32_t s = 0; s < plan->n_stages; s++) {
            o->wrong |= or_holds(o, s, rank) && o->reduced[s * plan->n_devices + rank] != 1;
        }
        for (uint32_t t = 0; t < plan->n_ties; t++) {
            for (uint32_t s = 0; s < plan->ties[t].n_stages; s++) {
                o->wrong |= or_holds(o, plan->ties[t].stages[s], rank) &&
                            o->tied[t * plan->n_devices + rank] != 1;
            }
        }
        o->normed[rank]++;
    }
}

/* It has waited for the norm; without a barrier, for the sums of its own stage. */
static inline void or_step(struct oracle *o, uint32_t rank, uint32_t stage)
{
    const struct pst_plan *plan = o->plan;
    o->wrong |= !or_holds(o, stage, rank);
    o->wrong |=
        plan->barrier ? !o->norm_seen[rank] : !o->reduce_seen[stage * plan->n_devices + rank];
    for (uint32_t t = 0; t < plan->n_ties && !plan->barrier; t++) {
        for (uint32_t s = 0; s < plan->ties[t].n_stages; s++) {
            o->wrong |=
                plan->ties[t].stages[s] == stage && !o->tie_seen[t * plan->n_devices + rank];
        }
    }
    o->stepped[stage * plan->n_devices + rank]++;
}

static inline bool or_advance(struct oracle *o, uint32_t rank)
{
    const struct pst_plan_device *device = &o->plan->devices[rank];
    uint32_t before = o->pc[rank];
    for (; o->pc[rank] < device->n_instrs && !o->wrong; o->pc[rank]++) {
        const struct pst_instr *instr = &device->body[o->pc[rank]];
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            const struct pst_instr *other = &device->body[instr->waits[w]];
            if (!or_wait(o, rank, other)) {
                return o->pc[rank] != before;
            }
        }
        if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
            or_transfer(o, rank, instr);
        } else if (instr->op == PST_I_STEP) {
            or_step(o, rank, instr->stage);
        } else if (instr->op >= PST_I_REDUCE) {
            or_reduction(o, rank, instr);
        } else {
            o->wrong |= o->stepped[instr->stage * o->plan->n_devices + rank] != 0;
            or_pass(o, rank, instr);
        }
    }
    return o->pc[rank] != before;
}

/* Everything happened once: nothing twice, nothing not at all, nothing sent and not received. */
static inline bool or_complete(const struct oracle *o)
{
    const struct pst_plan *plan = o->plan;
    size_t samples = (size_t)plan->n_stages * plan->batch;
    bool all = or_all(o->f, 0, samples) && or_all(o->b, 0, samples) && or_all(o->w, 0, samples) &&
               (!plan->barrier || or_all(o->normed, 0, plan->n_devices));
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        all &= o->pc[d] == plan->devices[d].n_instrs;
        for (uint32_t s = 0; s < plan->n_stages; s++) {
            uint32_t n = or_holds(o, s, d);
            all &= o->reduced[s * plan->n_devices + d] == n;
            all &= o->stepped[s * plan->n_devices + d] == n;
        }
    }
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        bool remote = or_rank_at(o, plan->edges[e].from, 0) != or_rank_at(o, plan->edges[e].to, 0);
        for (uint32_t p = 0; p < 2 && remote; p++) {
            bool flows = p == PST_PAYLOAD_ACT || or_edge_has_grad(o, e);
            all &= !flows || or_all(o->sent[p], (size_t)e * plan->batch, plan->batch);
            all &= !flows || or_all(o->awaited[p], (size_t)e * plan->batch, plan->batch);
        }
    }
    return all;
}

/* The lists must have the form FORM1 asks for. */
static inline bool oracle_legal(const struct pst_plan *plan, const struct pst_graph *graph)
{
    size_t edges = (size_t)plan->n_edges * plan->batch,
           stages = (size_t)plan->n_stages * plan->batch;
    struct oracle o = {
        .plan = plan, .graph = graph, .pc = calloc(plan->n_devices, sizeof(uint32_t))};
    uint8_t *memory =
        calloc(6 * edges + 3 * stages +
                   (3 * (size_t)plan->n_stages + 2 * (size_t)plan->n_ties + 2) * plan->n_devices,
               1);
    uint8_t *at = memory;
    for (uint32_t p = 0; p < 2; p++, at += 3 * edges) {
        o.arrived[p] = at;
        o.sent[p] = at + edges;
        o.awaited[p] = at + 2 * edges;
    }
    o.f = at;
    o.b = at + stages;
    o.w = at + 2 * stages;
    o.reduced = at + 3 * stages;
    o.stepped = o.reduced + (size_t)plan->n_stages * plan->n_devices;
    o.tied = o.stepped + (size_t)plan->n_stages * plan->n_devices;
    o.normed = o.tied + (size_t)plan->n_ties * plan->n_devices;
    o.norm_seen = o.normed + plan->n_devices;
    o.reduce_seen = o.norm_seen + plan->n_devices;
    o.tie_seen = o.reduce_seen + (size_t)plan->n_stages * plan->n_devices;
    bool moved = true;
    while (moved && !o.wrong) {
        moved = false;
        for (uint32_t d = 0; d < plan->n_devices; d++) {
            moved |= or_advance(&o, d);
        }
    }
    bool legal = !o.wrong && or_complete(&o);
    free(memory);
    free(o.pc);
    return legal;
}

#endif
