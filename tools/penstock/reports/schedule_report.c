/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/schedule_report.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "base/util.h"
#include "reports/rows.h"
#include "reports/timeline_text.h"

static const char *time_text(const struct pst_schedule_figures *f, uint64_t ns, char text[32])
{
    char digits[32];

    snprintf(text, 32, "%s",
             pst_number_format(digits, (double)((long double)ns / (long double)f->ns_per_unit)));
    return text;
}

/* Six digits are enough for people where the exact number has more. */
static const char *short_text(double value, char text[32])
{
    pst_number_format(text, value);
    if (strlen(text) > 9) {
        snprintf(text, 32, "%.6g", value);
    }
    return text;
}

static void cost_row(const struct pst_schedule_figures *f, struct pst_table *table,
                     const char *name, uint64_t cost_ns, uint64_t bound_ns)
{
    uint64_t bubble = cost_ns - f->work_ns;
    double unit = f->ns_per_unit;
    char text[32];

    pst_table_cell(table, "%s", name);
    pst_table_cell(table, "%s", short_text((double)cost_ns / unit, text));
    pst_table_cell(table, "%s", short_text((double)bubble / unit, text));
    pst_table_cell(table, "%.2f %%", cost_ns == 0 ? 0 : 100.0 * (double)bubble / (double)cost_ns);
    pst_table_cell(table, "%s", short_text((double)bound_ns / unit, text));
    if (cost_ns == bound_ns) {
        pst_table_cell(table, "none: optimal");
    } else {
        pst_table_cell(table, "%.2f %%",
                       bound_ns == 0 ? 0 : 100.0 * (double)(cost_ns - bound_ns) / (double)bound_ns);
    }
}

static void print_costs(const struct pst_schedule_figures *f, bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table, "|>time|>bubble|>of time|>lower bound|>gap");
    cost_row(f, &table, "makespan", f->makespan_ns, f->lower_bound_ns);
    cost_row(f, &table, "span", f->span_ns, f->span_bound_ns);
    pst_table_end(&table, out, "  ", color);
}

static const char *peak_text(const struct pst_schedule_figures *f, uint64_t bytes, char text[32])
{
    if (bytes == UINT64_MAX) {
        snprintf(text, 32, "-");
    } else if (f->bytes_per_unit > 0) {
        short_text((double)((long double)bytes / (long double)f->bytes_per_unit), text);
    } else {
        pst_format_bytes(text, bytes);
    }
    return text;
}

static void print_stages_of(const struct pst_schedule_figures *f, uint32_t device,
                            struct pst_table *table)
{
    char text[128] = "";

    for (uint32_t s = 0; s < f->stream.in.n_stages && strlen(text) + 16 < sizeof text; s++) {
        if (pst_schedule_stage_at(&f->stream.in, s)->device == device) {
            pst_text_append(text, sizeof text, "%s%u", text[0] != '\0' ? ", " : "", s);
        }
    }
    pst_table_cell(table, "%s%s", text, strlen(text) + 16 < sizeof text ? "" : ", ...");
}

static void print_devices(const struct pst_schedule_figures *f, bool color, FILE *out)
{
    struct pst_table table;
    char text[32];

    pst_table_init(&table, ">device|~stages|>busy|9>of makespan|>peak activation|8>limit");
    for (uint32_t d = 0; d < f->eval.n_devices; d++) {
        pst_table_cell(&table, "%u", d);
        print_stages_of(f, d, &table);
        pst_table_cell(&table, "%s", short_text((double)f->busy_ns[d] / f->ns_per_unit, text));
        pst_table_cell(
            &table, "%.1f %%",
            f->makespan_ns == 0 ? 0 : 100.0 * (double)f->busy_ns[d] / (double)f->makespan_ns);
        pst_table_cell(&table, "%s", peak_text(f, f->eval.peak_bytes[d], text));
        pst_table_cell(&table, "%s", peak_text(f, f->stream.in.activation_bytes[d], text));
    }
    pst_table_end(&table, out, "  ", color);
}

