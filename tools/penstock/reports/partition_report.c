/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/partition_report.h"

#include <string.h>

#include <penstock/ext/profile.h>

#include "base/json.h"
#include "base/util.h"
#include "reports/partition_words.h"
#include "reports/rows.h"

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

/* After the stage and its number: the structs of the answer's own rows. */
enum { RESULT, TOTALS, PROBLEM };

/* Figures of the whole answer that are in no struct of their own. */
struct totals {
    bool feasible, has_own;
    double bottleneck_us, reference_us; /* of a sample */
    uint32_t devices_idle, depth;
};

static const char *name_of(const struct pst_row_of *of, uint32_t i)
{
    const struct pst_partition_stage *stage = of->at[PST_ROW_ENTRY];
    const struct pst_problem *problem = of->at[PST_ROW_OUTER + PROBLEM];

    return problem->graph->nodes[stage->nodes[i]].name;
}

static void put_nodes(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const struct pst_partition_stage *stage = of->at[PST_ROW_ENTRY];

    pst_json_array(json, row->key);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        pst_json_string(json, NULL, name_of(of, i));
    }
    pst_json_end(json, ']');
}

static void cell_nodes(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_partition_stage *stage = of->at[PST_ROW_ENTRY];

    if (stage->n_nodes == 1) {
        pst_table_cell(table, "%.40s", name_of(of, 0));
    } else {
        pst_table_cell(table, "%.40s ... %.40s", name_of(of, 0), name_of(of, stage->n_nodes - 1));
    }
}

static void cell_ranks(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_partition_stage *stage = of->at[PST_ROW_ENTRY];
    char text[64];

    pst_table_cell(table, "%s",
                   pst_report_ranks(stage->ranks, stage->n_ranks, ",", text, sizeof text));
}

static void cell_microbatch(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_partition_stage *stage = of->at[PST_ROW_ENTRY];

    if (stage->k == 1) {
        pst_table_cell(table, "%u", stage->microbatch_size);
    } else {
        pst_table_cell(table, "%u, k = %u", stage->microbatch_size, stage->k);
    }
}

static void cell_limit(struct pst_table *table, const struct pst_row_of *of)
{
    pst_table_cell(table, "%s",
                   limit_of(of->at[PST_ROW_OUTER + PROBLEM], of->at[PST_ROW_OUTER + RESULT],
                            of->at[PST_ROW_ENTRY]));
}

#define OF_STAGE(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_partition_stage, member)
#define EACH(list, n)          PST_ROW_EACH(PST_ROW_ENTRY, struct pst_partition_stage, list, n)
static const struct pst_row stage_rows[] = {
    {"id", "number of the stage", PST_ROW_COUNT, .base = PST_ROW_INDEX, .title = ">stage"},
    {NULL, NULL, OF_STAGE(COUNT, n_nodes), .title = "9>ops"},
    {"nodes", "names of its operators", PST_ROW_TEXT, EACH(nodes, n_nodes), .json = put_nodes,
     .cell = cell_nodes, .title = "~operators"},
    {"devices", "several: replicas", PST_ROW_COUNT, EACH(ranks, n_ranks), .cell = cell_ranks,
     .title = "~devices"},
    {"microbatch_size", "samples of a micro-batch over all replicas",
     OF_STAGE(COUNT, microbatch_size), .cell = cell_microbatch, .title = "6>micro-batch"},
    {"k", "passes in a group", OF_STAGE(COUNT, k)},
    {"in_flight_samples", "samples held at the peak, over all replicas",
     OF_STAGE(COUNT, in_flight_samples), .title = "7>in flight"},
    {"successors", "stages that use its outputs", PST_ROW_COUNT, EACH(successors, n_successors)},
    {"compute_us", "F + B + W of one micro-batch on one device", OF_STAGE(TIME, compute_ns),
     .title = ">time"},
    {NULL, NULL, OF_STAGE(TIME, total_per_sample_ns), .title = "8>per sample"},
    {"memory_bytes", "of one device", OF_STAGE(ROOM, memory_bytes), .title = ">memory"},
    {NULL, NULL, .cell = cell_limit, .title = "5limited by"},
    PST_ROWS_END,
};

