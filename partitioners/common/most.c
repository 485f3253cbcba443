/* SPDX-License-Identifier: Apache-2.0
 *
 * Largest value of a range of positions, by a table of ranges of lengths 1, 2, 4, ...
 */

#include "ranges.h"

static uint32_t n_levels(uint32_t n)
{
    uint32_t levels = 1;

    while ((UINT64_C(1) << levels) <= n) {
        levels++;
    }
    return levels;
}

double **part_most_create(uint32_t n)
{
    uint32_t levels = n_levels(n), level;
    double **table = call_alloc(levels, sizeof *table);

    for (level = 0; level < levels; level++) {
        table[level] = call_alloc((size_t)n + 1, sizeof **table);
    }
    return table;
}

void part_most_fill(double **table, uint32_t n)
{
    uint32_t level, i;

    for (level = 1; level < n_levels(n); level++) {
        const double *below = table[level - 1];
        uint32_t half = UINT32_C(1) << (level - 1);

        for (i = 0; i < n; i++) {
            double right = i + half < n ? below[i + half] : below[i];

            table[level][i] = right > below[i] ? right : below[i];
        }
    }
}

double part_most(double *const *table, uint32_t i, uint32_t j)
{
    uint32_t level = 0, last;

    while ((UINT64_C(2) << level) <= j - i) {
        level++;
    }
    last = j - (UINT32_C(1) << level);
    return table[level][i] > table[level][last] ? table[level][i] : table[level][last];
}
