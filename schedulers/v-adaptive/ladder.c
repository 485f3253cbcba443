/* SPDX-License-Identifier: Apache-2.0
 *
 * Climbs the rungs: blocks first, then dispatching and local search with the real costs, from the
 * least memory to the most.
 */
#include "ladder.h"

#include <string.h>

#include "pool.h"
#include "robust.h"

/* A chain, all devices alike, all passes of one cost, free links, each chunk one unit until its W
   ends. */
static bool is_uniform(const struct va_problem *q)
{
    for (uint32_t i = 0; i < q->n_needs; i++) {
        if (q->needs[i].delay_ns != 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        const struct va_pass *pass = &q->passes[i], *first = &q->passes[i % VA_KINDS];

        if (pass->cost_ns != q->passes[0].cost_ns || pass->at_start != first->at_start ||
            pass->at_end != first->at_end) {
            return false;
        }
    }
    return q->is_chain && q->passes[VA_F0].at_start > 0 &&
           q->passes[VA_F0].at_start == q->passes[VA_F1].at_start && q->passes[VA_B0].at_end == 0 &&
           q->passes[VA_B1].at_end == 0;
}

/*
 * At unit costs a cap of k chunks costs 6p - 1 - 3k idle passes while memory binds (Qi et al.,
 * "Pipeline Parallelism with Controllable Memory"; checked by exhaustive search for p up to 4).
 */
static uint64_t bound_with_memory(const struct va_problem *q)
{
    uint64_t bound = q->bound, idle, k;
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

/* Too few to improve an order by moves of single passes. */
static bool is_brief(uint64_t evaluations)
{
    return evaluations < 64;
}

/* The best order for a rung, from what it has and what the one below found. */
static pst_status climb(struct va_pool *pool, struct va_search *search, uint64_t evaluations,
                        uint32_t r)
{
    struct va_rung *rung = &pool->rungs[r];
    uint64_t bound = bound_with_memory(&rung->problem);

    va_pool_inherit(pool, r);
    va_search_aim(search, &rung->problem, r);
    if (rung->cost.first != UINT64_MAX) {
        va_search_offer(search, rung->order);
    }
    if (search->best_cost.first > bound) {
        va_search_walk(search, is_brief(evaluations));
    }
    if (search->best_cost.first == UINT64_MAX) {
        return PST_ERR_INFEASIBLE;
    }
    if (search->best_cost.first > bound && !is_brief(evaluations) && !search->stopped) {
        va_search_improve(search, evaluations, bound);
    }
    memcpy(rung->order, search->best, va_order_length(pool->q));
    rung->cost = search->best_cost;
    return PST_OK;
}

/* Evaluations that a rung gets: less where orders are so long that all of them would take long. */
static uint64_t evaluations_of(const struct va_problem *q, uint32_t effort)
{
    static const uint64_t of_rung[4] = {0, 4500, 45000, 450000};
    static const uint64_t passes[4] = {0, 80000000, 800000000, 8000000000};
    uint64_t most = passes[effort] / (2 * q->p * va_order_length(q));

    return of_rung[effort] < most ? of_rung[effort] : most;
}

static pst_status climb_all(struct va_pool *pool, uint32_t effort)
{
    struct va_search search;
    pst_status st = va_search_init(&search, pool->q, pool->host, pool->scratch);

    for (uint32_t r = 0; r < pool->n_rungs && st == PST_OK; r++) {
        st = climb(pool, &search, evaluations_of(pool->q, effort), r);
    }
    return st;
}

static pst_status fill(struct va_pool *pool, const struct va_problem *q, uint32_t effort,
                       const struct pst_host *host, uint64_t bound, struct scratch *scratch)
{
    pst_status st = va_pool_init(pool, q, host, scratch);

    if (st == PST_OK) {
        pool->work = effort < 2 ? 8000000 : 64000000;
        pool->longest_period = effort == 0 || q->p > 8 ? 6 : 8;
        st = va_pool_fill(pool, bound);
    }
    return st;
}

static uint64_t last_cost(const struct va_pool *pool)
{
    return pool->rungs[pool->n_rungs - 1].cost.first;
}

/* Steps of one question to the exact search: fewer for long orders, where each takes longer and
   finds less. */
static uint64_t steps_of(const struct va_problem *q, const struct va_options *options)
{
    enum { SHORT = 150 };
    uint64_t n = va_order_length(q), most = options->effort > 0 ? options->exact : 0;

    return n <= SHORT ? most : most / n * SHORT / n * SHORT / n * SHORT;
}

/*
 * The exact search on the last rung. Where that stays open, also on those below, down to one that
 * is proven not to hold a better order. Each question depends on its own rung alone, so for more
 * memory the same ones are asked and more: the answer is never worse.
 */
static pst_status prove_down(struct va_pool *pool, struct va_prover *prover, uint64_t steps,
                             uint64_t *proven)
{
    struct va_rung *top = &pool->rungs[pool->n_rungs - 1];
    uint8_t *order = scratch_take(pool->scratch, va_order_length(pool->q), 1);
    pst_status st = scratch_status(pool->scratch);

    for (uint32_t r = pool->n_rungs; r-- > 0 && st == PST_OK && !prover->stopped;) {
        const struct va_rung *rung = &pool->rungs[r];
        struct va_cost cost;
        uint64_t rung_bound = 0;
        enum va_verdict verdict = VA_OPEN;

        if (rung != top) {
            st = va_decide(prover, &rung->problem, steps / 4, top->cost.first, order, &cost,
                           &verdict);
        }
        if (st != PST_OK || verdict == VA_REFUTED) {
            break;
        }
        cost = rung->cost;
        memcpy(order, rung->order, va_order_length(pool->q));
        st = va_prove(prover, &rung->problem, steps, order, &cost, &rung_bound);
        if (st == PST_OK && va_cost_compare(&cost, &top->cost) < 0) {
            memcpy(top->order, order, va_order_length(pool->q));
            top->cost = cost;
        }
        *proven = rung == top && rung_bound > *proven ? rung_bound : *proven;
        if (top->cost.first <= *proven) {
            break;
        }
    }
    return st;
}

/* A few steps, which may spare the climb. What is not proven is forgotten, so that rungs stay
   what they are without it. */
static pst_status prove_at_once(struct va_pool *pool, struct va_prover *prover, uint64_t steps,
                                uint64_t *proven)
{
    struct va_rung *top = &pool->rungs[pool->n_rungs - 1];
    uint8_t *order = scratch_take(pool->scratch, va_order_length(pool->q), 1);
    struct va_cost cost = top->cost;
    uint64_t bound = 0;
    pst_status st = scratch_status(pool->scratch);

    if (st == PST_OK) {
        memcpy(order, top->order, va_order_length(pool->q));
        st = va_prove(prover, &top->problem, steps, order, &cost, &bound);
    }
    if (st == PST_OK && cost.first <= bound) {
        memcpy(top->order, order, va_order_length(pool->q));
        top->cost = cost;
    }
    *proven = bound > *proven ? bound : *proven;
    return st;
}

/* Where the answer takes more memory than what buys much: is there one as good that does not? */
static pst_status lighten(struct va_pool *pool, struct va_prover *prover, uint64_t steps)
{
    struct va_rung *top = &pool->rungs[pool->n_rungs - 1];
    uint8_t *order = scratch_take(pool->scratch, va_order_length(pool->q), 1);
    struct va_cost cost;
    enum va_verdict verdict = VA_OPEN;
    pst_status st = scratch_status(pool->scratch);

    if (st == PST_OK && pool->beyond &&
        !va_evaluate(&top[-1].problem, top->order, &prover->work, &cost)) {
        st =
            va_decide(prover, &top[-1].problem, steps, top->cost.first + 1, order, &cost, &verdict);
    }
    if (verdict == VA_FOUND) {
        memcpy(top->order, order, va_order_length(pool->q));
        top->cost = cost;
    }
    return st;
}

/* Fills, proves or climbs; ret_proven: what no order goes below. */
static pst_status solve(struct va_pool *pool, const struct va_problem *q,
                        const struct va_options *options, struct va_prover *prover,
                        struct scratch *scratch, uint64_t *ret_proven)
{
    uint64_t bound = bound_with_memory(q), proven = q->bound;
    uint64_t steps = prover->usable ? steps_of(q, options) : 0;
    pst_status st = fill(pool, q, options->effort, prover->host, bound, scratch);

    if (st == PST_OK && last_cost(pool) > bound && steps > 0) {
        st = prove_at_once(pool, prover, steps / 64, &proven);
    }
    bound = proven > bound ? proven : bound;
    if (st == PST_OK && last_cost(pool) > bound) {
        st = climb_all(pool, options->effort);
    }
    if (st == PST_OK && last_cost(pool) > bound && steps > 0) {
        st = prove_down(pool, prover, steps, &proven);
    }
    if (st == PST_OK && steps > 0) {
        st = lighten(pool, prover, steps / 64);
    }
    *ret_proven = proven;
    return st;
}

/* Offers the orders of all rungs of q, whatever bound the last one reaches, with every transfer
   late by so many ns. */
static pst_status offer_late(struct va_robust *robust, const struct va_problem *q, uint64_t late_ns,
                             uint32_t effort, struct scratch *scratch)
{
    struct va_problem slow;
    struct va_pool pool = {0};
    pst_status st = va_problem_copy(&slow, q, scratch);

    for (uint32_t i = 0; st == PST_OK && i < slow.n_needs; i++) {
        slow.needs[i].delay_ns += slow.needs[i].crosses ? late_ns : 0;
    }
    if (st == PST_OK) {
        st = fill(&pool, &slow, effort, robust->host, 0, scratch);
    }
    if (st == PST_OK) {
        st = climb_all(&pool, effort);
    }
    for (uint32_t r = 0; r < pool.n_rungs && st == PST_OK; r++) {
        va_robust_offer(robust, pool.rungs[r].order);
    }
    return st;
}

/* Times are counted in parts of their unit here, so that small numbers can vary a little. */
static pst_status solve_robust(const struct va_problem *q, const struct va_options *options,
                               struct va_prover *prover, struct scratch *scratch,
                               struct va_answer *ret_answer)
{
    enum { PARTS = 1024 };
    struct va_robust robust;
    struct va_problem fine;
    struct va_work work;
    pst_status st = va_problem_copy(&fine, q, scratch);
    uint64_t late = 0;

    if (st == PST_OK) {
        for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
            fine.passes[i].cost_ns *= PARTS;
        }
        for (uint32_t i = 0; i < q->n_needs; i++) {
            fine.needs[i].delay_ns *= PARTS;
        }
        fine.bound *= PARTS;
        late = (uint64_t)(options->noise * (double)va_mean_cost(&fine));
        st = va_robust_init(&robust, &fine, options->noise, prover->host, scratch);
    }
    for (uint32_t half = 0; half < 3 && st == PST_OK; half++) {
        st = offer_late(&robust, &fine, late * half / 2, options->effort, scratch);
    }
    if (st == PST_OK) {
        va_robust_improve(&robust, evaluations_of(q, options->effort) / 4);
        st = va_work_init(&work, q, scratch);
    }
    if (st == PST_OK) {
        memcpy(ret_answer->order, robust.best, va_order_length(q));
        st = va_evaluate(q, ret_answer->order, &work, &ret_answer->cost) ? PST_OK : PST_ERR_BUG;
    }
    return st;
}

pst_status va_solve(const struct va_problem *q, const struct va_options *options,
                    struct va_prover *prover, struct scratch *scratch, struct va_answer *ret_answer)
{
    struct va_pool pool = {0};
    pst_status st;

    if (options->noise > 0.0) {
        ret_answer->bound = q->bound;
        return solve_robust(q, options, prover, scratch, ret_answer);
    }
    st = solve(&pool, q, options, prover, scratch, &ret_answer->bound);
    if (st == PST_OK) {
        ret_answer->cost = pool.rungs[pool.n_rungs - 1].cost;
        memcpy(ret_answer->order, pool.rungs[pool.n_rungs - 1].order, va_order_length(q));
    }
    return st;
}
