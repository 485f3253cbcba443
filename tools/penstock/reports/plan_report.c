/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/plan_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "data/data.h"
#include "reports/partition_words.h"
#include "reports/progress.h"
#include "reports/sim_report.h"
#include "reports/table.h"

/* "keep 1.2 MiB, recompute 5: 3.0 MiB, +1.20 ms, offload 2: 4.0 MiB, link 333 us" */
static const char *memory_actions(const struct pst_stage_report *stage,
                                  const struct pst_plan_stage *plan, char *text, size_t size)
{
    /* Micro-batches that are nobody's guests keep what the others leave with a peer. */
    uint64_t kept =
        stage->kept_bytes + (plan->n_guests < plan->n_microbatches ? stage->peer_bytes : 0);
    char bytes[32], time[32];

    snprintf(text, size, "keep %s", pst_format_bytes(bytes, kept));
    if (stage->n_recomputed > 0) {
        pst_text_append(text, size, ", recompute %u: %s, +%s", stage->n_recomputed,
                        pst_format_bytes(bytes, stage->recomputed_bytes),
                        pst_format_ns(time, stage->recompute_ns));
    }
    if (stage->n_offloaded > 0) {
        pst_text_append(text, size, ", offload %u: %s, link %s", stage->n_offloaded,
                        pst_format_bytes(bytes, stage->offloaded_bytes),
                        pst_format_ns(time, stage->link_ns));
    }
    if (plan->n_guests > 0) {
        pst_text_append(text, size, ", peer %u: %s of %u of %u micro-batches", stage->n_peers,
                        pst_format_bytes(bytes, stage->peer_bytes), plan->n_guests,
                        plan->n_microbatches);
    }
    if (stage->guest_bytes > 0) {
        pst_text_append(text, size, ", guests %s", pst_format_bytes(bytes, stage->guest_bytes));
    }
    return text;
}

/* The kinds of a stage's devices, each once. */
static const char *kinds_of(const struct pst_plan *plan, const struct pst_plan_stage *stage,
                            char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        const char *kind = plan->devices[stage->ranks[r]].kind;
        bool known = kind == NULL;

        for (uint32_t q = 0; q < r && !known; q++) {
            known = strcmp(plan->devices[stage->ranks[q]].kind, kind) == 0;
        }
        if (!known) {
            pst_text_append(text, size, "%s%s", text[0] != '\0' ? ", " : "", kind);
        }
    }
    return text;
}

static void add_row(struct pst_table *table, const struct pst_session *session,
                    const struct pst_stage_report *r)
{
    const struct pst_plan_stage *stage = &session->planned.plan->stages[r->stage];
    const struct pst_graph *graph = session->graph;
    char text[256];

    pst_table_cell(table, "%u", r->stage);
    pst_table_cell(table, "%s",
                   pst_report_ranks(stage->ranks, stage->n_ranks, ",", text, sizeof text));
    if (session->cluster.n_kinds > 0) {
        pst_table_cell(table, "%s", kinds_of(session->planned.plan, stage, text, sizeof text));
    }
    pst_table_cell(table, "%u", r->n_operators);
    if (r->n_operators == 1) {
        pst_table_cell(table, "%s", graph->ops[r->first_operator].name);
    } else {
        pst_table_cell(table, "%s .. %s", graph->ops[r->first_operator].name,
                       graph->ops[r->last_operator].name);
    }
    pst_table_cell(table, "%s", pst_format_count(text, (double)r->parameters));
    pst_table_ns(table, r->forward_ns);
    pst_table_ns(table, r->backward_ns);
    pst_table_cell(table, "%u x %u", stage->in_flight, stage->microbatch_size);
    pst_table_cell(table, "%s", memory_actions(r, stage, text, sizeof text));
    pst_table_bytes(table, r->static_bytes);
    pst_table_bytes(table, r->activation_bytes);
    pst_table_bytes(table, r->static_bytes + r->activation_bytes);
    pst_table_cell(table, "%s", r->limited_by);
}

/* Is anything not just kept? */
static bool acts(const struct pst_session *session, const struct pst_stage_report *stages)
{
    const struct pst_plan *plan = session->planned.plan;

    for (uint32_t i = 0; i < plan->n_stages; i++) {
        if (stages[i].n_recomputed + stages[i].n_offloaded + plan->stages[i].n_guests > 0 ||
            stages[i].guest_bytes > 0) {
            return true;
        }
    }
    return false;
}

