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

/* Message and hint in one line, in WHY bytes. */
#define WHY (sizeof(struct pst_error) - sizeof(((struct pst_error *)0)->details))
static const char *why_text(char *text, size_t size, const struct pst_error *why)
{
    snprintf(text, size, "%s%s%s", why->message, why->hint[0] == '\0' ? "" : "; ", why->hint);
    pst_text_make_plain(text);
    return text;
}

/* --- order -------------------------------------------------------------------------------------*/

/* A record that is done. */
struct rank {
    uint32_t size; /* 0 where sizes do not count */
    double speed;
    uint32_t record;
};

static int by_rank(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (x->size != y->size) {
        return x->size > y->size ? -1 : 1;
    }
    if (x->speed != y->speed) {
        return x->speed > y->speed ? -1 : 1;
    }
    return x->record < y->record ? -1 : x->record > y->record;
}

/* Those that are done: where the largest batch was sought that first, then the fastest; equal ones
   in the order asked for. ret_order: n. Returns how many. */
static uint32_t order_results(const struct pst_compare_result *result, uint32_t *ret_order)
{
    struct rank *ranks = pst_alloc((size_t)result->n + 1, sizeof *ranks);
    uint32_t n = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_trial *trial = &result->records[i].trial;

        if (trial->state == PST_TRIAL_DONE) {
            ranks[n++] = (struct rank){result->max_batch ? trial->batch : 0,
                                       pst_trial_samples_per_second(trial), i};
        }
    }
    qsort(ranks, n, sizeof *ranks, by_rank);
    for (uint32_t i = 0; i < n; i++) {
        ret_order[i] = ranks[i].record;
    }
    free(ranks);
    return n;
}

/* --- for people --------------------------------------------------------------------------------*/

/* Where sizes are sought the last axis, micro-batches, is what is found. */
static uint32_t n_axes_of(const struct pst_compare_result *result)
{
    return result->max_batch ? PST_AXIS_MICROBATCH : PST_AXES;
}

static bool has_methods(const struct pst_compare_result *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        if (result->records[i].method != NULL) {
            return true;
        }
    }
    return false;
}

/* Begins a table with what names a combination: config and method where some has such, and axes. */
static void begin_table(const struct pst_compare_result *result, struct pst_table *table)
{
    static const char *const titles[PST_AXES] = {"~partitioner", "~scheduler", "~memory",
                                                 ">devices", ">micro-batch"};

    pst_table_init(table, result->n_configs > 1 ? "~config" : "");
    pst_table_columns(table, has_methods(result) ? "~method" : "");
    for (uint32_t a = 0; a < n_axes_of(result); a++) {
        pst_table_columns(table, titles[a]);
    }
}

static void add_names(struct pst_table *table, const struct pst_compare_result *result,
                      const struct pst_record *record)
{
    if (result->n_configs > 1) {
        pst_table_cell(table, "%s", record->config);
    }
    if (has_methods(result)) {
        pst_table_cell(table, "%s", record->method == NULL ? "-" : record->method);
    }
    for (uint32_t a = 0; a < n_axes_of(result); a++) {
        pst_table_cell(table, "%s", record->labels[a]);
    }
}

