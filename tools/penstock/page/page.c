/* SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "figures/figure_impl.h"
#include "figures/font.h"
#include "page/page_impl.h"
#include "reports/compare_columns.h"

extern const char pst_page_css[], pst_page_js[];

/* --- names: what tells the records apart -------------------------------------------------------*/

static bool varies(const struct pst_compare_result *result, uint32_t axis)
{
    for (uint32_t i = 1; i < result->n; i++) {
        if (strcmp(result->records[i].labels[axis], result->records[0].labels[axis]) != 0) {
            return true;
        }
    }
    return false;
}

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static const char *plain(struct pst_sheet *sheet, const char *text)
{
    char *copy = pst_arena_printf(&sheet->arena, "%s", text);

    pst_text_make_plain(copy);
    return copy;
}

/* Method, or scheduler, partitioner, memory; devices and micro-batch with their units. */
static const char *name_of(struct pst_sheet *sheet, const struct pst_record *record)
{
    static const enum pst_axis_kind axes[] = {
        PST_AXIS_SCHEDULER,  PST_AXIS_PARTITIONER, PST_AXIS_MEMOPT, PST_AXIS_DEVICES,
        PST_AXIS_MICROBATCH, PST_AXIS_ZERO,        PST_AXIS_TENSOR, PST_AXIS_SEQUENCE};
    static const char *const forms[] = {"%s",   "%s",      "%s",        "%s devices",
                                        "b %s", "zero %s", "tensor %s", "sequence %s"};
    char name[256] = "", part[96];
    size_t length = 0;

    if (sheet->page->result->n_configs > 1) {
        length += (size_t)snprintf(name, 96, "%.90s", file_of(record->config));
    }
    if (record->method != NULL) {
        length +=
            (size_t)snprintf(name + length, 64, "%s%.60s", length > 0 ? ", " : "", record->method);
    }
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        bool strategy = axes[i] < PST_AXIS_DEVICES;

        if (!sheet->vary[axes[i]] && !(i == 0 && length == 0)) {
            continue;
        }
        if (strategy && record->method != NULL) {
            continue;
        }
        snprintf(part, sizeof part, forms[i], record->labels[axes[i]]);
        length += (size_t)snprintf(name + length, sizeof name - length, "%s%s",
                                   length > 0 ? ", " : "", part);
        length = length < sizeof name ? length : sizeof name - 1;
    }
    return plain(sheet, name);
}

/* Returns the series of a record in the scatter: its method, or the first of these that varies. */
static const char *series_of(const struct pst_record *record, const bool vary[PST_AXES])
{
    static const enum pst_axis_kind axes[] = {PST_AXIS_SCHEDULER, PST_AXIS_PARTITIONER,
                                              PST_AXIS_MEMOPT, PST_AXIS_DEVICES,
                                              PST_AXIS_MICROBATCH};

    if (record->method != NULL) {
        return record->method;
    }
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        if (vary[axes[i]]) {
            return record->labels[axes[i]];
        }
    }
    return record->labels[PST_AXIS_SCHEDULER];
}

void pst_sheet_open(const struct pst_page *page, FILE *out, struct pst_sheet *ret_sheet)
{
    const struct pst_compare_result *result = page->result;
    struct pst_sheet *sheet = ret_sheet;

    *sheet = (struct pst_sheet){.page = page, .out = out};
    sheet->order = pst_arena_array(&sheet->arena, (size_t)result->n + 1, sizeof *sheet->order);
    sheet->names = pst_arena_array(&sheet->arena, (size_t)result->n + 1, sizeof *sheet->names);
    sheet->series = pst_arena_array(&sheet->arena, (size_t)result->n + 1, sizeof *sheet->series);
    sheet->is_baseline =
        pst_arena_array(&sheet->arena, (size_t)result->n + 1, sizeof *sheet->is_baseline);
    sheet->n = pst_compare_order(result, sheet->order);
    for (uint32_t a = 0; a < PST_AXES; a++) {
        sheet->vary[a] = varies(result, a);
    }
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_record *record = &result->records[i];

        sheet->names[i] = name_of(sheet, record);
        sheet->series[i] = plain(sheet, series_of(record, sheet->vary));
        if (record->baseline.known) {
            sheet->is_baseline[record->baseline.record] = true;
        }
    }
}

void pst_sheet_close(struct pst_sheet *sheet)
{
    pst_arena_finish(&sheet->arena);
}

void pst_sheet_text(const struct pst_sheet *sheet, const char *text)
{
    char plain[2048];

    snprintf(plain, sizeof plain, "%s", text);
    pst_text_make_plain(plain);
    pst_put_escaped(sheet->out, plain);
}

const char *pst_sheet_rate(const struct pst_trial *trial, char text[32])
{
    double rate = pst_trial_samples_per_second(trial);
    char digits[32];
    size_t n, whole, to = 0;

    n = (size_t)snprintf(digits, sizeof digits, "%.*f",
                         rate >= 1000  ? 0
                         : rate >= 100 ? 1
                         : rate >= 10  ? 2
                                       : 3,
                         rate);
    whole = strcspn(digits, ".");
    for (size_t i = 0; i < n && to + 2 < 32; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0) {
            text[to++] = ',';
        }
        text[to++] = digits[i];
    }
    text[to] = '\0';
    return text;
}

