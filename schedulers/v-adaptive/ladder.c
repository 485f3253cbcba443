/* SPDX-License-Identifier: Apache-2.0
 *
 * Climbs the rungs: blocks first, then dispatching and local search with the real costs, from the
 * least memory to the most.
 */
#include "ladder.h"

#include <string.h>

#include "pool.h"
#include "robust.h"
#include "rounds.h"

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
static void climb(struct va_pool *pool, struct va_search *search, uint64_t evaluations, uint32_t r)
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
        call_end(PST_ERR_INFEASIBLE);
    }
    if (search->best_cost.first > bound && !is_brief(evaluations)) {
        va_search_improve(search, evaluations, bound);
    }
    memcpy(rung->order, search->best, va_order_length(pool->q));
    rung->cost = search->best_cost;
}

/* Evaluations that a rung gets: less where orders are so long that all of them would take long. */
static uint64_t evaluations_of(const struct va_problem *q, uint32_t effort)
{
    static const uint64_t of_rung[4] = {0, 4500, 45000, 450000};
    static const uint64_t passes[4] = {0, 80000000, 800000000, 8000000000};
    uint64_t most = passes[effort] / (2 * q->p * va_order_length(q));

    return of_rung[effort] < most ? of_rung[effort] : most;
}

static void climb_all(struct va_pool *pool, uint32_t effort)
{
    struct va_search search;

    va_search_init(&search, pool->q, pool->host);
    for (uint32_t r = 0; r < pool->n_rungs; r++) {
        climb(pool, &search, evaluations_of(pool->q, effort), r);
    }
}

static void fill(struct va_pool *pool, const struct va_problem *q, uint32_t effort,
                 const struct pst_host *host, uint64_t bound)
{
    va_pool_init(pool, q, host);
    pool->work = effort < 2 ? 8000000 : 64000000;
    pool->longest_period = effort == 0 || q->p > 8 ? 6 : 8;
    va_pool_fill(pool, bound);
}

static struct va_rung *top_of(const struct va_pool *pool)
{
    return &pool->rungs[pool->n_rungs - 1];
}

/* Steps of one question to the exact search: fewer for long orders, where each takes longer and
   finds less. */
static uint64_t steps_of(const struct va_problem *q, const struct va_options *options)
{
    enum { SHORT = 150 };
    uint64_t n = va_order_length(q), most = options->effort > 0 ? options->exact : 0;

    return n <= SHORT ? most : most / n * SHORT / n * SHORT / n * SHORT;
}

static void take(const struct va_pool *pool, const uint8_t *order, const struct va_cost *cost)
{
    memcpy(top_of(pool)->order, order, va_order_length(pool->q));
    top_of(pool)->cost = *cost;
}

/*
 * The exact search on the last rung. Where that stays open, also on those below, down to one that
 * is proven not to hold a better order. Each question depends on its own rung alone, so for more
 * memory the same ones are asked and more: the answer is never worse.
 */
static void prove_down(struct va_pool *pool, struct va_prover *prover, uint64_t steps,
                       uint64_t *proven)
{
    struct va_rung *top = top_of(pool);
    uint8_t *order = va_order(pool->q);

    for (uint32_t r = pool->n_rungs; r-- > 0 && top->cost.first > *proven;) {
        const struct va_rung *rung = &pool->rungs[r];
        struct va_cost cost;
        uint64_t bound;

        if (rung != top && va_decide(prover, &rung->problem, steps / 4, top->cost.first, order,
                                     &cost) == VA_REFUTED) {
            break;
        }
        cost = rung->cost;
        memcpy(order, rung->order, va_order_length(pool->q));
        bound = va_prove(prover, &rung->problem, steps, order, &cost);
        if (va_cost_compare(&cost, &top->cost) < 0) {
            take(pool, order, &cost);
        }
        *proven = rung == top && bound > *proven ? bound : *proven;
    }
}

/* Takes a few steps, which may spare the climb. Results without a proof are discarded, so that
   rungs stay what they are without it. */
