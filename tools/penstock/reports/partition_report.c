/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/partition_report.h"

#include <math.h>
#include <string.h>

#include <penstock/ext/profile.h>

#include "base/json.h"
#include "base/util.h"
#include "reports/partition_words.h"
#include "reports/table.h"

#define OWN_BOTTLENECK "bottleneck_us_per_sample" /* of a partitioner with another objective */

static uint32_t depth_of(const struct pst_partition_result *result)
{
    uint32_t depth = 0;

    for (uint32_t s = 0; s < result->n_stages; s++) {
        depth = result->stages[s].depth > depth ? result->stages[s].depth : depth;
    }
    return depth;
}

static uint32_t slowest_of(const struct pst_partition_result *result)
{
    uint32_t slowest = 0;

    for (uint32_t s = 0; s < result->n_stages; s++) {
        if (result->stages[s].total_per_sample_ns > result->stages[slowest].total_per_sample_ns) {
            slowest = s;
        }
    }
    return slowest;
}

static const struct pst_partition_remark *own_bottleneck(const struct pst_partition_result *result)
{
    for (uint32_t i = 0; i < result->n_remarks; i++) {
        const struct pst_partition_remark *remark = &result->remarks[i];

        if (strcmp(remark->key, OWN_BOTTLENECK) == 0 && remark->type == PST_REMARK_NUMBER) {
            return remark;
        }
    }
    return NULL;
}

