/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a page. What is sorted by number says so in data-v.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "measure/others.h"
#include "page/page_impl.h"
#include "reports/compare_pivot.h"

#define MOST_COLUMNS 40u

/* Up to this many rows; says how many are left out. */
static uint32_t most_rows(uint32_t n)
{
    return n < PST_PAGE_ROWS ? n : PST_PAGE_ROWS;
}

static void put_left_out(const struct pst_sheet *sheet, uint32_t most, uint32_t n,
                         const char *which)
{
    if (n > most) {
        fprintf(sheet->out,
                "<p class=\"note\">The %s%u of %u; <code>-o FILE.csv</code> writes all.</p>\n",
                which, most, n);
    }
}

static void begin_table(const struct pst_sheet *sheet, const char *caption, bool sorts)
{
    fprintf(sheet->out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n<table%s>\n",
            caption, sorts ? " class=\"sorts\"" : "");
}

static void put_titles(const struct pst_sheet *sheet, const char *const *titles)
{
    fputs("<thead><tr>", sheet->out);
    for (; *titles != NULL; titles++) {
        const char *title = *titles;
        bool number = title[0] == '>' || title[0] == '<';

        fprintf(sheet->out, "<th scope=\"col\"%s%s>", number ? " class=\"n\"" : "",
                title[0] == '<' ? " data-first=\"up\"" : "");
        pst_sheet_text(sheet, title + number);
        fputs("</th>", sheet->out);
    }
    fputs("</tr></thead>\n<tbody>\n", sheet->out);
}

static void end_table(const struct pst_sheet *sheet)
{
    fputs("</tbody>\n</table>\n</div>\n", sheet->out);
}

static void put_time(const struct pst_sheet *sheet, double ns)
{
    char text[32];

    fprintf(sheet->out, "<td class=\"n\" data-v=\"%.0f\">%s</td>", ns,
            pst_format_ns(text, (uint64_t)ns));
}

/* --- columns: those of the report's tables -----------------------------------------------------*/

/* Predictions and intervals have a table of their own. */
static bool is_said_below(const struct pst_compare_column *column)
{
    return strcmp(column->key, "predicted_step_us") == 0 ||
           strcmp(column->key, "prediction_error") == 0 || (column->flags & PST_COLUMN_ROUNDS) != 0;
}

/* A name that is the same for all is said once, below the table. */
static bool has_column(const struct pst_sheet *sheet, const struct pst_compare_column *column)
{
    return pst_compare_has_column(sheet->page->result, column) &&
           !pst_compare_is_same(sheet->page->result, column);
}

/* The first of a number's two orders is the one with the best on top. */
static const char *title_of(struct pst_sheet *sheet, const struct pst_compare_column *column)
{
    const char *sign = column->kind == PST_CELL_TEXT                                     ? ""
                       : column->kind == PST_CELL_RATE || column->kind == PST_CELL_RATIO ? ">"
                                                                                         : "<";

    return pst_arena_printf(&sheet->arena, "%s%s", sign, column->title);
}

static uint32_t add_columns(struct pst_sheet *sheet, uint32_t flags,
                            const struct pst_compare_column **columns)
{
    uint32_t n = 0;

    for (uint32_t c = 0; c < pst_n_compare_columns && n + 1 < MOST_COLUMNS; c++) {
        const struct pst_compare_column *column = &pst_compare_columns[c];

        if ((flags != 0 ? (column->flags & flags) != 0 : !is_said_below(column)) &&
            has_column(sheet, column)) {
            columns[n++] = column;
        }
    }
    return n;
}

