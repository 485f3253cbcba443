/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/sim_report.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "reports/plan_report.h"
#include "reports/rows.h"
#include "sim/usage.h"

char *pst_report_idle_text(struct pst_idle idle, char text[PST_IDLE_TEXT])
{
    snprintf(text, PST_IDLE_TEXT, "all devices %.1f %%, busiest device %.1f %%", 100 * idle.all,
             100 * idle.busiest);
    return text;
}

/* --- a device ----------------------------------------------------------------------------------*/

static bool has_copies(const struct pst_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        if (timeline->spans[i].op == PST_I_OFFLOAD) {
            return true;
        }
    }
    return false;
}

struct device {
    const char *name, *kind;           /* kind: NULL if all devices are alike */
    struct pst_usage all, step, shown; /* of all steps; of one in the steady state, or none; either
                                          of them */
    double busy_percent;
    uint64_t peak_bytes, arena_bytes, capacity_bytes;
    const struct pst_span *spans;
    const struct pst_memory_point *points;
    uint32_t n_spans, n_points;
};

/* Figures of the run that are in no struct of their own. */
struct totals {
    struct device *devices;
    uint32_t n_devices;
    uint64_t fill_drain_ns;
    struct pst_idle idle;
    bool copies;
};

static void describe_device(const struct pst_session *session, const struct pst_timeline *timeline,
                            uint32_t rank, struct device *ret_device)
{
    static const struct pst_usage none = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const struct pst_plan_device *device = &session->planned.plan->devices[rank];
    const struct pst_timeline_rank *row = &timeline->ranks[rank];
    const bool sized = session->planned.programs != NULL;
    const uint64_t all_ns =
        timeline->drains ? timeline->step.ns : timeline->end_ns - timeline->begin_ns;

    *ret_device = (struct device){
        .name = row->name,
        .kind = device->kind,
        .all = pst_timeline_usage(timeline, rank),
        .step = timeline->drains ? timeline->step.usage[rank] : none,
        .peak_bytes = sized ? device->peak_bytes : UINT64_MAX,
        .arena_bytes = sized ? device->arena_bytes : UINT64_MAX,
        .capacity_bytes = row->capacity_bytes,
        .spans = timeline->spans + row->first,
        .n_spans = row->n_spans,
        .points = row->points,
        .n_points = row->n_points,
    };
    ret_device->shown = timeline->drains ? ret_device->step : ret_device->all;
    ret_device->busy_percent =
        all_ns == 0 ? 0 : 100.0 * (double)ret_device->shown.busy_ns / (double)all_ns;
}

/* free() the devices. */
static struct totals add_up(const struct pst_session *session, const struct pst_timeline *timeline,
                            const struct pst_sim_result *result)
{
    const uint64_t steps_ns = result->n_steps * result->period_ns;
    struct totals totals = {
        .devices = pst_alloc(timeline->n_ranks, sizeof *totals.devices),
        .n_devices = timeline->n_ranks,
        .fill_drain_ns = !timeline->drains             ? UINT64_MAX
                         : result->total_ns > steps_ns ? result->total_ns - steps_ns
                                                       : 0,
        .idle = pst_sim_idle(result),
        .copies = has_copies(timeline),
    };

    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        describe_device(session, timeline, r, &totals.devices[r]);
    }
    return totals;
}

enum { TOTALS, RESULT, SESSION };

static const char *lane_name(uint32_t lane)
{
    static const char *const lanes[PST_LANES] = {"compute", "send",   "recv",      "d2h",
                                                 "h2d",     "reduce", "optimizer", "host"};

    return lanes[lane];
}

