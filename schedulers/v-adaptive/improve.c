/* SPDX-License-Identifier: Apache-2.0
 *
 * Local search over orders. Two kinds of move: a pass on the critical path changes places with
 * those before it (Nowicki and Smutnicki's neighbourhood of the job shop, "A Fast Taboo Search
 * Algorithm for the Job Shop Problem", 1996, here under memory caps), and the whole order is
 * dispatched again with its own times, a little disturbed, as urgencies.
 */
#include "improve.h"

#include <string.h>

void va_search_init(struct va_search *search, const struct va_problem *q,
                    const struct pst_host *host)
{
    size_t n = va_order_length(q);

    *search = (struct va_search){
        .host = host, .best = va_order(q), .current = va_order(q), .trial = va_order(q)};
    va_search_aim(search, q, 0);
    CALL_TAKE(search->urgency, n);
    CALL_TAKE(search->late, n);
    CALL_TAKE(search->path, n);
    CALL_TAKE(search->nth, n);
    va_work_init(&search->work, q);
}

void va_search_aim(struct va_search *search, const struct va_problem *q, uint64_t seed)
{
    search->q = q;
    search->random.state = 0x70656e73746f636bU + seed;
    search->best_cost = (struct va_cost){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
}

static bool evaluate(struct va_search *search, const uint8_t *order, struct va_cost *ret_cost)
{
    if (++search->evaluations % 256 == 0) {
        call_go_on(search->host);
    }
    return va_evaluate(search->q, order, &search->work, ret_cost);
}

bool va_search_offer(struct va_search *search, const uint8_t *order)
{
    struct va_cost cost;

    if (!evaluate(search, order, &cost) || va_cost_compare(&cost, &search->best_cost) >= 0) {
        return false;
    }
    search->best_cost = cost;
    memcpy(search->best, order, va_order_length(search->q));
    return true;
}

/* Urgency: end of the pass when none waits but for its needs, plus a period a micro-batch. */
static void walk(const struct va_problem *q, uint64_t period, uint64_t *urgency)
{
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        uint32_t index = va_pass_in_order(q->p, i);
        const struct va_pass *pass = &q->passes[index];
        uint64_t at = 0;

        for (uint32_t n = 0; n < pass->n_needs; n++) {
            const struct va_need *need = &q->needs[pass->first_need + n];
            uint64_t arrival = urgency[(size_t)need->pass * q->m] + need->delay_ns;

            at = at > arrival ? at : arrival;
        }
        for (uint32_t j = 0; j < q->m; j++) {
            urgency[(size_t)index * q->m + j] = at + pass->cost_ns + j * period;
        }
    }
}

void va_search_walk(struct va_search *search, bool brief)
{
    const struct va_problem *q = search->q;

    for (uint32_t quarters = brief ? 4 : 2; quarters <= (brief ? 4 : 16); quarters *= 2) {
        walk(q, va_period(q) * quarters / 4, search->urgency);
        for (uint32_t patience = brief ? 16 : 0; patience <= 16; patience += 8) {
            if (va_dispatch(q, search->urgency, patience, &search->work, search->trial)) {
                va_search_offer(search, search->trial);
            }
        }
    }
}

/* The device whose end or stretch the goal counts. Needs the times of `current` in work. */
static uint32_t worst_device(const struct va_search *search)
{
    const struct va_problem *q = search->q;
    uint32_t worst = 0;
    uint64_t most = 0;

    for (uint32_t d = 0; d < q->p; d++) {
        uint32_t first = search->current[d * va_sequence_length(q)];
        uint64_t begin = search->work.start[(size_t)va_pass_index(d, first) * q->m];
        uint64_t figure = search->work.clock[d] - (q->goal == VA_SPAN ? begin : 0);

        if (figure > most) {
            most = figure;
            worst = d;
        }
    }
    return worst;
}