static void put_cell(struct pst_sheet *sheet, const struct pst_record *record,
                     const struct pst_compare_column *column)
{
    struct pst_cell cell = pst_compare_cell(sheet->page->result, record, column, &sheet->arena);

    if (column->kind == PST_CELL_TEXT) {
        fputs((column->flags & PST_COLUMN_REMARK) != 0 ? "<td class=\"said\">" : "<td>",
              sheet->out);
    } else {
        fprintf(sheet->out, "<td class=\"n\" data-v=\"%.9g\">",
                cell.there && isfinite(cell.number) ? cell.number : -1);
    }
    pst_sheet_text(sheet, pst_compare_cell_text(column, &cell, &sheet->arena));
    fputs("</td>", sheet->out);
}

static void put_same(struct pst_sheet *sheet)
{
    const char *same = pst_compare_same_text(sheet->page->result, &sheet->arena);

    if (same[0] != '\0') {
        fputs("All with ", sheet->out);
        pst_sheet_text(sheet, same);
        fputs(". ", sheet->out);
    }
}

/* Its number, which leads to its timeline. */
static void put_place(const struct pst_sheet *sheet, uint32_t place, uint32_t record)
{
    const struct pst_exhibit *exhibit = pst_sheet_exhibit(sheet, record);

    fprintf(sheet->out, "<td class=\"n\" data-v=\"%u\">", place + 1);
    if (exhibit != NULL && exhibit->timeline != NULL) {
        fprintf(sheet->out, "<a href=\"#t%u\" title=\"to its timeline\">%u</a></td>", place + 1,
                place + 1);
    } else {
        fprintf(sheet->out, "%u</td>", place + 1);
    }
}

static void put_name(const struct pst_sheet *sheet, uint32_t place, uint32_t record)
{
    put_place(sheet, place, record);
    fputs("<td>", sheet->out);
    pst_sheet_text(sheet, sheet->names[record]);
    fputs("</td>", sheet->out);
}

/* --- results -----------------------------------------------------------------------------------*/

/* There is one of every config and size. */
static void put_baselines(const struct pst_sheet *sheet)
{
    const char *lead = "Speed-up over ";
    uint32_t n = 0;

    for (uint32_t place = 0; place < most_rows(sheet->n); place++) {
        if (sheet->is_baseline[sheet->order[place]]) {
            fprintf(sheet->out, "%s<strong>", lead);
            pst_sheet_text(sheet, sheet->names[sheet->order[place]]);
            fputs("</strong>", sheet->out);
            lead = ", ";
            n++;
        }
    }
    if (n > 0) {
        fputs(n > 1 ? ", each of its own config and size. " : ". ", sheet->out);
    }
}

/* Writes the partitioners' remarks on their answers, if there are any. */
static void put_remarks(struct pst_sheet *sheet)
{
    const struct pst_compare_column **columns;
    const uint32_t n =
        pst_compare_list(sheet->page->result, PST_COLUMN_REMARK, &sheet->arena, &columns);
    const char **titles = pst_arena_array(&sheet->arena, (size_t)n + 3, sizeof *titles);

    if (n == 0) {
        return;
    }
    titles[0] = "<#";
    titles[1] = "plan";
    for (uint32_t c = 0; c < n; c++) {
        titles[c + 2] = title_of(sheet, columns[c]);
    }
    fputs("<details>\n<summary>Remarks of partitioners</summary>\n", sheet->out);
    begin_table(sheet, "Remarks of partitioners", true);
    put_titles(sheet, titles);
    for (uint32_t place = 0; place < most_rows(sheet->n); place++) {
        const uint32_t i = sheet->order[place];

        fputs("<tr>", sheet->out);
        put_name(sheet, place, i);
        for (uint32_t c = 0; c < n; c++) {
            put_cell(sheet, &sheet->page->result->records[i], columns[c]);
        }
        fputs("</tr>\n", sheet->out);
    }
    end_table(sheet);
    fputs("</details>\n", sheet->out);
}