#define OF_DEVICE(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct device, member)
static const struct pst_row device_rows[] = {
    {"rank", "number of the device", PST_ROW_COUNT, .base = PST_ROW_INDEX},
    {NULL, NULL, OF_DEVICE(TEXT, name), .title = "device"},
    {"kind", "absent if all devices are alike", OF_DEVICE(TEXT, kind), .absent = PST_ROW_IF_ZERO},
    {"busy_us", "passes and updates, in all simulated steps", OF_DEVICE(NS, all.busy_ns)},
    {NULL, NULL, OF_DEVICE(NS, shown.busy_ns), .title = ">busy"},
    {NULL, NULL, OF_DEVICE(REAL, busy_percent), .form = "%.1f %%", .title = "5>"},
    {"idle_us", "the rest", OF_DEVICE(NS, all.idle_ns)},
    {NULL, NULL, OF_DEVICE(NS, shown.idle_ns), .title = ">idle"},
    {"exposed_comm_us", "the part of it with a transfer, copy or reduction in progress",
     OF_DEVICE(NS, all.exposed_ns)},
    {NULL, NULL, OF_DEVICE(NS, shown.exposed_ns), .title = "6>exposed"},
    {"copy_stall_us", "passes waited for copies; absent if 0", OF_DEVICE(NS, all.stall_ns),
     .absent = PST_ROW_IF_ZERO},
    {NULL, NULL, OF_DEVICE(NS, shown.stall_ns),
     PST_ROW_UNLESS(IF_ZERO, PST_ROW_OUTER + TOTALS, struct totals, copies), .title = "7>stall"},
    {"step_busy_us", "asynchronous plans: in one step in the steady state",
     OF_DEVICE(NS, step.busy_ns), .absent = PST_ROW_IF_NONE},
    {"step_idle_us", "likewise", OF_DEVICE(NS, step.idle_ns), .absent = PST_ROW_IF_NONE},
    {"step_exposed_comm_us", "likewise", OF_DEVICE(NS, step.exposed_ns), .absent = PST_ROW_IF_NONE},
    {"peak_bytes", "largest live sum; null: not known", OF_DEVICE(BYTES, peak_bytes), .none = "-",
     .title = ">peak live"},
    {"arena_bytes", "allocated; null: not known", OF_DEVICE(BYTES, arena_bytes), .none = "-",
     .title = "8>allocated"},
    {"capacity_bytes", "null: no limit", OF_DEVICE(BYTES, capacity_bytes), .none = "no limit",
     .title = "9>capacity"},
    PST_ROWS_END,
};

#define OF_SPAN(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_span, member)
#define IF_TRANSFER           PST_ROW_UNLESS(IF_NONE, PST_ROW_ENTRY, struct pst_span, peer)
static const struct pst_row span_rows[] = {
    {"op", "instruction", OF_SPAN(WORD, op), .word = pst_instr_name},
    {"stage", "of a pass; of a transfer: the sender", OF_SPAN(COUNT, stage),
     .absent = PST_ROW_IF_NONE},
    {"to_stage", "of a transfer: the receiver", OF_SPAN(COUNT, to_stage),
     .absent = PST_ROW_IF_NONE},
    {"microbatch", "of the stage, within the step", OF_SPAN(COUNT, microbatch),
     .absent = PST_ROW_IF_NONE},
    {"start_us", NULL, OF_SPAN(NS, start_ns)},
    {"end_us", NULL, OF_SPAN(NS, end_ns)},
    {"lane", "`compute`, `send`, `recv`, `d2h`, `h2d`, `reduce`, `optimizer` or `host`",
     OF_SPAN(WORD, lane), .word = lane_name},
    {"step", "from 0", OF_SPAN(COUNT, step)},
    {"instr", "position in the device's list", OF_SPAN(COUNT, instr), .absent = PST_ROW_IF_NONE},
    {"peer", "of a transfer: the other device", OF_SPAN(COUNT, peer), .absent = PST_ROW_IF_NONE},
    {"payload", "of a transfer", OF_SPAN(WORD, payload), .word = pst_payload_name, IF_TRANSFER},
    {"first_sample", "of a transfer", OF_SPAN(COUNT, first_sample), IF_TRANSFER},
    {"samples", "of a transfer: their number", OF_SPAN(COUNT, n_samples), IF_TRANSFER},
    {"bytes", "of transfers, copies, reductions", OF_SPAN(BYTES, bytes), .absent = PST_ROW_IF_ZERO},
    {"stall_us", "the pass waited for copies", OF_SPAN(NS, stall_ns), .absent = PST_ROW_IF_ZERO},
    PST_ROWS_END,
};

#define OF_POINT(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_memory_point, member)
static const struct pst_row kind_rows[] = {
    {"params", NULL, OF_POINT(BYTES, bytes[PST_MEM_PARAMS])},
    {"grads", NULL, OF_POINT(BYTES, bytes[PST_MEM_GRADS])},
    {"optimizer", NULL, OF_POINT(BYTES, bytes[PST_MEM_OPTIMIZER])},
    {"activations", NULL, OF_POINT(BYTES, bytes[PST_MEM_ACTIVATIONS])},
    {"buffers", NULL, OF_POINT(BYTES, bytes[PST_MEM_BUFFERS])},
    {"workspace", NULL, OF_POINT(BYTES, bytes[PST_MEM_WORKSPACE])},
    {"guests", "kept for other devices", OF_POINT(BYTES, bytes[PST_MEM_GUESTS])},
    PST_ROWS_END,
};
static const struct pst_row point_rows[] = {
    {"us", "valid from then on", OF_POINT(NS, ns)},
    {"bytes", "live; the largest sum is `peak_bytes`", PST_ROW_OBJECT, .rows = kind_rows},
    PST_ROWS_END,
};

