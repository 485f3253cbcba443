/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting by numbers in linear time, for tables of millions of rows.
 */
#ifndef PST_BASE_SORT_H
#define PST_BASE_SORT_H

#include <stdint.h>

struct pst_sort_row {
    uint64_t key;
    uint32_t at; /* what the row is about */
};

/* Sorts by key, the smallest first; rows of equal keys keep their order. */
void pst_sort_rows(struct pst_sort_row *rows, uint32_t n);

#endif
