/* SPDX-License-Identifier: Apache-2.0
 *
 * Which blocks are grown, and where the result is kept.
 */
#include "pool.h"

#include <string.h>

#include "ramps.h"

/* The larger chunk of a device: what rungs are counted in. */
static int64_t chunk_bytes(const struct va_problem *q, uint32_t d)
{
    const struct va_pass *pass = &q->passes[va_pass_index(d, 0)];

    return pass[VA_F0].at_start > pass[VA_F1].at_start ? pass[VA_F0].at_start
                                                       : pass[VA_F1].at_start;
}

/*
 * Chunks beyond which memory buys little: those of the micro-batches that begin on device 0 while
 * the first one makes its way down the V and back, twice; 2p at equal costs and free links.
 */
static uint32_t useful_chunks(const struct va_problem *q)
{
    uint64_t way = 0, period = va_period(q), k;

    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        way += i % VA_KINDS <= VA_B0 ? q->passes[i].cost_ns : 0;
    }
    for (uint32_t i = 0; i < q->n_needs; i++) {
        way += q->needs[i].delay_ns;
    }
    period = period > 0 ? period : 1;
    k = 2 * ((way + period - 1) / period + 1);
    k = k > 2 * q->p ? k : 2 * q->p;
    return (uint32_t)(k < 2 * (uint64_t)q->m ? k : 2 * (uint64_t)q->m);
}

/* Rungs of 2, 3, ... whole chunks that lie below the caps of some device. All 2m are no cap.
   ret_beyond: is the highest of them what buys much? */
static uint32_t count_rungs(const struct va_problem *q, bool *ret_beyond)
{
    uint32_t useful = useful_chunks(q), last = useful < 2 * q->m ? useful : 2 * q->m - 1, most = 1;

    for (uint32_t d = 0; d < q->p; d++) {
        uint32_t k = 1;

        while (k < last && (k + 1) * chunk_bytes(q, d) < q->cap[d]) {
            k++;
        }
        most = most > k ? most : k;
    }
    *ret_beyond = most == useful;
    return most - 1;
}

/* A rung of k chunks on each device, never above the caps; 0: of the caps. */
static void init_rung(struct va_rung *rung, const struct va_problem *q, uint32_t k)
{
    rung->cost.first = UINT64_MAX;
    rung->order = va_order(q);
    rung->problem = va_problem_copy(q);
    for (uint32_t d = 0; d < q->p && k > 0; d++) {
        int64_t room = k * chunk_bytes(q, d);

        rung->problem.cap[d] = room < q->cap[d] ? room : q->cap[d];
    }
}

void va_pool_init(struct va_pool *pool, const struct va_problem *q, const struct pst_host *host)
{
    *pool = (struct va_pool){.q = q, .host = host};
    pool->n_rungs = count_rungs(q, &pool->beyond) + 1;
    CALL_TAKE(pool->rungs, pool->n_rungs);
    for (uint32_t r = 0; r < pool->n_rungs; r++) {
        init_rung(&pool->rungs[r], q, r + 1 < pool->n_rungs ? r + 2 : 0);
    }
}

/* A shape of a block, and the chunks that it holds in the steady state. */
struct candidate {
    struct vshape shape;
    uint32_t peak;
};

/* All shapes of one period, what grows them, and where orders are judged. */
struct nursery {
    struct va_pool *pool;
    struct vblock block;
    struct candidate *candidates;
    size_t n, room;
    struct va_loom loom;
    struct va_problem free_of_caps;
    struct va_work work;
};

static void list_shape(struct nursery *x, const struct vshape *shape)
{
    uint32_t peak = vblock_lay(shape, &x->block) ? vblock_peak(&x->block) : UINT32_MAX;

    if (peak <= 2 * x->block.p) {
        CALL_MAKE_ROOM(x->candidates, x->n, x->room);
        x->candidates[x->n++] = (struct candidate){*shape, peak};
    }
}

/* All bends of the slopes of one choice of residues. */
static void list_slopes(struct nursery *x, struct vshape shape)
{
    uint32_t steepest = shape.period == 6 ? 5 : 3;

    for (uint32_t a = 1; a <= steepest; a++) {
        for (uint32_t b = 1; b <= a; b++) {
            for (uint32_t bend = 1; bend < (a == b ? 2 : x->block.p); bend++) {
                shape.slope = (uint8_t)a;
                shape.slope_after = (uint8_t)b;
                shape.bend = (uint16_t)bend;
                list_shape(x, &shape);
            }
        }
    }
}

