/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches all (w, d), micro-batch sizes and modes. Candidates that cannot be the fastest are left
 * out before their best cut is looked for.
 */
#include <math.h>

#include "twobw.h"

#define SAME 1e-9 /* throughputs this close are equal, relative */

void twobw_times(struct twobw *search, uint32_t b)
{
    if (search->times_of != b) {
        search->times_of = 0;
        part_ranges_times(search->problem, b, search->sum_ns, NULL);
        twobw_sample(search, search->sum_ns);
        search->times_of = b;
    }
}

static void keep(struct twobw *search, const struct candidate *c)
{
    CALL_MAKE_ROOM(search->tried, search->n_tried, search->tried_room);
    search->tried[search->n_tried++] = *c;
    search->fastest = fmax(search->fastest, c->throughput);
}

/* No cut of unequal blocks is faster than a perfectly even one without transfers. */
static bool is_too_slow(const struct twobw *search, const struct candidate *c)
{
    double share = search->sum_ns[search->ranges.n] / c->d, t;

    share *= c->recompute ? search->config->c_extra : 1;
    t = c->pipeline ? twobw_period(c, share, 0) : share * c->d;
    return t > 0 && (double)c->w * c->b / t < search->fastest * (1 - SAME);
}

static void try(struct twobw *search, struct candidate *c)
{
    bool planned = search->problem->figures.reference == 0, fits = true;
    struct call_region region;

    search->n_seen++;
    if (planned || !search->equal) {
        if (is_too_slow(search, c)) {
            return;
        }
        call_enter(&region);
        if (planned) {
            twobw_cut_planned(search, c, NULL, &fits);
        } else {
            twobw_cut(search, c, NULL, &fits);
        }
        call_leave(&region);
    } else {
        twobw_closed(search, c);
        fits = part_fits(search->problem, c->bytes);
        if (!fits && (search->smallest.d == 0 || c->bytes < search->smallest.bytes)) {
            search->smallest = *c;
        }
    }
    if (fits) {
        c->throughput = c->t_ns > 0 ? (double)c->w * c->b / c->t_ns : INFINITY;
        keep(search, c);
    }
}

/* --- what is considered ------------------------------------------------------------------------*/

static bool is_allowed(const struct twobw *search, uint32_t w)
{
    const struct part_problem *problem = search->problem;
    uint32_t i;

    /* 1 alone is what stands where nobody said anything; w is this planner's own to choose. */
    if (problem->figures.reference != 0 && problem->n_degrees == 1 && problem->degrees[0] == 1) {
        return true;
    }
    for (i = 0; i < problem->n_degrees && problem->degrees[i] != w; i++) {
    }
    return i < problem->n_degrees;
}

static void try_reference(struct twobw *search, uint32_t w, uint32_t d, uint32_t b)
{
    uint32_t schedule, only = search->config->schedule, batch = search->problem->batch;
    struct candidate base = {.w = w, .d = d, .b = b};

    if ((uint64_t)w * b > batch || batch % (w * b) != 0) {
        return;
    }
    base.m = batch / (w * b);
    for (schedule = SCHEDULE_2BW; schedule < SCHEDULE_BEST; schedule++) {
        uint32_t r;

        if ((only != SCHEDULE_BEST && only != schedule) || d == 1 ||
            (schedule == SCHEDULE_2BW && base.m < d)) {
            continue;
        }
        for (r = 0; r < 2; r++) {
            struct candidate c = base;

            c.schedule = schedule;
            c.pipeline = true;
            c.recompute = r == 1;
            try(search, &c);
        }
    }
    base.schedule = only == SCHEDULE_BEST ? SCHEDULE_2BW : only;
    try(search, &base);
}

static void try_planned(struct twobw *search, uint32_t w, uint32_t d, uint32_t size)
{
    struct candidate c = {.w = w, .d = d, .b = size / w, .m = search->problem->batch / size};

    if (size % w != 0 || c.m < search->least || c.m % search->multiple != 0 ||
        (search->n_wanted != 0 && d != search->n_wanted)) {
        return;
    }
    c.schedule = search->version_rule == PST_VERSION_SYNC ? SCHEDULE_FLUSH : SCHEDULE_2BW;
    c.pipeline = true;
    try(search, &c);
}

static void try_sizes(struct twobw *search, uint32_t w, uint32_t d)
{
    const struct part_problem *problem = search->problem;
    bool reference = problem->figures.reference != 0;
    uint32_t i;

    for (i = 0; i < problem->n_sizes; i++) {
        uint32_t size = problem->sizes[i];

        call_go_on(problem->host);
        if (reference || size % w == 0) {
            twobw_times(search, reference ? size : size / w);
        }
        if (reference) {
            try_reference(search, w, d, size);
        } else {
            try_planned(search, w, d, size);
        }
    }
}

static void try_all(struct twobw *search)
{
    uint32_t n_devices = search->problem->n_devices, n = search->ranges.n, w, d;

    for (w = 1; w <= n_devices; w++) {
        if (!is_allowed(search, w)) {
            continue;
        }
        for (d = 1; d <= n && (uint64_t)w * d <= n_devices; d++) {
            if ((!search->config->allow_idle && w * d != n_devices) ||
                (search->equal && search->problem->figures.reference != 0 && n % d != 0)) {
                continue;
            }
            if (search->problem->figures.reference == 0) {
                twobw_ask_topology(search, d);
            }
            try_sizes(search, w, d);
        }
    }
}

/* Is a to be taken rather than b, which is as fast? */
static bool is_simpler(const struct candidate *a, const struct candidate *b)
{
    if (a->recompute != b->recompute) {
        return !a->recompute;
    }
    if (a->d != b->d) {
        return a->d < b->d;
    }
    if (a->w != b->w) {
        return a->w < b->w;
    }
    if (a->b != b->b) {
        return a->b < b->b;
    }
    if (a->pipeline != b->pipeline) {
        return a->pipeline;
    }
    return a->schedule < b->schedule;
}

void twobw_search(struct twobw *search, bool *ret_any, struct candidate *ret_best)
{
    uint32_t i;

    try_all(search);
    *ret_any = false;
    for (i = 0; i < search->n_tried; i++) {
        const struct candidate *c = &search->tried[i];

        if (c->throughput >= search->fastest * (1 - SAME) &&
            (!*ret_any || is_simpler(c, ret_best))) {
            *ret_best = *c;
            *ret_any = true;
        }
    }
}
