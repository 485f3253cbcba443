/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/compare_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "reports/sim_report.h"
#include "reports/table.h"

static const char *const axis_keys[PST_AXES] = {
    [PST_AXIS_PARTITIONER] = "partitioner", [PST_AXIS_SCHEDULER] = "scheduler",
    [PST_AXIS_MEMOPT] = "memopt",           [PST_AXIS_DEVICES] = "devices",
    [PST_AXIS_MICROBATCH] = "microbatch",
};

static const char *state_word(enum pst_trial_state state)
{
    static const char *const words[] = {"open", "done", "incompatible", "does-not-fit", "failed"};

    return words[state];
}

const char *pst_compare_why(char *text, size_t size, const struct pst_error *why)
{
    snprintf(text, size, "%s%s%s", why->message, why->hint[0] == '\0' ? "" : "; ", why->hint);
    pst_text_make_plain(text);
    return text;
}

char *pst_compare_rate(char text[32], double samples_per_second)
{
    int decimals = samples_per_second >= 1000  ? 0
                   : samples_per_second >= 100 ? 1
                   : samples_per_second >= 10  ? 2
                                               : 3;

    snprintf(text, 32, "%.*f", decimals, samples_per_second);
    return text;
}

/* --- order -------------------------------------------------------------------------------------*/

static int by_rank(const void *a, const void *b)
{
    const struct pst_compare_rank *x = a, *y = b;

    if (x->size != y->size) {
        return x->size > y->size ? -1 : 1;
    }
    if (x->speed != y->speed) {
        return x->speed > y->speed ? -1 : 1;
    }
    return x->record < y->record ? -1 : x->record > y->record;
}

void pst_compare_sort(struct pst_compare_rank *ranks, uint32_t n, uint32_t *ret_order)
{
    qsort(ranks, n, sizeof *ranks, by_rank);
    for (uint32_t i = 0; i < n; i++) {
        ret_order[i] = ranks[i].record;
    }
    free(ranks);
}

/* Those that are done, the fastest first; equal ones in the order asked for. ret_order: n. Returns
   how many. */
static uint32_t order_results(const struct pst_compare_result *result, uint32_t *ret_order)
{
    struct pst_compare_rank *ranks = pst_alloc((size_t)result->n + 1, sizeof *ranks);
    uint32_t n = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        if (result->records[i].trial.state == PST_TRIAL_DONE) {
            ranks[n++] = (struct pst_compare_rank){
                0, pst_trial_samples_per_second(&result->records[i].trial), i};
        }
    }
    pst_compare_sort(ranks, n, ret_order);
    return n;
}

/* --- for people --------------------------------------------------------------------------------*/

void pst_compare_names(struct pst_table *table, const struct pst_compare_columns *columns,
                       const struct pst_compare_record *record)
{
    if (columns->config) {
        pst_table_cell(table, "%s", record->config);
    }
    if (columns->method) {
        pst_table_cell(table, "%s", record->method == NULL ? "-" : record->method);
    }
    for (uint32_t a = 0; a < columns->n_axes; a++) {
        pst_table_cell(table, "%s", record->labels[a]);
    }
}

void pst_compare_name_columns(struct pst_table *table, const struct pst_compare_columns *columns)
{
    static const char *const titles[PST_AXES] = {"partitioner", "scheduler", "memory", ">devices",
                                                 ">micro-batch"};

    pst_table_init(table, columns->config ? "config" : "");
    pst_table_columns(table, columns->method ? "method" : "");
    for (uint32_t a = 0; a < columns->n_axes; a++) {
        pst_table_columns(table, titles[a]);
    }
}

static struct pst_compare_columns columns_of(const struct pst_compare_result *result)
{
    struct pst_compare_columns columns = {.config = result->n_configs > 1, .n_axes = PST_AXES};

    for (uint32_t i = 0; i < result->n; i++) {
        columns.method |= result->records[i].method != NULL;
    }
    return columns;
}

/* What the devices hold: the least and the most. */
static void add_memory(struct pst_table *table, const struct pst_trial *trial)
{
    uint64_t least = UINT64_MAX, most = pst_trial_most_bytes(trial);
    char low[32], high[32];

    for (uint32_t d = 0; d < trial->n_devices; d++) {
        least = trial->arena_bytes[d] < least ? trial->arena_bytes[d] : least;
    }
    if (least == most) {
        pst_table_cell(table, "%s", pst_format_bytes(high, most));
    } else {
        pst_table_cell(table, "%s to %s", pst_format_bytes(low, least),
                       pst_format_bytes(high, most));
    }
}

