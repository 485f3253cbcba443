/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/sim_report.h"

#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "reports/plan_report.h"
#include "reports/table.h"
#include "sim/usage.h"

char *pst_report_idle_text(struct pst_idle idle, char text[PST_IDLE_TEXT])
{
    snprintf(text, PST_IDLE_TEXT, "all devices %.1f %%, busiest device %.1f %%", 100 * idle.all,
             100 * idle.busiest);
    return text;
}

void pst_report_idle_json(struct pst_json *json, struct pst_idle idle, uint32_t n_used)
{
    pst_json_real(json, "idle", idle.all, 6);
    pst_json_real(json, "bubble", idle.busiest, 6);
    pst_json_uint(json, "devices_used", n_used);
}

/* --- for people ------------------------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

static bool has_copies(const struct pst_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        if (timeline->spans[i].op == PST_I_OFFLOAD) {
            return true;
        }
    }
    return false;
}

/* Without curves the plan has their peaks. */
static void add_row(struct pst_table *table, const struct pst_session *session,
                    const struct pst_timeline *timeline, uint32_t rank, bool copies)
{
    const struct pst_plan *plan = session->planned.plan;
    const bool sized = session->planned.programs != NULL;
    const struct pst_timeline_rank *row = &timeline->ranks[rank];
    const bool steady = timeline->drains;
    struct pst_usage usage =
        steady ? timeline->step.usage[rank] : pst_timeline_usage(timeline, rank);
    uint64_t all = steady ? timeline->step.ns : timeline->end_ns - timeline->begin_ns;
    char text[32];

    pst_table_cell(table, "%s", row->name);
    pst_table_ns(table, usage.busy_ns);
    pst_table_cell(table, "%.1f %%", percent(usage.busy_ns, all));
    pst_table_ns(table, usage.idle_ns);
    pst_table_ns(table, usage.exposed_ns);
    if (copies) {
        pst_table_ns(table, usage.stall_ns);
    }
    pst_table_cell(table, "%s",
                   !sized ? "-" : pst_format_bytes(text, plan->devices[rank].peak_bytes));
    pst_table_cell(table, "%s",
                   !sized ? "-" : pst_format_bytes(text, plan->devices[rank].arena_bytes));
    pst_table_cell(table, "%s",
                   row->capacity_bytes == UINT64_MAX ? "no limit"
                                                     : pst_format_bytes(text, row->capacity_bytes));
}

static void print_ranks(const struct pst_session *session, const struct pst_timeline *timeline,
                        bool color, FILE *out)
{
    bool copies = has_copies(timeline);
    struct pst_table table;

    pst_table_init(&table, "device|>busy|5>|>idle|6>exposed");
    pst_table_columns(&table, copies ? "7>stall|>peak live|8>allocated|9>capacity"
                                     : ">peak live|8>allocated|9>capacity");
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        add_row(&table, session, timeline, r, copies);
    }
    pst_table_end(&table, out, "", color);
}

void pst_sim_report_print(const struct pst_session *session, const struct pst_timeline *timeline,
                          const struct pst_sim_result *result, bool color, FILE *out)
{
    char period[32], total[32], idle[PST_IDLE_TEXT];

    pst_text_printf(out, "%s: %s\n", session->graph->name, timeline->title);
    pst_report_prediction(session, pst_format_ns(period, result->period_ns), out);
    fprintf(out, "idle            %s\n", pst_report_idle_text(pst_sim_idle(result), idle));
    fprintf(out, "simulated       %u step%s%s, %s\n", result->n_steps,
            result->n_steps == 1 ? "" : "s", timeline->drains ? " with fill and drain" : "",
            pst_format_ns(total, result->total_ns));
    fputs(timeline->drains ? "table           one step in the steady state\n\n" : "\n", out);
    print_ranks(session, timeline, color, out);
}

/* --- for tools -------------------------------------------------------------------------------- */

static const char *const lanes[PST_LANES] = {"compute", "send",   "recv",      "d2h",
                                             "h2d",     "reduce", "optimizer", "host"};
static const char *const kinds[PST_MEM_KINDS] = {"params",  "grads",     "optimizer", "activations",
                                                 "buffers", "workspace", "guests"};

static void add_us(struct pst_json *json, const char *key, uint64_t ns)
{
    pst_json_us(json, key, (double)ns);
}

static void add_number(struct pst_json *json, const char *key, uint32_t number)
{
    if (number != PST_NONE) {
        pst_json_uint(json, key, number);
    }
}

