/* SPDX-License-Identifier: Apache-2.0
 *
 * First what the events need to know beforehand: a row for every span, so that the slices of a row
 * are disjoint; the other end of every transfer; where a rank computed nothing, and why. Then the
 * events of each rank, and the file.
 */
#include "exchange/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/json.h"
#include "base/text.h"
#include "base/util.h"

#define GZIP_WINDOW     (15 + 16)  /* the largest window; + 16: with a gzip header */
#define PIECE           (1u << 30) /* zlib counts in unsigned int */
#define ROWS            64         /* of one lane; what is more goes to the last */
#define ARROW           "\xE2\x86\x92"
#define TRACE_PREDICTED 100000u /* pids of predicted ranks begin here */
#define TRACE_OVERFLOW  100u    /* tid of the second row of a lane: + this */

/* A stretch in which a rank computes nothing. */
struct gap {
    uint64_t from_ns, to_ns;
    uint32_t before; /* span that runs next; PST_NONE: none */
    uint32_t cause;  /* span of the rank that ended last before it, if it ended in the gap */
};

struct trace {
    struct pst_json *json;
    const struct pst_timeline *timeline;
    uint32_t pid_base;
    const char *prefix;     /* of process names and flow ids */
    struct pst_arena arena; /* of this timeline */
    uint32_t *tid;          /* of each span */
    uint32_t *peer;         /* of each transfer: the span at the other end; else PST_NONE */
    const struct pst_span **predicted; /* passes, in order of compare_passes */
    uint32_t n_predicted;
    struct gap *gaps; /* of the rank at work */
    uint32_t n_gaps;
};

/* --- rows, pairs and gaps ----------------------------------------------------------------------*/

/* First row of the lane that is free. */
static void assign_rows(struct trace *trace)
{
    const struct pst_timeline *timeline = trace->timeline;
    uint64_t free_at[ROWS];
    uint32_t n_rows = 0;

    trace->tid = pst_arena_array(&trace->arena, (size_t)timeline->n_spans + 1, sizeof *trace->tid);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];
        uint32_t row = 0;

        if (i == 0 || span[-1].rank != span->rank || span[-1].lane != span->lane) {
            n_rows = 0;
        }
        while (row < n_rows && free_at[row] > span->start_ns) {
            row++;
        }
        row = row == ROWS ? ROWS - 1 : row;
        n_rows = row == n_rows ? n_rows + 1 : n_rows;
        free_at[row] = span->end_ns;
        trace->tid[i] = span->lane + row * TRACE_OVERFLOW;
    }
}

/* A transfer, seen from either end. */
struct end {
    uint64_t key[4];
    uint32_t span;
    bool receives;
};

static int compare_ends(const void *left, const void *right)
{
    const struct end *a = left, *b = right;

    return PST_COMPARE_KEYS({a->key[0], b->key[0]}, {a->key[1], b->key[1]}, {a->key[2], b->key[2]},
                            {a->key[3], b->key[3]}, {a->receives, b->receives}, {a->span, b->span});
}

static struct end describe(const struct pst_timeline *timeline, uint32_t i)
{
    const struct pst_span *span = &timeline->spans[i];
    bool receives = span->op == PST_I_RECV;
    uint64_t from = receives ? span->peer : span->rank, to = receives ? span->rank : span->peer;

    return (struct end){{(uint64_t)span->step << 32 | span->payload,
                         (uint64_t)span->stage << 32 | span->to_stage,
                         (uint64_t)span->first_sample << 32 | span->n_samples, from << 32 | to},
                        i,
                        receives};
}

static bool same_key(const struct end *a, const struct end *b)
{
    return memcmp(a->key, b->key, sizeof a->key) == 0;
}

static void pair_transfers(struct trace *trace)
{
    const struct pst_timeline *timeline = trace->timeline;
    size_t room = (size_t)timeline->n_spans + 1;
    struct end *ends = pst_alloc(room, sizeof *ends);
    uint32_t n = 0;

    trace->peer = pst_arena_array(&trace->arena, room, sizeof *trace->peer);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        trace->peer[i] = PST_NONE;
        if (timeline->spans[i].op == PST_I_SEND || timeline->spans[i].op == PST_I_RECV) {
            ends[n++] = describe(timeline, i);
        }
    }
    qsort(ends, n, sizeof *ends, compare_ends);
    for (uint32_t i = 0, next; i < n; i = next) { /* a key: its sends, then its receives */
        uint32_t sends = 0;

        for (next = i; next < n && same_key(&ends[i], &ends[next]); next++) {
            sends += !ends[next].receives;
        }
        for (uint32_t k = 0; k < sends && i + sends + k < next; k++) {
            trace->peer[ends[i + k].span] = ends[i + sends + k].span;
            trace->peer[ends[i + sends + k].span] = ends[i + k].span;
        }
    }
    free(ends);
}

