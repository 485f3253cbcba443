/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/compare_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "measure/others.h"
#include "reports/compare_pivot.h"
#include "reports/table.h"

#define EQUALS 3u /* combinations of one plan that are named where there are many */

/* --- for people --------------------------------------------------------------------------------*/

/* Prints a grid and finishes it. */
static void print_grid(struct pst_grid *grid, bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table, "");
    for (uint32_t c = 0; c < grid->n_columns && c < PST_TABLE_COLUMNS; c++) {
        const char column[] = {grid->order[c], grid->right[c] ? '>' : '~', '\0'};

        pst_table_columns(&table, column + (column[0] == '\0'));
        pst_table_title(&table, grid->titles[c]);
    }
    for (uint32_t r = 0; r < grid->n_rows; r++) {
        for (uint32_t c = 0; c < grid->n_columns && c < PST_TABLE_COLUMNS; c++) {
            pst_table_cell(&table, "%s", grid->cells[r * grid->n_columns + c]);
        }
    }
    pst_table_end(&table, out, "", color);
    pst_grid_finish(grid);
}

/* Explains the sign after a number, if the table has one. */
static void explain_same(const struct pst_compare_result *result, FILE *out)
{
    uint32_t n_rounds = 0;
    bool marked = false;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_record *record = &result->records[i];

        marked |= pst_versus_is_same(&record->best) || pst_versus_is_same(&record->baseline);
        n_rounds = record->trial.n_rounds > n_rounds ? record->trial.n_rounds : n_rounds;
    }
    if (marked) {
        fprintf(out, "\n= no significant difference at 95 %%, of %u rounds\n", n_rounds);
    }
}

static void print_note(const char *text, FILE *out)
{
    if (text[0] != '\0') {
        fputc('\n', out);
        pst_table_paragraph(out, text, 0);
    }
}

/* Who else is on these processors. */
static void print_sharing(const struct pst_compare_result *result, FILE *out)
{
    struct pst_arena arena = {0};
    char text[160];

    print_note(pst_compare_sharing(result, &arena), out);
    pst_arena_finish(&arena);
    if (result->run && result->provenance.others > PST_OTHERS_MANY) {
        snprintf(text, sizeof text,
                 "Other processes used %.0f %% of the processors during the runs: steps are longer "
                 "than alone.",
                 100 * result->provenance.others);
        print_note(text, out);
    }
}

static void print_done(const struct pst_compare_result *result, bool color, FILE *out)
{
    struct pst_grid grid;

    pst_grid_of_done(result, false, &grid);
    print_grid(&grid, color, out);
    explain_same(result, out);
    print_sharing(result, out);
    print_note(pst_compare_undivided(result), out);
    if (result->n_configs > 1 && !pst_compare_seeks_batch(result)) {
        fputc('\n', out);
        pst_grid_of_pivot(result, &grid);
        print_grid(&grid, color, out);
    }
}

/* A table with the names of combinations alone. */
static bool is_name(const struct pst_compare_result *result,
                    const struct pst_compare_column *column)
{
    return (column->flags & PST_COLUMN_NAME) != 0 && pst_compare_has_column(result, column);
}

static void begin_table(const struct pst_compare_result *result, struct pst_table *table)
{
    pst_table_init(table, "");
    for (uint32_t c = 0; c < pst_n_compare_columns; c++) {
        const struct pst_compare_column *column = &pst_compare_columns[c];

        if (is_name(result, column)) {
            pst_table_columns(table, pst_arena_printf(&table->arena, "%s%s",
                                                      column->kind == PST_CELL_TEXT ? "~" : ">",
                                                      column->title));
        }
    }
}

static void add_names(struct pst_table *table, const struct pst_compare_result *result,
                      const struct pst_record *record)
{
    struct pst_arena arena = {0};

    for (uint32_t c = 0; c < pst_n_compare_columns; c++) {
        const struct pst_compare_column *column = &pst_compare_columns[c];

        if (is_name(result, column)) {
            const struct pst_cell cell = pst_compare_cell(result, record, column, &arena);

            pst_table_cell(table, "%s", pst_compare_cell_text(column, &cell, &arena));
        }
    }
    pst_arena_finish(&arena);
}

