/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/plan_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "data/data.h"
#include "graph/split.h"
#include "reports/partition_words.h"
#include "reports/progress.h"
#include "reports/rows.h"
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

/* --- the figures of a stage --------------------------------------------------------------------*/

/* After the stage and its number: the structs of the plan's own rows. */
enum { SESSION, PLAN, TOTALS, GRAPH };
#define OUTER(of, base) ((of)->at[PST_ROW_OUTER + (base)])

/* Figures of the whole plan that are in no struct of their own. */
struct totals {
    struct pst_stage_report *stages;
    bool acts;   /* something of a stage is not just kept: that column is among the last to go */
    bool unlike; /* stages have unlike tensor degrees */
    uint64_t parameters;
    uint32_t n_stages, batch, weight_versions, devices_used;
    uint32_t tensor; /* 0: no parts, or unlike */
    struct pst_idle idle;
    double uncertainty;
    const char *operator_times, *file;
};

static void cell_ranks(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_stage_report *r = of->at[PST_ROW_ENTRY];
    char text[256];

    pst_table_cell(table, "%s",
                   pst_report_ranks(r->plan.ranks, r->plan.n_ranks, ",", text, sizeof text));
}

static void cell_operators(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_stage_report *r = of->at[PST_ROW_ENTRY];

    if (r->n_operators == 1) {
        pst_table_cell(table, "%s", r->first_operator);
    } else {
        pst_table_cell(table, "%s .. %s", r->first_operator, r->last_operator);
    }
}

static void cell_parameters(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_stage_report *r = of->at[PST_ROW_ENTRY];
    char text[32];

    pst_table_cell(table, "%s", pst_format_count(text, (double)r->parameters));
}

static void cell_held(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_stage_report *r = of->at[PST_ROW_ENTRY];

    pst_table_cell(table, "%u x %u", r->plan.in_flight, r->plan.microbatch_size);
}

static void cell_saved(struct pst_table *table, const struct pst_row_of *of)
{
    const struct pst_stage_report *r = of->at[PST_ROW_ENTRY];
    char text[256];

    pst_table_cell(table, "%s", memory_actions(r, &r->plan, text, sizeof text));
}

