/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons for other programs: records as JSON, rows as comma-separated values.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "reports/compare_pivot.h"
#include "reports/partition_words.h"
#include "sim/sim.h"

static const char *const axis_keys[PST_AXES] = {
    [PST_AXIS_PARTITIONER] = "partitioner",
    [PST_AXIS_SCHEDULER] = "scheduler",
    [PST_AXIS_MEMOPT] = "memopt",
    [PST_AXIS_DEVICES] = "devices",
    [PST_AXIS_MICROBATCH] = "microbatch",
    [PST_AXIS_REPLICAS] = "replicas",
    [PST_AXIS_ZERO] = "zero",
    [PST_AXIS_TENSOR] = "tensor",
    [PST_AXIS_SEQUENCE] = "sequence",
};

/* --- for tools ---------------------------------------------------------------------------------*/

static void add_labels(struct pst_json *json, const struct pst_record *record,
                       const bool has[PST_AXES])
{
    pst_json_string(json, "config", record->config);
    if (record->method != NULL) {
        pst_json_string(json, "method", record->method);
    }
    for (uint32_t a = 0; a < PST_AXES; a++) {
        const char *label = record->labels[a];

        if (!has[a]) {
            continue;
        }
        if (a == PST_AXIS_SEQUENCE ||
            (a >= PST_AXIS_DEVICES && strspn(label, "0123456789") == strlen(label))) {
            pst_json_raw(json, axis_keys[a], label);
        } else if (a < PST_AXIS_DEVICES || label[0] != '-') {
            pst_json_string(json, axis_keys[a], label);
        }
    }
    if (record->undivided) {
        pst_json_bool(json, "undivided", true);
    }
}

/* Writes the partitioner's remarks on its answer. */
static void add_remarks(struct pst_json *json, const struct pst_trial *trial)
{
    if (trial->n_remarks == 0) {
        return;
    }
    pst_json_object(json, "remarks");
    pst_report_remarks_json(trial->remarks, trial->n_remarks, NULL, json);
    pst_json_end(json, '}');
}

static void add_run(struct pst_json *json, const struct pst_trial *trial)
{
    pst_json_us(json, "measured_step_us", (double)trial->measured_ns);
    if (trial->high_ns > 0) {
        pst_json_us(json, "measured_low_us", (double)trial->low_ns);
        pst_json_us(json, "measured_high_us", (double)trial->high_ns);
    }
    pst_json_us(json, "predicted_step_us", (double)trial->predicted_ns);
    pst_json_real(json, "prediction_error",
                  (double)trial->predicted_ns / (double)trial->measured_ns - 1, 6);
    pst_json_number(json, "final_loss", trial->final_loss);
    pst_json_bool(json, "memory_as_predicted", trial->peaks_equal);
    pst_json_array(json, "round_step_us");
    for (uint32_t r = 0; r < trial->n_rounds; r++) {
        pst_json_array(json, NULL);
        for (uint32_t i = 0; i < trial->n_steps; i++) {
            pst_json_us(json, NULL, (double)trial->step_ns[(size_t)r * trial->n_steps + i]);
        }
        pst_json_end(json, ']');
    }
    pst_json_end(json, ']');
}

static void add_versus(struct pst_json *json, const char *key, const struct pst_versus *versus)
{
    if (!versus->known) {
        return;
    }
    pst_json_object(json, key);
    pst_json_uint(json, "record", versus->record);
    pst_json_real(json, "speedup", versus->speedup, 6);
    if (versus->tested) {
        pst_json_real(json, "low", versus->low, 6);
        pst_json_real(json, "high", versus->high, 6);
        pst_json_figure(json, "p", versus->p);
        pst_json_bool(json, "same", pst_versus_is_same(versus));
    }
    pst_json_end(json, '}');
}

