/* SPDX-License-Identifier: Apache-2.0
 *
 * The compute-balanced cut: a place to start from, and what a planner without an eye for memory
 * would do.
 */
#include <math.h>

#include "ranges.h"

#define SLACK (1 + 1e-12) /* sums of doubles */

struct balance {
    const double *sum;
    uint32_t n, n_stages;
    double *least;    /* [2 * (n + 1)] sum of squares */
    uint32_t *parent; /* [n_stages * (n + 1)] */
};

static double range_ns(const struct balance *b, uint32_t first, uint32_t end)
{
    return b->sum[end] - b->sum[first];
}

/* Can n_stages stages of at most `most` hold everything? */
static bool holds(const struct balance *b, double most)
{
    uint32_t stage, first = 0;

    for (stage = 0; stage < b->n_stages; stage++) {
        uint32_t end = first, last = b->n - (b->n_stages - 1 - stage);

        while (end < last && range_ns(b, first, end + 1) <= most) {
            end++;
        }
        if (end == first) {
            return false;
        }
        first = end;
    }
    return first == b->n;
}

/* A longest stage that will do, to the last bits of a double. */
static double least_longest(const struct balance *b)
{
    double low = 0, high = b->sum[b->n];
    int i;

    for (i = 0; i < 64; i++) {
        double middle = low + (high - low) / 2;

        if (holds(b, middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high * SLACK;
}

static void even_out(struct balance *b, double most)
{
    size_t width = (size_t)b->n + 1;
    double *before = b->least, *after = b->least + width;
    uint32_t stage, end, first;

    for (end = 0; end <= b->n; end++) {
        before[end] = end == 0 ? 0 : INFINITY;
    }
    for (stage = 0; stage < b->n_stages; stage++) {
        double *spare = before;

        for (end = 0; end <= b->n; end++) {
            uint32_t *parent = &b->parent[stage * width + end];

            after[end] = INFINITY;
            *parent = 0;
            for (first = end; first-- > stage && range_ns(b, first, end) <= most;) {
                double ns = range_ns(b, first, end);

                if (before[first] + ns * ns <= after[end]) {
                    after[end] = before[first] + ns * ns;
                    *parent = first;
                }
            }
        }
        before = after;
        after = spare;
    }
}

void part_balance(const double *sum_ns, uint32_t n, uint32_t n_stages, uint32_t *ret_cuts)
{
    struct balance b = {.sum = sum_ns, .n = n, .n_stages = n_stages};
    uint32_t stage, end = n;

    CALL_TAKE(b.least, 2 * ((size_t)n + 1));
    CALL_TAKE(b.parent, (size_t)n_stages * ((size_t)n + 1));
    even_out(&b, least_longest(&b));
    ret_cuts[n_stages] = n;
    for (stage = n_stages; stage-- > 0;) {
        end = b.parent[stage * ((size_t)n + 1) + end];
        ret_cuts[stage] = end;
    }
}