static void print_held(const struct pst_schedule_figures *f, bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table, ">stage|>device|>micro-batch|>in flight|>samples");
    for (uint32_t s = 0; s < f->stream.in.n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(&f->stream.in, s);

        pst_table_cell(&table, "%u", s);
        pst_table_cell(&table, "%u", stage->device);
        pst_table_cell(&table, "%u", stage->microbatch_size);
        pst_table_cell(&table, "%u", f->held[s]);
        pst_table_cell(&table, "%llu", (unsigned long long)f->held[s] * stage->microbatch_size);
    }
    fputc('\n', out);
    pst_table_end(&table, out, "  ", color);
}

static void print_summary(const struct pst_schedule_figures *f, FILE *out)
{
    char text[32], number[32];

    if (f->has_period) {
        fprintf(out, "  steady state: %s per micro-batch",
                short_text(f->steady_period_ns / f->ns_per_unit, number));
        fputs(f->n_transfers > 0 ? ", " : "\n", out);
    } else {
        fputs("  ", out);
    }
    if (f->n_transfers > 0) {
        fprintf(out, "%u transfers between devices\n", f->n_transfers);
    } else if (!f->has_period) {
        fputs("no transfers\n", out);
    }
    if (f->result->answer.claim.size != 0 && f->result->answer.claim.lower_bound_ns > 0) {
        pst_text_printf(out,
                        "  %s proves: no order of this placement and memory takes less than %s\n",
                        f->result->id, time_text(f, f->result->answer.claim.lower_bound_ns, text));
    }
}

void pst_schedule_report_print(const struct pst_schedule_figures *figures,
                               const struct pst_schedule_page *page, FILE *out)
{
    fputs(page->color ? "\033[1m" : "", out);
    pst_text_print_line(out, figures->timeline->title);
    fprintf(out, "%s\n\n", page->color ? "\033[0m" : "");
    print_costs(figures, page->color, out);
    fputc('\n', out);
    print_devices(figures, page->color, out);
    if (page->in_samples) {
        print_held(figures, page->color, out);
    }
    fputc('\n', out);
    print_summary(figures, out);
    fputc('\n', out);
    pst_report_timeline(out, figures->timeline, page->width, page->color, page->utf8);
}

/* --- for tools ---------------------------------------------------------------------------------*/

/* One division, so that what is a whole number of units is printed as one. */
static double units(const struct pst_schedule_figures *f, uint64_t ns)
{
    return (double)((long double)ns / (long double)f->ns_per_unit);
}

static void add_time(struct pst_json *json, const char *key, const struct pst_schedule_figures *f,
                     uint64_t ns)
{
    pst_json_real(json, key, units(f, ns), 6);
}

static void put_time(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    add_time(json, row->key, of->at[0], *(const uint64_t *)pst_row_value(row, of));
}

/* The part of a cost in which the busiest device does not work. */
static void put_bubble(struct pst_json *json, const struct pst_row *row,
                       const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];

    add_time(json, row->key, f, *(const uint64_t *)pst_row_value(row, of) - f->work_ns);
}

static void put_rate(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];
    const uint64_t cost_ns = *(const uint64_t *)pst_row_value(row, of);

    pst_json_real(json, row->key,
                  cost_ns == 0 ? 0 : (double)(cost_ns - f->work_ns) / (double)cost_ns, 6);
}

static void put_period(struct pst_json *json, const struct pst_row *row,
                       const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];

    pst_json_real(json, row->key, f->has_period ? f->steady_period_ns / f->ns_per_unit : NAN, 6);
}

static double memory(const struct pst_schedule_figures *f, uint64_t bytes)
{
    return f->bytes_per_unit > 0 ? (double)((long double)bytes / (long double)f->bytes_per_unit)
                                 : (double)bytes;
}