/* Micro-batch and position of every pass: late[] holds the position of each cell. */
static void locate(struct va_search *search)
{
    const struct va_problem *q = search->q;
    uint32_t n = (uint32_t)va_sequence_length(q);

    for (uint32_t d = 0; d < q->p; d++) {
        uint32_t seen[VA_KINDS] = {0};

        for (uint32_t at = 0; at < n; at++) {
            uint32_t kind = search->current[(size_t)d * n + at], j = seen[kind]++;

            search->late[(size_t)va_pass_index(d, kind) * q->m + j] = at;
            search->nth[(size_t)d * n + at] = j;
        }
    }
}

/* The pass whose result micro-batch j of a pass has waited for; NULL: its device was not free. */
static const struct va_need *late_need(const struct va_search *search, uint32_t pass, uint32_t j)
{
    const struct va_problem *q = search->q;
    const struct va_need *need = &q->needs[q->passes[pass].first_need];

    for (uint32_t i = 0; i < q->passes[pass].n_needs; i++, need++) {
        if (search->work.end[(size_t)need->pass * q->m + j] + need->delay_ns ==
            search->work.start[(size_t)pass * q->m + j]) {
            return need;
        }
    }
    return NULL;
}

/* Walks back from the end of the worst device over what held each pass up. Needs the times of
   `current` in work. */
static void find_path(struct va_search *search)
{
    const struct va_problem *q = search->q;
    uint32_t n = (uint32_t)va_sequence_length(q), d = worst_device(search), at = n - 1;

    locate(search);
    search->n_path = 0;
    for (;;) {
        size_t place = (size_t)d * n + at;
        uint32_t j = search->nth[place];
        const struct va_need *need = late_need(search, va_pass_index(d, search->current[place]), j);

        search->path[search->n_path++] = d * n + at;
        if (need != NULL) {
            d = need->pass / VA_KINDS;
            at = (uint32_t)search->late[(size_t)need->pass * q->m + j];
        } else if (at == 0) {
            return;
        } else {
            at--;
        }
    }
}

static void accept(struct va_search *search, const struct va_cost *cost)
{
    uint8_t *swap = search->current;

    search->current = search->trial;
    search->trial = swap;
    search->current_cost = *cost;
    find_path(search);
    if (va_cost_compare(cost, &search->best_cost) < 0) {
        search->best_cost = *cost;
        memcpy(search->best, search->current, va_order_length(search->q));
    }
}

/* Moves one pass of a device from one place to another. */
static void shift(uint8_t *sequence, uint32_t from, uint32_t to)
{
    uint8_t kind = sequence[from];

    if (from < to) {
        memmove(&sequence[from], &sequence[from + 1], to - from);
    } else {
        memmove(&sequence[to + 1], &sequence[to], from - to);
    }
    sequence[to] = kind;
}

/* A critical pass goes before one that precedes it, or that one after it. False: no change. */
static bool move_critical(struct va_search *search)
{
    uint32_t n = (uint32_t)va_sequence_length(search->q);
    uint32_t where = search->path[va_random_below(&search->random, search->n_path)];
    uint32_t at = where % n, other, kind;
    uint8_t *sequence = &search->trial[where - at];
    uint64_t dice = va_random_next(&search->random);

    memcpy(search->trial, search->current, va_order_length(search->q));
    kind = sequence[at];
    for (other = at; other > 0 && sequence[other - 1] == kind; other--) {
    }
    if (other == 0) {
        return false;
    }
    other--;
    while (other > 0 && dice % 3 == 0) { /* further with falling chance */
        dice /= 3;
        other--;
    }
    if (sequence[other] == kind) {
        return false;
    }
    if (dice >> 20 & 1) {
        shift(sequence, at, other);
    } else {
        uint32_t to = at;

        while (to + 1 < n && dice >> 21 & 1 && (dice >> 22) % 3 == 0) {
            dice = (dice & 0xffffffffU) | (dice >> 24) << 22;
            to++;
        }
        shift(sequence, other, to);
    }
    return true;
}

