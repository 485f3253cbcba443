/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeats the middle of a short order. A long pass gets the time of its image in the short order
 * plus the periods between; read in the order of those times, or dispatched by them, it is a long
 * order.
 */
#include "stretch.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_PATTERN = 3,
    PATTERNS = 6
}; /* micro-batches that a steady state repeats; their lcm */

uint32_t va_short_of(uint32_t p, uint32_t m)
{
    uint32_t least = 2 * p + 2;

    return m > least + PATTERNS ? least + (m - least) % PATTERNS : m;
}

/* Times of the short order, its middle and how far it is from one repetition to the next. */
struct pattern {
    const struct va_problem *from;
    const uint64_t *start;
    uint32_t middle, length;
    uint64_t period;
};

static uint64_t mean_step(const struct pattern *x)
{
    uint64_t sum = 0;
    uint32_t rows = x->from->p * VA_KINDS;

    for (uint32_t i = 0; i < rows; i++) {
        const uint64_t *row = &x->start[(size_t)i * x->from->m + x->middle];

        sum += row[x->length] - row[0];
    }
    return (sum + rows / 2) / rows;
}

static uint64_t stretched(const struct pattern *x, uint32_t row, uint32_t m, uint32_t j)
{
    const uint64_t *start = &x->start[(size_t)row * x->from->m];
    uint32_t extra = m - x->from->m, past;

    if (j < x->middle) {
        return start[j];
    }
    if (j >= x->middle + extra) {
        return start[j - extra] + x->period * (extra / x->length);
    }
    past = j - x->middle;
    return start[x->middle + past % x->length] + x->period * (past / x->length);
}

static void offer(struct va_search *search, const struct pattern *x)
{
    const struct va_problem *q = search->q;

    for (uint32_t row = 0; row < q->p * VA_KINDS; row++) {
        for (uint32_t j = 0; j < q->m; j++) {
            search->urgency[(size_t)row * q->m + j] = stretched(x, row, q->m, j);
        }
    }
    va_merge(q, search->urgency, search->trial);
    va_search_offer(search, search->trial);
    if (va_dispatch(q, search->urgency, 16, &search->work, search->trial)) {
        va_search_offer(search, search->trial);
    }
}

pst_status va_stretch(struct va_search *search, const struct va_problem *from, const uint8_t *order,
                      bool brief)
{
    struct va_work work;
    struct va_cost cost;
    pst_status st = va_work_init(&work, from);

    if (st == PST_OK && va_evaluate(from, order, &work, &cost)) {
        struct pattern x = {.from = from, .start = work.start};

        for (x.length = 1; x.length <= (brief ? 1 : LONGEST_PATTERN); x.length++) {
            for (uint32_t off = 0; off < (brief ? 2 : 4) && !search->stopped; off++) {
                x.middle = from->m / 2 - 2 + off;
                if (x.middle + x.length >= from->m) {
                    break;
                }
                x.period = mean_step(&x);
                offer(search, &x);
            }
        }
    }
    if (st == PST_OK) {
        va_work_finish(&work);
    }
    return st;
}
