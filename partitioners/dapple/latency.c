/* SPDX-License-Identifier: Apache-2.0 */
#include "latency.h"

#include <math.h>
#include <stddef.h>

struct dapple_tail dapple_tail_last(const struct dapple_step *step, uint32_t m)
{
    double own = step->forward + step->backward;

    return (struct dapple_tail){m > 1 ? (m - 1) * own : INFINITY, m * own, step->allreduce};
}

bool dapple_tail_before(struct dapple_tail *tail, const struct dapple_step *step, uint32_t m)
{
    double own = step->forward + step->backward;
    bool takes_over = (m - 1) * own > tail->hold * (1 + DAPPLE_SAME);

    tail->sync = fmax(step->allreduce, tail->sync - step->backward);
    tail->hold = takes_over ? (m - 1) * own : tail->hold + own;
    tail->passes = takes_over ? m * own : tail->passes + own;
    return takes_over;
}

double dapple_latency(const struct dapple_step *steps, uint32_t n, uint32_t m, uint32_t *ret_pivot)
{
    struct dapple_tail tail = dapple_tail_last(&steps[n - 1], m);
    uint32_t s, pivot = n - 1;

    for (s = n - 1; s-- > 0;) {
        if (dapple_tail_before(&tail, &steps[s], m)) {
            pivot = s;
        }
    }
    if (ret_pivot != NULL) {
        *ret_pivot = pivot;
    }
    return tail.passes + tail.sync;
}