void pst_partition_report_print(const struct pst_problem *problem,
                                const struct pst_partition_result *result, bool color, FILE *out)
{
    const struct pst_partition_remark *own = own_bottleneck(result);
    char text[32];

    pst_rows_print(pst_partition_rows, "stages", PST_ROW_OF(result, NULL, problem), "  ", color,
                   out);
    fprintf(out, "\nbottleneck   %s a sample", pst_row_time_text(text, result->bottleneck_ns));
    if (result->n_devices >= result->n_stages) {
        fprintf(out, ": stage %u", slowest_of(result));
    }
    fputc('\n', out);
    if (own != NULL) {
        fprintf(out, "             %s a sample by the partitioner's own objective\n",
                pst_row_time_text(text, own->number * 1000.0));
    }
    fprintf(out, "step         %s for %u samples, simulated",
            pst_row_time_text(text, result->step_ns), problem->mini_batch);
    if (result->step_ns > 0) {
        fprintf(out, ": %.6g samples/s", problem->mini_batch / result->step_ns * 1e9);
    }
    fprintf(out, "\ndevices      %u of %u, at most %s each; the longest path has %u stages\n",
            result->n_devices, problem->n_devices, pst_row_room_text(text, result->peak_bytes),
            depth_of(result));
    fprintf(out, "search       %s by %s %s\n",
            pst_row_time_text(text, result->search_seconds * 1e9), result->id, result->version);
    pst_report_remarks_print(result->remarks, result->n_remarks, is_own_key, out);
}

/* --- for tools ---------------------------------------------------------------------------------*/

#define OF_RESULT(kind, member) PST_ROW_AT(kind, RESULT, struct pst_partition_result, member)
#define OF_TOTALS(kind, member) PST_ROW_AT(kind, TOTALS, struct totals, member)
const struct pst_row pst_partition_rows[] = {
    {"partitioner", "its id", OF_RESULT(NAME, id)},
    {"feasible", "`false`: there is `error` instead of what follows", OF_TOTALS(FLAG, feasible)},
    {"stages", "one per stage", PST_ROW_OBJECT, .rows = stage_rows,
     PST_ROW_EACH(RESULT, struct pst_partition_result, stages, n_stages)},
    {OWN_BOTTLENECK, "by the partitioner's own objective, if it has one",
     OF_TOTALS(REAL, bottleneck_us)},
    {"reference_us_per_sample", "then: by penstock's cost model", OF_TOTALS(REAL, reference_us),
     PST_ROW_UNLESS(IF_ZERO, TOTALS, struct totals, has_own)},
    {"step_us", "simulated", OF_RESULT(TIME, step_ns)},
    {"search_seconds", "time of the partitioner", OF_RESULT(REAL, search_seconds)},
    {"devices_idle", "devices without a stage", OF_TOTALS(COUNT, devices_idle)},
    {"depth", "stages on the longest path", OF_TOTALS(COUNT, depth)},
    {"peak_bytes", "maximum of all devices", OF_RESULT(ROOM, peak_bytes)},
    PST_ROWS_END,
};

void pst_partition_report_json(const struct pst_problem *problem,
                               const struct pst_partition_result *result, struct pst_json *json)
{
    const struct pst_partition_remark *own = own_bottleneck(result);
    const double reference_us = result->bottleneck_ns / 1000.0;
    const struct totals totals = {.feasible = true,
                                  .has_own = own != NULL,
                                  .bottleneck_us = own != NULL ? own->number : reference_us,
                                  .reference_us = reference_us,
                                  .devices_idle = problem->n_devices - result->n_devices,
                                  .depth = depth_of(result)};

    pst_rows_json(json, pst_partition_rows, PST_ROW_OF(result, &totals, problem));
    pst_report_remarks_json(result->remarks, result->n_remarks, is_own_key, json);
}
