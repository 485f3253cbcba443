/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines to draw and to write: textbook orders, timed by running them, with activation memory.
 * Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_TIMELINE_RIG_H
#define PENSTOCK_TESTS_TIMELINE_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

OWNER(timeline)

enum rig_order {
    RIG_1F1B,   /* one stage a rank, F and BW */
    RIG_SPLIT,  /* the same with B and W apart, W right behind */
    RIG_LOOPED, /* two stages a rank, breadth first */
    RIG_V       /* two stages a rank, the second half coming back; B and W */
};

struct rig_orders {
    uint32_t n_ranks, n_stages, n_mbs, *device, *n;
    struct pst_pass **passes;
};

static inline void rig_push(struct rig_orders *o, uint32_t rank, uint8_t op, uint32_t stage,
                            uint32_t mb)
{
    o->passes[rank][o->n[rank]++] = (struct pst_pass){op, stage, mb};
}

static inline void rig_backward(struct rig_orders *o, uint32_t rank, bool split, uint32_t stage,
                                uint32_t mb)
{
    rig_push(o, rank, split ? PST_PASS_B : PST_PASS_BW, stage, mb);
    if (split) {
        rig_push(o, rank, PST_PASS_W, stage, mb);
    }
}

static inline void rig_one_rank(struct rig_orders *o, enum rig_order kind, uint32_t rank)
{
    uint32_t p = o->n_ranks, m = o->n_mbs, warm = p - rank - 1 < m ? p - rank - 1 : m;
    bool split = kind == RIG_SPLIT || kind == RIG_V;

    if (kind == RIG_1F1B || kind == RIG_SPLIT) {
        for (uint32_t i = 0; i < warm; i++) {
            rig_push(o, rank, PST_PASS_F, rank, i);
        }
        for (uint32_t i = warm; i < m; i++) {
            rig_push(o, rank, PST_PASS_F, rank, i);
            rig_backward(o, rank, split, rank, i - warm);
        }
        for (uint32_t i = m - warm; i < m; i++) {
            rig_backward(o, rank, split, rank, i);
        }
        return;
    }
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        for (uint32_t i = 0; i < m; i++) {
            rig_push(o, rank, PST_PASS_F,
                     chunk == 0           ? rank
                     : kind == RIG_LOOPED ? p + rank
                                          : 2 * p - 1 - rank,
                     i);
        }
    }
    for (uint32_t chunk = 2; chunk-- > 0;) {
        for (uint32_t i = 0; i < m; i++) {
            rig_backward(o, rank, split,
                         chunk == 0           ? rank
                         : kind == RIG_LOOPED ? p + rank
                                              : 2 * p - 1 - rank,
                         i);
        }
    }
}

static inline struct rig_orders rig_orders(enum rig_order kind, uint32_t n_ranks, uint32_t n_mbs)
{
    uint32_t chunks = kind == RIG_LOOPED || kind == RIG_V ? 2 : 1;
    struct rig_orders o = {n_ranks, n_ranks * chunks, n_mbs, NULL, NULL, NULL};

    o.device = calloc(o.n_stages, sizeof *o.device);
    o.n = calloc(n_ranks, sizeof *o.n);
    o.passes = calloc(n_ranks, sizeof *o.passes);
    for (uint32_t s = 0; s < o.n_stages; s++) {
        o.device[s] = s < n_ranks ? s : kind == RIG_V ? 2 * n_ranks - 1 - s : s - n_ranks;
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        o.passes[r] = calloc((size_t)3 * chunks * n_mbs, sizeof *o.passes[r]);
        rig_one_rank(&o, kind, r);
    }
    return o;
}

static inline void rig_orders_finish(struct rig_orders *o)
{
    for (uint32_t r = 0; r < o->n_ranks; r++) {
        free(o->passes[r]);
    }
    free(o->passes);
    free(o->device);
    free(o->n);
}

/* End of a pass, UINT64_MAX while it has not run. */
static inline uint64_t *rig_end(uint64_t *ends, const struct rig_orders *o, uint8_t op,
                                uint32_t stage, uint32_t mb)
{
    uint32_t which = op == PST_PASS_F ? 0 : op == PST_PASS_W ? 2 : 1;

    return &ends[((size_t)which * o->n_stages + stage) * o->n_mbs + mb];
}

/* When its inputs are there; UINT64_MAX: not yet. */
static inline uint64_t rig_ready(uint64_t *ends, const struct rig_orders *o,
                                 const struct pst_pass *pass, uint64_t latency)
{
    uint32_t s = pass->stage, other;
    uint64_t own = 0, from = 0;

    if (pass->op != PST_PASS_F) {
        own = *rig_end(ends, o, pass->op == PST_PASS_W ? PST_PASS_B : PST_PASS_F, s,
                       pass->microbatch);
    }
    if (pass->op == PST_PASS_W || (pass->op == PST_PASS_F && s == 0) ||
        (pass->op != PST_PASS_F && s == o->n_stages - 1)) {
        return own;
    }
    other = pass->op == PST_PASS_F ? s - 1 : s + 1;
    from = *rig_end(ends, o, pass->op, other, pass->microbatch);
    if (from == UINT64_MAX || own == UINT64_MAX) {
        return UINT64_MAX;
    }
    from += o->device[other] != o->device[s] ? latency : 0;
    return from > own ? from : own;
}

