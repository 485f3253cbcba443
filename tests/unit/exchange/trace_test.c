/* SPDX-License-Identifier: Apache-2.0
 *
 * Chrome traces, read back with a JSON parser: rows nest, arrows have both ends inside their
 * slices, waits fill what passes leave, and counters follow the curve.
 */
#include "exchange/trace.h"

#include <math.h>
#include "test.h"

#include <jansson.h>

#include "support.h"
#include "unit/reports/timeline_rig.h"

struct slice {
    long long pid, tid, start, end; /* ns */
};

/* Three decimals are exact nanoseconds. */
static long long ns_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    double us = json_number_value(value);

    assert_true(json_is_number(value) && isfinite(us));
    return llround(us * 1000);
}

static long long integer(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text == NULL ? "" : text;
}

static int compare_slices(const void *left, const void *right)
{
    const struct slice *a = left, *b = right;
    const long long keys[][2] = {
        {a->pid, b->pid}, {a->tid, b->tid}, {a->start, b->start}, {b->end, a->end}};

    for (size_t i = 0; i < 4; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

/* A trace that was read back; its X events are sorted. */
struct trace {
    json_t *root, *events;
    struct slice *slices;
    size_t n;
};

/* All X events sorted; fails where two of a row overlap. */
static struct slice *disjoint_slices(const json_t *events, size_t *ret_n)
{
    struct slice *slices = calloc(json_array_size(events) + 1, sizeof *slices);
    size_t n = 0, i;
    json_t *event;

    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") == 0) {
            long long start = ns_of(event, "ts"), length = ns_of(event, "dur");

            assert_true(length >= 0);
            assert_true(json_is_object(json_object_get(event, "args")));
            slices[n++] =
                (struct slice){integer(event, "pid"), integer(event, "tid"), start, start + length};
        }
    }
    qsort(slices, n, sizeof *slices, compare_slices);
    for (i = 1; i < n; i++) {
        if (slices[i].pid == slices[i - 1].pid && slices[i].tid == slices[i - 1].tid) {
            assert_true(slices[i].start >= slices[i - 1].end);
        }
    }
    *ret_n = n;
    return slices;
}

static struct trace open_trace(const struct pst_timeline *timeline,
                               const struct pst_trace_meta *meta)
{
    char *text = pst_trace_to_json(timeline, meta);
    struct trace trace;
    json_error_t error;

    assert_non_null(text);
    trace.root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (trace.root == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    trace.events = json_object_get(trace.root, "traceEvents");
    trace.slices = disjoint_slices(trace.events, &trace.n);
    free(text);
    return trace;
}

static void close_trace(struct trace *trace)
{
    free(trace->slices);
    json_decref(trace->root);
}

static bool encloses(const struct trace *trace, const json_t *event)
{
    long long at = ns_of(event, "ts");

    for (size_t i = 0; i < trace->n; i++) {
        const struct slice *slice = &trace->slices[i];

        if (slice->pid == integer(event, "pid") && slice->tid == integer(event, "tid") &&
            slice->start <= at && at < slice->end) {
            return true;
        }
    }
    return false;
}

/* Every start has one end, later, on another rank; both inside a slice. Returns how many. */
static size_t expect_flows(const struct trace *trace)
{
    json_t *starts = json_object(), *event;
    size_t n_starts = 0, n_ends = 0, i;

    json_array_foreach(trace->events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "s") == 0) {
            assert_null(json_object_get(starts, text_of(event, "id")));
            json_object_set(starts, text_of(event, "id"), event);
            assert_true(encloses(trace, event));
            n_starts++;
        }
    }
    json_array_foreach(trace->events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "f") == 0) {
            const json_t *start = json_object_get(starts, text_of(event, "id"));

            assert_non_null(start);
            assert_string_equal(text_of(event, "bp"), "e");
            assert_true(ns_of(event, "ts") >= ns_of(start, "ts"));
            assert_true(integer(event, "pid") != integer(start, "pid"));
            assert_true(encloses(trace, event));
            assert_int_equal(json_object_del(starts, text_of(event, "id")), 0);
            n_ends++;
        }
    }
    assert_int_equal(n_starts, n_ends);
    json_decref(starts);
    return n_ends;
}

