/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for placements of one micro-batch that repeat without collision and within the caps. A
 * repeated placement never holds more at its ends than in its middle, so its order is legal as it
 * stands; dispatching by its times then closes the ramps.
 */
#include "modulo.h"

#include <stdlib.h>
#include <string.h>

enum { LEGS = 4, KEPT = 3 };

/* How one micro-batch is placed: least waits, in parts of the period. */
struct shape {
    uint64_t period;
    uint64_t hop[LEGS];  /* between devices of a leg */
    uint64_t turn[LEGS]; /* before the first pass of a leg */
};

struct placement {
    uint64_t *start; /* [p * VA_KINDS] */
    uint64_t period, length;
    bool found;
};

/* First time from `ready` on at which the pass collides with no other of its device; false: never.
 */
static bool place(const struct va_problem *q, const struct shape *x, uint64_t *start, uint32_t d,
                  uint32_t kind, uint32_t placed, uint64_t ready)
{
    uint64_t cost = q->passes[va_pass_index(d, kind)].cost_ns, t = ready;
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t other = 0; other < VA_KINDS; other++) {
            uint32_t i = va_pass_index(d, other);
            uint64_t busy = q->passes[i].cost_ns, ahead, behind;

            if (!(placed >> other & 1) || busy == 0 || cost == 0) {
                continue;
            }
            ahead = (t % x->period + x->period - start[i] % x->period) % x->period;
            behind = (x->period - ahead) % x->period; /* until the other one begins */
            if (ahead < busy) {
                t += busy - ahead;
                moved = true;
            } else if (behind < cost) {
                t += behind + busy;
                moved = true;
            }
        }
        if (t - ready >= x->period) {
            return false;
        }
    }
    start[va_pass_index(d, kind)] = t;
    return true;
}

static uint64_t end_of(const struct va_problem *q, const uint64_t *start, uint32_t i)
{
    return start[i] + q->passes[i].cost_ns;
}

/* Places forwards and backwards, then the weight halves; false: something does not fit. */
static bool place_all(const struct va_problem *q, const struct shape *x, uint64_t *start)
{
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        uint32_t index = va_pass_in_order(q->p, i), kind = i / q->p;
        const struct va_pass *pass = &q->passes[index];
        uint64_t ready = 0;

        for (uint32_t n = 0; n < pass->n_needs; n++) {
            const struct va_need *need = &q->needs[pass->first_need + n];
            uint64_t arrival = end_of(q, start, need->pass) + need->delay_ns;

            ready = ready > arrival ? ready : arrival;
        }
        if (kind < LEGS) {
            ready += i % q->p > 0 ? x->hop[kind] : x->turn[kind];
        }
        if (!place(q, x, start, index / VA_KINDS, kind, (1U << kind) - 1, ready)) {
            return false;
        }
    }
    return true;
}

/* Micro-batches that are between `from` and `until` of theirs at time t. */
static int64_t alive(uint64_t t, uint64_t from, uint64_t until, uint64_t period)
{
    return (int64_t)((t - from) / period) - (int64_t)((t - until) / period);
}

/* Bytes that device d holds when the forward of `kind` has begun, in the steady state. */
static int64_t held(const struct va_problem *q, const struct placement *x, uint32_t d,
                    uint32_t kind)
{
    const struct va_pass *pass = &q->passes[va_pass_index(d, 0)];
    const uint64_t *start = &x->start[va_pass_index(d, 0)];
    uint64_t t = start[kind] + x->period * (2 + x->length / x->period);
    int64_t sum = 0;

    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        uint32_t f = chunk == 0 ? VA_F0 : VA_F1, b = chunk == 0 ? VA_B0 : VA_B1;
        uint32_t w = chunk == 0 ? VA_W0 : VA_W1;
        uint64_t b_end = start[b] + pass[b].cost_ns, w_end = start[w] + pass[w].cost_ns;

        sum += pass[f].at_start * alive(t, start[f], b_end, x->period) -
               pass[w].at_end * alive(t, b_end, w_end, x->period);
    }
    return sum;
}