const struct pst_exhibit *pst_sheet_exhibit(const struct pst_sheet *sheet, uint32_t record)
{
    const struct pst_gallery *gallery = sheet->page->gallery;

    return record < gallery->n && gallery->exhibits[record].known ? &gallery->exhibits[record]
                                                                  : NULL;
}

/* --- the page ----------------------------------------------------------------------------------*/

static void put_head(const struct pst_sheet *sheet)
{
    FILE *out = sheet->out;

    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"generator\" content=\"penstock " PENSTOCK_VERSION "\">\n<title>",
          out);
    pst_sheet_text(sheet, sheet->page->title);
    fprintf(out, " \xE2\x80\x93 penstock %s</title>\n<style>\n%s</style>\n</head>\n<body>\n",
            sheet->page->command, pst_page_css);
}

/* Who is first, and by how much before the last. */
static void put_lead(const struct pst_sheet *sheet)
{
    const struct pst_compare_result *result = sheet->page->result;
    const struct pst_record *records = result->records;
    FILE *out = sheet->out;
    uint32_t n_same = 0;
    char rate[32];

    fputs("<p class=\"lead\">", out);
    if (result->n > 1) {
        fprintf(out, "%u of %u combinations %s. ", sheet->n, result->n,
                result->run ? "ran" : "simulated");
    }
    if (sheet->n > 0) {
        const struct pst_trial *best = &records[sheet->order[0]].trial;
        double least = pst_trial_samples_per_second(&records[sheet->order[sheet->n - 1]].trial);

        fputs(result->n > 1 ? "Fastest: <strong>" : "<strong>", out);
        pst_sheet_text(sheet, sheet->names[sheet->order[0]]);
        fprintf(out, "</strong>, %s samples/s", pst_sheet_rate(best, rate));
        if (sheet->n > 1 && least > 0) {
            fprintf(out, ", %.2f \xC3\x97 the slowest", pst_trial_samples_per_second(best) / least);
        }
        fputs(".", out);
    }
    for (uint32_t i = 0; i < result->n; i++) {
        n_same += pst_versus_is_same(&records[i].best);
    }
    if (n_same > 0) {
        fprintf(out, " Between it and %u other%s no significant difference was found.", n_same,
                n_same == 1 ? "" : "s");
    }
    fputs("</p>\n", out);
}

static void put_header(const struct pst_sheet *sheet)
{
    static const char *const links[][2] = {
        {"results", "Results"},          {"memory", "Throughput and memory"},
        {"time", "Where the time goes"}, {"measured", "Predicted and measured"},
        {"timelines", "Timelines"},      {"refused", "Not compared"},
        {"origin", "Environment"}};
    const struct pst_compare_result *result = sheet->page->result;

    fprintf(sheet->out, "<header>\n<p class=\"kicker\">penstock %s</p>\n<h1>",
            sheet->page->command);
    pst_sheet_text(sheet, sheet->page->title);
    fputs("</h1>\n", sheet->out);
    put_lead(sheet);
    fputs("<nav aria-label=\"Sections\">", sheet->out);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        bool there = strcmp(links[i][0], "measured") == 0  ? result->run && sheet->n > 0
                     : strcmp(links[i][0], "memory") == 0  ? sheet->n > 1
                     : strcmp(links[i][0], "refused") == 0 ? sheet->n < result->n
                     : strcmp(links[i][0], "origin") == 0  ? true
                                                           : sheet->n > 0;

        if (there) {
            fprintf(sheet->out, "<a href=\"#%s\">%s</a> ", links[i][0], links[i][1]);
        }
    }
    fputs("</nav>\n</header>\n<main>\n", sheet->out);
}

static pst_status put_figures(void *context, struct pst_pen *pen, struct pst_error *err)
{
    struct pst_sheet *sheet = context;

    (void)err;
    if (sheet->n > 1) {
        pst_sheet_scatter(sheet, pen);
    }
    pst_sheet_shares(sheet);
    pst_sheet_measured(sheet);
    pst_sheet_timelines(sheet, pen);
    return PST_OK;
}

char *pst_page_text(const struct pst_page *page, size_t *ret_length)
{
    struct pst_sheet sheet;
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    pst_sheet_open(page, out, &sheet);
    put_head(&sheet);
    put_header(&sheet);
    if (sheet.n > 0) {
        pst_sheet_results(&sheet);
        pst_sheet_pivot(&sheet);
        (void)pst_canvas_measure(put_figures, &sheet, NULL); /* fails only without a font */
    }
    pst_sheet_refused(&sheet);
    pst_sheet_origin(&sheet);
    fprintf(out, "</main>\n<script>\n%s</script>\n</body>\n</html>\n", pst_page_js);
    pst_sheet_close(&sheet);
    if (ferror(out) != 0 || fclose(out) != 0) {
        pst_out_of_memory();
    }
    return text;
}

pst_status pst_page_write(const struct pst_page *page, const char *path, struct pst_error *err)
{
    size_t length = 0;
    char *text;
    pst_status status = pst_font_load(err);

    if (status != PST_OK) {
        return status;
    }
    text = pst_page_text(page, &length);
    status = pst_file_write(path, text, length, err);
    free(text);
    return status;
}