static void print_stages(const struct pst_session *session, const struct pst_stage_report *stages,
                         bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table, ">stage|>device");
    pst_table_columns(&table, session->cluster.n_kinds > 0 ? "kind" : "");
    pst_table_columns(&table, "6>ops|~operators|9>params|>forward|>backward|4>held");
    pst_table_columns(&table, acts(session, stages) ? "2~saved" : "5~saved");
    pst_table_columns(&table, "8>static|7>activations|>total|3limited by");
    for (uint32_t i = 0; i < session->planned.plan->n_stages; i++) {
        add_row(&table, session, &stages[i]);
    }
    pst_table_end(&table, out, "", color);
}

static uint64_t arena_bytes(const struct pst_plan *plan, uint32_t rank)
{
    return plan->devices[rank].arena_bytes;
}

static uint64_t host_bytes(const struct pst_plan *plan, uint32_t rank)
{
    return plan->devices[rank].host_bytes;
}

/* "1.20 GiB, 3 x 800 MiB": device by device, equal ones that follow each other together. */
static void print_sizes(const struct pst_plan *plan, const char *title,
                        uint64_t (*bytes_of)(const struct pst_plan *plan, uint32_t rank), FILE *out)
{
    char *text = pst_printf("%-15s", title), size[32];

    for (uint32_t i = 0, n; i < plan->n_devices; i += n) {
        uint64_t bytes = bytes_of(plan, i);
        char times[24] = "", *longer;

        for (n = 1; i + n < plan->n_devices && bytes_of(plan, i + n) == bytes; n++) {
        }
        if (n > 1) {
            snprintf(times, sizeof times, "%u x ", n);
        }
        longer =
            pst_printf("%s%s%s%s", text, i == 0 ? " " : ", ", times, pst_format_bytes(size, bytes));
        free(text);
        text = longer;
    }
    pst_table_paragraph(out, text, 16);
    free(text);
}

static void print_devices(const struct pst_session *session, FILE *out)
{
    const struct pst_plan *plan = session->planned.plan;
    char limit[96];
    bool host = false;

    print_sizes(plan, "allocated", arena_bytes, out);
    if (session->cluster.n_kinds == 0) {
        fprintf(out, "memory of each  %s\n",
                pst_session_capacity_text(session, 0, limit, sizeof limit));
    } else {
        print_sizes(plan, "memory of each", pst_plan_capacity, out);
    }
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        host |= plan->devices[i].host_bytes > 0;
    }
    if (host) {
        print_sizes(plan, "host memory", host_bytes, out);
    }
}

static uint32_t most_versions(const struct pst_plan *plan)
{
    uint32_t most = 1;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint32_t n = plan->stages[s].weight_versions;

        most = n > most ? n : most;
    }
    return most;
}

/* Prints the weight versions of an asynchronous plan. */
static void print_versions(const struct pst_plan *plan, FILE *out)
{
    if (!plan->asynchronous) {
        return;
    }
    if (plan->version_rule == PST_VERSION_STASHED) {
        fprintf(
            out,
            "asynchronous: up to %u versions of the weights, an update after every micro-batch, "
            "drained ",
            most_versions(plan));
    } else {
        fprintf(out, "asynchronous: two versions of the weights, gradients one step old, drained ");
    }
    if (plan->drain_every > 1) {
        fprintf(out, "every %u steps\n", plan->drain_every);
    } else {
        fprintf(out, "%s\n", plan->drain_every == 1 ? "after every step" : "at the end");
    }
}

/* "(4 devices of 2 threads share 2 cores)" */
static char *describe_cores(const struct pst_session *session, struct pst_arena *arena)
{
    const uint32_t n = session->planned.plan->n_devices, threads = session->device_config.threads;
    char *text = pst_arena_printf(arena, "(%u device%s", n, n == 1 ? "" : "s");

    text = threads > 1 ? pst_arena_printf(arena, "%s of %u threads", text, threads) : text;
    return pst_arena_printf(arena, "%s share %u core%s)", text, session->cores,
                            session->cores == 1 ? "" : "s");
}

