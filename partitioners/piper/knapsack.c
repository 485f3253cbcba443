/* SPDX-License-Identifier: Apache-2.0 */
#include "knapsack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct point {
    double time, bytes, lost; /* lost: above the Lagrange bound so far */
    uint32_t parent, option;
};

struct knapsack {
    uint32_t n;
    const uint32_t *first;
    const struct knapsack_option *options;
    double budget;
    uint32_t *choice;      /* [n] the best known */
    double time, bytes;    /* of choice */
    double rate, bound;    /* Lagrange multiplier and what it proves */
    double *least;         /* [n + 1] bytes that items i.. need at least */
    double *cheapest;      /* [n] least time + rate * bytes of an item */
    struct point **layers; /* [n + 1] */
    uint32_t *n_points;    /* [n + 1] */
};

static void take(struct knapsack *k, uint32_t item, uint32_t option)
{
    const struct knapsack_option *old = &k->options[k->choice[item]];
    const struct knapsack_option *new = &k->options[option];

    k->time += new->time - old->time;
    k->bytes += new->bytes - old->bytes;
    k->choice[item] = option;
}

static void sum(struct knapsack *k)
{
    uint32_t i;

    k->time = k->bytes = 0;
    for (i = 0; i < k->n; i++) {
        k->time += k->options[k->choice[i]].time;
        k->bytes += k->options[k->choice[i]].bytes;
    }
}

/* Is option a of an item before b: faster (or leaner), then leaner (or faster)? */
static bool before(const struct knapsack_option *a, const struct knapsack_option *b, bool fast)
{
    if (fast) {
        return a->time < b->time || (a->time == b->time && a->bytes < b->bytes);
    }
    return a->bytes < b->bytes || (a->bytes == b->bytes && a->time < b->time);
}

static void choose_all(struct knapsack *k, bool fast)
{
    uint32_t i, o;

    for (i = 0; i < k->n; i++) {
        k->choice[i] = k->first[i];
        for (o = k->first[i] + 1; o < k->first[i + 1]; o++) {
            if (before(&k->options[o], &k->options[k->choice[i]], fast)) {
                k->choice[i] = o;
            }
        }
    }
    sum(k);
}

static bool fits(const struct knapsack *k)
{
    return k->bytes <= k->budget;
}

/* From the fastest options on: swaps of least extra time per byte until it fits. */
static void save_greedily(struct knapsack *k)
{
    while (!fits(k)) {
        double least = INFINITY;
        uint32_t i, o, item = 0, option = 0;

        for (i = 0; i < k->n; i++) {
            const struct knapsack_option *now = &k->options[k->choice[i]];

            for (o = k->first[i]; o < k->first[i + 1]; o++) {
                double saved = now->bytes - k->options[o].bytes;

                if (saved > 0 && (k->options[o].time - now->time) / saved < least) {
                    least = (k->options[o].time - now->time) / saved;
                    item = i;
                    option = o;
                }
            }
        }
        take(k, item, option);
        if (isinf(least)) {
            return;
        }
    }
}

/* Back to faster options where there is room: the greatest gain first. */
static void give_back(struct knapsack *k)
{
    for (;;) {
        double most = 0;
        uint32_t i, o, item = 0, option = 0;

        for (i = 0; i < k->n; i++) {
            const struct knapsack_option *now = &k->options[k->choice[i]];

            for (o = k->first[i]; o < k->first[i + 1]; o++) {
                if (now->time - k->options[o].time > most &&
                    k->bytes - now->bytes + k->options[o].bytes <= k->budget) {
                    most = now->time - k->options[o].time;
                    item = i;
                    option = o;
                }
            }
        }
        if (most == 0) {
            sum(k); /* in order, so that rounding is that of a plain sum */
            return;
        }
        take(k, item, option);
    }
}

/* Sum over items of the least time + rate * bytes, minus rate * budget: below any solution. */
static double relax(struct knapsack *k, double rate, double *ret_bytes)
{
    double total = -rate * k->budget;
    uint32_t i, o;

    *ret_bytes = 0;
    for (i = 0; i < k->n; i++) {
        double least = INFINITY, bytes = 0;

        for (o = k->first[i]; o < k->first[i + 1]; o++) {
            double value = k->options[o].time + rate * k->options[o].bytes;

            if (value < least || (value == least && k->options[o].bytes < bytes)) {
                least = value;
                bytes = k->options[o].bytes;
            }
        }
        k->cheapest[i] = least;
        total += least;
        *ret_bytes += bytes;
    }
    return total;
}

static void bound(struct knapsack *k)
{
    double low = 0, high = 1e-12, bytes;
    int step;

    relax(k, high, &bytes);
    while (bytes > k->budget && high < 1e30) {
        high *= 16;
        relax(k, high, &bytes);
    }
    for (step = 0; step < 80; step++) {
        double middle = low + (high - low) / 2;

        relax(k, middle, &bytes);
        if (bytes > k->budget) {
            low = middle;
        } else {
            high = middle;
        }
    }
    k->rate = high;
    k->bound = relax(k, high, &bytes);
}

