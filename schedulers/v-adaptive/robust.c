/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of an instance, and the order that does well in nearly all of them.
 */
#include "robust.h"

#include <stdlib.h>
#include <string.h>

uint64_t va_mean_cost(const struct va_problem *q)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        sum += q->passes[i].cost_ns;
    }
    return sum / ((uint64_t)q->p * VA_KINDS);
}

/* Uniform in 0..1. */
static double draw(struct va_random *random)
{
    return (double)(va_random_next(random) >> 40) / 16777216.0;
}

static void disturb(struct va_problem *sample, const struct va_problem *q, double noise,
                    struct va_random *random)
{
    double mean = (double)va_mean_cost(q);

    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        const struct va_pass *pass = &q->passes[i];
        double cost = (double)pass->cost_ns * (1.0 + noise * (2.0 * draw(random) - 1.0));
        double late = noise * mean * draw(random);

        sample->passes[i].cost_ns = (uint64_t)cost;
        for (uint32_t n = 0; n < pass->n_needs; n++) {
            struct va_need *need = &sample->needs[pass->first_need + n];

            late = n == 0 ? late : noise * mean * draw(random);
            need->delay_ns += need->crosses ? (uint64_t)late : 0;
        }
    }
}

void va_robust_init(struct va_robust *robust, const struct va_problem *q, double noise)
{
    struct va_random random = {0x726f62757374U};

    va_work_init(&robust->work, q);
    robust->least = UINT64_MAX;
    robust->best = va_order(q);
    for (uint32_t i = 0; i < VA_SAMPLES; i++) {
        robust->samples[i] = va_problem_copy(q);
        disturb(&robust->samples[i], q, noise, &random);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* UINT64_MAX for an order that is illegal or holds too much. */
static uint64_t quantile(struct va_robust *robust, const uint8_t *order)
{
    uint64_t costs[VA_SAMPLES];

    for (uint32_t i = 0; i < VA_SAMPLES; i++) {
        struct va_cost cost;

        if (!va_evaluate(&robust->samples[i], order, &robust->work, &cost)) {
            return UINT64_MAX;
        }
        costs[i] = cost.first;
    }
    qsort(costs, VA_SAMPLES, sizeof costs[0], compare);
    return costs[VA_QUANTILE];
}

void va_robust_offer(struct va_robust *robust, const uint8_t *order)
{
    uint64_t found = quantile(robust, order);

    if (found < robust->least) {
        robust->least = found;
        memmove(robust->best, order, va_order_length(&robust->samples[0]));
    }
}