void pst_sheet_results(struct pst_sheet *sheet)
{
    const struct pst_compare_column *columns[MOST_COLUMNS];
    const char *titles[MOST_COLUMNS + 2] = {"<#"};
    uint32_t n = add_columns(sheet, 0, columns);

    for (uint32_t c = 0; c < n; c++) {
        titles[c + 1] = title_of(sheet, columns[c]);
    }
    fputs("<section id=\"results\">\n<h2>Results</h2>\n", sheet->out);
    put_left_out(sheet, PST_PAGE_ROWS, sheet->n, "fastest ");
    begin_table(sheet, "Results", true);
    put_titles(sheet, titles);
    for (uint32_t place = 0; place < most_rows(sheet->n); place++) {
        const uint32_t i = sheet->order[place];

        fprintf(sheet->out, "<tr id=\"r%u\"%s>", place + 1, place == 0 ? " class=\"best\"" : "");
        put_place(sheet, place, i);
        for (uint32_t c = 0; c < n; c++) {
            put_cell(sheet, &sheet->page->result->records[i], columns[c]);
        }
        fputs("</tr>\n", sheet->out);
    }
    end_table(sheet);
    fputs("<p class=\"note\">", sheet->out);
    put_same(sheet);
    put_baselines(sheet);
    if (sheet->page->result->run) {
        fputs("= after a number: no significant difference at 95&#8239;%. ", sheet->out);
    }
    pst_sheet_text(sheet, pst_compare_sharing(sheet->page->result, &sheet->arena));
    fputc(' ', sheet->out);
    pst_sheet_text(sheet, pst_compare_undivided(sheet->page->result));
    fputs("</p>\n", sheet->out);
    put_remarks(sheet);
    fputs("</section>\n", sheet->out);
}

/* The fastest of every method with every config, where there are several. */
void pst_sheet_pivot(struct pst_sheet *sheet)
{
    const char *titles[MOST_COLUMNS + 1] = {NULL};
    struct pst_grid grid;

    if (sheet->page->result->n_configs < 2) {
        return;
    }
    pst_grid_of_pivot(sheet->page->result, &grid);
    for (uint32_t c = 0; c < grid.n_columns && c < MOST_COLUMNS; c++) {
        titles[c] =
            pst_arena_printf(&sheet->arena, "%s%s", grid.right[c] ? ">" : "", grid.titles[c]);
    }
    fputs("<section id=\"pivot\">\n<h2>Methods and configs</h2>\n<p class=\"note\">Samples per "
          "second of the fastest of each.</p>\n",
          sheet->out);
    begin_table(sheet, "Methods and configs", true);
    put_titles(sheet, titles);
    for (uint32_t r = 0; r < grid.n_rows; r++) {
        fputs("<tr>", sheet->out);
        for (uint32_t c = 0; c < grid.n_columns && c < MOST_COLUMNS; c++) {
            const char *text = grid.cells[r * grid.n_columns + c];

            if (grid.right[c]) {
                fprintf(sheet->out, "<td class=\"n\" data-v=\"%.9g\">", atof(text));
            } else {
                fputs("<td>", sheet->out);
            }
            pst_sheet_text(sheet, text);
            fputs("</td>", sheet->out);
        }
        fputs("</tr>\n", sheet->out);
    }
    end_table(sheet);
    fputs("</section>\n", sheet->out);
    pst_grid_finish(&grid);
}

/* --- where the time goes -----------------------------------------------------------------------*/

static const struct {
    const char *name, *title;
} shares[PST_SHARES] = {
    [PST_SHARE_COMPUTE] = {"compute", "compute"},
    [PST_SHARE_RECOMPUTE] = {"recompute", "recompute"},
    [PST_SHARE_UPDATE] = {"update", "optimizer"},
    [PST_SHARE_EXPOSED] = {"exposed", "exposed transfer"},
    [PST_SHARE_IDLE] = {"idle", "otherwise idle"},
};

