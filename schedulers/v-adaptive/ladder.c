/* SPDX-License-Identifier: Apache-2.0
 *
 * Climbs the rungs: blocks first, then dispatching and local search with the real costs, from the
 * least memory to the most.
 */
#include "ladder.h"

#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "robust.h"

/* All devices alike, all passes of one cost, free links, each chunk one unit until its W ends. */
static bool is_uniform(const struct va_problem *q)
{
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        const struct va_pass *pass = &q->passes[i], *first = &q->passes[i % VA_KINDS];

        if (pass->cost_ns != q->passes[0].cost_ns || pass->delay_ns != 0 ||
            pass->at_start != first->at_start || pass->at_end != first->at_end) {
            return false;
        }
    }
    return q->passes[VA_F0].at_start > 0 &&
           q->passes[VA_F0].at_start == q->passes[VA_F1].at_start && q->passes[VA_B0].at_end == 0 &&
           q->passes[VA_B1].at_end == 0;
}

/*
 * At unit costs a cap of k chunks costs 6p - 1 - 3k idle passes while memory binds (Qi et al.,
 * "Pipeline Parallelism with Controllable Memory"; checked by exhaustive search for p up to 4).
 */
uint64_t va_bound_with_memory(const struct va_problem *q)
{
    uint64_t bound = va_bound(q, q->goal), idle, k;
    int64_t cap = INT64_MAX, unit = q->passes[VA_F0].at_start;

    if (!is_uniform(q)) {
        return bound;
    }
    for (uint32_t d = 0; d < q->p; d++) {
        cap = cap < q->cap[d] ? cap : q->cap[d];
    }
    k = (uint64_t)(cap / unit);
    if (k + 2 <= 2 * q->p && k < 2 * q->m) {
        idle = q->passes[0].cost_ns * (6 * q->m + 6 * q->p - 1 - 3 * k);
        bound = bound > idle ? bound : idle;
    }
    return bound;
}

/* Earliest end of each pass of micro-batch j on an idle pipeline, plus j times `period`. */
static void pace(const struct va_problem *q, uint64_t period, uint64_t *urgency)
{
    for (uint32_t kind = 0; kind < VA_KINDS; kind++) {
        for (uint32_t i = 0; i < q->p; i++) {
            uint32_t d = kind == VA_F1 || kind == VA_B0 ? q->p - 1 - i : i;
            uint32_t index = va_pass_index(d, kind);
            const struct va_pass *pass = &q->passes[index];
            uint64_t at = pass->cost_ns;

            at += pass->has_need ? pass->delay_ns + urgency[(size_t)pass->need * q->m] : 0;
            for (uint32_t j = 0; j < q->m; j++) {
                urgency[(size_t)index * q->m + j] = at + j * period;
            }
        }
    }
}

static uint64_t work_of_microbatch(const struct va_problem *q)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < q->p; d++) {
        uint64_t work = 0;

        for (uint32_t kind = 0; kind < VA_KINDS; kind++) {
            work += q->passes[va_pass_index(d, kind)].cost_ns;
        }
        most = most > work ? most : work;
    }
    return most;
}

/* Orders that need no block: micro-batches dispatched at several paces. */
static void dispatch_paces(struct va_search *search)
{
    const struct va_problem *q = search->q;
    uint64_t period = work_of_microbatch(q);

    for (uint32_t pace_of = 2; pace_of <= 16 && !search->stopped; pace_of *= 2) {
        pace(q, period * pace_of / 4, search->urgency);
        for (uint32_t patience = 0; patience <= 16; patience += 8) {
            if (va_dispatch(q, search->urgency, patience, &search->work, search->trial)) {
                va_search_offer(search, search->trial);
            }
        }
    }
}

/* The best order's own times as urgencies, with the real costs. */
static void dispatch_again(struct va_search *search)
{
    for (uint32_t patience = 0; patience <= 16; patience += 4) {
        struct va_cost cost;

        if (!va_evaluate(search->q, search->best, &search->work, &cost)) {
            return;
        }
        memcpy(search->urgency, search->work.start,
               va_order_length(search->q) * sizeof *search->urgency);
        if (va_dispatch(search->q, search->urgency, patience, &search->work, search->trial)) {
            va_search_offer(search, search->trial);
        }
    }
}

static bool climb(struct va_search *search, struct va_pool *pool, uint32_t r, uint64_t passes)
{
    struct va_rung *rung = &pool->rungs[r];
    uint64_t bound = va_bound_with_memory(&rung->problem);
    uint64_t evaluations = passes / va_order_length(pool->q);

    va_search_aim(search, &rung->problem, r);
    va_pool_inherit(pool, r);
    if (rung->cost.first != UINT64_MAX) {
        va_search_offer(search, rung->order);
    }
    if (search->best_cost.first > bound) {
        dispatch_paces(search);
        dispatch_again(search);
        if (evaluations >= 64 && !search->stopped) {
            va_search_improve(search, evaluations, bound);
        }
    }
    if (search->best_cost.first == UINT64_MAX) {
        return false;
    }
    memcpy(rung->order, search->best, va_order_length(pool->q));
    rung->cost = search->best_cost;
    return true;
}

/* A lower rung without an order is skipped; the caps of the last one hold what the others do. */
static pst_status climb_all(struct va_pool *pool, const struct va_options *options,
                            const struct pst_host *host)
{
    static const uint64_t passes[4] = {0, 600000, 6000000, 60000000};
    struct va_search search;
    pst_status st = va_search_init(&search, pool->q, host);
    bool found = true;

    for (uint32_t r = 0; r < pool->n_rungs && st == PST_OK && found; r++) {
        found = climb(&search, pool, r, passes[options->effort]);
    }
    va_search_finish(&search);
    return st != PST_OK ? st : found ? PST_OK : PST_ERR_INFEASIBLE;
}

pst_status va_solve(const struct va_problem *q, const struct va_options *options,
                    const struct pst_host *host, struct va_answer *ret_answer)
{
    uint64_t bound = va_bound_with_memory(q);
    struct va_pool pool;
    struct va_rung *last;
    pst_status st = va_pool_init(&pool, q, host);

    if (st != PST_OK) {
        return st;
    }
    last = &pool.rungs[pool.n_rungs - 1];
    pool.work = options->effort < 2 ? 16000000 : 64000000;
    pool.longest_period = options->effort == 0 ? 6 : q->p <= 8 ? 8 : 7;
    st = va_pool_fill(&pool, bound);
    if (st == PST_OK && (last->cost.first > bound || options->noise > 0.0)) {
        st = climb_all(&pool, options, host);
    }
    if (st == PST_OK && options->noise > 0.0) {
        st = va_robust_choose(&pool, options->noise);
    }
    if (st == PST_OK) {
        ret_answer->cost = last->cost;
        memcpy(ret_answer->order, last->order, va_order_length(q));
    }
    va_pool_finish(&pool);
    return st;
}
