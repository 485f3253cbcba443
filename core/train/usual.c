/* SPDX-License-Identifier: Apache-2.0 */
#include "train/usual.h"

#include <stdlib.h>

#include "base/util.h"

static uint64_t median(uint64_t *values, uint64_t n)
{
    if (n == 0) {
        return 0;
    }
    qsort(values, n, sizeof *values, pst_by_number);
    return n % 2 == 1 ? values[n / 2] : values[n / 2 - 1] / 2 + values[n / 2] / 2;
}

uint64_t pst_usual_step_ns(uint64_t *step_ns, uint64_t n_steps, uint64_t every)
{
    uint64_t n = 0, sum;

    if (every < 2 || n_steps < every) {
        return median(step_ns, n_steps);
    }
    for (uint64_t first = 0; first + every <= n_steps; first += every) {
        sum = 0;
        for (uint64_t i = first; i < first + every; i++) {
            sum += step_ns[i];
        }
        step_ns[n++] = sum / every;
    }
    return median(step_ns, n);
}
