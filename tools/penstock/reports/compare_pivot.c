/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/compare_pivot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static void make(struct pst_grid *grid, uint32_t n_columns, uint32_t n_rows)
{
    struct pst_arena *arena = &grid->arena;

    grid->n_columns = n_columns;
    grid->n_rows = n_rows;
    grid->titles = pst_arena_array(arena, n_columns, sizeof *grid->titles);
    grid->units = pst_arena_array(arena, n_columns, sizeof *grid->units);
    grid->right = pst_arena_array(arena, n_columns, sizeof *grid->right);
    grid->order = pst_arena_array(arena, n_columns, sizeof *grid->order);
    grid->cells = pst_arena_array(arena, (size_t)n_rows * n_columns, sizeof *grid->cells);
}

void pst_grid_finish(struct pst_grid *grid)
{
    pst_arena_finish(&grid->arena);
    memset(grid, 0, sizeof *grid);
}

/* --- what is done ------------------------------------------------------------------------------*/

/* Decimals with which numbers up to `most` have four digits at least. */
static int decimals_for(double most)
{
    int digits = most >= 1 ? (int)floor(log10(most)) + 1 : 1;

    return digits >= 4 ? digits > 4 ? 0 : 1 : 4 - digits;
}

static const char *bare_text(const struct pst_compare_column *column, const struct pst_cell *cell,
                             int decimals, struct pst_arena *arena)
{
    double number = column->scale * cell->number, least = column->scale * cell->least;
    const char *sign = column->kind == PST_CELL_CHANGE && number >= 0 ? "+" : "";

    if (!cell->there || cell->text != NULL) {
        return cell->there ? cell->text : "-";
    }
    if (least > 0 && least < number) {
        return pst_arena_printf(arena, "%.*f to %.*f", decimals, least, decimals, number);
    }
    return pst_arena_printf(arena, "%s%s%.*f%s", cell->before == NULL ? "" : cell->before, sign,
                            decimals, number, cell->same ? PST_SAME_MARK : "");
}

static void fill_column(const struct pst_compare_result *result,
                        const struct pst_compare_column *column, const uint32_t *order, bool bare,
                        uint32_t at, struct pst_grid *grid)
{
    struct pst_cell *cells = pst_alloc((size_t)grid->n_rows + 1, sizeof *cells);
    bool marked = false; /* some have a sign after the number: below it the others have room */
    double most = 0;
    int decimals;

    for (uint32_t r = 0; r < grid->n_rows; r++) {
        cells[r] = pst_compare_cell(result, &result->records[order[r]], column, &grid->arena);
        marked |= cells[r].same;
        most = cells[r].there ? fmax(most, fabs(column->scale * cells[r].number)) : most;
    }
    decimals = column->kind == PST_CELL_COUNT                                     ? 0
               : column->kind == PST_CELL_PART || column->kind == PST_CELL_CHANGE ? 1
               : column->kind == PST_CELL_RATIO                                   ? 3
                                                : decimals_for(most);
    grid->titles[at] = column->title;
    grid->units[at] = column->unit;
    grid->right[at] = column->kind != PST_CELL_TEXT;
    grid->order[at] = pst_compare_is_same(result, column) ? '9' : column->order;
    for (uint32_t r = 0; r < grid->n_rows; r++) {
        const char *text = bare ? bare_text(column, &cells[r], decimals, &grid->arena)
                                : pst_compare_cell_text(column, &cells[r], &grid->arena);

        grid->cells[r * grid->n_columns + at] =
            bare || cells[r].same || !marked ? text : pst_arena_printf(&grid->arena, "%s  ", text);
    }
    free(cells);
}

/* A table for a paper is narrow. */
static uint32_t drop_same(const struct pst_compare_result *result,
                          const struct pst_compare_column **columns, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t c = 0; c < n; c++) {
        if (!pst_compare_is_same(result, columns[c])) {
            columns[kept++] = columns[c];
        }
    }
    return kept;
}

