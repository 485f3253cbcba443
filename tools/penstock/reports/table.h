/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: columns as wide as their widest cell, two spaces between them, numbers to the
 * right. Nothing is cut off.
 */
#ifndef PST_REPORTS_TABLE_H
#define PST_REPORTS_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"

#define PST_TABLE_COLUMNS 16

struct pst_table {
    struct pst_arena arena;
    uint32_t n_columns;
    const char *titles[PST_TABLE_COLUMNS];
    bool right[PST_TABLE_COLUMNS]; /* numbers */
    const char **cells;
    size_t capacity, n_cells;
};

void pst_table_init(struct pst_table *table);
void pst_table_finish(struct pst_table *table);

/* Columns first, all of them; then cells, row by row. */
void pst_table_column(struct pst_table *table, const char *title, bool right);
void pst_table_cell(struct pst_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Titles in bold if told so. A row that was not filled up is completed by empty cells. */
void pst_table_print(const struct pst_table *table, FILE *out, const char *indent, bool color);

#endif