static const json_t *find(const struct trace *trace, const char *phase, const char *name,
                          long long pid)
{
    size_t i;
    json_t *event;

    json_array_foreach(trace->events, i, event)
    {
        if (strcmp(text_of(event, "ph"), phase) == 0 && strcmp(text_of(event, "name"), name) == 0 &&
            integer(event, "pid") == pid) {
            return event;
        }
    }
    fail_msg("no event %s \"%s\" of pid %lld", phase, name, pid);
    return NULL;
}

#define ARROW(from, to) from "\xE2\x86\x92" to

static const uint64_t costs[3] = {1000, 1100, 900};

TEST(events_of_1f1b)
{
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 3, 4, costs, 100);
    FINISHED_BY(close_trace) struct trace trace = open_trace(timeline, NULL);
    const json_t *event;

    assert_int_equal(expect_flows(&trace), 2 * 4 * 2); /* links x micro-batches x both */

    event = find(&trace, "X", "0F2", 0);
    assert_string_equal(text_of(event, "cat"), "F");
    assert_int_equal(ns_of(event, "ts"), 2000);
    assert_int_equal(ns_of(event, "dur"), 1000);
    assert_int_equal(integer(json_object_get(event, "args"), "stage"), 0);
    assert_int_equal(integer(json_object_get(event, "args"), "microbatch"), 2);
    /* the first backward of the last rank: behind two transfers and three forwards */
    event = find(&trace, "X", "2B0", 2);
    assert_string_equal(text_of(event, "cat"), "BW");
    assert_int_equal(ns_of(event, "ts"), 3200);
    assert_int_equal(ns_of(event, "dur"), 2000);
    event = find(&trace, "X", ARROW("SEND_F 0", "1 mb0"), 0);
    assert_string_equal(text_of(event, "cat"), "comm");
    assert_int_equal(ns_of(event, "ts"), 1000);
    assert_int_equal(integer(event, "tid"), 1);
    assert_int_equal(integer(json_object_get(event, "args"), "bytes"), 4096);
    assert_int_equal(integer(json_object_get(event, "args"), "peer"), 1);
    assert_int_equal(ns_of(json_object_get(event, "args"), "exposed_us"), 0); /* 0F1 runs */
    event = find(&trace, "X", ARROW("RECV_F 0", "1 mb0"), 1);
    assert_int_equal(ns_of(json_object_get(event, "args"), "exposed_us"), 100);
    /* rank 1 waits from the beginning on for it */
    event = find(&trace, "X", "wait", 1);
    assert_int_equal(ns_of(event, "ts"), 0);
    assert_int_equal(ns_of(event, "dur"), 1100);
    assert_string_equal(text_of(json_object_get(event, "args"), "for"), ARROW("RECV_F 0", "1 mb0"));
    event = find(&trace, "M", "process_name", 2);
    assert_string_equal(text_of(json_object_get(event, "args"), "name"), "rank 2 (stage 2)");
}

/* penstock's B is PyTorch's I. */
TEST(letters)
{
    OWN(timeline) *timeline = rig_timeline(RIG_V, 2, 3, costs, 0);
    FINISHED_BY(close_trace) struct trace trace = open_trace(timeline, NULL);

    assert_string_equal(text_of(find(&trace, "X", "3I1", 0), "cat"), "B");
    assert_string_equal(text_of(find(&trace, "X", "3W1", 0), "cat"), "W");
    assert_string_equal(text_of(find(&trace, "X", "1F2", 1), "cat"), "F");
}

/* On the compute row passes and waits fill the whole time of every rank. */
TEST(waits_fill_the_row)
{
    OWN(timeline) *timeline = rig_timeline(RIG_LOOPED, 4, 5, costs, 250);
    FINISHED_BY(close_trace) struct trace trace = open_trace(timeline, NULL);
    long long sums[4] = {0};

    for (size_t i = 0; i < trace.n; i++) {
        sums[trace.slices[i].pid] +=
            trace.slices[i].tid == 0 ? trace.slices[i].end - trace.slices[i].start : 0;
    }
    for (int r = 0; r < 4; r++) {
        assert_int_equal(sums[r], timeline->end_ns);
    }
}