static void add_done(struct pst_table *table, const struct pst_compare_result *result,
                     const struct pst_compare_columns *columns,
                     const struct pst_compare_record *record, double best)
{
    const struct pst_trial *trial = &record->trial;
    double speed = pst_trial_samples_per_second(trial);
    char text[32];

    pst_compare_names(table, columns, record);
    pst_table_cell(table, "%s", pst_compare_rate(text, speed));
    pst_table_cell(table, "%.3f", best > 0 ? speed / best : 0);
    if (result->run) {
        pst_table_ns(table, trial->measured_ns);
        pst_table_ns(table, trial->predicted_ns);
        pst_table_cell(table, "%.4f", trial->final_loss);
    } else {
        pst_table_ns(table, trial->sim.period_ns);
    }
    pst_table_cell(table, "%.1f %%", 100.0 * pst_sim_bubble(&trial->sim));
    add_memory(table, trial);
    pst_table_ns(table, (uint64_t)(1e9 * trial->search_seconds));
}

static void print_done(const struct pst_compare_result *result, const uint32_t *order, uint32_t n,
                       bool color, FILE *out)
{
    double best = n == 0 ? 0 : pst_trial_samples_per_second(&result->records[order[0]].trial);
    struct pst_compare_columns columns = columns_of(result);
    struct pst_table table;

    pst_compare_name_columns(&table, &columns);
    pst_table_columns(&table, ">samples/s|>of best|>step");
    pst_table_columns(&table, result->run ? ">predicted|>loss" : "");
    pst_table_columns(&table, ">bubble|>memory of a device|>search");
    for (uint32_t i = 0; i < n; i++) {
        add_done(&table, result, &columns, &result->records[order[i]], best);
    }
    pst_table_end(&table, out, "", color);
}

void pst_compare_others_begin(struct pst_compare_others *others,
                              const struct pst_compare_columns *columns)
{
    *others = (struct pst_compare_others){.columns = *columns};
    pst_compare_name_columns(&others->table, columns);
    pst_table_columns(&others->table, "why");
}

void pst_compare_others_add(struct pst_compare_others *others,
                            const struct pst_compare_record *record, const struct pst_error *why)
{
    char text[PST_COMPARE_WHY];

    pst_compare_names(&others->table, &others->columns, record);
    pst_table_cell(&others->table, "%s", pst_compare_why(text, sizeof text, why));
    others->n++;
}

void pst_compare_others_end(struct pst_compare_others *others, const char *title, bool color,
                            FILE *out)
{
    if (others->n > 0) {
        fprintf(out, "\n%s: %u\n", title, others->n);
        pst_table_print(&others->table, out, "", color);
    }
    pst_table_finish(&others->table);
}

static void print_others(const struct pst_compare_result *result, enum pst_trial_state state,
                         const char *title, bool color, FILE *out)
{
    struct pst_compare_columns columns = columns_of(result);
    struct pst_compare_others others;

    pst_compare_others_begin(&others, &columns);
    for (uint32_t i = 0; i < result->n; i++) {
        if (result->records[i].trial.state == state) {
            pst_compare_others_add(&others, &result->records[i], &result->records[i].trial.why);
        }
    }
    pst_compare_others_end(&others, title, color, out);
}

void pst_compare_report_print(const struct pst_compare_result *result, bool color, FILE *out)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order), n, n_open = 0;

    n = order_results(result, order);
    for (uint32_t i = 0; i < result->n; i++) {
        n_open += result->records[i].trial.state == PST_TRIAL_OPEN;
    }
    fprintf(out, "%u of %u combinations %s\n", n, result->n, result->run ? "ran" : "simulated");
    if (n > 0) {
        print_done(result, order, n, color, out);
    }
    print_others(result, PST_TRIAL_NO_FIT, "do not fit", color, out);
    print_others(result, PST_TRIAL_MISMATCH, "do not go together", color, out);
    print_others(result, PST_TRIAL_FAILED, "failed", color, out);
    if (n_open > 0) {
        fprintf(out, "\nnot tried: %u\n", n_open);
    }
    free(order);
}

/* --- for tools ---------------------------------------------------------------------------------*/

void pst_compare_json_labels(struct pst_json *json, const struct pst_compare_record *record)
{
    pst_json_string(json, "config", record->config);
    if (record->method != NULL) {
        pst_json_string(json, "method", record->method);
    }
    for (uint32_t a = 0; a < PST_AXES; a++) {
        if (a < PST_AXIS_DEVICES) {
            pst_json_string(json, axis_keys[a], record->labels[a]);
        } else if (record->labels[a][0] != '-') {
            pst_json_raw(json, axis_keys[a], record->labels[a]);
        }
    }
}