static void list_shapes(struct nursery *x, uint8_t period)
{
    for (uint8_t f1 = 1; f1 < period; f1++) {
        for (uint8_t b1 = 1; b1 < period; b1++) {
            for (uint8_t b0 = 1; b0 < period; b0++) {
                if (f1 != b1 && f1 != b0 && b1 != b0) {
                    list_slopes(x, (struct vshape){.period = period, .residue = {0, f1, b1, b0}});
                }
            }
        }
    }
}

/* Keeps the order on the lowest rung that holds it. */
static void keep(struct nursery *x, const uint8_t *order)
{
    struct va_pool *pool = x->pool;
    struct va_cost cost;

    if (!va_evaluate(&x->free_of_caps, order, &x->work, &cost)) {
        return;
    }
    for (uint32_t r = 0; r < pool->n_rungs; r++) {
        struct va_rung *rung = &pool->rungs[r];
        uint32_t d = 0;

        while (d < pool->q->p && x->work.peak[d] <= rung->problem.cap[d]) {
            d++;
        }
        if (d == pool->q->p) {
            if (va_cost_compare(&cost, &rung->cost) < 0) {
                rung->cost = cost;
                memcpy(rung->order, order, va_order_length(pool->q));
            }
            return;
        }
    }
}

static void grow(struct nursery *x, const struct candidate *candidate)
{
    vblock_lay(&candidate->shape, &x->block);
    if (va_block_grow(&x->loom, &x->block, candidate->peak)) {
        keep(x, x->loom.order);
    }
}

static bool reached(const struct va_pool *pool, uint64_t bound)
{
    for (uint32_t r = 0; r < pool->n_rungs; r++) {
        if (pool->rungs[r].cost.first <= bound) {
            return true;
        }
    }
    call_go_on(pool->host);
    return false;
}

/* Grows the blocks whose steady state holds `peak` chunks, spread over `share` of them. */
static void grow_class(struct nursery *x, uint32_t peak, size_t share)
{
    size_t n = 0, seen = 0, step;

    for (size_t i = 0; i < x->n; i++) {
        n += x->candidates[i].peak == peak;
    }
    step = (n + share - 1) / share;
    for (size_t i = 0; i < x->n; i++) {
        if (x->candidates[i].peak == peak && seen++ % step == 0) {
            grow(x, &x->candidates[i]);
        }
    }
}

/* Blocks of the caps' own peak first, then of less, then of more: with few micro-batches or small W
   they may fit all the same. */
static void fill_period(struct va_pool *pool, uint8_t period, uint64_t bound)
{
    const struct va_problem *q = pool->q;
    struct nursery x = {.pool = pool, .block.p = q->p};
    uint32_t most = 2 * q->p, own = pool->n_rungs + 1 < most ? pool->n_rungs + 1 : most;
    size_t share;

    CALL_TAKE(x.block.slots, 4 * (size_t)q->p);
    x.free_of_caps = va_problem_copy(q);
    va_work_init(&x.work, q);
    va_loom_init(&x.loom, q, period);
    for (uint32_t d = 0; d < q->p; d++) {
        x.free_of_caps.cap[d] = INT64_MAX;
    }
    share = (size_t)(pool->work / (most * va_order_length(&x.loom.full))) + 4;
    list_shapes(&x, period);
    for (uint32_t peak = own; peak >= 2 && !reached(pool, bound); peak--) {
        grow_class(&x, peak, share);
    }
    for (uint32_t peak = own + 1; peak <= most && !reached(pool, bound); peak++) {
        grow_class(&x, peak, share);
    }
}

void va_pool_inherit(struct va_pool *pool, uint32_t r)
{
    struct va_rung *rung = &pool->rungs[r];

    if (r > 0 && va_cost_compare(&rung[-1].cost, &rung->cost) < 0) {
        rung->cost = rung[-1].cost;
        memcpy(rung->order, rung[-1].order, va_order_length(pool->q));
    }
}

void va_pool_fill(struct va_pool *pool, uint64_t bound)
{
    for (uint32_t period = 6; period <= pool->longest_period && !reached(pool, bound); period++) {
        fill_period(pool, (uint8_t)period, bound);
    }
    for (uint32_t r = 1; r < pool->n_rungs; r++) {
        va_pool_inherit(pool, r);
    }
}