#define OF_STAGE(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_stage_report, member)
static const struct pst_row stage_rows[] = {
    {"id", "number of the stage", OF_STAGE(COUNT, stage), .title = ">stage"},
    {"devices", "several: replicas", PST_ROW_COUNT,
     PST_ROW_EACH(PST_ROW_ENTRY, struct pst_stage_report, plan.ranks, plan.n_ranks),
     .cell = cell_ranks, .title = ">device"},
    {"tensor", "devices that share each of its operators; absent if all stages have as many",
     OF_STAGE(COUNT, plan.tensor),
     PST_ROW_UNLESS(IF_ZERO, PST_ROW_OUTER + TOTALS, struct totals, unlike), .title = ">tensor"},
    {"kind", "kinds of its devices; absent if all devices are alike", OF_STAGE(NAME, kinds),
     .absent = PST_ROW_IF_ZERO, .title = "kind"},
    {"operators", "number of operators", OF_STAGE(COUNT, n_operators), .title = "6>ops"},
    {"first_operator", "its name", OF_STAGE(TEXT, first_operator)},
    {"last_operator", "its name", OF_STAGE(TEXT, last_operator)},
    {NULL, NULL, .cell = cell_operators, .title = "~operators"},
    {"parameters", "trainable values", OF_STAGE(NUMBER, parameters), .cell = cell_parameters,
     .title = "9>params"},
    {"microbatch_size", "samples of a micro-batch over all replicas",
     OF_STAGE(COUNT, plan.microbatch_size)},
    {"microbatches", "micro-batches of a step", OF_STAGE(COUNT, plan.n_microbatches)},
    {"k", "longest row of forward passes after a backward pass", OF_STAGE(COUNT, plan.k)},
    {"in_flight", "micro-batches held at the peak", OF_STAGE(COUNT, plan.in_flight)},
    {"forward_us", "of one micro-batch, without replays", OF_STAGE(NS, forward_ns),
     .title = ">forward"},
    {"backward_us", "of one micro-batch, without replays", OF_STAGE(NS, backward_ns),
     .title = ">backward"},
    {NULL, NULL, .cell = cell_held, .title = "4>held"},
    {NULL, NULL, .cell = cell_saved,
     PST_ROW_UNLESS(IF_ZERO, PST_ROW_OUTER + TOTALS, struct totals, acts), .title = "2~saved"},
    {NULL, NULL, .cell = cell_saved,
     PST_ROW_UNLESS(IF_NOT_ZERO, PST_ROW_OUTER + TOTALS, struct totals, acts), .title = "5~saved"},
    {"recomputed", "operators", OF_STAGE(COUNT, n_recomputed)},
    {"offloaded", "operators", OF_STAGE(COUNT, n_offloaded)},
    {"kept_bytes", "saved by one micro-batch and kept", OF_STAGE(BYTES, kept_bytes)},
    {"recomputed_bytes", "saved by one micro-batch and recomputed",
     OF_STAGE(BYTES, recomputed_bytes)},
    {"offloaded_bytes", "saved by one micro-batch and offloaded", OF_STAGE(BYTES, offloaded_bytes)},
    {"peers", "operators whose saved tensors another device keeps", OF_STAGE(COUNT, n_peers)},
    {"peer_bytes", "saved by one micro-batch and kept there", OF_STAGE(BYTES, peer_bytes)},
    {"peer_microbatches", "micro-batches that another device keeps",
     OF_STAGE(COUNT, plan.n_guests)},
    {"guest_bytes", "kept for other devices at the peak", OF_STAGE(BYTES, guest_bytes)},
    {"recompute_us", "replays of one micro-batch", OF_STAGE(NS, recompute_ns)},
    {"link_us", "host link, of one micro-batch", OF_STAGE(NS, link_ns)},
    {"static_bytes", "weights, gradients, optimizer state, running statistics",
     OF_STAGE(BYTES, static_bytes), .title = "8>static"},
    {"activation_bytes", "everything else that is live at the device's peak",
     OF_STAGE(BYTES, activation_bytes), .title = "7>activations"},
    {"total_bytes", "the sum", OF_STAGE(BYTES, total_bytes), .title = ">total"},
    {"limited_by", "`memory`, `compute`, `transfers` or `all-reduce`", OF_STAGE(TEXT, limited_by),
     .title = "3limited by"},
    PST_ROWS_END,
};

/* Is anything not just kept? */
static bool acts(const struct pst_plan *plan, const struct pst_stage_report *stages)
{
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        if (stages[i].n_recomputed + stages[i].n_offloaded + plan->stages[i].n_guests > 0 ||
            stages[i].guest_bytes > 0) {
            return true;
        }
    }
    return false;
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

/* Returns what the framework that [cluster] describes needs at its peak; 0: it is not known. */
static uint64_t framework_bytes(const struct pst_session *session, uint32_t rank)
{
    return (uint64_t)((double)session->planned.plan->devices[rank].peak_bytes *
                      session->cluster.memory_factor);
}

