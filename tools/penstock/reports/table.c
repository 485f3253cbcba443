/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/table.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/util.h"

#define NARROW 16 /* what a text that wraps may be narrowed to */
#define BESIDE 48 /* what a text that may go below its row must have beside it */
#define GAP    2  /* between columns */

static uint32_t room; /* 0: as much as it takes */

void pst_table_set_room(uint32_t columns)
{
    room = columns;
}

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
        uint32_t c = table->n_columns++;
        size_t n;

        PST_ASSERT(c < PST_TABLE_COLUMNS && table->n_cells == 0);
        table->order[c] = *columns >= '1' && *columns <= '9' ? *columns++ : '0';
        table->right[c] = *columns == '>';
        table->below[c] = *columns == '+';
        table->wraps[c] = *columns == '~' || table->below[c];
        columns += table->right[c] || table->wraps[c];
        n = strcspn(columns, "|");
        table->titles[c] = pst_arena_strndup(&table->arena, columns, n);
        columns += n + (columns[n] == '|');
    }
}

void pst_table_title(struct pst_table *table, const char *title)
{
    char *text = pst_arena_strdup(&table->arena, title);

    pst_text_make_plain(text);
    table->titles[table->n_columns - 1] = text;
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

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static int width_of(const char *text)
{
    int width = 0;

    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

/* --- how wide ----------------------------------------------------------------------------------*/

struct widths {
    int of[PST_TABLE_COLUMNS]; /* 0: left out */
    int total;                 /* with what stands between them */
};

static void add_up_widths(const struct pst_table *table, struct widths *widths)
{
    widths->total = 0;
    for (uint32_t c = 0; c < table->n_columns; c++) {
        if (widths->of[c] > 0) {
            widths->total += widths->of[c] + (widths->total > 0 ? GAP : 0);
        }
    }
}

/* Returns the least important column that is shown; PST_TABLE_COLUMNS: all must stay. */
static uint32_t least_important(const struct pst_table *table, const struct widths *widths)
{
    uint32_t least = PST_TABLE_COLUMNS;

    for (uint32_t c = 0; c < table->n_columns; c++) {
        if (widths->of[c] > 0 && table->order[c] > '0' &&
            (least == PST_TABLE_COLUMNS || table->order[c] >= table->order[least])) {
            least = c;
        }
    }
    return least;
}

/* Returns the least width of a column. */
static int narrowest(const struct pst_table *table, const int *wanted, uint32_t c)
{
    int title = width_of(table->titles[c]), narrow = title > NARROW ? title : NARROW;

    return table->wraps[c] && wanted[c] > narrow ? narrow : wanted[c];
}

/* Shows columns again that were left out for wider ones, if their least width fits. */
static void bring_back(const struct pst_table *table, const int *wanted, int most,
                       struct widths *widths)
{
    for (char order = '1'; order < '9'; order++) { /* '9': it says next to nothing */
        for (uint32_t c = 0; c < table->n_columns; c++) {
            int width = narrowest(table, wanted, c);

            if (widths->of[c] == 0 && table->order[c] == order && !table->below[c] &&
                width + GAP <= most - widths->total) {
                widths->of[c] = width;
                add_up_widths(table, widths);
            }
        }
    }
}

/* wanted: as wide as the widest cell. */
static void fit_columns(const struct pst_table *table, const int *wanted, int most,
                        struct widths *widths)
{
    uint32_t least;

    for (uint32_t c = 0; c < table->n_columns; c++) {
        widths->of[c] = table->below[c] ? 0 : narrowest(table, wanted, c);
    }
    add_up_widths(table, widths);
    while (widths->total > most && (least = least_important(table, widths)) < PST_TABLE_COLUMNS) {
        widths->of[least] = 0;
        add_up_widths(table, widths);
    }
    bring_back(table, wanted, most, widths);
    for (uint32_t c = 0; c < table->n_columns; c++) {
        int before = widths->of[c], room_left = most - widths->total - (before == 0 ? GAP : 0);
        int width = wanted[c] < before + room_left ? wanted[c] : before + room_left;

        if (table->below[c] ? width >= BESIDE || width == wanted[c]
                            : table->wraps[c] && before > 0 && width > before) {
            widths->of[c] = width;
            add_up_widths(table, widths);
        }
    }
}

/* --- lines -------------------------------------------------------------------------------------*/

/* Bytes of a text that fill a line of so many characters: whole words where one ends in it, else
   whole parts of a name. */
static size_t line_length(const char *text, int width)
{
    size_t n = 0, words = 0, parts = 0;

    for (int used = 0; text[n] != '\0' && used < width; used++) {
        parts = n > 0 && strchr("-/", text[n - 1]) != NULL ? n : parts;
        n++;
        while (((unsigned char)text[n] & 0xC0) == 0x80) {
            n++;
        }
        words = text[n] == ' ' || text[n] == '\0' ? n : words;
    }
    return text[n] == '\0' ? n : words > 0 ? words : parts > 0 ? parts : n;
}

/* Prints one line of a cell and advances *text past it. */
static void print_piece(FILE *out, const char **text, int width, bool right, bool wraps, bool last)
{
    size_t n = wraps ? line_length(*text, width) : strlen(*text);
    char *piece = pst_printf("%.*s", (int)n, *text);
    int pad = width - width_of(piece);

    *text += n;
    *text += strspn(*text, " ");
    fprintf(out, "%*s%s%*s%s", right && pad > 0 ? pad : 0, "", piece,
            right || last || pad < 0 ? 0 : pad, "", last ? "" : "  ");
    free(piece);
}

/* In as many lines as its longest text takes. */
static void print_row(const struct pst_table *table, const struct widths *widths,
                      const char *const *cells, const char *indent, FILE *out)
{
    const char *rest[PST_TABLE_COLUMNS];
    uint32_t last = 0;
    bool more = true;

    for (uint32_t c = 0; c < table->n_columns; c++) {
        rest[c] = cells[c];
        last = widths->of[c] > 0 ? c : last;
    }
    while (more) {
        more = false;
        fputs(indent, out);
        for (uint32_t c = 0; c <= last; c++) {
            if (widths->of[c] > 0) {
                print_piece(out, &rest[c], widths->of[c], table->right[c], table->wraps[c],
                            c == last);
                more |= rest[c][0] != '\0';
            }
        }
        fputc('\n', out);
    }
}

static const char *cell_at(const struct pst_table *table, size_t row, uint32_t column)
{
    size_t i = row * table->n_columns + column;

    return i < table->n_cells ? table->cells[i] : "";
}

/* Which columns are not there. */
static void print_left_out(const struct pst_table *table, const struct widths *widths,
                           const char *indent, FILE *out)
{
    char *text = pst_printf("%sleft out:", indent);
    bool any = false;

    for (uint32_t c = 0; c < table->n_columns; c++) {
        if (widths->of[c] == 0 && table->titles[c][0] != '\0' && !table->below[c]) {
            char *longer = pst_printf("%s%s %s", text, any ? "," : "", table->titles[c]);

            free(text);
            text = longer;
            any = true;
        }
    }
    if (any) {
        char *whole = pst_printf("%s; --wide shows all", text);

        pst_table_paragraph(out, whole, (int)strlen(indent) + 2);
        free(whole);
    }
    free(text);
}

/* Texts for which there is no room beside the row; one that the next row has as well, below that.
 */
static void print_below(const struct pst_table *table, const struct widths *widths, size_t row,
                        size_t n_rows, const char *indent, FILE *out)
{
    for (uint32_t c = 0; c < table->n_columns; c++) {
        const char *text = cell_at(table, row, c);
        const bool again = row + 1 < n_rows && strcmp(cell_at(table, row + 1, c), text) == 0;

        if (table->below[c] && widths->of[c] == 0 && text[0] != '\0' && !again) {
            char *whole = pst_printf("%s    %s", indent, text);

            pst_table_paragraph(out, whole, (int)strlen(indent) + 4);
            free(whole);
        }
    }
}

void pst_table_print(const struct pst_table *table, FILE *out, const char *indent, bool color)
{
    size_t n_rows = (table->n_cells + table->n_columns - 1) / table->n_columns;
    int wanted[PST_TABLE_COLUMNS], most = room == 0 ? INT_MAX : (int)room - width_of(indent);
    struct widths widths;

    for (uint32_t c = 0; c < table->n_columns; c++) {
        const int title = width_of(table->titles[c]);

        wanted[c] = table->below[c] ? 0 : title; /* no reasons, no column */
        for (size_t r = 0; r < n_rows; r++) {
            int w = width_of(cell_at(table, r, c));

            wanted[c] = w > wanted[c] ? w : wanted[c];
        }
        wanted[c] = wanted[c] > 0 && wanted[c] < title ? title : wanted[c];
    }
    fit_columns(table, wanted, most, &widths);
    fputs(color ? "\033[1m" : "", out);
    print_row(table, &widths, table->titles, indent, out);
    fputs(color ? "\033[0m" : "", out);
    for (size_t r = 0; r < n_rows; r++) {
        const char *cells[PST_TABLE_COLUMNS];

        for (uint32_t c = 0; c < table->n_columns; c++) {
            cells[c] = cell_at(table, r, c);
        }
        print_row(table, &widths, cells, indent, out);
        print_below(table, &widths, r, n_rows, indent, out);
    }
    print_left_out(table, &widths, indent, out);
}

void pst_table_end(struct pst_table *table, FILE *out, const char *indent, bool color)
{
    pst_table_print(table, out, indent, color);
    pst_table_finish(table);
}

void pst_table_paragraph(FILE *out, const char *text, int indent)
{
    int used = 0;

    while (*text != '\0') {
        int width = room == 0 ? INT_MAX : (int)room - used > 1 ? (int)room - used : 1;
        size_t n = line_length(text, width);

        pst_text_printf(out, "%*s%.*s\n", used, "", (int)n, text);
        text += n;
        text += strspn(text, " ");
        used = indent;
    }
}
