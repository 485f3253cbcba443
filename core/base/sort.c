/* SPDX-License-Identifier: Apache-2.0
 *
 * Digit by digit from the lowest, each by counting. Digits in which no two keys differ are skipped.
 */
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { DIGIT_BITS = 8, VALUES = 1 << DIGIT_BITS };

static void sort_by_digit(const struct pst_sort_row *from, struct pst_sort_row *to, uint32_t n,
                          uint32_t shift)
{
    uint32_t next[VALUES + 1] = {0};

    for (uint32_t i = 0; i < n; i++) {
        next[(from[i].key >> shift) % VALUES + 1]++;
    }
    for (uint32_t v = 0; v < VALUES; v++) {
        next[v + 1] += next[v];
    }
    for (uint32_t i = 0; i < n; i++) {
        to[next[(from[i].key >> shift) % VALUES]++] = from[i];
    }
}

void pst_sort_rows(struct pst_sort_row *rows, uint32_t n)
{
    struct pst_sort_row *from = rows, *to, *room;
    bool sorted = true;
    uint64_t varying = 0;

    for (uint32_t i = 1; i < n; i++) {
        sorted = sorted && rows[i - 1].key <= rows[i].key;
        varying |= rows[i - 1].key ^ rows[i].key;
    }
    if (sorted) {
        return;
    }
    to = room = pst_alloc(n, sizeof *room);
    for (uint32_t shift = 0; shift < 64; shift += DIGIT_BITS) {
        if ((varying >> shift) % VALUES != 0) {
            struct pst_sort_row *sorted_rows = to;

            sort_by_digit(from, to, n, shift);
            to = from;
            from = sorted_rows;
        }
    }
    if (from != rows) {
        memcpy(rows, from, n * sizeof *rows);
    }
    free(room);
}
