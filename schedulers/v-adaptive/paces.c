/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks of a micro-batch down and up the V, and what dispatching by them gives.
 */
#include "paces.h"

enum { LEGS = 4 }; /* F0 down, F1 up, B1 down, B0 up */

/* Urgency: end of the pass when each waits gap[leg] after its needs, plus a period a micro-batch.
 */
static void walk(const struct va_problem *q, const uint64_t gap[LEGS], uint64_t period,
                 uint64_t *urgency)
{
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        uint32_t index = va_pass_in_order(q->p, i), leg = i / q->p;
        const struct va_pass *pass = &q->passes[index];
        uint64_t at = 0;

        for (uint32_t n = 0; n < pass->n_needs; n++) {
            const struct va_need *need = &q->needs[pass->first_need + n];
            uint64_t arrival = urgency[(size_t)need->pass * q->m] + need->delay_ns;

            at = at > arrival ? at : arrival;
        }
        at += pass->cost_ns + (leg < LEGS && i % q->p > 0 ? gap[leg] : 0);
        for (uint32_t j = 0; j < q->m; j++) {
            urgency[(size_t)index * q->m + j] = at + j * period;
        }
    }
}

/* Would the walk fill the fullest device about as far as its cap goes? */
static bool suits_caps(const struct va_problem *q, const uint64_t *urgency, uint64_t period)
{
    double most = 0.0;

    for (uint32_t d = 0; d < q->p; d++) {
        const struct va_pass *pass = &q->passes[va_pass_index(d, 0)];
        const uint64_t *row = &urgency[(size_t)va_pass_index(d, 0) * q->m];
        double held = 0.0;

        for (uint32_t chunk = 0; chunk < 2; chunk++) {
            uint32_t forward = chunk == 0 ? VA_F0 : VA_F1, weight = chunk == 0 ? VA_W0 : VA_W1;
            uint64_t alive = row[(size_t)weight * q->m] - row[(size_t)forward * q->m];

            held += (double)alive / (double)period * (double)pass[forward].at_start;
        }
        held /= (double)q->cap[d];
        most = most > held ? most : held;
    }
    return most > 0.6 && most < 1.1;
}

static void offer(struct va_search *search, uint32_t patience)
{
    if (va_dispatch(search->q, search->urgency, patience, &search->work, search->trial)) {
        va_search_offer(search, search->trial);
    }
}

/* Gaps in sixths of a period: what a slot of a block is. */
static void offer_gaps(struct va_search *search, uint64_t period)
{
    static const uint32_t steep[] = {0, 1, 2, 3, 4}, flat[] = {0, 1, 2};

    for (uint32_t i = 0; i < 5 * 3 * 5 * 3 && !search->stopped; i++) {
        uint64_t gap[LEGS] = {steep[i % 5], flat[i / 5 % 3], steep[i / 15 % 5], flat[i / 75]};

        for (uint32_t leg = 0; leg < LEGS; leg++) {
            gap[leg] = gap[leg] * period / 6;
        }
        walk(search->q, gap, period, search->urgency);
        if (suits_caps(search->q, search->urgency, period)) {
            offer(search, 0);
            offer(search, 16);
        }
    }
}

void va_dispatch_paces(struct va_search *search, bool brief)
{
    static const uint64_t no_gap[LEGS] = {0};
    const struct va_problem *q = search->q;
    uint64_t period = va_period(q);

    for (uint32_t quarters = brief ? 4 : 2; quarters <= (brief ? 4 : 16); quarters *= 2) {
        walk(q, no_gap, period * quarters / 4, search->urgency);
        offer(search, 16);
        if (!brief) {
            offer(search, 0);
            offer(search, 8);
        }
    }
    if (!brief && period > 0) {
        offer_gaps(search, period);
    }
}