void pst_grid_of_done(const struct pst_compare_result *result, bool bare, struct pst_grid *ret_grid)
{
    const struct pst_compare_column **columns;
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order), n_columns;
    uint32_t n_rows = pst_compare_plans(result, order);
    uint32_t which = PST_COLUMN_TABLE | (result->wide && !bare ? PST_COLUMN_REMARK : 0);

    n_rows = !bare && result->n_rows > 0 && n_rows > result->n_rows ? result->n_rows : n_rows;
    memset(ret_grid, 0, sizeof *ret_grid);
    n_columns = pst_compare_list(result, which, &ret_grid->arena, &columns);
    n_columns = bare ? drop_same(result, columns, n_columns) : n_columns;
    make(ret_grid, n_columns, n_rows);
    for (uint32_t c = 0; c < n_columns; c++) {
        fill_column(result, columns[c], order, bare, c, ret_grid);
    }
    free(order);
}

/* --- pivot -------------------------------------------------------------------------------------*/

/* The name of a method, or of its strategies. */
static const char *name_of(struct pst_arena *arena, const struct pst_record *record)
{
    return record->method != NULL
               ? record->method
               : pst_arena_printf(arena, "%s, %s, %s", record->labels[PST_AXIS_PARTITIONER],
                                  record->labels[PST_AXIS_SCHEDULER],
                                  record->labels[PST_AXIS_MEMOPT]);
}

/* The place of a text in a list that grows by those that are new. */
static uint32_t place_of(const char **list, uint32_t *n, const char *text)
{
    uint32_t at = 0;

    while (at < *n && strcmp(list[at], text) != 0) {
        at++;
    }
    if (at == *n) {
        list[(*n)++] = text;
    }
    return at;
}

void pst_grid_of_pivot(const struct pst_compare_result *result, struct pst_grid *ret_grid)
{
    struct pst_arena names = {0};
    const char **rows = pst_arena_array(&names, (size_t)result->n + 1, sizeof *rows);
    const char **columns = pst_arena_array(&names, (size_t)result->n + 1, sizeof *columns);
    uint32_t *row = pst_arena_array(&names, (size_t)result->n + 1, sizeof *row);
    uint32_t *column = pst_arena_array(&names, (size_t)result->n + 1, sizeof *column);
    uint32_t n_rows = 0, n_columns = 0;
    double *best, most = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        row[i] = place_of(rows, &n_rows, name_of(&names, &result->records[i]));
        column[i] = place_of(columns, &n_columns, result->records[i].config);
    }
    best = pst_arena_array(&names, (size_t)n_rows * n_columns + 1, sizeof *best);
    for (uint32_t i = 0; i < result->n; i++) {
        double *at = &best[row[i] * n_columns + column[i]];

        *at = fmax(*at, pst_trial_samples_per_second(&result->records[i].trial));
        most = fmax(most, *at);
    }
    memset(ret_grid, 0, sizeof *ret_grid);
    make(ret_grid, n_columns + 1, n_rows);
    ret_grid->titles[0] = "samples/s";
    ret_grid->units[0] = "";
    for (uint32_t c = 0; c < n_columns; c++) {
        ret_grid->titles[c + 1] = pst_arena_strdup(&ret_grid->arena, columns[c]);
        ret_grid->units[c + 1] = "";
        ret_grid->right[c + 1] = true;
    }
    for (uint32_t r = 0; r < n_rows; r++) {
        const char **cells = &ret_grid->cells[r * ret_grid->n_columns];

        cells[0] = pst_arena_strdup(&ret_grid->arena, rows[r]);
        for (uint32_t c = 0; c < n_columns; c++) {
            double rate = best[r * n_columns + c];

            cells[c + 1] =
                rate > 0 ? pst_arena_printf(&ret_grid->arena, "%.*f", decimals_for(most), rate)
                         : "-";
        }
    }
    pst_arena_finish(&names);
}