void pst_report_prediction(const struct pst_session *session, const char *text, FILE *out)
{
    const bool shares = session->threads > session->cores;
    const bool in_turn = session->shown == &session->here;
    struct pst_arena arena = {0};
    char here[32];

    text = pst_arena_printf(&arena, "predicted step  %s%s", text,
                            session->calibrated ? ", operators measured here" : "");
    text = shares && in_turn
               ? pst_arena_printf(&arena, "%s %s", text, describe_cores(session, &arena))
               : text;
    pst_table_paragraph(out, text, 16);
    if (shares && !in_turn) {
        text =
            pst_arena_printf(&arena, "on this machine %s %s", pst_format_ns(here, session->here_ns),
                             describe_cores(session, &arena));
        pst_table_paragraph(out, text, 16);
    }
    pst_arena_finish(&arena);
}

static void print_prediction(const struct pst_session *session, FILE *out)
{
    const struct pst_sample_unit unit = pst_sample_unit_of(session->graph);
    double per_step =
        (double)session->planned.plan->batch / session->graph->slices * (double)unit.n;
    uint64_t ns = session->predicted_ns;
    char step[32], rate[32], text[96], idle[PST_IDLE_TEXT];

    snprintf(text, sizeof text, "%s, %s %s/s", pst_format_ns(step, ns),
             pst_format_count(rate, ns == 0 ? 0.0 : per_step * 1e9 / (double)ns), unit.name);
    fputc('\n', out);
    pst_report_prediction(session, text, out);
    fprintf(out, "idle            %s\n",
            pst_report_idle_text(pst_sim_idle(&session->simulated), idle));
}

void pst_plan_report_print(const struct pst_session *session, const char *file, bool color,
                           FILE *out)
{
    const struct pst_plan *plan = session->planned.plan;
    struct pst_stage_report *stages = NULL;
    const char *sharing;
    char count[32], text[256], devices[PST_DEVICES_TEXT];
    pst_plan_report_stages(session, &stages);
    pst_text_printf(out, "%s: %s parameters, %u operators, %u stage%s on %s device%s, batch %u\n",
                    session->graph->name,
                    pst_format_count(count, (double)pst_graph_parameters(session->graph)),
                    session->graph->n_ops, plan->n_stages, plan->n_stages == 1 ? "" : "s",
                    pst_plan_devices_text(plan, devices), plan->n_devices == 1 ? "" : "s",
                    plan->batch / session->graph->slices);
    if (session->graph->slices > 1) {
        fprintf(out, "passes of %u slices of each sequence\n", session->graph->slices);
    }
    pst_text_printf(out, "partitioner %s, scheduler %s, memopt %s\n", plan->partitioner,
                    plan->scheduler, plan->memopt[0] == '\0' ? "-" : plan->memopt);
    pst_text_printf(out, "update %s\n",
                    pst_rules_text(&session->rules, session->graph, text, sizeof text));
    print_versions(plan, out);
    fputc('\n', out);
    print_stages(session, stages, color, out);
    print_prediction(session, out);
    sharing = pst_session_sharing(session, text, sizeof text);
    if (sharing != NULL) {
        fprintf(out, "shared          %s\n", sharing);
    }
    print_devices(session, out);
    if (session->planned.search_seconds > 0) {
        fprintf(out, "searched for    %.2f s%s\n", session->planned.search_seconds,
                plan->isolated ? ", in a separate process" : "");
    }
    if (session->planned.n_remarks > 0) {
        fputs("remarks of the partitioner\n", out);
        pst_report_remarks_print(session->planned.remarks, session->planned.n_remarks, NULL, out);
    }
    if (file != NULL) {
        pst_text_printf(out, "written to      %s\n", file);
    }
    free(stages);
}