static void add_span(struct pst_json *json, const struct pst_span *span)
{
    pst_json_object(json, NULL);
    pst_json_string(json, "op", pst_instr_name(span->op));
    add_number(json, "stage", span->stage);
    add_number(json, "to_stage", span->to_stage);
    add_number(json, "microbatch", span->microbatch);
    add_us(json, "start_us", span->start_ns);
    add_us(json, "end_us", span->end_ns);
    pst_json_string(json, "lane", lanes[span->lane]);
    pst_json_uint(json, "step", span->step);
    add_number(json, "instr", span->instr);
    if (span->peer != PST_NONE) {
        pst_json_uint(json, "peer", span->peer);
        pst_json_string(json, "payload", pst_payload_name(span->payload));
        pst_json_uint(json, "first_sample", span->first_sample);
        pst_json_uint(json, "samples", span->n_samples);
    }
    if (span->bytes > 0) {
        pst_json_uint(json, "bytes", span->bytes);
    }
    if (span->stall_ns > 0) {
        add_us(json, "stall_us", span->stall_ns);
    }
    pst_json_end(json, '}');
}

static void add_point(struct pst_json *json, const struct pst_memory_point *point)
{
    pst_json_object(json, NULL);
    add_us(json, "us", point->ns);
    pst_json_object(json, "bytes");
    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        pst_json_uint(json, kinds[k], point->bytes[k]);
    }
    pst_json_end(json, '}');
    pst_json_end(json, '}');
}

static void add_rank(struct pst_json *json, const struct pst_plan *plan,
                     const struct pst_timeline *timeline, uint32_t rank)
{
    const struct pst_timeline_rank *row = &timeline->ranks[rank];
    struct pst_usage usage = pst_timeline_usage(timeline, rank);

    pst_json_object(json, NULL);
    pst_json_uint(json, "rank", rank);
    if (plan->devices[rank].kind != NULL) {
        pst_json_string(json, "kind", plan->devices[rank].kind);
    }
    add_us(json, "busy_us", usage.busy_ns);
    add_us(json, "idle_us", usage.idle_ns);
    add_us(json, "exposed_comm_us", usage.exposed_ns);
    if (usage.stall_ns > 0) {
        add_us(json, "copy_stall_us", usage.stall_ns);
    }
    if (timeline->drains) {
        add_us(json, "step_busy_us", timeline->step.usage[rank].busy_ns);
        add_us(json, "step_idle_us", timeline->step.usage[rank].idle_ns);
        add_us(json, "step_exposed_comm_us", timeline->step.usage[rank].exposed_ns);
    }
    if (row->points != NULL) {
        pst_json_uint(json, "peak_bytes", row->peak_bytes);
        pst_json_uint(json, "arena_bytes", plan->devices[rank].arena_bytes);
    } else {
        pst_json_raw(json, "peak_bytes", "null");
        pst_json_raw(json, "arena_bytes", "null");
    }
    if (row->capacity_bytes != UINT64_MAX) {
        pst_json_uint(json, "capacity_bytes", row->capacity_bytes);
    } else {
        pst_json_raw(json, "capacity_bytes", "null");
    }
    pst_json_end(json, '}');
}

void pst_sim_report_json(const struct pst_session *session, const struct pst_timeline *timeline,
                         const struct pst_sim_result *result, struct pst_json *json)
{
    const struct pst_plan *plan = session->planned.plan;

    pst_json_uint(json, "devices", timeline->n_ranks);
    pst_json_uint(json, "steps", result->n_steps);
    add_us(json, "step_us", result->period_ns);
    add_us(json, "step_here_us", session->here_ns);
    add_us(json, "total_us", result->total_ns);
    add_us(json, "span_us", result->span_ns);
    if (timeline->drains) {
        const uint64_t steps_ns = result->n_steps * result->period_ns;

        add_us(json, "fill_drain_us",
               result->total_ns > steps_ns ? result->total_ns - steps_ns : 0);
    }
    pst_report_idle_json(json, pst_sim_idle(result), result->n_used);
    pst_json_array(json, "ranks");
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        add_rank(json, plan, timeline, r);
    }
    pst_json_end(json, ']');
    pst_json_array(json, "timeline");
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        const struct pst_timeline_rank *row = &timeline->ranks[r];

        pst_json_array(json, NULL);
        for (uint32_t i = row->first; i < row->first + row->n_spans; i++) {
            add_span(json, &timeline->spans[i]);
        }
        pst_json_end(json, ']');
    }
    pst_json_end(json, ']');
    pst_json_array(json, "memory");
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        const struct pst_timeline_rank *row = &timeline->ranks[r];

        pst_json_array(json, NULL);
        for (uint32_t i = 0; i < row->n_points; i++) {
            add_point(json, &row->points[i]);
        }
        pst_json_end(json, ']');
    }
    pst_json_end(json, ']');
}
