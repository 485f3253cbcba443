/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of one rank.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exchange/trace_impl.h"

#define ARROW "\xE2\x86\x92"

static const char *const row_names[PST_LANES] = {
    "compute", "send", "recv", "copy to host", "copy from host", "all-reduce", "optimizer", "host"};

static void name_transfer(const struct pst_span *span, char *text, size_t room)
{
    const char *what = span->op == PST_I_SEND ? "SEND" : "RECV";
    char letter = span->payload == PST_PAYLOAD_GRAD ? 'B' : 'F';

    if (span->payload >= PST_PAYLOAD_EVICT) {
        snprintf(text, room, "%s %s %u samples %u+%u", what, pst_payload_name(span->payload),
                 span->stage, span->first_sample, span->n_samples);
    } else if (span->n_samples > 0 && span->first_sample % span->n_samples == 0) {
        snprintf(text, room, "%s_%c %u" ARROW "%u mb%u", what, letter, span->stage, span->to_stage,
                 span->first_sample / span->n_samples);
    } else { /* between stages of different sizes */
        snprintf(text, room, "%s_%c %u" ARROW "%u samples %u+%u", what, letter, span->stage,
                 span->to_stage, span->first_sample, span->n_samples);
    }
}

/* What slices are called by, and their category. */
static const struct slice {
    char letter; /* of a pass */
    bool stage, microbatch;
    const char *category;
} slices[PST_I_COUNT] = {
    [PST_I_F] = {'F', true, true, "F"},      [PST_I_B] = {'I', true, true, "B"},
    [PST_I_W] = {'W', true, true, "W"},      [PST_I_BW] = {'B', true, true, "BW"},
    [PST_I_R] = {'R', true, true, "R"},      [PST_I_SEND] = {0, true, false, "comm"},
    [PST_I_RECV] = {0, true, false, "comm"}, [PST_I_OFFLOAD] = {0, true, true, "copy"},
    [PST_I_FETCH] = {0, true, true, "copy"}, [PST_I_REDUCE] = {0, true, false, "comm"},
    [PST_I_TIE] = {0, false, false, "comm"}, [PST_I_NORM] = {0, false, false, "comm"},
    [PST_I_STEP] = {0, true, false, "opt"},
};

static const struct slice *slice_of(const struct pst_span *span)
{
    static const struct slice host = {0, false, false, "copy"};

    return span->op >= PST_I_F && span->op < PST_I_COUNT ? &slices[span->op] : &host;
}

static void name_of(const struct pst_span *span, char *text, size_t room)
{
    const struct slice *slice = slice_of(span);
    const char *name =
        span->op < PST_I_F || span->op >= PST_I_COUNT ? "host" : pst_instr_name(span->op);

    if (slice->letter != 0) {
        snprintf(text, room, "%u%c%u", span->stage, slice->letter, span->microbatch);
    } else if (span->op == PST_I_SEND || span->op == PST_I_RECV) {
        name_transfer(span, text, room);
    } else if (slice->microbatch) {
        snprintf(text, room, "%s %u mb%u", name, span->stage, span->microbatch);
    } else if (slice->stage) {
        snprintf(text, room, "%s %u", name, span->stage);
    } else {
        snprintf(text, room, "%s", name);
    }
}

/* Thousandths of a microsecond; of a unit of the user's own, which counts as a microsecond. */
static uint64_t thousandths(const struct pst_trace *trace, uint64_t ns)
{
    double unit = trace->timeline->ns_per_unit;

    return unit > 0 ? (uint64_t)llround((double)ns * 1000 / unit) : ns;
}

static void put_thousandths(struct pst_json *json, const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%llu.%03u", (unsigned long long)(value / 1000),
             (unsigned)(value % 1000));
    pst_json_raw(json, key, text);
}

static void begin_event(const struct pst_trace *trace, const char *phase, const char *name,
                        const char *category, uint32_t rank)
{
    pst_json_newline(trace->json);
    pst_json_object(trace->json, NULL);
    pst_json_string(trace->json, "ph", phase);
    pst_json_string(trace->json, "name", name);
    if (category != NULL) {
        pst_json_string(trace->json, "cat", category);
    }
    pst_json_uint(trace->json, "pid", trace->pid_base + rank);
}

/* Begins a slice and its args; what is left is the args, and the ends of both. */
static void begin_slice(const struct pst_trace *trace, const char *name, const char *category,
                        uint32_t rank, uint32_t tid, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t from = thousandths(trace, from_ns), to = thousandths(trace, to_ns);

    begin_event(trace, "X", name, category, rank);
    pst_json_uint(trace->json, "tid", tid);
    put_thousandths(trace->json, "ts", from);
    put_thousandths(trace->json, "dur", to - from);
    pst_json_object(trace->json, "args");
}