static void put_peaks(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];

    pst_json_array(json, row->key);
    for (uint32_t d = 0; d < f->eval.n_devices; d++) {
        pst_json_real(json, NULL, memory(f, f->eval.peak_bytes[d]), 6);
    }
    pst_json_end(json, ']');
}

static void put_claim(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];
    const struct pst_claimed *claim = &f->result->answer.claim;

    pst_json_object(json, row->key);
    if (f->result->answer.claim.size != 0) {
        pst_json_string(json, "minimised",
                        claim->minimised == 1   ? "makespan"
                        : claim->minimised == 2 ? "span"
                                                : NULL);
        if (claim->makespan_ns != 0) {
            add_time(json, "makespan", f, claim->makespan_ns);
        }
        if (claim->span_ns != 0) {
            add_time(json, "span", f, claim->span_ns);
        }
        if (claim->lower_bound_ns != 0) {
            add_time(json, "lower_bound", f, claim->lower_bound_ns);
        }
    }
    pst_json_end(json, '}');
}

static void put_busy(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];

    pst_json_array(json, row->key);
    for (uint32_t d = 0; d < f->eval.n_devices; d++) {
        add_time(json, NULL, f, f->busy_ns[d]);
    }
    pst_json_end(json, ']');
}

static void put_placement(struct pst_json *json, const struct pst_row *row,
                          const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];

    pst_json_array(json, row->key);
    for (uint32_t s = 0; s < f->stream.in.n_stages; s++) {
        pst_json_uint(json, NULL, pst_schedule_stage_at(&f->stream.in, s)->device);
    }
    pst_json_end(json, ']');
}

static void put_held_samples(struct pst_json *json, const struct pst_row *row,
                             const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];

    pst_json_array(json, row->key);
    for (uint32_t s = 0; s < f->stream.in.n_stages; s++) {
        pst_json_uint(json, NULL,
                      (uint64_t)f->held[s] *
                          pst_schedule_stage_at(&f->stream.in, s)->microbatch_size);
    }
    pst_json_end(json, ']');
}

/* [device, position in the list of the device] from the first pass to the last. */
static void put_critical(struct pst_json *json, const struct pst_row *row,
                         const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];

    pst_json_array(json, row->key);
    for (uint32_t i = 0; i < f->eval.n_critical; i++) {
        pst_json_uints(json, NULL, f->eval.critical[i], 2);
    }
    pst_json_end(json, ']');
}

static void put_timeline(struct pst_json *json, const struct pst_row *row,
                         const struct pst_row_of *of)
{
    const struct pst_schedule_figures *f = of->at[0];
    const struct pst_timeline *t = f->timeline;

    pst_json_array(json, row->key);
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        pst_json_array(json, NULL);
        for (uint32_t i = 0; i < t->ranks[r].n_spans; i++) {
            const struct pst_span *span = &t->spans[t->ranks[r].first + i];

            if (span->lane != PST_LANE_COMPUTE) {
                continue;
            }
            pst_json_object(json, NULL);
            pst_json_string(json, "op", pst_instr_name(span->op));
            pst_json_uint(json, "stage", span->stage);
            pst_json_uint(json, "microbatch", span->microbatch);
            add_time(json, "start", f, span->start_ns);
            add_time(json, "end", f, span->end_ns);
            if (f->n_steps > 1) {
                pst_json_uint(json, "step", span->step);
            }
            pst_json_end(json, '}');
        }
        pst_json_end(json, ']');
    }
    pst_json_end(json, ']');
}

#define OF(kind, member) PST_ROW_AT(kind, 0, struct pst_schedule_figures, member)
/* In units of the user's costs. */
#define OF_TIME(member, put) OF(NS, member), .type = "number", .json = put
/* The bounds are of one step, or of all batches if they overlap. */
static const struct pst_row bound_rows[] = {
    {"work", "of the span: the work of the busiest device", OF_TIME(bounds.work_ns, put_time)},
    {"fill", "of the makespan: the first micro-batch's way to a device, and all its work",
     OF_TIME(bounds.fill_ns, put_time)},
    {"chain", "of the makespan: one micro-batch there and back",
     OF_TIME(bounds.chain_ns, put_time)},
    {"memory", "of the makespan: no more forwards fit before the first backward",
     OF_TIME(bounds.memory_ns, put_time)},
    {"vshape", "of the makespan: unit costs on a V; 0: does not apply",
     OF_TIME(bounds.vshape_ns, put_time)},
    {"makespan", "the largest", OF_TIME(bounds.makespan_ns, put_time)},
    {"span", "the largest", OF_TIME(bounds.span_ns, put_time)},
    PST_ROWS_END,
};