/* A pass anywhere moves a few places. */
static bool move_any(struct va_search *search)
{
    uint32_t n = (uint32_t)va_sequence_length(search->q);
    uint32_t d = va_random_below(&search->random, search->q->p);
    uint32_t from = va_random_below(&search->random, n), span = 1, to;
    uint8_t *sequence = &search->trial[(size_t)d * n];

    while (span < n && va_random_below(&search->random, 2) == 0) {
        span++;
    }
    if (va_random_below(&search->random, 2) == 0) {
        to = from > span ? from - span : 0;
    } else {
        to = from + span < n ? from + span : n - 1;
    }
    memcpy(search->trial, search->current, va_order_length(search->q));
    shift(sequence, from, to);
    return memcmp(sequence, &search->current[(size_t)d * n], n) != 0;
}

/* The current order's times, disturbed, decide anew. */
static bool redispatch(struct va_search *search, uint64_t amplitude)
{
    const struct va_problem *q = search->q;
    size_t n = va_order_length(q);
    struct va_cost cost;
    uint32_t patience = va_random_below(&search->random, 17);

    if (!evaluate(search, search->current, &cost)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        search->urgency[i] = 16 * search->work.start[i] +
                             (16 * amplitude * (va_random_next(&search->random) >> 40) >> 24);
    }
    return va_dispatch(q, search->urgency, patience, &search->work, search->trial);
}

/* Threshold accepting compares this: the goal, and the mean over the devices, as a guide. */
static uint64_t energy(const struct va_search *search, const struct va_cost *cost)
{
    return cost->first * search->q->p + cost->guide;
}

static bool acceptable(struct va_search *search, const struct va_cost *cost, uint64_t threshold)
{
    return energy(search, cost) <= energy(search, &search->current_cost) +
                                       (threshold * (va_random_next(&search->random) >> 40) >> 24);
}

/* One move; true when it gave a legal order, then judged in ret_cost. */
static bool try_move(struct va_search *search, uint64_t amplitude, struct va_cost *ret_cost)
{
    uint32_t dice = va_random_below(&search->random, 128);
    bool moved = dice == 0   ? redispatch(search, amplitude)
                 : dice < 80 ? move_critical(search)
                             : move_any(search);

    if (!moved) {
        search->evaluations++; /* so that the search ends */
    }
    return moved && evaluate(search, search->trial, ret_cost);
}

/*
 * Threshold accepting in rounds (Dueck and Scheuer, 1990): a worse order is taken while it is worse
 * by less than a threshold that falls to nothing. Rounds begin with the best order and become
 * longer.
 */
void va_search_improve(struct va_search *search, uint64_t evaluations, uint64_t bound)
{
    uint64_t end = search->evaluations + evaluations, longest = 0;
    uint64_t width = 12 * (uint64_t)va_sequence_length(search->q);
    struct va_cost cost;

    for (uint32_t i = 0; i < search->q->p * VA_KINDS; i++) {
        uint64_t pass = search->q->passes[i].cost_ns;

        longest = longest > pass ? longest : pass;
    }
    memcpy(search->current, search->best, va_order_length(search->q));
    for (uint32_t n = 0; search->evaluations < end; n++) {
        uint64_t begin = search->evaluations, top = search->q->p * longest * (1 + n % 3);

        width += n % 2 == 1 ? width / 2 : 0;
        memcpy(search->trial, search->best, va_order_length(search->q));
        if (search->best_cost.first <= bound || !evaluate(search, search->trial, &cost)) {
            return;
        }
        accept(search, &cost);
        while (search->evaluations < begin + width && search->evaluations < end &&
               search->best_cost.first > bound) {
            uint64_t left = begin + width - search->evaluations;

            if (try_move(search, longest * (1 + n % 3), &cost) &&
                acceptable(search, &cost, top * left / width)) {
                accept(search, &cost);
            }
        }
    }
}