/* The combination, as far as it is not that of the other. */
static const char *difference(const struct pst_compare_result *result,
                              const struct pst_record *record, const struct pst_record *other,
                              struct pst_arena *arena)
{
    const char *text = "";

    for (uint32_t c = 0; c < pst_n_compare_columns; c++) {
        const struct pst_compare_column *column = &pst_compare_columns[c];
        const struct pst_cell its = pst_compare_cell(result, record, column, arena);
        const struct pst_cell others = pst_compare_cell(result, other, column, arena);
        const char *name = pst_compare_cell_text(column, &its, arena);

        if (is_name(result, column) &&
            strcmp(name, pst_compare_cell_text(column, &others, arena)) != 0) {
            text = pst_arena_printf(arena, "%s%s%s %s", text, text[0] == '\0' ? "" : ", ",
                                    column->title, name);
        }
    }
    return text;
}

/* By which other combinations the plans of the rows come about, too. */
static void print_equals(const struct pst_compare_result *result, const uint32_t *order,
                         uint32_t n_rows, FILE *out)
{
    const uint32_t most = result->n_rows == 0 ? UINT32_MAX : EQUALS;

    for (uint32_t row = 0; row < n_rows; row++) {
        const struct pst_record *first = &result->records[order[row]];
        struct pst_arena arena = {0};
        uint32_t n = 0;

        for (uint32_t i = 0; i < result->n; i++) {
            if (result->records[i].same_as == first && n++ < most) {
                fputs(n > 1 ? "; " : pst_arena_printf(&arena, "row %u is also: ", row + 1), out);
                fputs(difference(result, &result->records[i], first, &arena), out);
            }
        }
        if (n > most) {
            fprintf(out, "; and %u more", n - most);
        }
        fputs(n > 0 ? "\n" : "", out);
        pst_arena_finish(&arena);
    }
}

/* Why a record stands among those of that state; NULL: it does not. Of one that goes somewhere what
   a plugin did at another size counts. */
static const struct pst_error *why_of(const struct pst_record *record, enum pst_trial_state state)
{
    if (record->tuned == NULL) {
        return record->trial.state == state ? &record->trial.why : NULL;
    }
    if (record->tuned->microbatch == 0) {
        return state == PST_TRIAL_NO_FIT ? &record->trial.why : NULL;
    }
    return state == PST_TRIAL_FAILED ? pst_record_misdeed(record) : NULL;
}

/* A table of those of which there is nothing but a reason; none without a row. */
static void print_others(const struct pst_compare_result *result, enum pst_trial_state state,
                         const char *title, bool color, FILE *out)
{
    struct pst_arena arena = {0};
    struct pst_table table;
    uint32_t n = 0;
    bool all;

    begin_table(result, &table);
    pst_table_columns(&table, "+why");
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_error *why = why_of(&result->records[i], state);

        if (why != NULL && (result->n_rows == 0 || n < result->n_rows)) {
            add_names(&table, result, &result->records[i]);
            pst_table_cell(&table, "%s", pst_compare_why(&arena, why));
        }
        n += why != NULL;
    }
    all = result->n_rows == 0 || n <= result->n_rows;
    if (n > 0) {
        fprintf(out, "\n%s: %u%s\n", title, n, all ? "" : "; --wide lists them");
    }
    if (n > 0 && all) {
        pst_table_print(&table, out, "", color);
    }
    pst_table_finish(&table);
    pst_arena_finish(&arena);
}

/* How far a search went, where it left something out. */
static void print_searched(const struct pst_compare_result *result, uint32_t n_done,
                           const struct pst_score *best, FILE *out)
{
    const struct pst_joint_found *searched = result->searched;

    if (searched == NULL) {
        return;
    }
    if (searched->n_hopeless > 0) {
        fprintf(out, "%llu other%s cannot be better\n", (unsigned long long)searched->n_hopeless,
                searched->n_hopeless == 1 ? "" : "s");
    }
    if (!searched->all) {
        fprintf(out, "%u of %llu combinations were tried: --trials N tries more\n", result->n,
                (unsigned long long)searched->n_points);
    }
    if (n_done > 0 && best->state == PST_SCORE_BELOW_FLOOR) {
        fprintf(out, "none reaches %g samples/s; the fastest reaches %.4g\n", result->goal.floor,
                best->first);
    }
    if (result->n_rows > 0 && n_done > result->n_rows) {
        fprintf(out, "the best %u:\n", result->n_rows);
    }
}

