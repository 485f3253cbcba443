/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of an instance, and the order that does well in nearly all of them.
 */
#include "robust.h"

#include <stdlib.h>
#include <string.h>

#include "improve.h"

/* Times in parts of a unit, so that small numbers can be disturbed a little. */
enum { PARTS = 1024 };

/* Uniform in 0..1. */
static double draw(struct va_random *random)
{
    return (double)(va_random_next(random) >> 40) / 16777216.0;
}

static void disturb(struct va_problem *sample, const struct va_problem *q, double noise,
                    struct va_random *random)
{
    double mean = 0.0;

    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        mean += (double)q->passes[i].cost_ns / (q->p * VA_KINDS);
    }
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        const struct va_pass *pass = &q->passes[i];
        double cost = (double)pass->cost_ns * (1.0 + noise * (2.0 * draw(random) - 1.0));
        double late = noise * mean * draw(random);

        sample->passes[i].cost_ns = (uint64_t)(PARTS * cost);
        sample->passes[i].delay_ns = PARTS * pass->delay_ns;
        if (pass->has_need && pass->need / VA_KINDS != i / VA_KINDS) {
            sample->passes[i].delay_ns += (uint64_t)(PARTS * late);
        }
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t quantile(const struct va_problem *samples, const uint8_t *order,
                         struct va_work *work)
{
    uint64_t costs[VA_SAMPLES];

    for (uint32_t i = 0; i < VA_SAMPLES; i++) {
        struct va_cost cost;

        costs[i] = va_evaluate(&samples[i], order, work, &cost) ? cost.first : UINT64_MAX;
    }
    qsort(costs, VA_SAMPLES, sizeof costs[0], compare);
    return costs[VA_QUANTILE];
}

static void choose(struct va_pool *pool, const struct va_problem *samples, struct va_work *work)
{
    struct va_rung *last = &pool->rungs[pool->n_rungs - 1];
    uint64_t least = quantile(samples, last->order, work);
    uint32_t best = pool->n_rungs - 1;

    for (uint32_t r = pool->n_rungs; r-- > 0;) {
        uint64_t cost = quantile(samples, pool->rungs[r].order, work);

        if (cost < least) {
            least = cost;
            best = r;
        }
    }
    if (best + 1 < pool->n_rungs) {
        last->cost = pool->rungs[best].cost;
        memcpy(last->order, pool->rungs[best].order, va_order_length(pool->q));
    }
}

pst_status va_robust_choose(struct va_pool *pool, double noise)
{
    struct va_problem samples[VA_SAMPLES] = {{0}};
    struct va_random random = {0x726f62757374U};
    struct va_work work = {0};
    pst_status st = va_work_init(&work, pool->q);

    for (uint32_t i = 0; i < VA_SAMPLES && st == PST_OK; i++) {
        st = va_problem_copy(&samples[i], pool->q, pool->q->m);
        if (st == PST_OK) {
            disturb(&samples[i], pool->q, noise, &random);
        }
    }
    if (st == PST_OK) {
        choose(pool, samples, &work);
    }
    for (uint32_t i = 0; i < VA_SAMPLES; i++) {
        va_problem_finish(&samples[i]);
    }
    va_work_finish(&work);
    return st;
}