static bool fits_caps(const struct va_problem *q, const struct placement *x)
{
    for (uint32_t d = 0; d < q->p; d++) {
        if (held(q, x, d, VA_F0) > q->cap[d] || held(q, x, d, VA_F1) > q->cap[d]) {
            return false;
        }
    }
    return true;
}

/* Waits are often none, and seldom more than half a period. */
static void draw_shape(struct va_random *random, uint64_t period, struct shape *ret_shape)
{
    ret_shape->period = period;
    for (uint32_t leg = 0; leg < LEGS; leg++) {
        uint32_t hop = va_random_below(random, 12), turn = va_random_below(random, 12);
        bool steep = leg == VA_F0 || leg == VA_B1;

        hop = hop < (steep ? 4 : 8) ? 0 : hop - (steep ? 3 : 7);
        turn = turn < 6 || leg == VA_F0 ? 0 : turn - 5;
        ret_shape->hop[leg] = hop * period / 12;
        ret_shape->turn[leg] = turn * period / 12;
    }
}

/* Keeps the KEPT shortest placements of one period. */
static void look(struct va_search *search, uint64_t period, uint32_t tries,
                 struct placement kept[KEPT + 1])
{
    const struct va_problem *q = search->q;
    struct placement *x = &kept[KEPT];

    for (uint32_t n = 0; n < tries; n++) {
        struct shape shape;

        draw_shape(&search->random, period, &shape);
        if (!place_all(q, &shape, x->start)) {
            continue;
        }
        x->period = period;
        x->length = 0;
        for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
            uint64_t end = end_of(q, x->start, i);

            x->length = x->length > end ? x->length : end;
        }
        x->found = fits_caps(q, x);
        for (uint32_t k = KEPT; k > 0 && kept[k].found; k--) {
            struct placement swap = kept[k - 1];

            if (swap.found && swap.length <= kept[k].length) {
                break;
            }
            kept[k - 1] = kept[k];
            kept[k] = swap;
        }
        x->found = false;
    }
}

static void offer(struct va_search *search, const struct placement *x)
{
    const struct va_problem *q = search->q;

    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        for (uint32_t j = 0; j < q->m; j++) {
            search->urgency[(size_t)i * q->m + j] = x->start[i] + j * x->period;
        }
    }
    va_merge(q, search->urgency, search->trial);
    va_search_offer(search, search->trial);
    for (uint32_t patience = 0; patience <= 16; patience += 8) {
        if (va_dispatch(q, search->urgency, patience, &search->work, search->trial)) {
            va_search_offer(search, search->trial);
        }
    }
}

/* Periods from the work of the busiest device on, until two of them have given something. */
static void try_periods(struct va_search *search, uint64_t work, uint32_t tries,
                        struct placement kept[KEPT + 1])
{
    uint32_t given = 0;

    for (uint32_t percent = 0; percent <= 200 && given < 2 && !search->stopped;
         percent += 1 + percent / 4) {
        for (uint32_t k = 0; k <= KEPT; k++) {
            kept[k].found = false;
        }
        look(search, work + work * percent / 100, tries, kept);
        for (uint32_t k = 0; k < KEPT && kept[k].found; k++) {
            offer(search, &kept[k]);
        }
        given += kept[0].found;
    }
}

pst_status va_modulo_offer(struct va_search *search, uint32_t tries)
{
    const struct va_problem *q = search->q;
    struct placement kept[KEPT + 1] = {{0}};
    uint64_t work = va_period(q);
    pst_status st = PST_OK;

    for (uint32_t k = 0; k <= KEPT && st == PST_OK; k++) {
        kept[k].start = calloc((size_t)q->p * VA_KINDS, sizeof *kept[k].start);
        st = kept[k].start == NULL ? PST_ERR_NOMEM : PST_OK;
    }
    if (st == PST_OK && work > 0) {
        try_periods(search, work, tries, kept);
    }
    for (uint32_t k = 0; k <= KEPT; k++) {
        free(kept[k].start);
    }
    return st;
}
