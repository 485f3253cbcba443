/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager evaluation of an order under its caps: the inner loop of every search here.
 */
#include <string.h>

#include "problem.h"

int va_cost_compare(const struct va_cost *a, const struct va_cost *b)
{
    if (a->first != b->first) {
        return a->first < b->first ? -1 : 1;
    }
    if (a->second != b->second) {
        return a->second < b->second ? -1 : 1;
    }
    return a->memory < b->memory ? -1 : a->memory > b->memory;
}

/* Runs device d until it has to wait for another one. False: a cap or the count is exceeded. */
static bool advance(const struct va_problem *q, const uint8_t *sequence, uint32_t d,
                    struct va_work *work, bool *ret_moved)
{
    const struct va_pass *passes = &q->passes[va_pass_index(d, 0)];
    uint32_t *done = &work->done[va_pass_index(d, 0)];
    uint32_t n = (uint32_t)va_sequence_length(q), m = q->m, at = work->at[d];
    uint64_t clock = work->clock[d];
    int64_t held = work->held[d], peak = work->peak[d];

    for (; at < n; at++) {
        uint32_t kind = sequence[at], j = done[kind];
        const struct va_pass *pass = &passes[kind];
        size_t cell = (size_t)va_pass_index(d, kind) * m + j;
        uint64_t arrival;

        if (j >= m) {
            return false;
        }
        if (!va_arrival(q, work, pass, j, &arrival)) {
            break;
        }
        clock = clock > arrival ? clock : arrival;
        held += pass->at_start;
        peak = peak > held ? peak : held;
        held += pass->at_end;
        done[kind] = j + 1;
        work->start[cell] = clock;
        work->end[cell] = clock += pass->cost_ns;
    }
    *ret_moved = *ret_moved || at != work->at[d];
    work->at[d] = at;
    work->clock[d] = clock;
    work->held[d] = held;
    work->peak[d] = peak;
    return peak <= q->cap[d];
}

static bool run(const struct va_problem *q, const uint8_t *order, struct va_work *work)
{
    uint32_t n = (uint32_t)va_sequence_length(q), p = q->p, finished;

    memset(work->done, 0, (size_t)p * VA_KINDS * sizeof *work->done);
    memset(work->at, 0, p * sizeof *work->at);
    memset(work->clock, 0, p * sizeof *work->clock);
    memset(work->held, 0, p * sizeof *work->held);
    memset(work->peak, 0, p * sizeof *work->peak);
    do {
        bool moved = false;

        finished = 0;
        for (uint32_t i = 0; i < 2 * p; i++) { /* down the V, then up */
            uint32_t d = i < p ? i : 2 * p - 1 - i;

            if (work->at[d] < n && !advance(q, &order[(size_t)d * n], d, work, &moved)) {
                return false;
            }
            finished += i >= p && work->at[d] == n;
        }
        if (!moved && finished < p) {
            return false;
        }
    } while (finished < p);
    return true;
}

bool va_evaluate(const struct va_problem *q, const uint8_t *order, struct va_work *work,
                 struct va_cost *ret_cost)
{
    uint64_t makespan = 0, span = 0, memory = 0, sum = 0;
    size_t n = va_sequence_length(q);

    if (!run(q, order, work)) {
        return false;
    }
    for (uint32_t d = 0; d < q->p; d++) {
        uint64_t begin = work->start[(size_t)va_pass_index(d, order[d * n]) * q->m];
        uint64_t end = work->clock[d];

        makespan = makespan > end ? makespan : end;
        span = span > end - begin ? span : end - begin;
        sum += q->goal == VA_SPAN ? end - begin : end;
        memory = memory > (uint64_t)work->peak[d] ? memory : (uint64_t)work->peak[d];
    }
    ret_cost->first = q->goal == VA_SPAN ? span : makespan;
    ret_cost->second = q->goal == VA_SPAN ? makespan : span;
    ret_cost->memory = memory;
    ret_cost->guide = sum;
    return true;
}