static int by_bytes(const void *a_, const void *b_)
{
    const struct point *a = a_, *b = b_;

    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    return a->time < b->time ? -1 : a->time > b->time;
}

/* Keeps what is faster than everything leaner. */
static uint32_t thin(struct point *points, uint32_t n)
{
    uint32_t i, kept = 0;

    qsort(points, n, sizeof *points, by_bytes);
    for (i = 0; i < n; i++) {
        if (kept == 0 || points[i].time < points[kept - 1].time) {
            points[kept++] = points[i];
        }
    }
    return kept;
}

/* Points of the first i + 1 items; *ret_full: too many. */
static void extend(struct knapsack *k, uint32_t i, bool *ret_full)
{
    uint32_t n_options = k->first[i + 1] - k->first[i], n = 0, p, o;
    double gap = k->time - k->bound, slack = 1e-9 * (fabs(k->time) + fabs(k->bound));
    struct point *next = call_alloc((size_t)k->n_points[i] * n_options + 1, sizeof *next);

    for (p = 0; p < k->n_points[i]; p++) {
        const struct point *from = &k->layers[i][p];

        for (o = k->first[i]; o < k->first[i + 1]; o++) {
            const struct knapsack_option *option = &k->options[o];
            struct point to = {
                .time = from->time + option->time,
                .bytes = from->bytes + option->bytes,
                .lost = from->lost + option->time + k->rate * option->bytes - k->cheapest[i],
                .parent = p,
                .option = o,
            };

            if (to.bytes + k->least[i + 1] <= k->budget * (1 + 1e-15) && to.lost <= gap + slack) {
                next[n++] = to;
            }
        }
    }
    k->n_points[i + 1] = thin(next, n);
    k->layers[i + 1] = next;
    *ret_full = k->n_points[i + 1] > KNAPSACK_MOST_POINTS;
}

/* Exact, unless *ret_full; improves choice. */
static void enumerate(struct knapsack *k, bool *ret_full)
{
    uint32_t i, at;

    *ret_full = false;
    k->layers[0] = call_alloc(1, sizeof **k->layers);
    k->n_points[0] = 1;
    for (i = 0; !*ret_full && i < k->n; i++) {
        extend(k, i, ret_full);
    }
    if (*ret_full || k->n_points[k->n] == 0) {
        return; /* nothing within the gap: the greedy choice is the best */
    }
    /* The last point is the fastest. */
    at = k->n_points[k->n] - 1;
    if (k->layers[k->n][at].time < k->time && k->layers[k->n][at].bytes <= k->budget) {
        for (i = k->n; i-- > 0;) {
            k->choice[i] = k->layers[i + 1][at].option;
            at = k->layers[i + 1][at].parent;
        }
        sum(k);
    }
}

static void improve(struct knapsack *k, bool *ret_exact)
{
    uint32_t i, o, n_choices = 0;
    bool full = false;

    k->least[k->n] = 0;
    for (i = k->n; i-- > 0;) {
        double least = INFINITY;

        for (o = k->first[i]; o < k->first[i + 1]; o++) {
            least = fmin(least, k->options[o].bytes);
        }
        k->least[i] = k->least[i + 1] + least;
        n_choices += k->first[i + 1] - k->first[i] > 1;
    }
    *ret_exact = n_choices <= KNAPSACK_EXACT_ITEMS;
    if (*ret_exact) {
        bound(k);
        enumerate(k, &full);
        *ret_exact = !full;
    }
}

void knapsack_solve(uint32_t n, const uint32_t *first, const struct knapsack_option *options,
                    double budget, double *ret_time, uint32_t *ret_choice, bool *ret_exact)
{
    struct knapsack k = {.n = n, .first = first, .options = options, .budget = budget};
    struct call_region region;

    *ret_exact = true;
    *ret_time = INFINITY;
    call_enter(&region);
    CALL_TAKE(k.choice, (size_t)n + 1);
    CALL_TAKE(k.least, (size_t)n + 1);
    CALL_TAKE(k.cheapest, (size_t)n + 1);
    CALL_TAKE(k.layers, (size_t)n + 1);
    CALL_TAKE(k.n_points, (size_t)n + 1);
    choose_all(&k, false);
    if (fits(&k)) {
        choose_all(&k, true);
        if (!fits(&k)) {
            save_greedily(&k);
            if (!fits(&k)) {
                choose_all(&k, false);
            }
            give_back(&k);
            improve(&k, ret_exact);
        }
        *ret_time = k.time;
        if (ret_choice != NULL) {
            memcpy(ret_choice, k.choice, n * sizeof *ret_choice);
        }
    }
    call_leave(&region);
}