static void add_rate(struct pst_table *table, const struct pst_trial *trial)
{
    double rate = pst_trial_samples_per_second(trial);

    pst_table_cell(table, "%.*f", rate >= 1000 ? 0 : rate >= 100 ? 1 : rate >= 10 ? 2 : 3, rate);
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

/* Of one that is compared; best: samples per second of the first. */
static void add_compared(struct pst_table *table, const struct pst_compare_result *result,
                         const struct pst_trial *trial, double best)
{
    struct pst_idle idle = pst_sim_idle(&trial->sim);

    add_rate(table, trial);
    pst_table_cell(table, "%.3f", best > 0 ? pst_trial_samples_per_second(trial) / best : 0);
    if (result->run) {
        pst_table_ns(table, trial->measured_ns);
        pst_table_ns(table, trial->predicted_ns);
        pst_table_cell(table, "%.4f", trial->final_loss);
    } else {
        pst_table_ns(table, trial->sim.period_ns);
    }
    pst_table_cell(table, "%.1f %%", 100.0 * idle.all);
    pst_table_cell(table, "%.1f %%", 100.0 * idle.busiest);
    add_memory(table, trial);
    pst_table_ns(table, (uint64_t)(1e9 * trial->search_seconds));
}

static void add_largest(struct pst_table *table, const struct pst_compare_result *result,
                        const struct pst_record *record)
{
    const struct pst_tuned *tuned = record->tuned;

    pst_table_cell(table, "%s%u", tuned->bounded ? "" : ">= ", tuned->microbatch);
    pst_table_cell(table, "%u", record->trial.batch);
    add_rate(table, &record->trial);
    pst_table_bytes(table, pst_trial_most_bytes(&record->trial));
    if (result->common > 0 && tuned->common.state == PST_TRIAL_DONE) {
        add_rate(table, &tuned->common);
    } else if (result->common > 0) {
        pst_table_cell(table, "-");
    }
}

static void print_done(const struct pst_compare_result *result, const uint32_t *order, uint32_t n,
                       bool color, FILE *out)
{
    double best = pst_trial_samples_per_second(&result->records[order[0]].trial);
    struct pst_table table;
    char title[64] = "";

    begin_table(result, &table);
    if (result->max_batch) {
        snprintf(title, sizeof title, "7>samples/s at %u", result->common);
        pst_table_columns(&table, ">micro-batch|8>batch|>samples/s|9>memory of a device");
        pst_table_columns(&table, result->common > 0 ? title : "");
    } else {
        pst_table_columns(&table, ">samples/s|7>of best|2>step");
        pst_table_columns(&table, result->run ? "5>predicted|6>loss" : "");
        pst_table_columns(&table, "4>idle|8>busiest idle|3>memory of a device|9>search");
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_record *record = &result->records[order[i]];

        add_names(&table, result, record);
        if (result->max_batch) {
            add_largest(&table, result, record);
        } else {
            add_compared(&table, result, &record->trial, best);
        }
    }
    pst_table_end(&table, out, "", color);
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
    struct pst_table table;
    char text[WHY];
    uint32_t n = 0;

    begin_table(result, &table);
    pst_table_columns(&table, "~why");
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_error *why = why_of(&result->records[i], state);

        if (why != NULL) {
            add_names(&table, result, &result->records[i]);
            pst_table_cell(&table, "%s", why_text(text, sizeof text, why));
            n++;
        }
    }
    if (n > 0) {
        fprintf(out, "\n%s: %u\n", title, n);
        pst_table_print(&table, out, "", color);
    }
    pst_table_finish(&table);
}

static void print_compared(const struct pst_compare_result *result, const uint32_t *order,
                           uint32_t n, bool color, FILE *out)
{
    fprintf(out, "%u of %u combinations %s\n", n, result->n, result->run ? "ran" : "simulated");
    if (n > 0) {
        print_done(result, order, n, color, out);
    }
    print_others(result, PST_TRIAL_NO_FIT, "do not fit", color, out);
    print_others(result, PST_TRIAL_MISMATCH, "do not go together", color, out);
    print_others(result, PST_TRIAL_FAILED, "failed", color, out);
}

static void print_largest(const struct pst_compare_result *result, const uint32_t *order,
                          uint32_t n, bool color, FILE *out)
{
    const struct pst_tuned *first = n > 0 ? result->records[order[0]].tuned : NULL;
    char text[WHY];

    fprintf(out, "largest batch of %u combination%s\n", result->n, result->n == 1 ? "" : "s");
    if (first != NULL) {
        print_done(result, order, n, color, out);
    }
    if (first != NULL && first->bounded) {
        fprintf(out, "\nthe first stops there: %s\n", why_text(text, sizeof text, &first->beyond));
    }
    print_others(result, PST_TRIAL_NO_FIT, "not even one sample at a time", color, out);
    print_others(result, PST_TRIAL_FAILED, "a plugin failed at another size", color, out);
}

void pst_compare_report_print(const struct pst_compare_result *result, bool color, FILE *out)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order), n, n_open = 0;

    n = order_results(result, order);
    (result->max_batch ? print_largest : print_compared)(result, order, n, color, out);
    for (uint32_t i = 0; i < result->n; i++) {
        n_open += result->records[i].trial.state == PST_TRIAL_OPEN;
    }
    if (n_open > 0 && result->max_batch) {
        fprintf(out, "\nnot all were tried\n");
    } else if (n_open > 0) {
        fprintf(out, "\nnot tried: %u\n", n_open);
    }
    free(order);
}