static void print_compared(const struct pst_compare_result *result, const uint32_t *order,
                           uint32_t n, bool color, FILE *out)
{
    uint32_t *plans = pst_alloc((size_t)result->n + 1, sizeof *plans);
    const uint32_t n_plans = pst_compare_plans(result, plans);
    const uint32_t n_rows =
        result->n_rows > 0 && n_plans > result->n_rows ? result->n_rows : n_plans;
    const struct pst_score best =
        n == 0 ? (struct pst_score){PST_SCORE_NONE, 0, 0}
               : pst_goal_score(&result->goal, &result->records[order[0]].trial);

    fprintf(out, "%u of %u combinations %s", n, result->n, result->run ? "ran" : "simulated");
    if (n_plans < n) {
        fprintf(out, ", %u plan%s", n_plans, n_plans == 1 ? "" : "s");
    }
    fputc('\n', out);
    print_searched(result, n_plans, &best, out);
    if (n > 0) {
        print_done(result, color, out);
        print_equals(result, plans, n_rows, out);
    }
    print_others(result, PST_TRIAL_NO_FIT, "do not fit", color, out);
    print_others(result, PST_TRIAL_MISMATCH, "are incompatible", color, out);
    print_others(result, PST_TRIAL_FAILED, "failed", color, out);
    free(plans);
}

/* first: NULL where none goes anywhere. */
static void print_largest(const struct pst_compare_result *result, const struct pst_tuned *first,
                          bool color, FILE *out)
{
    struct pst_arena arena = {0};

    fprintf(out, "largest batch of %u combination%s\n", result->n, result->n == 1 ? "" : "s");
    if (first != NULL) {
        print_done(result, color, out);
    }
    if (first != NULL && first->bounded) {
        print_note(pst_arena_printf(&arena, "the first cannot be larger: %s",
                                    pst_compare_why(&arena, &first->beyond)),
                   out);
    }
    print_others(result, PST_TRIAL_NO_FIT, "not even one sample fits", color, out);
    print_others(result, PST_TRIAL_FAILED, "a plugin failed at another size", color, out);
    pst_arena_finish(&arena);
}

void pst_compare_report_print(const struct pst_compare_result *result, bool color, FILE *out)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order), n, n_open = 0;

    n = pst_compare_order(result, order);
    if (pst_compare_seeks_batch(result)) {
        print_largest(result, n > 0 ? result->records[order[0]].tuned : NULL, color, out);
    } else {
        print_compared(result, order, n, color, out);
    }
    for (uint32_t i = 0; i < result->n; i++) {
        n_open += result->records[i].trial.state == PST_TRIAL_OPEN;
    }
    if (n_open > 0 && pst_compare_seeks_batch(result)) {
        fprintf(out, "\nnot all were tried\n");
    } else if (n_open > 0) {
        fprintf(out, "\nnot tried: %u\n", n_open);
    }
    free(order);
}

/* --- for papers and for pages ------------------------------------------------------------------*/

/* `text` with what the form has a meaning for of its own in front of or in place of it. */
static void put_escaped(FILE *out, enum pst_compare_form form, const char *text)
{
    static const struct {
        char sign;
        const char *latex, *markdown;
    } escapes[] = {{'\\', "\\textbackslash{}", "\\\\"},
                   {'|', "\\textbar{}", "\\|"},
                   {'_', "\\_", "\\_"},
                   {'*', "*", "\\*"},
                   {'`', "\\textasciigrave{}", "\\`"},
                   {'[', "{[}", "\\["},
                   {'<', "\\textless{}", "&lt;"},
                   {'>', "\\textgreater{}", "&gt;"},
                   {'&', "\\&", "&amp;"},
                   {'%', "\\%", "%"},
                   {'$', "\\$", "$"},
                   {'#', "\\#", "#"},
                   {'{', "\\{", "{"},
                   {'}', "\\}", "}"},
                   {'~', "\\textasciitilde{}", "\\~"},
                   {'"', "\\textquotedbl{}", "\""},
                   {'^', "\\textasciicircum{}", "^"}};

    while (*text != '\0') {
        const size_t n = pst_utf8_length(text);
        size_t i = 0;

        while (i < sizeof escapes / sizeof *escapes && escapes[i].sign != *text) {
            i++;
        }
        if (n == 0) {
            fputc('?', out); /* as pst_text_make_plain: not every LaTeX has U+FFFD */
        } else if (pst_text_hidden(text) != 0) {
            fputc(' ', out);
        } else if (i == sizeof escapes / sizeof *escapes) {
            fwrite(text, 1, n, out);
        } else {
            fputs(form == PST_COMPARE_LATEX ? escapes[i].latex : escapes[i].markdown, out);
        }
        text += n == 0 ? pst_utf8_subpart(text) : n;
    }
}