static inline void rig_add_pass(struct pst_timeline *t, const struct rig_orders *o, uint32_t rank,
                                uint32_t i, uint64_t start, uint64_t end)
{
    const struct pst_pass *pass = &o->passes[rank][i];
    struct pst_span span = {.start_ns = start,
                            .end_ns = end,
                            .rank = rank,
                            .instr = i,
                            .stage = pass->stage,
                            .to_stage = PST_NONE,
                            .microbatch = pass->microbatch,
                            .peer = PST_NONE,
                            .op = pass->op,
                            .lane = PST_LANE_COMPUTE};

    pst_timeline_add(t, &span);
}

/* What leaves the rank after a pass: a span on each side. */
static inline void rig_add_transfer(struct pst_timeline *t, const struct rig_orders *o,
                                    uint32_t rank, const struct pst_pass *pass, uint64_t at,
                                    uint64_t latency)
{
    bool forward = pass->op == PST_PASS_F;
    uint32_t s = pass->stage, to;
    struct pst_span span = {.start_ns = at,
                            .end_ns = at + latency,
                            .bytes = 4096,
                            .instr = PST_NONE,
                            .stage = s,
                            .microbatch = PST_NONE,
                            .first_sample = pass->microbatch,
                            .n_samples = 1};

    if (latency == 0 || pass->op == PST_PASS_W || (forward ? s + 1 == o->n_stages : s == 0)) {
        return;
    }
    to = forward ? s + 1 : s - 1;
    if (o->device[to] == rank) {
        return;
    }
    span.payload = forward ? PST_PAYLOAD_ACT : PST_PAYLOAD_GRAD;
    span.to_stage = to;
    span.rank = rank;
    span.peer = o->device[to];
    span.op = PST_I_SEND;
    span.lane = PST_LANE_SEND;
    pst_timeline_add(t, &span);
    span.rank = o->device[to];
    span.peer = rank;
    span.op = PST_I_RECV;
    span.lane = PST_LANE_RECV;
    pst_timeline_add(t, &span);
}

static inline void rig_memory(struct pst_timeline *t, uint32_t rank, const struct pst_pass *pass,
                              uint64_t start, uint64_t end, uint64_t *held)
{
    uint64_t bytes[PST_MEM_KINDS] = {3u << 20, 3u << 20, 6u << 20};

    if (pass->op == PST_PASS_F) {
        *held += 2u << 20;
    }
    bytes[PST_MEM_ACTIVATIONS] = *held;
    bytes[PST_MEM_WORKSPACE] = pass->op == PST_PASS_F ? 0 : 1u << 20;
    pst_timeline_memory(t, rank, start, bytes);
    *held -= pass->op == PST_PASS_F ? 0 : pass->op == PST_PASS_BW ? 2u << 20 : 1u << 20;
    bytes[PST_MEM_ACTIVATIONS] = *held;
    bytes[PST_MEM_WORKSPACE] = 0;
    pst_timeline_memory(t, rank, end, bytes);
}

/* F, B and W take the given times (BW the last two together), a transfer `latency`. */
static inline struct pst_timeline *rig_timeline(enum rig_order kind, uint32_t n_ranks,
                                                uint32_t n_mbs, const uint64_t costs[3],
                                                uint64_t latency)
{
    struct rig_orders o = rig_orders(kind, n_ranks, n_mbs);
    size_t n_ends = (size_t)3 * o.n_stages * n_mbs;
    uint64_t *ends = malloc(n_ends * sizeof *ends), *now = calloc(n_ranks, sizeof *now),
             *held = calloc(n_ranks, sizeof *held);
    uint32_t *at = calloc(n_ranks, sizeof *at);
    struct pst_timeline *t = NULL;
    bool moved = true;

    pst_timeline_create(n_ranks, &t);
    memset(ends, 255, n_ends * sizeof *ends);
    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < n_ranks; r++) {
            while (at[r] < o.n[r]) {
                const struct pst_pass *pass = &o.passes[r][at[r]];
                uint64_t start = rig_ready(ends, &o, pass, latency), end;

                if (start == UINT64_MAX) {
                    break;
                }
                start = start > now[r] ? start : now[r];
                end = start + (pass->op == PST_PASS_F   ? costs[0]
                               : pass->op == PST_PASS_B ? costs[1]
                               : pass->op == PST_PASS_W ? costs[2]
                                                        : costs[1] + costs[2]);
                *rig_end(ends, &o, pass->op, pass->stage, pass->microbatch) = end;
                rig_add_pass(t, &o, r, at[r]++, start, end);
                rig_add_transfer(t, &o, r, pass, end, latency);
                rig_memory(t, r, pass, start, end, &held[r]);
                now[r] = end;
                moved = true;
            }
        }
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        assert_int_equal(at[r], o.n[r]);
        if (o.n_stages > n_ranks) {
            snprintf(t->ranks[r].name, sizeof t->ranks[r].name, "rank %u (stage %u, %u)", r, r,
                     kind == RIG_V ? 2 * n_ranks - 1 - r : n_ranks + r);
        } else {
            snprintf(t->ranks[r].name, sizeof t->ranks[r].name, "rank %u (stage %u)", r, r);
        }
    }
    t->title = "an order";
    t->kind = "evaluation";
    pst_timeline_finish_build(t);
    free(ends);
    free(now);
    free(held);
    free(at);
    rig_orders_finish(&o);
    return t;
}

#endif