static int compare_passes(const void *left, const void *right)
{
    const struct pst_span *a = *(const struct pst_span *const *)left;
    const struct pst_span *b = *(const struct pst_span *const *)right;

    return PST_COMPARE_KEYS({a->rank, b->rank}, {a->op, b->op}, {a->stage, b->stage},
                            {a->microbatch, b->microbatch});
}

static void take_predicted(struct trace *trace, const struct pst_timeline *predicted)
{
    trace->predicted =
        pst_arena_array(&trace->arena, (size_t)predicted->n_spans + 1, sizeof *trace->predicted);
    for (uint32_t i = 0; i < predicted->n_spans; i++) {
        if (predicted->spans[i].lane == PST_LANE_COMPUTE) {
            trace->predicted[trace->n_predicted++] = &predicted->spans[i];
        }
    }
    qsort(trace->predicted, trace->n_predicted, sizeof *trace->predicted, compare_passes);
}

/* Returns the same pass of the predicted steps, or NULL if there is none. */
static const struct pst_span *predicted_of(const struct trace *trace, const struct pst_span *span)
{
    const struct pst_span **found = trace->n_predicted == 0 || span->lane != PST_LANE_COMPUTE
                                        ? NULL
                                        : bsearch(&span, trace->predicted, trace->n_predicted,
                                                  sizeof *trace->predicted, compare_passes);

    return found == NULL ? NULL : *found;
}

/* The next pass or update of a rank in order of time: two sorted lists side by side. */
struct walk {
    const struct pst_span *spans;
    uint32_t at[2], end[2];
};

static struct walk walk_begin(const struct pst_timeline *timeline, uint32_t rank)
{
    const struct pst_timeline_rank *row = &timeline->ranks[rank];
    struct walk walk = {.spans = timeline->spans};
    static const uint8_t lanes[2] = {PST_LANE_COMPUTE, PST_LANE_OPTIMIZER};

    for (int k = 0; k < 2; k++) {
        uint32_t i = row->first, end = row->first + row->n_spans;

        while (i < end && timeline->spans[i].lane < lanes[k]) {
            i++;
        }
        walk.at[k] = i;
        while (i < end && timeline->spans[i].lane == lanes[k]) {
            i++;
        }
        walk.end[k] = i;
    }
    return walk;
}

static uint32_t walk_next(struct walk *walk)
{
    int k = walk->at[0] == walk->end[0];

    if (k == 1 && walk->at[1] == walk->end[1]) {
        return PST_NONE;
    }
    if (k == 0 && walk->at[1] < walk->end[1] &&
        walk->spans[walk->at[1]].start_ns < walk->spans[walk->at[0]].start_ns) {
        k = 1;
    }
    return walk->at[k]++;
}

static void add_gap(struct trace *trace, uint64_t from_ns, uint64_t to_ns, uint32_t before)
{
    if (to_ns > from_ns) {
        trace->gaps[trace->n_gaps++] = (struct gap){from_ns, to_ns, before, PST_NONE};
    }
}

/* The first gap that ends at `ns` or later; n_gaps: none. */
static uint32_t first_gap(const struct trace *trace, uint64_t ns)
{
    return PST_FIRST(i, trace->n_gaps, trace->gaps[i].to_ns >= ns);
}

/* The cause of a gap is the span outside the compute and optimizer rows that ended last in it. */
static void find_causes(struct trace *trace, uint32_t rank)
{
    const struct pst_timeline *timeline = trace->timeline;
    const struct pst_timeline_rank *row = &timeline->ranks[rank];

    for (uint32_t i = row->first; i < row->first + row->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];
        uint32_t g;

        if (span->lane == PST_LANE_COMPUTE || span->lane == PST_LANE_OPTIMIZER) {
            continue;
        }
        g = first_gap(trace, span->end_ns);
        if (g < trace->n_gaps && trace->gaps[g].from_ns < span->end_ns &&
            (trace->gaps[g].cause == PST_NONE ||
             timeline->spans[trace->gaps[g].cause].end_ns <= span->end_ns)) {
            trace->gaps[g].cause = i;
        }
    }
}

static void find_gaps(struct trace *trace, uint32_t rank)
{
    const struct pst_timeline *timeline = trace->timeline;
    struct walk walk = walk_begin(timeline, rank);
    uint64_t now = timeline->begin_ns;
    uint32_t i;

    if (trace->gaps == NULL) {
        uint32_t most = 0;

        for (uint32_t r = 0; r < timeline->n_ranks; r++) {
            most = timeline->ranks[r].n_spans > most ? timeline->ranks[r].n_spans : most;
        }
        trace->gaps = pst_arena_array(&trace->arena, (size_t)most + 1, sizeof *trace->gaps);
    }
    trace->n_gaps = 0;
    while ((i = walk_next(&walk)) != PST_NONE) {
        add_gap(trace, now, timeline->spans[i].start_ns, i);
        now = timeline->spans[i].end_ns > now ? timeline->spans[i].end_ns : now;
    }
    add_gap(trace, now, timeline->end_ns, PST_NONE);
    find_causes(trace, rank);
}

