/* SPDX-License-Identifier: Apache-2.0
 *
 * Which blocks are grown, and where the result is kept.
 */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "block.h"

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
static pst_status init_rung(struct va_rung *rung, const struct va_problem *q, uint32_t k,
                            struct scratch *scratch)
{
    rung->cost.first = UINT64_MAX;
    SCRATCH_TAKE(scratch, rung->order, va_order_length(q));
    if (va_problem_copy(&rung->problem, q, scratch) != PST_OK) {
        return PST_ERR_NOMEM;
    }
    for (uint32_t d = 0; d < q->p && k > 0; d++) {
        int64_t room = k * chunk_bytes(q, d);

        rung->problem.cap[d] = room < q->cap[d] ? room : q->cap[d];
    }
    return PST_OK;
}

pst_status va_pool_init(struct va_pool *pool, const struct va_problem *q,
                        const struct pst_host *host, struct scratch *scratch)
{
    uint32_t n = count_rungs(q, &pool->beyond) + 1;
    pst_status st;

    pool->q = q;
    pool->host = host;
    pool->scratch = scratch;
    SCRATCH_TAKE(scratch, pool->rungs, n);
    st = scratch_status(scratch);
    for (; pool->n_rungs < n && st == PST_OK; pool->n_rungs++) {
        uint32_t r = pool->n_rungs;

        st = init_rung(&pool->rungs[r], q, r + 1 < n ? r + 2 : 0, scratch);
    }
    return st;
}

struct block_list {
    struct va_block *blocks;
    size_t n, room;
};

static pst_status push(struct block_list *list, const struct va_block *block)
{
    if (list->n == list->room) {
        size_t room = list->room == 0 ? 512 : 2 * list->room;
        struct va_block *blocks = realloc(list->blocks, room * sizeof *blocks);

        if (blocks == NULL) {
            return PST_ERR_NOMEM;
        }
        list->blocks = blocks;
        list->room = room;
    }
    list->blocks[list->n++] = *block;
    return PST_OK;
}

/* All bends of the slopes of one choice of residues. */
static pst_status list_slopes(struct va_loom *loom, struct va_block *block, struct block_list *list)
{
    uint32_t p = loom->unit.p, steepest = block->period == 6 ? 5 : 3;
    pst_status st = PST_OK;

    for (uint32_t a = 1; a <= steepest; a++) {
        for (uint32_t b = 1; b <= a; b++) {
            for (uint32_t bend = 1; bend < (a == b ? 2 : p); bend++) {
                block->slope = (uint8_t)a;
                block->slope_after = (uint8_t)b;
                block->bend = (uint16_t)bend;
                if (st == PST_OK && va_block_check(loom, block) && block->peak <= 2 * p) {
                    st = push(list, block);
                }
            }
        }
    }
    return st;
}

static pst_status list_blocks(struct va_loom *loom, uint8_t period, struct block_list *list)
{
    pst_status st = PST_OK;

    for (uint8_t f1 = 1; f1 < period; f1++) {
        for (uint8_t b1 = 1; b1 < period; b1++) {
            for (uint8_t b0 = 1; b0 < period && st == PST_OK; b0++) {
                struct va_block block = {.period = period, .residue = {0, f1, b1, b0}};

                if (f1 != b1 && f1 != b0 && b1 != b0) {
                    st = list_slopes(loom, &block, list);
                }
            }
        }
    }
    return st;
}

/* Keeps the order of the loom on the lowest rung that holds it. */
static void keep(struct va_pool *pool, const uint8_t *order, struct va_problem *free_of_caps,
                 struct va_work *work)
{
    struct va_cost cost;

    if (!va_evaluate(free_of_caps, order, work, &cost)) {
        return;
    }
    for (uint32_t r = 0; r < pool->n_rungs; r++) {
        struct va_rung *rung = &pool->rungs[r];
        uint32_t d = 0;

        while (d < pool->q->p && work->peak[d] <= rung->problem.cap[d]) {
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

static bool reached(const struct va_pool *pool, uint64_t bound)
{
    for (uint32_t r = 0; r < pool->n_rungs; r++) {
        if (pool->rungs[r].cost.first <= bound) {
            return true;
        }
    }
    return pool->host != NULL && pool->host->cancelled(pool->host);
}

/* Grows the blocks whose steady state holds `peak` chunks, spread over `share` of them. */
static void grow_class(struct va_pool *pool, struct va_loom *loom, struct block_list *list,
                       uint32_t peak, size_t share, struct va_problem *free_of_caps,
                       struct va_work *work)
{
    size_t n = 0, seen = 0, step;

    for (size_t i = 0; i < list->n; i++) {
        n += list->blocks[i].peak == peak;
    }
    step = share == 0 || n <= share ? 1 : (n + share - 1) / share;
    for (size_t i = 0; i < list->n; i++) {
        if (list->blocks[i].peak == peak && seen++ % step == 0 &&
            va_block_check(loom, &list->blocks[i]) && va_block_grow(loom, &list->blocks[i], peak)) {
            keep(pool, loom->order, free_of_caps, work);
        }
    }
}

/* Blocks of the caps' own peak first, then of less, then of more: with few micro-batches or small W
   they may fit all the same. */
static void grow_all(struct va_pool *pool, struct va_loom *loom, struct block_list *list,
                     uint64_t bound, struct va_problem *free_of_caps, struct va_work *work)
{
    uint32_t most = 2 * pool->q->p, own = pool->n_rungs + 1;
    size_t share = (size_t)(pool->work / (most * va_order_length(&loom->full))) + 4;

    own = own < most ? own : most;
    for (uint32_t peak = own; peak >= 2 && !reached(pool, bound); peak--) {
        grow_class(pool, loom, list, peak, share, free_of_caps, work);
    }
    for (uint32_t peak = own + 1; peak <= most && !reached(pool, bound); peak++) {
        grow_class(pool, loom, list, peak, share, free_of_caps, work);
    }
}

static pst_status fill_period(struct va_pool *pool, uint8_t period, uint64_t bound)
{
    struct va_loom loom = {0};
    struct block_list list = {0};
    struct va_problem free_of_caps;
    struct va_work work;
    pst_status st = va_loom_init(&loom, pool->q, period, pool->scratch);

    if (st == PST_OK) {
        st = list_blocks(&loom, period, &list);
    }
    if (st == PST_OK) {
        st = va_problem_copy(&free_of_caps, pool->q, pool->scratch);
    }
    if (st == PST_OK) {
        st = va_work_init(&work, pool->q, pool->scratch);
    }
    if (st == PST_OK) {
        for (uint32_t d = 0; d < pool->q->p; d++) {
            free_of_caps.cap[d] = INT64_MAX;
        }
        grow_all(pool, &loom, &list, bound, &free_of_caps, &work);
    }
    free(list.blocks);
    return st;
}

void va_pool_inherit(struct va_pool *pool, uint32_t r)
{
    struct va_rung *rung = &pool->rungs[r];

    if (r > 0 && va_cost_compare(&rung[-1].cost, &rung->cost) < 0) {
        rung->cost = rung[-1].cost;
        memcpy(rung->order, rung[-1].order, va_order_length(pool->q));
    }
}

pst_status va_pool_fill(struct va_pool *pool, uint64_t bound)
{
    pst_status st = PST_OK;

    for (uint32_t period = 6; period <= pool->longest_period; period++) {
        if (st == PST_OK && !reached(pool, bound)) {
            st = fill_period(pool, (uint8_t)period, bound);
        }
    }
    for (uint32_t r = 1; r < pool->n_rungs; r++) {
        va_pool_inherit(pool, r);
    }
    return st;
}