const struct pst_row pst_schedule_rows[] = {
    {"scheduler", "its id", PST_ROW_AT(NAME, 1, struct pst_schedule_result, id)},
    {"devices", "their number", OF(COUNT, eval.n_devices)},
    {"stages", "their number", OF(COUNT, stream.in.n_stages)},
    {"microbatches", "of a step, on stage 0", OF(COUNT, n_microbatches)},
    {"makespan", NULL, OF_TIME(makespan_ns, put_time)},
    {"span", NULL, OF_TIME(span_ns, put_time)},
    {"bubble_makespan", NULL, OF_TIME(makespan_ns, put_bubble)},
    {"bubble_span", NULL, OF_TIME(span_ns, put_bubble)},
    {"steady_period", "null if the scheduler does not support twice the micro-batches",
     PST_ROW_REAL, .json = put_period},
    {"lower_bound", "of the makespan", OF_TIME(lower_bound_ns, put_time)},
    {"peak_activation", "per device", PST_ROW_REAL, PST_ROW_LIST, .json = put_peaks},
    {"steps", NULL, OF(COUNT, n_steps)},
    {"asynchronous", NULL, PST_ROW_AT(FLAG, 1, struct pst_schedule_result, answer.asynchronous)},
    {"bubble_rate_makespan", "0 to 1", OF_TIME(makespan_ns, put_rate)},
    {"bubble_rate_span", "0 to 1", OF_TIME(span_ns, put_rate)},
    {"work", "of the busiest device", OF_TIME(work_ns, put_time)},
    {"lower_bound_span", "of the span", OF_TIME(span_bound_ns, put_time)},
    {"lower_bounds", "what each argument proves", PST_ROW_OBJECT, .rows = bound_rows},
    {"claimed", "by the scheduler: `minimised`, `makespan`, `span`, `lower_bound`", PST_ROW_OBJECT,
     .json = put_claim},
    {"busy", "work of each device", PST_ROW_REAL, PST_ROW_LIST, .json = put_busy},
    {"placement", "device of each stage", PST_ROW_COUNT, PST_ROW_LIST, .json = put_placement},
    {"transfers", "their number", OF(COUNT, n_transfers)},
    {"in_flight", "most micro-batches held, per stage", PST_ROW_COUNT,
     PST_ROW_EACH(0, struct pst_schedule_figures, held, stream.in.n_stages)},
    {"in_flight_samples", "the same in samples; with a problem", PST_ROW_NUMBER, PST_ROW_LIST,
     .json = put_held_samples, .unless = PST_ROW_IF_ZERO, .unless_base = 2,
     .unless_size = sizeof(bool)},
    {"critical_path", "`[device, position]` of passes, each of which waits for the one before",
     PST_ROW_COUNT, PST_ROW_LIST, .type = "list: integer", .json = put_critical},
    {"timeline",
     "for each device a list with `op` (`F`, `B`, `W`, `BW`), `stage`, `microbatch`, `start`, "
     "`end`, and with several steps `step`",
     PST_ROW_OBJECT, PST_ROW_LIST, .type = "list: object", .json = put_timeline},
    PST_ROWS_END,
};

void pst_schedule_report_json(const struct pst_schedule_figures *f, bool in_samples,
                              struct pst_json *json)
{
    pst_rows_json(json, pst_schedule_rows, PST_ROW_OF(f, f->result, &in_samples));
}