static uint64_t exposed(const struct trace *trace, const struct pst_span *span)
{
    uint64_t sum = 0;

    for (uint32_t g = first_gap(trace, span->start_ns + 1);
         g < trace->n_gaps && trace->gaps[g].from_ns < span->end_ns; g++) {
        const struct gap *gap = &trace->gaps[g];
        uint64_t from = gap->from_ns > span->start_ns ? gap->from_ns : span->start_ns;
        uint64_t to = gap->to_ns < span->end_ns ? gap->to_ns : span->end_ns;

        sum += to - from;
    }
    return sum;
}

/* --- events of a rank --------------------------------------------------------------------------*/

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

/* The parts of a slice's name, and its category. */
static const struct slice {
    char letter; /* of a pass */
    bool stage, microbatch;
    const char *category;
} slices[PST_I_COUNT] = {
    [PST_I_F] = {'F', true, true, "F"},       [PST_I_B] = {'I', true, true, "B"},
    [PST_I_W] = {'W', true, true, "W"},       [PST_I_BW] = {'B', true, true, "BW"},
    [PST_I_R] = {'R', true, true, "R"},       [PST_I_SEND] = {0, true, false, "comm"},
    [PST_I_RECV] = {0, true, false, "comm"},  [PST_I_OFFLOAD] = {0, true, true, "copy"},
    [PST_I_FETCH] = {0, true, true, "copy"},  [PST_I_REDUCE] = {0, true, false, "comm"},
    [PST_I_TIE] = {0, false, false, "comm"},  [PST_I_NORM] = {0, false, false, "comm"},
    [PST_I_STEP] = {0, true, false, "opt"},   [PST_I_GATHER] = {0, true, false, "comm"},
    [PST_I_MERGE] = {0, true, false, "comm"},
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
static uint64_t thousandths(const struct trace *trace, uint64_t ns)
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

static void begin_event(const struct trace *trace, const char *phase, const char *name,
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
static void begin_slice(const struct trace *trace, const char *name, const char *category,
                        uint32_t rank, uint32_t tid, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t from = thousandths(trace, from_ns), to = thousandths(trace, to_ns);

    begin_event(trace, "X", name, category, rank);
    pst_json_uint(trace->json, "tid", tid);
    put_thousandths(trace->json, "ts", from);
    put_thousandths(trace->json, "dur", to - from);
    pst_json_object(trace->json, "args");
}

static void end_slice(const struct trace *trace)
{
    pst_json_end(trace->json, '}');
    pst_json_end(trace->json, '}');
}

static void put_args(const struct trace *trace, const struct pst_span *span)
{
    const struct pst_span *predicted = predicted_of(trace, span);
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
    if (span->bytes > 0 || (span->lane != PST_LANE_COMPUTE && span->lane != PST_LANE_OPTIMIZER)) {
        pst_json_uint(json, "bytes", span->bytes);
    }
    if (predicted != NULL) {
        put_thousandths(json, "predicted_us",
                        thousandths(trace, predicted->end_ns - predicted->start_ns));
    }
    if (span->stall_ns > 0) {
        put_thousandths(json, "stall_us", thousandths(trace, span->stall_ns));
    }
    if (span->peer != PST_NONE && (span->op == PST_I_SEND || span->op == PST_I_RECV)) {
        pst_json_uint(json, "peer", span->peer);
        put_thousandths(json, "exposed_us", thousandths(trace, exposed(trace, span)));
    }
}

/* An arrow from the beginning of a send to the end of its receive. */
static void put_flow(const struct trace *trace, uint32_t i)
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

static void put_label(const struct trace *trace, const char *event, uint32_t rank, uint32_t tid,
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

static void put_labels(const struct trace *trace, uint32_t rank)
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

/* Names the pass of another rank that the next pass needed, if no transfer shows it. */
static void guess_cause(const struct trace *trace, const struct gap *gap, char *text, size_t room)
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

static void put_waits(const struct trace *trace, uint32_t rank)
{
    char text[96];

    for (uint32_t g = 0; g < trace->n_gaps; g++) {
        const struct gap *gap = &trace->gaps[g];

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

static void put_memory(const struct trace *trace, uint32_t rank)
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

static void put_rank(struct trace *trace, uint32_t rank)
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
static void put_steps(struct trace *trace)
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

/* --- the file ----------------------------------------------------------------------------------*/

/* All events of one timeline; its ranks begin at pid_base. */
static void put_timeline(struct pst_json *json, const struct pst_timeline *timeline,
                         const struct pst_timeline *predicted, uint32_t pid_base,
                         const char *prefix)
{
    struct trace trace = {
        .json = json, .timeline = timeline, .pid_base = pid_base, .prefix = prefix};

    assign_rows(&trace);
    pair_transfers(&trace);
    if (predicted != NULL) {
        take_predicted(&trace, predicted);
    }
    for (uint32_t r = 0; r < timeline->n_ranks && !json->failed; r++) {
        find_gaps(&trace, r);
        put_rank(&trace, r);
    }
    if (pid_base == 0 && !json->failed) {
        put_steps(&trace);
    }
    pst_arena_finish(&trace.arena);
}

/* Writes the offset that was added to the times of each rank, and its uncertainty; null if the
   times are those of the rank's own clock. */
static void put_clock(struct pst_json *json, const struct pst_timeline *timeline)
{
    static const struct pst_clock none;

    pst_json_object(json, "clock");
    pst_json_uint(json, "reference_rank", 0);
    pst_json_array(json, "per_rank");
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        const struct pst_clock *clock = timeline->clocks == NULL ? &none : &timeline->clocks[r];
        const bool known = clock->uncertainty_ns != UINT64_MAX;

        pst_json_object(json, NULL);
        pst_json_real(json, "offset_us", known ? (double)clock->offset_ns / 1e3 : NAN, 3);
        pst_json_real(json, "uncertainty_us", known ? (double)clock->uncertainty_ns / 1e3 : NAN, 3);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    pst_json_end(json, '}');
}

char *pst_trace_to_json(const struct pst_timeline *timeline, const struct pst_trace_meta *meta)
{
    static const struct pst_trace_meta nothing;
    struct pst_json json;

    meta = meta == NULL ? &nothing : meta;
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "displayTimeUnit", "ms");
    pst_json_object(&json, "otherData");
    pst_json_string(&json, "penstock_version", PENSTOCK_VERSION);
    pst_json_string(&json, "title", timeline->title);
    pst_json_string(&json, "kind", timeline->kind);
    pst_json_string(&json, "run_id", NULL);
    pst_json_string(&json, "plan", meta->plan);
    pst_json_string(&json, "plan_digest", meta->plan_digest);
    if (meta->sharing != NULL) {
        pst_json_string(&json, "sharing", meta->sharing);
    }
    put_clock(&json, timeline);
    pst_json_end(&json, '}');
    pst_json_array(&json, "traceEvents");
    put_timeline(&json, timeline, meta->predicted, 0, "");
    if (meta->predicted != NULL) {
        put_timeline(&json, meta->predicted, NULL, TRACE_PREDICTED, "predicted");
    }
    pst_json_end(&json, ']');
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    return pst_json_take(&json);
}

/* Feeds all bytes; the room is enough by deflateBound. */
static bool deflate_all(z_stream *stream, const unsigned char *bytes, size_t length, size_t room)
{
    int result = Z_OK;

    while (result == Z_OK) {
        size_t in = length < PIECE ? length : PIECE, out = room < PIECE ? room : PIECE;

        stream->next_in = (unsigned char *)bytes;
        stream->avail_in = (uInt)in;
        stream->avail_out = (uInt)out;
        result = deflate(stream, in == length ? Z_FINISH : Z_NO_FLUSH);
        bytes += in - stream->avail_in;
        length -= in - stream->avail_in;
        room -= out - stream->avail_out;
    }
    return result == Z_STREAM_END;
}

/* Compressed to the format of gzip (RFC 1952), without name and date: the same bytes in, the same
   bytes out. free() *ret_packed. */
static void compress_text(const void *bytes, size_t length, unsigned char **ret_packed,
                          size_t *ret_length)
{
    z_stream stream = {0};
    unsigned char *packed;
    size_t room;

    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        pst_out_of_memory();
    }
    room = deflateBound(&stream, length) + 64;
    packed = pst_alloc(room, 1);
    stream.next_out = packed;
    if (!deflate_all(&stream, bytes, length, room)) {
        pst_out_of_memory();
    }
    *ret_length = (size_t)(stream.next_out - packed);
    *ret_packed = packed;
    deflateEnd(&stream);
}

pst_status pst_trace_write(const struct pst_timeline *timeline, const char *path,
                           const struct pst_trace_meta *meta, struct pst_error *err)
{
    char *text = pst_trace_to_json(timeline, meta);
    unsigned char *packed = NULL;
    size_t length = strlen(text), n_packed = 0;
    pst_status status;

    if (!pst_text_ends(path, ".gz")) {
        status = pst_file_write(path, text, length, err);
    } else {
        compress_text(text, length, &packed, &n_packed);
        status = pst_file_write(path, packed, n_packed, err);
    }
    free(packed);
    free(text);
    return status;
}