#define EACH_OF_DEVICE(list, n) PST_ROW_EACH(PST_ROW_ENTRY, struct device, list, n)
static const struct pst_row spans_of = {NULL, NULL, PST_ROW_OBJECT, EACH_OF_DEVICE(spans, n_spans),
                                        .rows = span_rows};
static const struct pst_row points_of = {NULL, NULL, PST_ROW_OBJECT,
                                         EACH_OF_DEVICE(points, n_points), .rows = point_rows};

#define OF_RESULT(kind, member) PST_ROW_AT(kind, RESULT, struct pst_sim_result, member)
#define OF_TOTALS(kind, member) PST_ROW_AT(kind, TOTALS, struct totals, member)
const struct pst_row pst_simulate_rows[] = {
    {"devices", "their number", OF_TOTALS(COUNT, n_devices)},
    {"steps", "their number", OF_RESULT(COUNT, n_steps)},
    {"step_us", "predicted step, as in plan", OF_RESULT(NS, period_ns)},
    {"step_here_us", "predicted step on the cores of this machine",
     PST_ROW_AT(NS, SESSION, struct pst_session, here_ns)},
    {"total_us", "all steps", OF_RESULT(NS, total_ns)},
    {"span_us",
     "of the first step: maximum over devices, from the start of the first pass to the end of the "
     "last pass or update",
     OF_RESULT(NS, span_ns)},
    {"fill_drain_us", "asynchronous plans: `total_us` minus the steps",
     OF_TOTALS(NS, fill_drain_ns), .absent = PST_ROW_IF_NONE},
    {"idle", "mean over all devices, 0 to 1", OF_TOTALS(REAL, idle.all)},
    {"bubble", "idle time of the busiest device, 0 to 1", OF_TOTALS(REAL, idle.busiest)},
    {"devices_used", "devices with a stage", OF_RESULT(COUNT, n_used)},
    {"ranks", "one per device", PST_ROW_OBJECT, .rows = device_rows,
     PST_ROW_EACH(TOTALS, struct totals, devices, n_devices)},
    {"timeline", "what each device did; members that do not apply are absent", PST_ROW_OBJECT,
     .each = &spans_of, PST_ROW_EACH(TOTALS, struct totals, devices, n_devices)},
    {"memory", "for each device when live bytes changed", PST_ROW_OBJECT, .each = &points_of,
     PST_ROW_EACH(TOTALS, struct totals, devices, n_devices)},
    PST_ROWS_END,
};

void pst_sim_report_print(const struct pst_session *session, const struct pst_timeline *timeline,
                          const struct pst_sim_result *result, bool color, FILE *out)
{
    const struct totals totals = add_up(session, timeline, result);
    char period[32], total[32], idle[PST_IDLE_TEXT];

    pst_text_printf(out, "%s: %s\n", session->graph->name, timeline->title);
    pst_report_prediction(session, pst_format_ns(period, result->period_ns), out);
    fprintf(out, "idle            %s\n", pst_report_idle_text(totals.idle, idle));
    fprintf(out, "simulated       %u step%s%s, %s\n", result->n_steps,
            result->n_steps == 1 ? "" : "s", timeline->drains ? " with fill and drain" : "",
            pst_format_ns(total, result->total_ns));
    fputs(timeline->drains ? "table           one step in the steady state\n\n" : "\n", out);
    pst_rows_print(pst_simulate_rows, "ranks", PST_ROW_OF(&totals, result, session), "", color,
                   out);
    free(totals.devices);
}

void pst_sim_report_json(const struct pst_session *session, const struct pst_timeline *timeline,
                         const struct pst_sim_result *result, struct pst_json *json)
{
    const struct totals totals = add_up(session, timeline, result);

    pst_rows_json(json, pst_simulate_rows, PST_ROW_OF(&totals, result, session));
    free(totals.devices);
}