static void add_outcome(struct pst_json *json, const struct pst_trial *trial)
{
    pst_json_uint(json, "batch", trial->batch);
    pst_json_uint(json, "stages", trial->n_stages);
    pst_json_number(json, "step_us", (double)trial->sim.period_ns / 1e3);
    pst_json_number(json, "samples_per_second", pst_trial_samples_per_second(trial));
    pst_json_number(json, "bubble", pst_sim_bubble(&trial->sim));
    pst_json_bytes(json, "memory_bytes", trial->arena_bytes, trial->n_devices);
    if (trial->capacity_bytes != UINT64_MAX) {
        pst_json_uint(json, "capacity_bytes", trial->capacity_bytes);
    }
    pst_json_number(json, "search_seconds", trial->search_seconds);
    if (trial->ran) {
        pst_json_number(json, "measured_step_us", (double)trial->measured_ns / 1e3);
        pst_json_number(json, "predicted_step_us", (double)trial->predicted_ns / 1e3);
        pst_json_number(json, "final_loss", trial->final_loss);
        pst_json_bool(json, "memory_as_predicted", trial->peaks_equal);
    }
}

void pst_compare_json_trial(struct pst_json *json, const struct pst_trial *trial)
{
    pst_json_string(json, "state", state_word(trial->state));
    if (trial->state == PST_TRIAL_DONE) {
        add_outcome(json, trial);
    } else if (trial->state != PST_TRIAL_OPEN) {
        pst_json_object(json, "error");
        pst_json_error(json, &trial->why);
        pst_json_end(json, '}');
    }
}

void pst_compare_report_json(const struct pst_compare_result *result, struct pst_json *json)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order);
    uint32_t n;

    n = order_results(result, order);
    pst_json_uint(json, "combinations", result->n);
    pst_json_bool(json, "run", result->run);
    pst_json_uints(json, "order", order, n);
    pst_json_array(json, "records");
    for (uint32_t i = 0; i < result->n; i++) {
        pst_json_object(json, NULL);
        pst_compare_json_labels(json, &result->records[i]);
        pst_compare_json_trial(json, &result->records[i].trial);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    free(order);
}

/* --- for other programs: comma-separated values (RFC 4180, but lines end with LF)
 * ---------------*/

/* A field, in quotes where it needs them. */
static void put_text(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_outcome(FILE *out, const struct pst_trial *trial)
{
    char why[PST_COMPARE_WHY];

    if (trial->state != PST_TRIAL_DONE) {
        fputs(",,,,,,,,,,,", out);
        put_text(out, trial->state == PST_TRIAL_OPEN
                          ? ""
                          : pst_compare_why(why, sizeof why, &trial->why));
        fputc(',', out);
        if (trial->why.enough_bytes != 0) {
            fprintf(out, "%" PRIu64, trial->why.enough_bytes);
        }
        return;
    }
    fprintf(out, ",%u,%u,%.3f,%.9g,%.9g,%" PRIu64 ",%.6f", trial->batch, trial->n_stages,
            (double)trial->sim.period_ns / 1e3, pst_trial_samples_per_second(trial),
            pst_sim_bubble(&trial->sim), pst_trial_most_bytes(trial), trial->search_seconds);
    if (trial->ran) {
        fprintf(out, ",%.3f,%.3f,%.9g,,", (double)trial->measured_ns / 1e3,
                (double)trial->predicted_ns / 1e3, trial->final_loss);
    } else {
        fputs(",,,,,", out);
    }
}

char *pst_compare_report_csv(const struct pst_compare_result *result)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    fputs("config,method", out);
    for (uint32_t a = 0; a < PST_AXES; a++) {
        fprintf(out, ",%s", axis_keys[a]);
    }
    fputs(",state,batch,stages,step_us,samples_per_second,bubble,peak_bytes,search_seconds,"
          "measured_step_us,predicted_step_us,final_loss,why,enough_bytes\n",
          out);
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_compare_record *record = &result->records[i];

        put_text(out, record->config);
        fputc(',', out);
        put_text(out, record->method == NULL ? "" : record->method);
        for (uint32_t a = 0; a < PST_AXES; a++) {
            fputc(',', out);
            put_text(out, record->labels[a]);
        }
        fprintf(out, ",%s", state_word(record->trial.state));
        put_outcome(out, &record->trial);
        fputc('\n', out);
    }
    if (ferror(out) != 0 || fclose(out) != 0) {
        pst_out_of_memory();
    }
    return text;
}