/* In LaTeX the sign after a number takes no room, so that numbers stand below each other. */
static void put_cell(FILE *out, enum pst_compare_form form, const char *cell)
{
    const size_t n = strlen(cell), mark = strlen(PST_SAME_MARK);

    if (form == PST_COMPARE_LATEX && n > mark && strcmp(cell + n - mark, PST_SAME_MARK) == 0) {
        fprintf(out, "%.*s\\rlap{\\,=}", (int)(n - mark), cell);
    } else {
        put_escaped(out, form, cell);
    }
}

static void put_row(FILE *out, enum pst_compare_form form, const struct pst_grid *grid,
                    const char *const *cells, const char *const *units)
{
    const bool latex = form == PST_COMPARE_LATEX;

    fputs(latex ? "  " : "|", out);
    for (uint32_t c = 0; c < grid->n_columns; c++) {
        fputs(latex ? c > 0 ? " & " : "" : " ", out);
        put_cell(out, form, cells[c]);
        if (units != NULL && units[c][0] != '\0') {
            fputs(" [", out);
            put_escaped(out, form, units[c]);
            fputc(']', out);
        }
        fputs(latex ? "" : " |", out);
    }
    fputs(latex ? " \\\\\n" : "\n", out);
}

static void put_grid(FILE *out, enum pst_compare_form form, const struct pst_grid *grid)
{
    const bool latex = form == PST_COMPARE_LATEX;

    if (latex) {
        fputs("\\begin{tabular}{", out);
        for (uint32_t c = 0; c < grid->n_columns; c++) {
            fputc(grid->right[c] ? 'r' : 'l', out);
        }
        fputs("}\n  \\toprule\n", out);
    }
    put_row(out, form, grid, grid->titles, grid->units);
    if (latex) {
        fputs("  \\midrule\n", out);
    } else {
        fputc('|', out);
        for (uint32_t c = 0; c < grid->n_columns; c++) {
            fputs(grid->right[c] ? " ---: |" : " --- |", out);
        }
        fputc('\n', out);
    }
    for (uint32_t r = 0; r < grid->n_rows; r++) {
        put_row(out, form, grid, &grid->cells[r * grid->n_columns], NULL);
    }
    fputs(latex ? "  \\bottomrule\n\\end{tabular}\n" : "", out);
}

char *pst_compare_report_table(const struct pst_compare_result *result, enum pst_compare_form form)
{
    struct pst_arena arena = {0};
    const char *same;
    struct pst_grid grid;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    if (form == PST_COMPARE_LATEX) {
        fputs("% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}\n", out);
    }
    same = pst_compare_same_text(result, &arena);
    if (form == PST_COMPARE_LATEX && same[0] != '\0') {
        fprintf(out, "%% all with %s\n", same);
    }
    pst_grid_of_done(result, true, &grid);
    put_grid(out, form, &grid);
    if (form == PST_COMPARE_MARKDOWN && same[0] != '\0') {
        fputs("\nAll with ", out);
        put_escaped(out, form, same);
        fputs(".\n", out);
    }
    pst_grid_finish(&grid);
    if (result->n_configs > 1 && !pst_compare_seeks_batch(result)) {
        fputc('\n', out);
        pst_grid_of_pivot(result, &grid);
        put_grid(out, form, &grid);
        pst_grid_finish(&grid);
    }
    pst_arena_finish(&arena);
    if (ferror(out) != 0 || fclose(out) != 0) {
        pst_out_of_memory();
    }
    return text;
}