static void put_share(const struct pst_sheet *sheet, uint32_t place)
{
    uint32_t i = sheet->order[place];
    const struct pst_exhibit *exhibit = pst_sheet_exhibit(sheet, i);

    if (exhibit == NULL) {
        return;
    }
    fputs("<tr>", sheet->out);
    put_name(sheet, place, i);
    fputs("<td><div class=\"bar\" aria-hidden=\"true\">", sheet->out);
    for (uint32_t k = 0; k < PST_SHARES; k++) {
        if (exhibit->share[k] >= 0.0005) {
            fprintf(sheet->out, "<i class=\"%s\" style=\"width:%.2f%%\"></i>", shares[k].name,
                    100 * exhibit->share[k]);
        }
    }
    fputs("</div></td>", sheet->out);
    for (uint32_t k = 0; k < PST_SHARES; k++) {
        fprintf(sheet->out, "<td class=\"n\" data-v=\"%.6f\">%.1f&#8239;%%</td>", exhibit->share[k],
                100 * exhibit->share[k]);
    }
    fputs("</tr>\n", sheet->out);
}

void pst_sheet_shares(const struct pst_sheet *sheet)
{
    static const char *const titles[] = {"<#",         "plan",       "",         ">compute",
                                         "<recompute", "<optimizer", "<exposed", "<otherwise idle",
                                         NULL};

    fputs("<section id=\"time\">\n<h2>Where the time goes</h2>\n<p class=\"note\">Shares of the "
          "time of all devices, in one simulated step of the steady state. Compute: forward and "
          "backward passes. A transfer is exposed while its device does nothing else; exposed "
          "transfer and otherwise idle together are the idle time of the other tables.</p>\n<p "
          "class=\"key\" aria-hidden=\"true\">",
          sheet->out);
    for (uint32_t k = 0; k < PST_SHARES; k++) {
        fprintf(sheet->out, "<span><i class=\"%s\"></i>%s</span>", shares[k].name, shares[k].title);
    }
    fputs("</p>\n", sheet->out);
    if (sheet->n > PST_PAGE_LOOKS) {
        fprintf(sheet->out, "<p class=\"note\">The table has the %u fastest plans.</p>\n",
                PST_PAGE_LOOKS);
    }
    begin_table(sheet, "Where the time goes", true);
    put_titles(sheet, titles);
    for (uint32_t place = 0; place < most_rows(sheet->n); place++) {
        put_share(sheet, place);
    }
    end_table(sheet);
    fputs("</section>\n", sheet->out);
}

/* --- predicted and measured --------------------------------------------------------------------*/

static double latest_ns(const struct pst_sheet *sheet)
{
    double latest = 1;

    for (uint32_t place = 0; place < sheet->n; place++) {
        const struct pst_trial *trial = &sheet->page->result->records[sheet->order[place]].trial;

        latest = fmax(latest, (double)trial->predicted_ns);
        latest = fmax(latest, (double)trial->measured_ns);
        latest = fmax(latest, (double)trial->high_ns);
    }
    return 1.03 * latest;
}

static void put_measured(const struct pst_sheet *sheet, uint32_t place, double latest)
{
    uint32_t i = sheet->order[place];
    const struct pst_trial *trial = &sheet->page->result->records[i].trial;
    double measured = (double)trial->measured_ns, predicted = (double)trial->predicted_ns;
    char low[32], high[32];

    if (!trial->ran || !(measured > 0)) {
        return;
    }
    fputs("<tr>", sheet->out);
    put_name(sheet, place, i);
    fputs("<td class=\"expect\"><div class=\"span\" aria-hidden=\"true\">", sheet->out);
    if (trial->high_ns > 0) {
        fprintf(sheet->out, "<i class=\"interval\" style=\"left:%.2f%%;width:%.2f%%\"></i>",
                100 * (double)trial->low_ns / latest,
                100 * (double)(trial->high_ns - trial->low_ns) / latest);
    }
    fprintf(sheet->out,
            "<b class=\"measured\" style=\"left:%.2f%%\"></b>"
            "<i class=\"predicted\" style=\"left:%.2f%%\"></i></div></td>",
            100 * measured / latest, 100 * predicted / latest);
    put_time(sheet, predicted);
    put_time(sheet, measured);
    if (trial->high_ns > 0) {
        fprintf(sheet->out, "<td class=\"n\">%s to %s</td>", pst_format_ns(low, trial->low_ns),
                pst_format_ns(high, trial->high_ns));
    } else {
        fputs("<td class=\"n\">\xE2\x80\x93</td>", sheet->out);
    }
    fprintf(sheet->out,
            "<td class=\"n\" data-v=\"%.6f\">%+.1f&#8239;%%</td><td class=\"n\">%u</td></tr>\n",
            fabs(predicted / measured - 1), 100 * (predicted / measured - 1), trial->n_rounds);
}

