/* SPDX-License-Identifier: Apache-2.0 */
#include "latency.h"

#include <stddef.h>

static double largest(double a, double b)
{
    return a > b ? a : b;
}

static uint32_t find_pivot(const struct dapple_step *steps, uint32_t n, uint32_t m)
{
    double between = 0; /* of the steps between s and the pivot */
    uint32_t s, pivot = n - 1;

    for (s = n - 1; s-- > 0;) {
        double own = steps[s].forward + steps[s].backward;
        double after = (m - 1) * (steps[pivot].forward + steps[pivot].backward) + between;

        if ((m - 1) * own > after * (1 + DAPPLE_SAME)) {
            pivot = s;
            between = 0;
        } else {
            between += own;
        }
    }
    return pivot;
}

double dapple_latency(const struct dapple_step *steps, uint32_t n, uint32_t m, uint32_t *ret_pivot)
{
    uint32_t pivot = find_pivot(steps, n, m), s;
    double fill = 0, end = 0, sum = 0;

    for (s = 0; s <= pivot; s++) {
        fill += steps[s].forward;
    }
    for (s = pivot + 1; s-- > 0;) {
        sum += steps[s].backward;
        end = largest(end, steps[s].allreduce + sum);
    }
    sum = 0;
    for (s = pivot + 1; s < n; s++) {
        end = largest(end, steps[s].allreduce - sum);
        sum += steps[s].backward;
    }
    if (ret_pivot != NULL) {
        *ret_pivot = pivot;
    }
    return fill + (m - 1) * (steps[pivot].forward + steps[pivot].backward) + end;
}