static void end_slice(const struct pst_trace *trace)
{
    pst_json_end(trace->json, '}');
    pst_json_end(trace->json, '}');
}

static void put_args(const struct pst_trace *trace, const struct pst_span *span)
{
    struct pst_json *json = trace->json;

    pst_json_uint(json, "step", span->step);
    if (span->stage != PST_NONE) {
        pst_json_uint(json, "stage", span->stage);
    }
    if (span->microbatch != PST_NONE && span->lane != PST_LANE_SEND &&
        span->lane != PST_LANE_RECV) {
        pst_json_uint(json, "microbatch", span->microbatch);
    }
    if (span->n_samples > 0) {
        pst_json_uint(json, "first_sample", span->first_sample);
        pst_json_uint(json, "samples", span->n_samples);
    }
    if (span->instr != PST_NONE) {
        pst_json_uint(json, "instr", span->instr);
    }
    if (span->lane != PST_LANE_COMPUTE && span->lane != PST_LANE_OPTIMIZER) {
        pst_json_uint(json, "bytes", span->bytes);
    }
    if (span->stall_ns > 0) {
        put_thousandths(json, "stall_us", thousandths(trace, span->stall_ns));
    }
    if (span->peer != PST_NONE && (span->op == PST_I_SEND || span->op == PST_I_RECV)) {
        pst_json_uint(json, "peer", span->peer);
        put_thousandths(json, "exposed_us", thousandths(trace, pst_trace_exposed(trace, span)));
    }
}

/* An arrow from the beginning of a send to the end of its receive. */
static void put_flow(const struct pst_trace *trace, uint32_t i)
{
    const struct pst_span *span = &trace->timeline->spans[i];
    bool sends = span->op == PST_I_SEND;
    uint32_t send = sends ? i : trace->peer[i];
    uint64_t at = thousandths(trace, span->start_ns), end = thousandths(trace, span->end_ns);
    const char *tensor = pst_payload_name(span->payload);
    char id[96];

    snprintf(id, sizeof id, "%s%u:%u:%u:%s:%u", trace->prefix, span->step, span->stage,
             span->first_sample, tensor, send);
    begin_event(trace, sends ? "s" : "f", tensor, "comm", span->rank);
    if (!sends) {
        at = end > at ? end - 1 : at; /* still inside */
        pst_json_string(trace->json, "bp", "e");
    }
    pst_json_string(trace->json, "id", id);
    pst_json_uint(trace->json, "tid", trace->tid[i]);
    put_thousandths(trace->json, "ts", at);
    pst_json_end(trace->json, '}');
}

static void put_label(const struct pst_trace *trace, const char *event, uint32_t rank, uint32_t tid,
                      const char *name, uint32_t index)
{
    begin_event(trace, "M", event, NULL, rank);
    if (tid != PST_NONE) {
        pst_json_uint(trace->json, "tid", tid);
    }
    pst_json_object(trace->json, "args");
    if (name != NULL) {
        pst_json_string(trace->json, "name", name);
    } else {
        pst_json_uint(trace->json, "sort_index", index);
    }
    end_slice(trace);
}

static void put_labels(const struct pst_trace *trace, uint32_t rank)
{
    const struct pst_timeline_rank *row = &trace->timeline->ranks[rank];
    char text[96];
    uint32_t last = 0; /* the highest row of each lane comes after the lower ones */

    if (row->name[0] == '\0') {
        snprintf(text, sizeof text, "%s%srank %u", trace->prefix, trace->prefix[0] ? " " : "",
                 rank);
    } else {
        snprintf(text, sizeof text, "%s%s%.*s", trace->prefix, trace->prefix[0] ? " " : "",
                 (int)sizeof row->name, row->name);
    }
    put_label(trace, "process_name", rank, PST_NONE, text, 0);
    put_label(trace, "process_sort_index", rank, PST_NONE, NULL,
              2 * rank + (trace->pid_base > 0)); /* what was predicted right below */
    put_label(trace, "thread_name", rank, PST_LANE_COMPUTE, row_names[PST_LANE_COMPUTE], 0);
    put_label(trace, "thread_sort_index", rank, PST_LANE_COMPUTE, NULL, PST_LANE_COMPUTE);
    for (uint32_t i = row->first; i < row->first + row->n_spans; i++) {
        uint32_t tid = trace->tid[i], lane = trace->timeline->spans[i].lane;

        if (i > row->first && trace->timeline->spans[i - 1].lane != lane) {
            last = 0;
        }
        if (tid < last || tid == PST_LANE_COMPUTE) {
            continue;
        }
        last = tid + 1;
        snprintf(text, sizeof text, tid == lane ? "%s" : "%s (%u)", row_names[lane],
                 tid / TRACE_OVERFLOW + 1);
        put_label(trace, "thread_name", rank, tid, text, 0);
        put_label(trace, "thread_sort_index", rank, tid, NULL, tid);
    }
}