void pst_sheet_measured(const struct pst_sheet *sheet)
{
    static const char *const titles[] = {"<#",          "plan",      "",
                                         "<predicted",  "<measured", ">95 % interval",
                                         "<difference", ">runs",     NULL};
    double latest = latest_ns(sheet), others = sheet->page->result->provenance.others;

    if (!sheet->page->result->run) {
        return;
    }
    fputs("<section id=\"measured\">\n<h2>Predicted and measured</h2>\n<p class=\"note\">A step on "
          "this machine: the dot is the measured median, the line its interval, the red mark the "
          "prediction.",
          sheet->out);
    if (others > PST_OTHERS_MANY) {
        fprintf(sheet->out,
                " Other processes used %.0f&#8239;%% of the processors meanwhile: steps are longer "
                "than alone.",
                100 * others);
    }
    fputs("</p>\n", sheet->out);
    begin_table(sheet, "Predicted and measured", true);
    put_titles(sheet, titles);
    for (uint32_t place = 0; place < most_rows(sheet->n); place++) {
        put_measured(sheet, place, latest);
    }
    end_table(sheet);
    fputs("</section>\n", sheet->out);
}

/* --- what could not be compared ----------------------------------------------------------------*/

void pst_sheet_refused(struct pst_sheet *sheet)
{
    static const char *const words[] = {"not tried", "done", "is incompatible", "does not fit",
                                        "failed"};
    const struct pst_compare_result *result = sheet->page->result;
    const struct pst_compare_column *columns[MOST_COLUMNS];
    const char *titles[MOST_COLUMNS + 3] = {"outcome"};
    uint32_t n = add_columns(sheet, PST_COLUMN_NAME, columns), n_rows = 0;

    if (sheet->n == result->n) {
        return;
    }
    for (uint32_t c = 0; c < n; c++) {
        titles[c + 1] = title_of(sheet, columns[c]);
    }
    titles[n + 1] = "why";
    fputs("<section id=\"refused\">\n<h2>Not compared</h2>\n", sheet->out);
    put_left_out(sheet, PST_PAGE_ROWS, result->n - sheet->n, "first ");
    begin_table(sheet, "Not compared", true);
    put_titles(sheet, titles);
    for (uint32_t i = 0; i < result->n && n_rows < PST_PAGE_ROWS; i++) {
        const struct pst_record *record = &result->records[i];

        if (record->trial.state == PST_TRIAL_DONE) {
            continue;
        }
        n_rows++;
        fprintf(sheet->out, "<tr><td>%s</td>", words[record->trial.state]);
        for (uint32_t c = 0; c < n; c++) {
            put_cell(sheet, record, columns[c]);
        }
        fputs("<td class=\"why\">", sheet->out);
        if (record->trial.state != PST_TRIAL_OPEN) {
            pst_sheet_text(sheet, pst_compare_why(&sheet->arena, &record->trial.why));
        }
        fputs("</td></tr>\n", sheet->out);
    }
    end_table(sheet);
    fputs("</section>\n", sheet->out);
}