/* --- for tools ---------------------------------------------------------------------------------*/

static void add_labels(struct pst_json *json, const struct pst_compare_result *result,
                       const struct pst_record *record)
{
    pst_json_string(json, "config", record->config);
    if (record->method != NULL) {
        pst_json_string(json, "method", record->method);
    }
    for (uint32_t a = 0; a < n_axes_of(result); a++) {
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
    pst_json_us(json, "step_us", (double)trial->sim.period_ns);
    pst_json_real(json, "samples_per_second", pst_trial_samples_per_second(trial), 3);
    pst_report_idle_json(json, pst_sim_idle(&trial->sim), trial->sim.n_used);
    pst_json_bytes(json, "memory_bytes", trial->arena_bytes, trial->n_devices);
    if (trial->capacity_bytes != UINT64_MAX) {
        pst_json_uint(json, "capacity_bytes", trial->capacity_bytes);
    }
    pst_json_real(json, "search_seconds", trial->search_seconds, 6);
    if (trial->ran) {
        pst_json_us(json, "measured_step_us", (double)trial->measured_ns);
        pst_json_us(json, "predicted_step_us", (double)trial->predicted_ns);
        pst_json_number(json, "final_loss", trial->final_loss);
        pst_json_bool(json, "memory_as_predicted", trial->peaks_equal);
    }
}

static void add_trial(struct pst_json *json, const struct pst_trial *trial)
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

static void add_tuned(struct pst_json *json, const struct pst_record *record)
{
    const struct pst_tuned *tuned = record->tuned;

    pst_json_uint(json, "max_microbatch", tuned->microbatch);
    pst_json_uint(json, "max_batch", tuned->microbatch > 0 ? record->trial.batch : 0);
    pst_json_bool(json, "bounded", tuned->bounded);
    pst_json_uint(json, "trials", tuned->n_trials);
    pst_json_object(json, "at_max");
    add_trial(json, &record->trial);
    pst_json_end(json, '}');
    if (tuned->bounded) {
        pst_json_string(json, "beyond", tuned->beyond.message);
    }
    if (tuned->common.state != PST_TRIAL_OPEN) {
        pst_json_object(json, "at_common");
        add_trial(json, &tuned->common);
        pst_json_end(json, '}');
    }
}

void pst_compare_report_json(const struct pst_compare_result *result, struct pst_json *json)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order);
    uint32_t n;

    n = order_results(result, order);
    if (result->max_batch) {
        pst_json_string(json, "objective", "max-batch");
    }
    pst_json_uint(json, "combinations", result->n);
    if (result->max_batch) {
        pst_json_uint(json, "common_microbatch", result->common);
    } else {
        pst_json_bool(json, "run", result->run);
    }
    pst_json_uints(json, "order", order, n);
    pst_json_array(json, "records");
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_record *record = &result->records[i];

        pst_json_object(json, NULL);
        add_labels(json, result, record);
        if (record->tuned != NULL) {
            add_tuned(json, record);
        } else if (!result->max_batch) {
            add_trial(json, &record->trial);
        }
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
    struct pst_idle idle = pst_sim_idle(&trial->sim);
    char why[WHY];

    if (trial->state != PST_TRIAL_DONE) {
        fputs(",,,,,,,,,,,,", out);
        put_text(out, trial->state == PST_TRIAL_OPEN ? "" : why_text(why, sizeof why, &trial->why));
        fputc(',', out);
        if (trial->why.enough_bytes != 0) {
            fprintf(out, "%" PRIu64, trial->why.enough_bytes);
        }
        return;
    }
    fprintf(out, ",%u,%u,%.3f,%.9g,%.6f,%.6f,%" PRIu64 ",%.6f", trial->batch, trial->n_stages,
            (double)trial->sim.period_ns / 1e3, pst_trial_samples_per_second(trial), idle.all,
            idle.busiest, pst_trial_most_bytes(trial), trial->search_seconds);
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
    fputs(",state,batch,stages,step_us,samples_per_second,idle,bubble,peak_bytes,search_seconds,"
          "measured_step_us,predicted_step_us,final_loss,why,enough_bytes\n",
          out);
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_record *record = &result->records[i];

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
