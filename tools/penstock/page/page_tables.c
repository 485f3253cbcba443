/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a page. What is sorted by number says so in data-v.
 */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "page/page_impl.h"
#include "reports/sim_report.h"

/* Up to this many rows; says how many are left out. */
static uint32_t most_rows(uint32_t n)
{
    return n < PST_PAGE_ROWS ? n : PST_PAGE_ROWS;
}

static void put_left_out(const struct pst_sheet *sheet, uint32_t n, const char *which)
{
    if (n > PST_PAGE_ROWS) {
        fprintf(sheet->out,
                "<p class=\"note\">The %s%u of %u; <code>-o FILE.csv</code> writes all.</p>\n",
                which, PST_PAGE_ROWS, n);
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

        fprintf(sheet->out, "<th scope=\"col\"%s%s>%s</th>", number ? " class=\"n\"" : "",
                title[0] == '<' ? " data-first=\"up\"" : "", title + number);
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

/* What is the same for all is said once, below the table. */
static bool has_column(const struct pst_sheet *sheet, uint32_t axis)
{
    return sheet->vary[axis] || axis == PST_AXIS_SCHEDULER;
}

static const char *const axis_titles[PST_AXES] = {"partitioner", "scheduler", "memory", "<devices",
                                                  "<micro-batch"};

static uint32_t add_label_titles(const struct pst_sheet *sheet, const char **titles, uint32_t n)
{
    if (sheet->page->result->n_configs > 1) {
        titles[n++] = "config";
    }
    if (sheet->methods) {
        titles[n++] = "method";
    }
    for (uint32_t a = 0; a < PST_AXES; a++) {
        if (has_column(sheet, a)) {
            titles[n++] = axis_titles[a];
        }
    }
    return n;
}

static void put_same(const struct pst_sheet *sheet)
{
    const struct pst_record *record = &sheet->page->result->records[0];
    const char *lead = "All with ";

    for (uint32_t a = 0; a < PST_AXES; a++) {
        const char *title = axis_titles[a] + (axis_titles[a][0] == '<');

        if (!has_column(sheet, a)) {
            fprintf(sheet->out, "%s%s ", lead, title);
            pst_sheet_text(sheet, record->labels[a]);
            lead = ", ";
        }
    }
    fputs(lead[0] == ',' ? ". " : "", sheet->out);
}

static void put_labels(const struct pst_sheet *sheet, const struct pst_record *record)
{
    const struct pst_compare_result *result = sheet->page->result;

    if (result->n_configs > 1) {
        fputs("<td>", sheet->out);
        pst_sheet_text(sheet, record->config);
        fputs("</td>", sheet->out);
    }
    if (sheet->methods) {
        fputs("<td>", sheet->out);
        pst_sheet_text(sheet, record->method == NULL ? "\xE2\x80\x93" : record->method);
        fputs("</td>", sheet->out);
    }
    for (uint32_t a = 0; a < PST_AXES; a++) {
        if (!has_column(sheet, a)) {
            continue;
        }
        fputs(a < PST_AXIS_DEVICES ? "<td>" : "<td class=\"n\">", sheet->out);
        pst_sheet_text(sheet, record->labels[a]);
        fputs("</td>", sheet->out);
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

static void put_versus(const struct pst_sheet *sheet, const struct pst_versus *versus)
{
    if (!versus->known) {
        fputs("<td class=\"n\" data-v=\"0\">\xE2\x80\x93</td>", sheet->out);
    } else if (versus->tested) {
        fprintf(
            sheet->out,
            "<td class=\"n\" data-v=\"%.6f\">%.3f <span class=\"same\">[%.3f, %.3f]%s</span></td>",
            versus->speedup, versus->speedup, versus->low, versus->high,
            pst_versus_is_same(versus) ? " no significant difference" : "");
    } else {
        fprintf(sheet->out, "<td class=\"n\" data-v=\"%.6f\">%.3f</td>", versus->speedup,
                versus->speedup);
    }
}

static void put_result(const struct pst_sheet *sheet, uint32_t place, double best)
{
    uint32_t i = sheet->order[place];
    const struct pst_record *record = &sheet->page->result->records[i];
    const struct pst_trial *trial = &record->trial;
    const struct pst_exhibit *exhibit = pst_sheet_exhibit(sheet, i);
    double rate = pst_trial_samples_per_second(trial);
    char text[32];

    fprintf(sheet->out, "<tr id=\"r%u\"%s>", place + 1, place == 0 ? " class=\"best\"" : "");
    put_place(sheet, place, i);
    put_labels(sheet, record);
    fprintf(sheet->out, "<td class=\"n\" data-v=\"%.9g\">%s</td>", rate,
            pst_sheet_rate(trial, text));
    fprintf(sheet->out, "<td class=\"n\" data-v=\"%.6f\">%.3f</td>", best > 0 ? rate / best : 0,
            best > 0 ? rate / best : 0);
    if (sheet->baseline != PST_NONE) {
        put_versus(sheet, &record->baseline);
    }
    put_time(sheet, (double)(trial->ran ? trial->measured_ns : trial->sim.period_ns));
    fprintf(sheet->out, "<td class=\"n\" data-v=\"%.6f\">%.1f&#8239;%%</td>",
            exhibit == NULL ? 0
                            : exhibit->share[PST_SHARE_IDLE] + exhibit->share[PST_SHARE_EXPOSED],
            exhibit == NULL
                ? 0
                : 100 * (exhibit->share[PST_SHARE_IDLE] + exhibit->share[PST_SHARE_EXPOSED]));
    fprintf(sheet->out, "<td class=\"n\" data-v=\"%.0f\">%s</td>",
            (double)pst_trial_most_bytes(trial),
            pst_format_bytes(text, pst_trial_most_bytes(trial)));
    fprintf(sheet->out, "<td class=\"n\">%u</td>", trial->n_stages);
    put_time(sheet, 1e9 * trial->search_seconds);
    fputs("</tr>\n", sheet->out);
}

void pst_sheet_results(const struct pst_sheet *sheet)
{
    const struct pst_compare_result *result = sheet->page->result;
    const char *titles[20] = {"<#"};
    double best = pst_trial_samples_per_second(&result->records[sheet->order[0]].trial);
    uint32_t n = 1;

    n = add_label_titles(sheet, titles, n);
    titles[n++] = ">samples/s";
    titles[n++] = ">of best";
    if (sheet->baseline != PST_NONE) {
        titles[n++] = ">speed-up";
    }
    titles[n++] = result->run ? "<step, measured" : "<step";
    titles[n++] = "<idle";
    titles[n++] = "<memory of a device";
    titles[n++] = "<stages";
    titles[n++] = "<search";
    fputs("<section id=\"results\">\n<h2>Results</h2>\n", sheet->out);
    put_left_out(sheet, sheet->n, "fastest ");
    begin_table(sheet, "Results", true);
    put_titles(sheet, titles);
    for (uint32_t place = 0; place < most_rows(sheet->n); place++) {
        put_result(sheet, place, best);
    }
    end_table(sheet);
    fputs(
        "<p class=\"note\">Idle: mean over all devices of the time without a pass or update, in a "
        "simulated step. Memory: what the fullest device holds.",
        sheet->out);
    if (sheet->baseline != PST_NONE) {
        fputs(" Speed-up over <strong>", sheet->out);
        pst_sheet_text(sheet, sheet->names[sheet->baseline]);
        fputs("</strong>, with its 95&#8239;% interval where both ran several times.", sheet->out);
    }
    fputs("</p>\n</section>\n", sheet->out);
}

/* --- where the time goes -----------------------------------------------------------------------*/

static const struct {
    const char *name, *title;
} shares[PST_SHARES] = {
    [PST_SHARE_COMPUTE] = {"compute", "compute"},
    [PST_SHARE_RECOMPUTE] = {"recompute", "recompute"},
    [PST_SHARE_UPDATE] = {"update", "optimizer"},
    [PST_SHARE_EXPOSED] = {"exposed", "exposed transfers"},
    [PST_SHARE_IDLE] = {"idle", "idle"},
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
    static const char *const titles[] = {"<#",
                                         "plan",
                                         "",
                                         ">forward and backward",
                                         "<recompute",
                                         "<optimizer",
                                         "<exposed transfers",
                                         "<idle",
                                         NULL};

    fputs(
        "<section id=\"time\">\n<h2>Where the time goes</h2>\n"
        "<p class=\"note\">Of all devices, in one simulated step. A transfer is exposed while its "
        "device does nothing else.</p>\n<p class=\"key\" aria-hidden=\"true\">",
        sheet->out);
    for (uint32_t k = 0; k < PST_SHARES; k++) {
        fprintf(sheet->out, "<span><i class=\"%s\"></i>%s</span>", shares[k].name, shares[k].title);
    }
    fputs("</p>\n", sheet->out);
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
                                         "<predicted",  "<measured", ">95&#8239;% interval",
                                         "<difference", ">runs",     NULL};
    double latest = latest_ns(sheet);

    if (!sheet->page->result->run) {
        return;
    }
    fputs("<section id=\"measured\">\n<h2>Predicted and measured</h2>\n"
          "<p class=\"note\">A step on this machine: the dot is the median that was measured, the "
          "line its interval, the red mark what was predicted.</p>\n",
          sheet->out);
    begin_table(sheet, "Predicted and measured", true);
    put_titles(sheet, titles);
    for (uint32_t place = 0; place < most_rows(sheet->n); place++) {
        put_measured(sheet, place, latest);
    }
    end_table(sheet);
    fputs("</section>\n", sheet->out);
}

/* --- what could not be compared ----------------------------------------------------------------*/

void pst_sheet_refused(const struct pst_sheet *sheet)
{
    static const char *const words[] = {"not tried", "done", "does not go together", "does not fit",
                                        "failed"};
    const struct pst_compare_result *result = sheet->page->result;
    const char *titles[16] = {"outcome"};
    uint32_t n = 1, n_rows = 0;

    if (sheet->n == result->n) {
        return;
    }
    n = add_label_titles(sheet, titles, n);
    titles[n++] = "why";
    fputs("<section id=\"refused\">\n<h2>Not compared</h2>\n", sheet->out);
    put_left_out(sheet, result->n - sheet->n, "first ");
    begin_table(sheet, "Not compared", true);
    put_titles(sheet, titles);
    for (uint32_t i = 0; i < result->n && n_rows < PST_PAGE_ROWS; i++) {
        const struct pst_record *record = &result->records[i];

        if (record->trial.state == PST_TRIAL_DONE) {
            continue;
        }
        n_rows++;
        fprintf(sheet->out, "<tr><td>%s</td>", words[record->trial.state]);
        put_labels(sheet, record);
        fputs("<td class=\"why\">", sheet->out);
        if (record->trial.state != PST_TRIAL_OPEN) {
            pst_sheet_text(sheet, record->trial.why.message);
            if (record->trial.why.hint[0] != '\0') {
                fputs("; ", sheet->out);
                pst_sheet_text(sheet, record->trial.why.hint);
            }
        }
        fputs("</td></tr>\n", sheet->out);
    }
    end_table(sheet);
    fputs("</section>\n", sheet->out);
}