/* What the next pass needed that other ranks make, where no transfer tells. */
static void guess_cause(const struct pst_trace *trace, const struct pst_trace_gap *gap, char *text,
                        size_t room)
{
    const struct pst_span *next = &trace->timeline->spans[gap->before];
    struct pst_span needed = *next;
    bool forward = next->op == PST_I_F;

    if ((forward && next->stage > 0) || ((next->op == PST_I_B || next->op == PST_I_BW) &&
                                         next->stage + 1 < trace->timeline->n_stages)) {
        needed.stage = forward ? next->stage - 1 : next->stage + 1;
        name_of(&needed, text, room);
    } else {
        snprintf(text, room, "the other ranks");
    }
}

static void put_waits(const struct pst_trace *trace, uint32_t rank)
{
    char text[96];

    for (uint32_t g = 0; g < trace->n_gaps; g++) {
        const struct pst_trace_gap *gap = &trace->gaps[g];

        if (thousandths(trace, gap->to_ns) == thousandths(trace, gap->from_ns)) {
            continue;
        }
        if (gap->before == PST_NONE) {
            snprintf(text, sizeof text, "the other ranks");
        } else if (gap->cause != PST_NONE) {
            name_of(&trace->timeline->spans[gap->cause], text, sizeof text);
        } else {
            guess_cause(trace, gap, text, sizeof text);
        }
        begin_slice(trace, "wait", "wait", rank, PST_LANE_COMPUTE, gap->from_ns, gap->to_ns);
        pst_json_string(trace->json, "for", text);
        end_slice(trace);
    }
}

static void put_memory(const struct pst_trace *trace, uint32_t rank)
{
    static const char *const series[PST_MEM_KINDS] = {
        "params", "grads", "optimizer", "activations", "buffers", "workspace", "guests"};
    const struct pst_timeline_rank *row = &trace->timeline->ranks[rank];
    double unit = trace->timeline->bytes_per_unit;

    for (uint32_t i = 0; i < row->n_points; i++) {
        const struct pst_memory_point *point = &row->points[i];

        if (i > 0 && memcmp(point[-1].bytes, point->bytes, sizeof point->bytes) == 0) {
            continue;
        }
        begin_event(trace, "C", "memory", NULL, rank);
        put_thousandths(trace->json, "ts", thousandths(trace, point->ns));
        pst_json_object(trace->json, "args");
        for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
            if (unit > 0) {
                pst_json_number(trace->json, series[k], (double)point->bytes[k] / unit);
            } else {
                pst_json_uint(trace->json, series[k], point->bytes[k]);
            }
        }
        end_slice(trace);
    }
}

void pst_trace_put_rank(struct pst_trace *trace, uint32_t rank)
{
    const struct pst_timeline_rank *row = &trace->timeline->ranks[rank];
    char name[96];

    put_labels(trace, rank);
    for (uint32_t i = row->first; i < row->first + row->n_spans; i++) {
        const struct pst_span *span = &trace->timeline->spans[i];

        name_of(span, name, sizeof name);
        begin_slice(trace, name, slice_of(span)->category, rank, trace->tid[i], span->start_ns,
                    span->end_ns);
        put_args(trace, span);
        end_slice(trace);
        if (trace->peer[i] != PST_NONE) {
            put_flow(trace, i);
        }
    }
    put_waits(trace, rank);
    put_memory(trace, rank);
}

/* An instant where the first span of each step begins. */
void pst_trace_put_steps(struct pst_trace *trace)
{
    const struct pst_timeline *timeline = trace->timeline;
    uint32_t low = UINT32_MAX, high = 0;
    uint64_t *first;
    size_t n;
    char text[32];

    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        low = timeline->spans[i].step < low ? timeline->spans[i].step : low;
        high = timeline->spans[i].step > high ? timeline->spans[i].step : high;
    }
    n = low <= high ? (size_t)high - low + 1 : 0; /* runs are shown from a later step on */
    first = pst_arena_array(&trace->arena, n + 1, sizeof *first);
    memset(first, 255, (n + 1) * sizeof *first);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        if (span->start_ns < first[span->step - low]) {
            first[span->step - low] = span->start_ns;
        }
    }
    for (uint32_t t = 0; t < n; t++) {
        if (first[t] != UINT64_MAX) {
            snprintf(text, sizeof text, "step %u", low + t);
            begin_event(trace, "i", text, NULL, 0);
            pst_json_uint(trace->json, "tid", PST_LANE_COMPUTE);
            put_thousandths(trace->json, "ts", thousandths(trace, first[t]));
            pst_json_string(trace->json, "s", "g");
            pst_json_end(trace->json, '}');
        }
    }
}
