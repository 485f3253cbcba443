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

#define PST_TABLE_COLUMNS 24

struct pst_table {
    struct pst_arena arena;
    uint32_t n_columns;
    const char *titles[PST_TABLE_COLUMNS];
    bool right[PST_TABLE_COLUMNS]; /* numbers */
    const char **cells;
    size_t capacity, n_cells;
};

/* Titles of columns with '|' between them; those of numbers begin with '>'. */
void pst_table_init(struct pst_table *table, const char *columns);
void pst_table_finish(struct pst_table *table);

/* More columns, all of them before the first cell; then cells, row by row. */
void pst_table_columns(struct pst_table *table, const char *columns);
void pst_table_cell(struct pst_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pst_table_ns(struct pst_table *table, uint64_t ns);
void pst_table_bytes(struct pst_table *table, uint64_t bytes);

/* Titles in bold if told so. A row that was not filled up is completed by empty cells. */
void pst_table_print(const struct pst_table *table, FILE *out, const char *indent, bool color);
/* The same, and finishes it. */
void pst_table_end(struct pst_table *table, FILE *out, const char *indent, bool color);

#endif