static void add(struct pst_timeline *timeline, uint8_t op, uint32_t rank, uint64_t start,
                uint64_t end, uint32_t first_sample, uint32_t step)
{
    struct pst_span span = {.start_ns = start,
                            .end_ns = end,
                            .rank = rank,
                            .instr = 7,
                            .to_stage = 1,
                            .microbatch = PST_NONE,
                            .first_sample = first_sample,
                            .n_samples = op == PST_I_SEND || op == PST_I_RECV ? 2 : 0,
                            .peer = op == PST_I_SEND || op == PST_I_RECV ? 1 - rank : PST_NONE,
                            .step = step,
                            .op = op,
                            .lane = pst_lane_of(op)};

    if (op == PST_I_OFFLOAD || op == PST_I_FETCH || op == PST_I_F) {
        span.microbatch = first_sample / 2;
    }
    pst_timeline_add(timeline, &span);
}

/* Transfers that overlap go to rows of their own; the same samples in two steps are two arrows;
   an update belongs to the time that is not waited; every row has a name. */
TEST(overlapping_transfers)
{
    OWN(timeline) *timeline = NULL;
    FINISHED_BY(close_trace) struct trace trace;
    json_t *event;
    uint32_t n_stalled = 0;
    size_t i;

    pst_timeline_create(2, &timeline);
    for (uint32_t step = 0; step < 2; step++) {
        uint64_t t = 1000 * step;

        for (uint32_t k = 0; k < 3; k++) {
            add(timeline, PST_I_SEND, 0, t + 10 * k, t + 10 * k + 15, 2 * k, step);
            add(timeline, PST_I_RECV, 1, t + 10 * k, t + 10 * k + 15, 2 * k, step);
        }
        add(timeline, PST_I_F, 0, t, t + 10, 0, step);
        timeline->spans[timeline->n_spans - 1].stall_ns = 4;
        add(timeline, PST_I_STEP, 0, t + 10, t + 100, 0, step);
        add(timeline, PST_I_NORM, 0, t + 100, t + 110, 0, step);
        add(timeline, PST_I_OFFLOAD, 1, t + 20, t + 25, 0, step);
        add(timeline, PST_I_FETCH, 1, t + 40, t + 45, 0, step);
    }
    pst_timeline_finish_build(timeline);
    trace = open_trace(timeline, NULL);
    assert_int_equal(expect_flows(&trace), 6);
    assert_int_equal(integer(find(&trace, "X", ARROW("SEND_F 0", "1 mb1"), 0), "tid"), 101);
    assert_int_equal(ns_of(find(&trace, "X", "wait", 0), "ts"), 100); /* not at 10 */
    assert_string_equal(text_of(find(&trace, "X", "STEP 0", 0), "cat"), "opt");
    assert_string_equal(text_of(find(&trace, "X", "OFFLOAD 0 mb0", 1), "cat"), "copy");
    assert_int_equal(integer(find(&trace, "X", "FETCH 0 mb0", 1), "tid"), 4);
    assert_int_equal(ns_of(find(&trace, "i", "step 1", 0), "ts"), 1000);
    json_array_foreach(trace.events, i, event)
    {
        const json_t *args = json_object_get(event, "args");

        n_stalled += args != NULL && json_object_get(args, "stall_us") != NULL &&
                     ns_of(args, "stall_us") == 4;
    }
    assert_int_equal(n_stalled, 2);
    for (i = 0; i < trace.n; i++) {
        bool named = false;
        size_t k;

        json_array_foreach(trace.events, k, event)
        {
            named |= strcmp(text_of(event, "name"), "thread_name") == 0 &&
                     integer(event, "pid") == trace.slices[i].pid &&
                     integer(event, "tid") == trace.slices[i].tid;
        }
        assert_true(named);
    }
}

TEST(counters)
{
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 2, 3, costs, 0);
    FINISHED_BY(close_trace) struct trace trace = open_trace(timeline, NULL);
    json_t *event;
    long long most[2] = {0};
    size_t i;

    json_array_foreach(trace.events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "C") == 0) {
            const json_t *args = json_object_get(event, "args");
            long long pid = integer(event, "pid");
            long long sum = integer(args, "params") + integer(args, "grads") +
                            integer(args, "optimizer") + integer(args, "activations") +
                            integer(args, "buffers") + integer(args, "workspace") +
                            integer(args, "guests");

            assert_string_equal(text_of(event, "name"), "memory");
            assert_int_equal(json_object_size(args), 7);
            most[pid] = sum > most[pid] ? sum : most[pid];
        }
    }
    assert_int_equal(most[0], timeline->ranks[0].peak_bytes);
    assert_int_equal(most[1], timeline->ranks[1].peak_bytes);
}