static void print_framework(const struct pst_session *session, FILE *out)
{
    uint32_t most = 0;
    char need[32], limit[96];

    for (uint32_t r = 1; r < session->planned.plan->n_devices; r++) {
        most = framework_bytes(session, r) > framework_bytes(session, most) ? r : most;
    }
    if (session->cluster.memory_factor > 0) {
        fprintf(out, "framework       would need %s on device %u, whose memory is %s\n",
                pst_format_bytes(need, framework_bytes(session, most)), most,
                pst_session_capacity_text(session, most, limit, sizeof limit));
    }
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
    print_framework(session, out);
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

/* Returns that of the description; 0: it is not known, or operators are measured. */
static double find_uncertainty(const struct pst_session *session)
{
    return session->cost.profile == NULL ? session->cluster.uncertainty : 0;
}

void pst_report_prediction(const struct pst_session *session, const char *text, FILE *out)
{
    const bool shares = session->threads > session->cores;
    const bool in_turn = session->shown == &session->here;
    struct pst_arena arena = {0};
    char here[32];

    text = pst_arena_printf(&arena, "predicted step  %s%s", text,
                            session->calibrated ? ", operators measured here" : "");
    if (find_uncertainty(session) > 0) {
        text = pst_arena_printf(&arena, "%s; ± %.2g %%, as on published runs", text,
                                100 * find_uncertainty(session));
    }
    text = shares && in_turn
               ? pst_arena_printf(&arena, "%s %s", text, describe_cores(session, &arena))
               : text;
    pst_table_paragraph(out, text, 16);
    if (!in_turn && (shares || session->here_ns != session->predicted_ns)) {
        text = pst_arena_printf(
            &arena, "on this machine %s %s", pst_format_ns(here, session->here_ns),
            shares ? describe_cores(session, &arena)
                   : "(replicas exchange weights and gradients between kernels, not beside them)");
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

static void print_pieces(const struct pst_plan *plan, FILE *out)
{
    static const char *const pieces[] = {"", "optimizer state", "gradients and optimizer state",
                                         "weights, gradients and optimizer state"};

    if (plan->zero > 0) {
        fprintf(out, "ZeRO %u: each replica of a stage keeps its piece of the %s", plan->zero,
                pieces[plan->zero]);
        if (plan->zero == 3) {
            fprintf(out, "; weights are gathered %u layer%s ahead", plan->prefetch,
                    plan->prefetch == 1 ? "" : "s");
        }
        fputc('\n', out);
    }
}

static void put_range(const uint32_t range[2], char *text)
{
    snprintf(text, PST_GRID_TEXT, range[0] == range[1] ? "%u" : "%u-%u", range[0], range[1]);
}

static void widen(uint32_t n, uint32_t range[2])
{
    range[0] = range[0] == 0 || n < range[0] ? n : range[0];
    range[1] = n > range[1] ? n : range[1];
}

void pst_report_grid(const struct pst_plan *plan, char replicas[PST_GRID_TEXT],
                     char tensor[PST_GRID_TEXT])
{
    uint32_t of_replicas[2] = {0}, of_tensor[2] = {0};

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        widen(pst_plan_replicas(&plan->stages[s]) / plan->copies, of_replicas);
        widen(plan->stages[s].tensor, of_tensor);
    }
    put_range(of_replicas, replicas);
    put_range(of_tensor, tensor);
}

static void print_parts(const struct pst_plan *plan, const struct pst_graph *graph, FILE *out)
{
    const struct pst_op *op = NULL;
    const uint32_t n = pst_graph_whole_attention(graph, &op);
    char replicas[PST_GRID_TEXT], tensor[PST_GRID_TEXT];

    pst_report_grid(plan, replicas, tensor);
    if (graph->parts > 1) {
        fprintf(out,
                "tensor parallelism: %s devices in a row share each operator%s%s; figures of a "
                "stage are per device\n",
                tensor, graph->degree_of == NULL ? "" : " of a stage",
                graph->ways == PST_WAYS_ROWS      ? " by tokens, with whole weights"
                : graph->ways == PST_WAYS_ULYSSES ? " by tokens, with whole weights, and attention "
                                                    "by heads"
                : graph->sequence                 ? ", and the tokens elsewhere"
                                                  : "");
    }
    if (n > 0) {
        pst_text_printf(out,
                        "every part computes whole: %u operator%s of attention (%s%s), with %u "
                        "heads, %u of keys\n",
                        n, n == 1 ? "" : "s", op->name, n == 1 ? "" : ", ...", op->heads,
                        pst_op_kv_heads(op));
    }
}

void pst_plan_report_print(const struct pst_session *session, const char *file, bool color,
                           FILE *out)
{
    const struct pst_plan *plan = session->planned.plan;
    struct totals totals = {.n_stages = plan->n_stages,
                            .unlike = session->graph->degree_of != NULL};
    const char *sharing;
    char count[32], text[256], devices[PST_DEVICES_TEXT];

    pst_plan_report_stages(session, &totals.stages);
    totals.acts = acts(plan, totals.stages);
    pst_text_printf(out, "%s: %s parameters, %u operators, %u stage%s on %s device%s, batch %u\n",
                    session->graph->name,
                    pst_format_count(count, (double)pst_graph_parameters(session->graph)),
                    session->graph->n_ops, plan->n_stages, plan->n_stages == 1 ? "" : "s",
                    pst_plan_devices_text(plan, devices), plan->n_devices == 1 ? "" : "s",
                    plan->batch / session->graph->slices);
    if (session->graph->slices > 1) {
        fprintf(out, "passes of %u slices of each sequence\n", session->graph->slices);
    }
    print_parts(plan, session->graph, out);
    print_pieces(plan, out);
    pst_text_printf(out, "partitioner %s, scheduler %s, memopt %s\n", plan->partitioner,
                    plan->scheduler, plan->memopt[0] == '\0' ? "-" : plan->memopt);
    pst_text_printf(out, "update %s\n",
                    pst_rules_text(&session->rules, session->graph, text, sizeof text));
    print_versions(plan, out);
    fputc('\n', out);
    pst_rows_print(pst_plan_rows, "stages", PST_ROW_OF(session, plan, &totals), "", color, out);
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
    free(totals.stages);
}

/* --- for tools ---------------------------------------------------------------------------------*/

static void put_capacity(struct pst_json *json, const struct pst_row *row,
                         const struct pst_row_of *of)
{
    pst_json_uint(json, row->key,
                  pst_plan_capacity(OUTER(of, PLAN), *(const uint32_t *)of->at[PST_ROW_INDEX]));
}

/* Values are alive all the time, so slim programs have them, too. */
static void put_static(struct pst_json *json, const struct pst_row *row,
                       const struct pst_row_of *of)
{
    const struct pst_session *session = OUTER(of, SESSION);
    const struct pst_program *program =
        session->planned.programs[*(const uint32_t *)of->at[PST_ROW_INDEX]];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        bytes += program->values[i].is_static ? program->values[i].bytes : 0;
    }
    pst_json_uint(json, row->key, bytes);
}

static void put_framework(struct pst_json *json, const struct pst_row *row,
                          const struct pst_row_of *of)
{
    const struct pst_session *session = OUTER(of, SESSION);

    if (session->cluster.memory_factor > 0) {
        pst_json_uint(json, row->key,
                      framework_bytes(session, *(const uint32_t *)of->at[PST_ROW_INDEX]));
    }
}

#define OF_DEVICE(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_plan_device, member)
static const struct pst_row device_rows[] = {
    {"rank", "number of the device", PST_ROW_COUNT, .base = PST_ROW_INDEX},
    {"kind", "absent if all devices are alike", OF_DEVICE(TEXT, kind), .absent = PST_ROW_IF_ZERO},
    {"capacity_bytes", "absent if all devices are alike", PST_ROW_BYTES,
     PST_ROW_UNLESS(IF_ZERO, PST_ROW_ENTRY, struct pst_plan_device, kind), .json = put_capacity},
    {"static_bytes", "weights, gradients, optimizer state, running statistics", PST_ROW_BYTES,
     .base = PST_ROW_INDEX, .json = put_static},
    {"peak_bytes", "largest live sum", OF_DEVICE(BYTES, peak_bytes)},
    {"framework_bytes",
     "peak of the framework that `[cluster]` describes, by `memory_factor`; absent if that is 0",
     PST_ROW_BYTES, .base = PST_ROW_INDEX, .json = put_framework},
    {"arena_bytes", "allocated", OF_DEVICE(BYTES, arena_bytes)},
    {"host_bytes", "offloaded to host memory", OF_DEVICE(BYTES, host_bytes)},
    PST_ROWS_END,
};

static void put_remarks(struct pst_json *json, const struct pst_row *row,
                        const struct pst_row_of *of)
{
    const struct pst_planned *planned = &((const struct pst_session *)of->at[SESSION])->planned;

    pst_json_object(json, row->key);
    pst_report_remarks_json(planned->remarks, planned->n_remarks, NULL, json);
    pst_json_end(json, '}');
}

#define OF_PLAN(kind, member)    PST_ROW_AT(kind, PLAN, struct pst_plan, member)
#define OF_SESSION(kind, member) PST_ROW_AT(kind, SESSION, struct pst_session, member)
#define OF_TOTALS(kind, member)  PST_ROW_AT(kind, TOTALS, struct totals, member)
const struct pst_row pst_plan_rows[] = {
    {"model", NULL, PST_ROW_AT(TEXT, GRAPH, struct pst_graph, name)},
    {"parameters", "trainable values", OF_TOTALS(NUMBER, parameters)},
    {"partitioner", "id and version", OF_PLAN(TEXT, partitioner)},
    {"scheduler", "id and version", OF_PLAN(TEXT, scheduler)},
    {"memopt", "id and version", OF_PLAN(TEXT, memopt)},
    {"batch", "samples of a step", OF_TOTALS(COUNT, batch)},
    {"slices", "slices of each sequence; 1: whole sequences",
     PST_ROW_AT(COUNT, GRAPH, struct pst_graph, slices)},
    {"asynchronous", NULL, OF_PLAN(FLAG, asynchronous)},
    {"weight_versions", "maximum of all stages; 1 for a synchronous plan",
     OF_TOTALS(COUNT, weight_versions)},
    {"drain_every", "steps; 0: at the end", OF_PLAN(COUNT, drain_every)},
    {"zero",
     "1: each replica of a stage updates a piece of its parameters (ZeRO 1); 2: and accumulates "
     "the gradients of that piece alone (ZeRO 2); 3: and keeps that piece of the weights alone "
     "(ZeRO 3)",
     OF_PLAN(COUNT, zero)},
    {"prefetch",
     "`parallel.prefetch`, with `zero` 2 at most 1; absent if passes wait for every meeting of "
     "replicas at once, or have none",
     OF_PLAN(COUNT, prefetch), .absent = PST_ROW_IF_ZERO},
    {"tensor",
     "devices that share each operator; figures of stages are per device; absent if it is 1, or "
     "not the same for all stages",
     OF_TOTALS(COUNT, tensor), .absent = PST_ROW_IF_ZERO},
    {"sequence", "`parallel.sequence`; absent if false",
     PST_ROW_AT(FLAG, GRAPH, struct pst_graph, sequence), .absent = PST_ROW_IF_ZERO},
    {"stages", "one per stage", PST_ROW_OBJECT, .rows = stage_rows,
     PST_ROW_EACH(TOTALS, struct totals, stages, n_stages)},
    {"devices", "one per device", PST_ROW_OBJECT, .rows = device_rows,
     PST_ROW_EACH(PLAN, struct pst_plan, devices, n_devices)},
    {"step_us", "predicted step, which the search minimises", OF_SESSION(NS, predicted_ns)},
    {"step_here_us", "predicted step on the cores of this machine", OF_SESSION(NS, here_ns)},
    {"uncertainty",
     "mean relative error of such predictions by `cluster.uncertainty`; absent if it is not known, "
     "or operators are measured",
     OF_TOTALS(REAL, uncertainty), .absent = PST_ROW_IF_ZERO},
    {"idle", "mean over all devices, 0 to 1", OF_TOTALS(REAL, idle.all)},
    {"bubble", "idle time of the busiest device, 0 to 1", OF_TOTALS(REAL, idle.busiest)},
    {"devices_used", "devices with a stage", OF_TOTALS(COUNT, devices_used)},
    {"operator_times", "`measured` here, from a profile `file`, or `described` by `[cluster]`",
     OF_TOTALS(TEXT, operator_times)},
    {"threads", "of all devices; with the device `cpu`", OF_SESSION(COUNT, threads),
     PST_ROW_UNLESS(IF_ZERO, SESSION, struct pst_session, cores)},
    {"cores", "that they share", OF_SESSION(COUNT, cores), .absent = PST_ROW_IF_ZERO},
    {"search_seconds", "time of the planner", OF_SESSION(REAL, planned.search_seconds)},
    {"isolated", "planning ran in a separate process", OF_PLAN(FLAG, isolated)},
    {"remarks", "the partitioner's remarks on its answer, by key", PST_ROW_OBJECT,
     .json = put_remarks},
    {"file", "the plan file; absent without `-o`", OF_TOTALS(TEXT, file),
     .absent = PST_ROW_IF_ZERO},
    PST_ROWS_END,
};

void pst_plan_report_json(const struct pst_session *session, const char *file,
                          struct pst_json *json)
{
    const struct pst_plan *plan = session->planned.plan;
    struct totals totals = {
        .n_stages = plan->n_stages,
        .unlike = session->graph->degree_of != NULL,
        .parameters = pst_graph_parameters(session->graph),
        .batch = plan->batch / session->graph->slices,
        .weight_versions = most_versions(plan),
        .devices_used = pst_plan_used_devices(plan),
        .tensor = session->graph->parts > 1 && session->graph->degree_of == NULL
                      ? session->graph->parts
                      : 0,
        .idle = pst_sim_idle(&session->simulated),
        .uncertainty = find_uncertainty(session),
        .operator_times = pst_session_times_name(session),
        .file = file,
    };

    pst_plan_report_stages(session, &totals.stages);
    pst_rows_json(json, pst_plan_rows, PST_ROW_OF(session, plan, &totals, session->graph));
    free(totals.stages);
}