static void add_outcome(struct pst_json *json, const struct pst_trial *trial)
{
    pst_json_uint(json, "batch", trial->batch);
    pst_json_uint(json, "stages", trial->n_stages);
    pst_json_us(json, "step_us", (double)trial->sim.period_ns);
    pst_json_us(json, "step_here_us", (double)trial->predicted_ns);
    pst_json_figure(json, "samples_per_second", pst_trial_samples_per_second(trial));
    pst_json_real(json, "idle", pst_sim_idle(&trial->sim).all, 6);
    pst_json_real(json, "bubble", pst_sim_idle(&trial->sim).busiest, 6);
    pst_json_uint(json, "devices_used", trial->sim.n_used);
    pst_json_bytes(json, "memory_bytes", trial->arena_bytes, trial->n_devices);
    if (trial->capacity_bytes != UINT64_MAX) {
        pst_json_uint(json, "capacity_bytes", trial->capacity_bytes);
    }
    pst_json_real(json, "search_seconds", trial->search_seconds, 6);
    add_remarks(json, trial);
    if (trial->ran) {
        add_run(json, trial);
    }
}

static void add_trial(struct pst_json *json, const struct pst_trial *trial)
{
    pst_json_string(json, "state", pst_trial_state_word(trial->state));
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

static void add_plugins(struct pst_json *json, const struct pst_provenance_config *config)
{
    pst_json_array(json, "plugins");
    for (uint32_t i = 0; i < config->n_plugins; i++) {
        const struct pst_provenance_plugin *plugin = &config->plugins[i];

        pst_json_object(json, NULL);
        pst_json_string(json, "kind", plugin->kind);
        pst_json_string(json, "id", plugin->id);
        pst_json_string(json, "label", plugin->label);
        pst_json_string(json, "version", plugin->version);
        pst_json_string(json, "file", plugin->path);
        pst_json_string(json, "xxh128", plugin->digest);
        pst_json_raw(json, "parameters", plugin->parameters);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static void add_provenance(struct pst_json *json, const struct pst_provenance *from, bool ran)
{
    pst_json_object(json, "provenance");
    pst_json_string(json, "penstock", from->program);
    pst_json_string(json, "xxh128", from->program_digest);
    pst_json_string(json, "time", from->time);
    pst_json_object(json, "machine");
    pst_json_string(json, "host", from->host);
    pst_json_string(json, "processor", from->cpu);
    pst_json_uint(json, "cores", from->cores);
    pst_json_uint(json, "memory_bytes", from->memory_bytes);
    pst_json_string(json, "kernel", from->kernel);
    pst_json_array(json, "load");
    for (uint32_t i = 0; i < 3; i++) {
        pst_json_real(json, NULL, from->load[i], 2);
    }
    pst_json_end(json, ']');
    if (ran) {
        pst_json_real(json, "others", from->others, 6);
    }
    pst_json_end(json, '}');
    pst_json_array(json, "configs");
    for (uint32_t i = 0; i < from->n_configs; i++) {
        const struct pst_provenance_config *config = &from->configs[i];
        char digest[20];

        snprintf(digest, sizeof digest, "%016" PRIx64, config->model_digest);
        pst_json_object(json, NULL);
        pst_json_string(json, "config", config->path);
        pst_json_string(json, "model", config->model);
        pst_json_string(json, "graph_digest", digest);
        pst_json_string(json, "profile", config->profile);
        pst_json_string(json, "profile_xxh128", config->profile_digest);
        pst_json_int(json, "seed", config->seed);
        pst_json_string(json, "device", config->device);
        pst_json_string(json, "transport", config->transport);
        add_plugins(json, config);
        pst_json_raw(json, "effective", config->config_json);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    pst_json_end(json, '}');
}

static void add_searched(struct pst_json *json, const struct pst_joint_found *searched)
{
    pst_json_object(json, "searched");
    pst_json_uint(json, "combinations", searched->n_points);
    pst_json_uint(json, "tried", searched->n_tried);
    pst_json_uint(json, "passed_over", searched->n_hopeless);
    pst_json_bool(json, "all", searched->all);
    pst_json_end(json, '}');
}

void pst_compare_report_json(const struct pst_compare_result *result, struct pst_json *json)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order);
    bool has[PST_AXES];
    uint32_t n;

    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        has[a] = a == PST_AXIS_MICROBATCH ? !pst_compare_seeks_batch(result)
                                          : a < PST_AXIS_ZERO || pst_compare_has_axis(result, a);
    }
    n = pst_compare_order(result, order);
    if (pst_compare_seeks_batch(result) || result->searched != NULL) {
        pst_json_string(json, "objective", pst_objective_names[result->goal.objective]);
    }
    if (result->searched != NULL) {
        add_searched(json, result->searched);
    }
    pst_json_uint(json, "combinations", result->n);
    if (pst_compare_seeks_batch(result)) {
        pst_json_uint(json, "common_microbatch", result->common);
    } else {
        pst_json_bool(json, "run", result->run);
    }
    pst_json_uints(json, "order", order, n);
    pst_json_array(json, "records");
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_record *record = &result->records[i];

        pst_json_object(json, NULL);
        add_labels(json, record, has);
        if (record->tuned != NULL) {
            add_tuned(json, record);
        } else if (!pst_compare_seeks_batch(result)) {
            add_trial(json, &record->trial);
            if (record->same_as != NULL) {
                pst_json_uint(json, "same_plan_as", (uint32_t)(record->same_as - result->records));
            }
            add_versus(json, "best", &record->best);
            add_versus(json, "baseline", &record->baseline);
        }
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    if (result->provenance.program != NULL) {
        add_provenance(json, &result->provenance, result->run);
    }
    free(order);
}

/* --- for other programs: comma-separated values (RFC 4180, but lines end with LF) --------------*/

static FILE *open_text(char **text, size_t *length)
{
    FILE *out = open_memstream(text, length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    return out;
}

static void close_text(FILE *out)
{
    if (ferror(out) != 0 || fclose(out) != 0) {
        pst_out_of_memory();
    }
}

/* Spreadsheets compute a cell that begins so, unless it is a number, or a lone sign. */
static bool is_formula(const char *text)
{
    char *end;

    if (text[0] == '\0' || text[1] == '\0' || strchr("=+-@\t\r", text[0]) == NULL) {
        return false;
    }
    strtod(text, &end);
    return *end != '\0';
}

/* A field, in quotes where it needs them; what a spreadsheet would compute begins with '. What
   could control a terminal that shows the file is replaced, as there. */
static void put_text(FILE *out, const char *text)
{
    const char *mark = is_formula(text) ? "'" : "";
    char *shown = NULL;
    size_t length = 0;
    FILE *to = open_text(&shown, &length);

    pst_text_print(to, text);
    close_text(to);
    if (mark[0] == '\0' && strpbrk(shown, ",\"\n#") == NULL) {
        fputs(shown, out);
        free(shown);
        return;
    }
    fprintf(out, "\"%s", mark);
    for (const char *at = shown; *at != '\0'; at++) {
        if (*at == '"') {
            fputc('"', out);
        }
        fputc(*at, out);
    }
    fputc('"', out);
    free(shown);
}

static void put_cell(FILE *out, const struct pst_compare_column *column,
                     const struct pst_cell *cell)
{
    if (!cell->there) {
        return;
    }
    switch (column->kind) {
    case PST_CELL_NS:
        fprintf(out, "%.3f", cell->number / 1e3);
        break;
    case PST_CELL_SECONDS:
        fprintf(out, "%.6f", cell->number);
        break;
    case PST_CELL_FLAG:
        fputs(cell->number != 0 ? "true" : "false", out);
        break;
    case PST_CELL_TEXT:
        put_text(out, cell->text);
        break;
    default:
        if (cell->text != NULL) {
            put_text(out, cell->text);
        } else if (column->kind == PST_CELL_COUNT || column->kind == PST_CELL_BYTES) {
            fprintf(out, "%.0f", cell->number);
        } else {
            fprintf(out, "%.9g", cell->number);
        }
    }
}

/* Where the figures of a row come from, in the row itself: any reader of tables keeps it. */
static const char *const sources[] = {
    "partitioner_plugin", "scheduler_plugin", "memopt_plugin", "penstock", "model",
    "graph_digest",       "profile",          "seed",          "machine",  "time"};
#define N_SOURCES (sizeof sources / sizeof *sources)

static void put_sources(FILE *out, const struct pst_provenance *from,
                        const struct pst_record *record, struct pst_arena *arena)
{
    static const char *const kinds[] = {"partitioner", "scheduler", "memopt"};
    const struct pst_provenance_config *config = from->configs;

    while (strcmp(config->path, record->config) != 0) {
        config++;
    }
    for (uint32_t a = 0; a <= PST_AXIS_MEMOPT; a++) {
        fputc(',', out);
        put_text(out, pst_provenance_words(arena, config, kinds[a], record->labels[a]));
    }
    fprintf(out, ",%s xxh128:%s,", from->program, from->program_digest);
    put_text(out, config->model);
    fprintf(out, ",xxh64:%016" PRIx64 ",", config->model_digest); /* no number to any reader */
    if (config->profile[0] != '\0') {
        put_text(out,
                 pst_arena_printf(arena, "%s xxh128:%s", config->profile, config->profile_digest));
    }
    fprintf(out, ",%" PRId64 ",", config->seed);
    put_text(out, pst_arena_printf(arena, "%s; %s; %u cores; %s; load %.2f%s", from->host,
                                   from->cpu, from->cores, from->kernel, from->load[0],
                                   record->trial.ran
                                       ? pst_arena_printf(arena, "; others %.3f", from->others)
                                       : ""));
    fprintf(out, ",%s", from->time);
}

static void put_titles(FILE *out, const struct pst_compare_column *const *columns, uint32_t n,
                       bool has_sources)
{
    for (uint32_t c = 0; c < n; c++) {
        fprintf(out, "%s%s", c > 0 ? "," : "", columns[c]->key);
    }
    for (size_t k = 0; has_sources && k < N_SOURCES; k++) {
        fprintf(out, ",%s", sources[k]);
    }
    fputc('\n', out);
}

static void put_record(FILE *out, const struct pst_compare_result *result,
                       const struct pst_record *record,
                       const struct pst_compare_column *const *columns, uint32_t n)
{
    struct pst_arena arena = {0};

    for (uint32_t c = 0; c < n; c++) {
        const struct pst_cell cell = pst_compare_cell(result, record, columns[c], &arena);

        fputs(c > 0 ? "," : "", out);
        put_cell(out, columns[c], &cell);
    }
    if (result->provenance.program != NULL) {
        put_sources(out, &result->provenance, record, &arena);
    }
    fputc('\n', out);
    pst_arena_finish(&arena);
}

char *pst_compare_report_csv(const struct pst_compare_result *result)
{
    struct pst_arena arena = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_text(&text, &length);
    const struct pst_compare_column **columns;
    uint32_t n = pst_compare_list(result, PST_COLUMN_FILE | PST_COLUMN_REMARK, &arena, &columns);

    put_titles(out, columns, n, result->provenance.program != NULL);
    for (uint32_t i = 0; i < result->n; i++) {
        put_record(out, result, &result->records[i], columns, n);
    }
    close_text(out);
    pst_arena_finish(&arena);
    return text;
}

char *pst_compare_report_pivot_csv(const struct pst_compare_result *result)
{
    struct pst_grid grid;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_text(&text, &length);

    pst_grid_of_pivot(result, &grid);
    for (uint32_t c = 0; c < grid.n_columns; c++) {
        fputs(c > 0 ? "," : "", out);
        put_text(out, c > 0 ? grid.titles[c] : "method");
    }
    fputc('\n', out);
    for (uint32_t r = 0; r < grid.n_rows; r++) {
        for (uint32_t c = 0; c < grid.n_columns; c++) {
            const char *cell = grid.cells[r * grid.n_columns + c];

            fputs(c > 0 ? "," : "", out);
            put_text(out, c > 0 && strcmp(cell, "-") == 0 ? "" : cell);
        }
        fputc('\n', out);
    }
    pst_grid_finish(&grid);
    close_text(out);
    return text;
}
