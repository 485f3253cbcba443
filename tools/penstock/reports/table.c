/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/util.h"

void pst_table_init(struct pst_table *table, const char *columns)
{
    memset(table, 0, sizeof *table);
    pst_table_columns(table, columns);
}

void pst_table_finish(struct pst_table *table)
{
    free(table->cells);
    pst_arena_finish(&table->arena);
    memset(table, 0, sizeof *table);
}

void pst_table_columns(struct pst_table *table, const char *columns)
{
    while (*columns != '\0') {
        bool right = *columns == '>';
        size_t n = strcspn(columns += right, "|");

        PST_ASSERT(table->n_columns < PST_TABLE_COLUMNS && table->n_cells == 0);
        table->titles[table->n_columns] = pst_arena_strndup(&table->arena, columns, n);
        table->right[table->n_columns++] = right;
        columns += n + (columns[n] == '|');
    }
}

void pst_table_cell(struct pst_table *table, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_text_make_plain(text);
    pst_grow(&table->cells, &table->capacity, table->n_cells, sizeof *table->cells);
    table->cells[table->n_cells++] = pst_arena_strdup(&table->arena, text);
}

void pst_table_ns(struct pst_table *table, uint64_t ns)
{
    char text[32];

    pst_table_cell(table, "%s", pst_format_ns(text, ns));
}

void pst_table_bytes(struct pst_table *table, uint64_t bytes)
{
    char text[32];

    pst_table_cell(table, "%s", pst_format_bytes(text, bytes));
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static int width_of(const char *text)
{
    int width = 0;

    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

static void print_cell(FILE *out, const char *text, int width, bool right, bool last)
{
    int pad = width - width_of(text);

    if (right) {
        fprintf(out, "%*s%s", pad, "", text);
    } else {
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    }
    fputs(last ? "" : "  ", out);
}

static const char *cell_at(const struct pst_table *table, size_t row, uint32_t column)
{
    size_t i = row * table->n_columns + column;

    return i < table->n_cells ? table->cells[i] : "";
}

void pst_table_print(const struct pst_table *table, FILE *out, const char *indent, bool color)
{
    size_t n_rows = (table->n_cells + table->n_columns - 1) / table->n_columns;
    int width[PST_TABLE_COLUMNS];

    for (uint32_t c = 0; c < table->n_columns; c++) {
        width[c] = width_of(table->titles[c]);
        for (size_t r = 0; r < n_rows; r++) {
            int w = width_of(cell_at(table, r, c));

            width[c] = w > width[c] ? w : width[c];
        }
    }
    fprintf(out, "%s%s", indent, color ? "\033[1m" : "");
    for (uint32_t c = 0; c < table->n_columns; c++) {
        print_cell(out, table->titles[c], width[c], table->right[c], c + 1 == table->n_columns);
    }
    fprintf(out, "%s\n", color ? "\033[0m" : "");
    for (size_t r = 0; r < n_rows; r++) {
        fputs(indent, out);
        for (uint32_t c = 0; c < table->n_columns; c++) {
            print_cell(out, cell_at(table, r, c), width[c], table->right[c],
                       c + 1 == table->n_columns);
        }
        fputc('\n', out);
    }
}

void pst_table_end(struct pst_table *table, FILE *out, const char *indent, bool color)
{
    pst_table_print(table, out, indent, color);
    pst_table_finish(table);
}
