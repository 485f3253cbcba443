/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: columns as wide as their widest cell, two spaces between them, numbers to the
 * right. Where there is less room, reasons go below their rows, texts that may go on in further
 * lines become narrower, then the least important columns are left out, and a line says which.
 */
#ifndef PST_REPORTS_TABLE_H
#define PST_REPORTS_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"

#define PST_TABLE_COLUMNS 96

struct pst_table {
    struct pst_arena arena;
    uint32_t n_columns;
    const char *titles[PST_TABLE_COLUMNS];
    bool right[PST_TABLE_COLUMNS]; /* numbers */
    bool wraps[PST_TABLE_COLUMNS]; /* may go on in further lines */
    bool below[PST_TABLE_COLUMNS]; /* goes below its row where there is little room beside it */
    char order[PST_TABLE_COLUMNS]; /* '1' to '9': left out where there is no room, '9' first */
    const char **cells;
    size_t capacity, n_cells;
};

/* How wide everything printed from now on may be; 0, as at the beginning: as it comes. */
void pst_table_set_room(uint32_t columns);

/* Titles of columns with '|' between them. Before a title: '1' to '9', how soon its column is left
   out where there is no room ('9' first; without: never); '>' for numbers; '~' for texts that may
   take several lines; '+' for sentences, which may go below their row instead. */
void pst_table_init(struct pst_table *table, const char *columns);
void pst_table_finish(struct pst_table *table);

/* More columns, all of them before the first cell; then cells, row by row. */
void pst_table_columns(struct pst_table *table, const char *columns);
/* Gives the last column a title that comes from elsewhere: its signs have no meaning. */
void pst_table_title(struct pst_table *table, const char *title);
void pst_table_cell(struct pst_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Titles in bold if told so. A row that was not filled up is completed by empty cells. */
void pst_table_print(const struct pst_table *table, FILE *out, const char *indent, bool color);
/* Prints the table and finishes it. */
void pst_table_end(struct pst_table *table, FILE *out, const char *indent, bool color);

/* A text of words within the room, all lines but the first indented by so much. */
void pst_table_paragraph(FILE *out, const char *text, int indent);

#endif