static void add_stage(struct pst_json *json, const struct pst_session *session,
                      const struct pst_stage_report *r)
{
    const struct pst_plan_stage *stage = &session->planned.plan->stages[r->stage];
    char kinds[256];

    pst_json_object(json, NULL);
    pst_json_uint(json, "id", r->stage);
    pst_json_uints(json, "devices", stage->ranks, stage->n_ranks);
    if (session->cluster.n_kinds > 0) {
        pst_json_string(json, "kind", kinds_of(session->planned.plan, stage, kinds, sizeof kinds));
    }
    pst_json_uint(json, "operators", r->n_operators);
    pst_json_string(json, "first_operator", session->graph->ops[r->first_operator].name);
    pst_json_string(json, "last_operator", session->graph->ops[r->last_operator].name);
    pst_json_uint(json, "parameters", r->parameters);
    pst_json_uint(json, "microbatch_size", stage->microbatch_size);
    pst_json_uint(json, "microbatches", stage->n_microbatches);
    pst_json_uint(json, "k", stage->k);
    pst_json_uint(json, "in_flight", stage->in_flight);
    pst_json_us(json, "forward_us", (double)r->forward_ns);
    pst_json_us(json, "backward_us", (double)r->backward_ns);
    pst_json_uint(json, "recomputed", r->n_recomputed);
    pst_json_uint(json, "offloaded", r->n_offloaded);
    pst_json_uint(json, "kept_bytes", r->kept_bytes);
    pst_json_uint(json, "recomputed_bytes", r->recomputed_bytes);
    pst_json_uint(json, "offloaded_bytes", r->offloaded_bytes);
    pst_json_uint(json, "peers", r->n_peers);
    pst_json_uint(json, "peer_bytes", r->peer_bytes);
    pst_json_uint(json, "peer_microbatches", stage->n_guests);
    pst_json_uint(json, "guest_bytes", r->guest_bytes);
    pst_json_us(json, "recompute_us", (double)r->recompute_ns);
    pst_json_us(json, "link_us", (double)r->link_ns);
    pst_json_uint(json, "static_bytes", r->static_bytes);
    pst_json_uint(json, "activation_bytes", r->activation_bytes);
    pst_json_uint(json, "total_bytes", r->static_bytes + r->activation_bytes);
    pst_json_string(json, "limited_by", r->limited_by);
    pst_json_end(json, '}');
}

static void add_devices(struct pst_json *json, const struct pst_plan *plan)
{
    pst_json_array(json, "devices");
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        pst_json_object(json, NULL);
        pst_json_uint(json, "rank", i);
        if (plan->devices[i].kind != NULL) {
            pst_json_string(json, "kind", plan->devices[i].kind);
            pst_json_uint(json, "capacity_bytes", pst_plan_capacity(plan, i));
        }
        pst_json_uint(json, "peak_bytes", plan->devices[i].peak_bytes);
        pst_json_uint(json, "arena_bytes", plan->devices[i].arena_bytes);
        pst_json_uint(json, "host_bytes", plan->devices[i].host_bytes);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

void pst_plan_report_json(const struct pst_session *session, const char *file,
                          struct pst_json *json)
{
    const struct pst_plan *plan = session->planned.plan;
    struct pst_stage_report *stages = NULL;

    pst_plan_report_stages(session, &stages);
    pst_json_string(json, "model", session->graph->name);
    pst_json_uint(json, "parameters", pst_graph_parameters(session->graph));
    pst_json_string(json, "partitioner", plan->partitioner);
    pst_json_string(json, "scheduler", plan->scheduler);
    pst_json_string(json, "memopt", plan->memopt);
    pst_json_uint(json, "batch", plan->batch / session->graph->slices);
    pst_json_uint(json, "slices", session->graph->slices);
    pst_json_bool(json, "asynchronous", plan->asynchronous);
    pst_json_uint(json, "weight_versions", most_versions(plan));
    pst_json_uint(json, "drain_every", plan->drain_every);
    pst_json_array(json, "stages");
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        add_stage(json, session, &stages[i]);
    }
    pst_json_end(json, ']');
    add_devices(json, plan);
    pst_json_us(json, "step_us", (double)session->predicted_ns);
    pst_json_us(json, "step_here_us", (double)session->here_ns);
    pst_report_idle_json(json, pst_sim_idle(&session->simulated), pst_plan_used_devices(plan));
    pst_json_string(json, "operator_times", pst_session_times_name(session));
    if (session->cores != 0) {
        pst_json_uint(json, "threads", session->threads);
        pst_json_uint(json, "cores", session->cores);
    }
    pst_json_real(json, "search_seconds", session->planned.search_seconds, 6);
    pst_json_bool(json, "isolated", plan->isolated);
    pst_json_object(json, "remarks");
    pst_report_remarks_json(session->planned.remarks, session->planned.n_remarks, NULL, json);
    pst_json_end(json, '}');
    if (file != NULL) {
        pst_json_string(json, "file", file);
    }
    free(stages);
}