/* A key that the report has itself says nothing more. */
static bool is_own_key(const char *key)
{
    static const char *const keys[] = {
        "partitioner",    "feasible",     "stages", OWN_BOTTLENECK, "step_us",
        "search_seconds", "devices_idle", "depth",  "peak_bytes",   "reference_us_per_sample",
        "stage_bytes",    "error"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* --- for people --------------------------------------------------------------------------------*/

static char *time_text(char text[32], double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    uint32_t unit = 0;

    while (unit < 3 && ns >= 999.95) {
        ns /= 1000.0;
        unit++;
    }
    snprintf(text, 32, "%.4g %s", ns, units[unit]);
    return text;
}

static char *bytes_text(char text[32], double bytes)
{
    return pst_format_bytes(text, bytes < 1.8e19 ? (uint64_t)ceil(bytes) : UINT64_MAX);
}

/* Names the limit of a stage: memory of its device, or time relative to the slowest stage. */
static const char *limit_of(const struct pst_problem *problem,
                            const struct pst_partition_result *result,
                            const struct pst_partition_stage *stage)
{
    bool counted = problem->comm_model != PST_COMM_NONE;
    double time =
        result->bottleneck_ns > 0 ? stage->total_per_sample_ns / result->bottleneck_ns : 0;

    return pst_report_limit(stage->memory_bytes / problem->memory_bytes, time,
                            stage->compute_per_sample_ns, counted ? stage->p2p_per_sample_ns : 0,
                            stage->sync_per_sample_ns);
}

static void print_stage(const struct pst_problem *problem,
                        const struct pst_partition_result *result, uint32_t s,
                        struct pst_table *table)
{
    const struct pst_partition_stage *stage = &result->stages[s];
    const char *first = problem->graph->nodes[stage->nodes[0]].name;
    const char *last = problem->graph->nodes[stage->nodes[stage->n_nodes - 1]].name;
    char text[64];

    pst_table_cell(table, "%u", s);
    pst_table_cell(table, "%u", stage->n_nodes);
    if (stage->n_nodes == 1) {
        pst_table_cell(table, "%.40s", first);
    } else {
        pst_table_cell(table, "%.40s ... %.40s", first, last);
    }
    pst_table_cell(table, "%s",
                   pst_report_ranks(stage->ranks, stage->n_ranks, ",", text, sizeof text));
    if (stage->k == 1) {
        pst_table_cell(table, "%u", stage->microbatch_size);
    } else {
        pst_table_cell(table, "%u, k = %u", stage->microbatch_size, stage->k);
    }
    pst_table_cell(table, "%u", stage->in_flight_samples);
    pst_table_cell(table, "%s", time_text(text, stage->compute_ns));
    pst_table_cell(table, "%s", time_text(text, stage->total_per_sample_ns));
    pst_table_cell(table, "%s", bytes_text(text, stage->memory_bytes));
    pst_table_cell(table, "%s", limit_of(problem, result, stage));
}

static void print_stages(const struct pst_problem *problem,
                         const struct pst_partition_result *result, bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table,
                   ">stage|9>ops|~operators|~devices|6>micro-batch|7>in flight|>time|8>per sample|"
                   ">memory|5limited by");
    for (uint32_t s = 0; s < result->n_stages; s++) {
        print_stage(problem, result, s, &table);
    }
    pst_table_end(&table, out, "  ", color);
}

void pst_partition_report_print(const struct pst_problem *problem,
                                const struct pst_partition_result *result, bool color, FILE *out)
{
    const struct pst_partition_remark *own = own_bottleneck(result);
    char text[32];

    print_stages(problem, result, color, out);
    fprintf(out, "\nbottleneck   %s a sample", time_text(text, result->bottleneck_ns));
    if (result->n_devices >= result->n_stages) {
        fprintf(out, ": stage %u", slowest_of(result));
    }
    fputc('\n', out);
    if (own != NULL) {
        fprintf(out, "             %s a sample by the partitioner's own objective\n",
                time_text(text, own->number * 1000.0));
    }
    fprintf(out, "step         %s for %u samples, simulated", time_text(text, result->step_ns),
            problem->mini_batch);
    if (result->step_ns > 0) {
        fprintf(out, ": %.6g samples/s", problem->mini_batch / result->step_ns * 1e9);
    }
    fprintf(out, "\ndevices      %u of %u, at most %s each; the longest path has %u stages\n",
            result->n_devices, problem->n_devices, bytes_text(text, result->peak_bytes),
            depth_of(result));
    fprintf(out, "search       %s by %s %s\n", time_text(text, result->search_seconds * 1e9),
            result->id, result->version);
    pst_report_remarks_print(result->remarks, result->n_remarks, is_own_key, out);
}

/* --- for tools ---------------------------------------------------------------------------------*/

static void add_stage(struct pst_json *json, const struct pst_problem *problem,
                      const struct pst_partition_result *result, uint32_t s)
{
    const struct pst_partition_stage *stage = &result->stages[s];

    pst_json_object(json, NULL);
    pst_json_uint(json, "id", s);
    pst_json_array(json, "nodes");
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        pst_json_string(json, NULL, problem->graph->nodes[stage->nodes[i]].name);
    }
    pst_json_end(json, ']');
    pst_json_uints(json, "devices", stage->ranks, stage->n_ranks);
    pst_json_uint(json, "microbatch_size", stage->microbatch_size);
    pst_json_uint(json, "k", stage->k);
    pst_json_uint(json, "in_flight_samples", stage->in_flight_samples);
    pst_json_uints(json, "successors", stage->successors, stage->n_successors);
    pst_json_us(json, "compute_us", stage->compute_ns);
    pst_json_real(json, "memory_bytes", stage->memory_bytes, 3);
    pst_json_end(json, '}');
}

void pst_partition_report_json(const struct pst_problem *problem,
                               const struct pst_partition_result *result, struct pst_json *json)
{
    const struct pst_partition_remark *own = own_bottleneck(result);

    pst_json_string(json, "partitioner", result->id);
    pst_json_bool(json, "feasible", true);
    pst_json_array(json, "stages");
    for (uint32_t s = 0; s < result->n_stages; s++) {
        add_stage(json, problem, result, s);
    }
    pst_json_end(json, ']');
    if (own != NULL) {
        pst_json_real(json, OWN_BOTTLENECK, own->number, 6);
        pst_json_real(json, "reference_us_per_sample", result->bottleneck_ns / 1000.0, 6);
    } else {
        pst_json_real(json, OWN_BOTTLENECK, result->bottleneck_ns / 1000.0, 6);
    }
    pst_json_us(json, "step_us", result->step_ns);
    pst_json_real(json, "search_seconds", result->search_seconds, 6);
    pst_json_uint(json, "devices_idle", problem->n_devices - result->n_devices);
    pst_json_uint(json, "depth", depth_of(result));
    pst_json_real(json, "peak_bytes", result->peak_bytes, 3);
    pst_report_remarks_json(result->remarks, result->n_remarks, is_own_key, json);
}