static void prove_at_once(struct va_pool *pool, struct va_prover *prover, uint64_t steps,
                          uint64_t *proven)
{
    struct va_rung *top = top_of(pool);
    uint8_t *order = va_order(pool->q);
    struct va_cost cost = top->cost;
    uint64_t bound;

    memcpy(order, top->order, va_order_length(pool->q));
    bound = va_prove(prover, &top->problem, steps, order, &cost);
    if (cost.first <= bound) {
        take(pool, order, &cost);
    }
    *proven = bound > *proven ? bound : *proven;
}

/* Where the answer takes more memory than what buys much: is there one as good that does not? */
static void lighten(struct va_pool *pool, struct va_prover *prover, uint64_t steps)
{
    struct va_rung *top = top_of(pool);
    uint8_t *order = va_order(pool->q);
    struct va_cost cost;

    if (pool->beyond && !va_evaluate(&top[-1].problem, top->order, &prover->work, &cost) &&
        va_decide(prover, &top[-1].problem, steps, top->cost.first + 1, order, &cost) == VA_FOUND) {
        take(pool, order, &cost);
    }
}

/* Fills, proves or climbs; returns what no order goes below. */
static uint64_t solve(struct va_pool *pool, const struct va_problem *q,
                      const struct va_options *options, struct va_prover *prover)
{
    uint64_t bound = bound_with_memory(q), proven = q->bound;
    uint64_t steps = prover->usable ? steps_of(q, options) : 0;

    fill(pool, q, options->effort, prover->host, bound);
    if (top_of(pool)->cost.first > bound) {
        va_rounds_offer(pool, prover);
    }
    if (top_of(pool)->cost.first > bound && steps > 0) {
        prove_at_once(pool, prover, steps / 64, &proven);
    }
    bound = proven > bound ? proven : bound;
    if (top_of(pool)->cost.first > bound) {
        climb_all(pool, options->effort);
    }
    if (top_of(pool)->cost.first > bound && steps > 0) {
        prove_down(pool, prover, steps, &proven);
    }
    if (steps > 0) {
        lighten(pool, prover, steps / 64);
    }
    return proven;
}

/* Offers the orders of all rungs of q, whatever bound the last one reaches, with every transfer
   late by so many ns. */
static void offer_late(struct va_robust *robust, const struct va_problem *q, uint64_t late_ns,
                       uint32_t effort, const struct pst_host *host)
{
    struct va_problem slow = va_problem_copy(q);
    struct va_pool pool;

    for (uint32_t i = 0; i < slow.n_needs; i++) {
        slow.needs[i].delay_ns += slow.needs[i].crosses ? late_ns : 0;
    }
    fill(&pool, &slow, effort, host, 0);
    climb_all(&pool, effort);
    for (uint32_t r = 0; r < pool.n_rungs; r++) {
        va_robust_offer(robust, pool.rungs[r].order);
    }
}

/* Times are counted in parts of their unit here, so that small numbers can vary a little. */
static uint8_t *solve_robust(const struct va_problem *q, const struct va_options *options,
                             const struct va_prover *prover)
{
    enum { PARTS = 1024 };
    struct va_problem fine = va_problem_copy(q);
    struct va_robust robust;
    uint64_t late;

    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        fine.passes[i].cost_ns *= PARTS;
    }
    for (uint32_t i = 0; i < q->n_needs; i++) {
        fine.needs[i].delay_ns *= PARTS;
    }
    fine.bound *= PARTS;
    late = (uint64_t)(options->noise * (double)va_mean_cost(&fine));
    va_robust_init(&robust, &fine, options->noise);
    for (uint32_t half = 0; half < 3; half++) {
        offer_late(&robust, &fine, late * half / 2, options->effort, prover->host);
    }
    return robust.best;
}

struct va_answer va_solve(const struct va_problem *q, const struct va_options *options,
                          struct va_prover *prover)
{
    struct va_answer answer = {.bound = q->bound};
    struct va_pool pool;

    if (options->noise > 0.0) {
        answer.order = solve_robust(q, options, prover);
    } else {
        answer.bound = solve(&pool, q, options, prover);
        answer.order = top_of(&pool)->order;
    }
    if (!va_evaluate(q, answer.order, &prover->work, &answer.cost)) {
        call_end(PST_ERR_BUG);
    }
    return answer;
}