TEST(other_data_and_overlay)
{
    OWN(timeline) *run = rig_timeline(RIG_1F1B, 2, 2, costs, 0);
    const uint64_t longer[3] = {1300, 1400, 1200};
    OWN(timeline) *predicted = rig_timeline(RIG_1F1B, 2, 2, longer, 50);
    const struct pst_trace_meta meta = {"a.json", "0123456789abcdef", predicted, "two ranks a GPU"};
    FINISHED_BY(close_trace) struct trace trace = open_trace(run, &meta);
    json_t *other = json_object_get(trace.root, "otherData");

    run->kind = "run";
    assert_string_equal(text_of(other, "plan"), "a.json");
    assert_string_equal(text_of(other, "plan_digest"), "0123456789abcdef");
    assert_string_equal(text_of(other, "sharing"), "two ranks a GPU");
    assert_int_equal(json_array_size(json_object_get(json_object_get(other, "clock"), "per_rank")),
                     2);
    assert_string_equal(
        text_of(json_object_get(find(&trace, "M", "process_name", 100001), "args"), "name"),
        "predicted rank 1 (stage 1)");
    assert_int_equal(ns_of(json_object_get(find(&trace, "X", "0F1", 0), "args"), "predicted_us"),
                     1300);
    assert_int_equal(ns_of(json_object_get(find(&trace, "X", "1B0", 1), "args"), "predicted_us"),
                     1400 + 1200);
    expect_flows(&trace);
}

/* A unit of the user's own counts as a microsecond. */
TEST(own_units)
{
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 2, 2, costs, 0);
    FINISHED_BY(close_trace) struct trace trace;

    timeline->ns_per_unit = 500;
    trace = open_trace(timeline, NULL);
    assert_int_equal(ns_of(find(&trace, "X", "0F1", 0), "ts"), 2000);
}

TEST(files)
{
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 2, 2, costs, 0);
    const char *plain = support_path("t.json"), *packed = support_path("t.json.gz");
    char *expected = pst_trace_to_json(timeline, NULL), *found, command[512];
    struct pst_error err = {0};

    assert_ok(pst_trace_write(timeline, plain, NULL, &err), &err);
    found = support_read(plain);
    assert_string_equal(found, expected);
    free(found);
    assert_ok(pst_trace_write(timeline, packed, NULL, &err), &err);
    snprintf(command, sizeof command, "gzip -dc '%s' | cmp -s - '%s'", packed, plain);
    assert_int_equal(system(command), 0);
    assert_int_equal(pst_trace_write(timeline, "/nonexistent/t.json", NULL, &err), PST_ERR_IO);
    assert_string_equal(err.kind, "output.write");
    free(expected);
}

/* A run is shown from a later step on than the first, and what was predicted of it beside it. */
TEST(later_steps)
{
    OWN(timeline) *run = NULL, *predicted = NULL;
    struct pst_trace_meta meta = {0};
    FINISHED_BY(close_trace) struct trace trace;
    json_t *event;
    size_t k;

    pst_timeline_create(2, &run);
    pst_timeline_create(2, &predicted);
    for (uint32_t step = 0; step < 3; step++) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            add(run, PST_I_F, rank, 100 * step + 10, 100 * step + 90, 0, 4000 + step);
            add(predicted, PST_I_F, rank, 100 * step, 100 * step + 80, 0, step);
        }
    }
    pst_timeline_finish_build(run);
    pst_timeline_finish_build(predicted);
    run->n_steps = predicted->n_steps = 3;
    meta.predicted = predicted;
    trace = open_trace(run, &meta);
    assert_int_equal(ns_of(find(&trace, "i", "step 4000", 0), "ts"), 10);
    assert_int_equal(ns_of(find(&trace, "i", "step 4002", 0), "ts"), 210);
    json_array_foreach(trace.events, k, event)
    {
        if (strcmp(text_of(event, "name"), "process_sort_index") == 0) {
            long long pid = integer(event, "pid"), rank = pid % 100000;

            assert_int_equal(integer(json_object_get(event, "args"), "sort_index"),
                             2 * rank + (pid >= 100000)); /* run, predicted, run, predicted */
        }
    }
}

TEST_GROUP(support_begin, support_end)
