/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that read the trace of a run: its slices, and what was predicted beside them. Include
 * cmocka and support.h before.
 */
#ifndef PENSTOCK_TESTS_TRACE_RIG_H
#define PENSTOCK_TESTS_TRACE_RIG_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_RIG_PREDICTED 100000 /* pids from here on */

struct trace_slice {
    bool predicted;
    long long rank, tid, step, instr; /* step counts from the first that is shown */
    long long start_ns, end_ns;
    char name[48], category[12];
};

struct trace_rig {
    struct trace_slice
        *slices; /* without waits; run before predicted, by rank, step, instruction */
    size_t n, n_run;
    size_t n_waits, n_steps, n_arrows, n_counters; /* other events: steps are those of the run */
};

static inline int trace_rig_compare(const void *a, const void *b)
{
    const struct trace_slice *x = a, *y = b;
    const long long keys[2][4] = {{x->predicted, x->rank, x->step, x->instr},
                                  {y->predicted, y->rank, y->step, y->instr}};

    for (uint32_t i = 0; i < 4; i++) {
        if (keys[0][i] != keys[1][i]) {
            return keys[0][i] < keys[1][i] ? -1 : 1;
        }
    }
    return 0;
}

static inline long long trace_rig_integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static inline void trace_rig_slice(struct trace_rig *rig, const json_t *event)
{
    struct trace_slice *slice = &rig->slices[rig->n];
    const json_t *args = json_object_get(event, "args");
    double ts = json_number_value(json_object_get(event, "ts"));
    double dur = json_number_value(json_object_get(event, "dur"));
    long long pid = trace_rig_integer(event, "pid");
    const char *category = json_string_value(json_object_get(event, "cat"));

    assert_true(category != NULL && ts >= 0 && dur >= 0);
    if (strcmp(category, "wait") == 0) {
        rig->n_waits++;
        return;
    }
    rig->n++;
    slice->predicted = pid >= TRACE_RIG_PREDICTED;
    slice->rank = pid % TRACE_RIG_PREDICTED;
    slice->tid = trace_rig_integer(event, "tid");
    slice->step = trace_rig_integer(args, "step");
    slice->instr = trace_rig_integer(args, "instr");
    slice->start_ns = llround(ts * 1000);
    slice->end_ns = slice->start_ns + llround(dur * 1000);
    snprintf(slice->name, sizeof slice->name, "%s",
             json_string_value(json_object_get(event, "name")));
    snprintf(slice->category, sizeof slice->category, "%s", category);
}

/* Steps of both count from their first. */
static inline void trace_rig_align(struct trace_rig *rig)
{
    long long first[2] = {INT64_MAX, INT64_MAX};

    for (size_t i = 0; i < rig->n; i++) {
        long long *low = &first[rig->slices[i].predicted];

        *low = rig->slices[i].step < *low ? rig->slices[i].step : *low;
        rig->n_run += !rig->slices[i].predicted;
    }
    for (size_t i = 0; i < rig->n; i++) {
        rig->slices[i].step -= first[rig->slices[i].predicted];
    }
    qsort(rig->slices, rig->n, sizeof *rig->slices, trace_rig_compare);
}

static inline struct trace_rig trace_rig_load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *events, *event;
    struct trace_rig rig = {0};
    size_t i;

    if (root == NULL) {
        fail_msg("%s:%d: %s", path, error.line, error.text);
    }
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(root, "otherData"), "kind")), "run");
    events = json_object_get(root, "traceEvents");
    rig.slices = calloc(json_array_size(events) + 1, sizeof *rig.slices);
    assert_non_null(rig.slices);
    json_array_foreach(events, i, event)
    {
        switch (json_string_value(json_object_get(event, "ph"))[0]) {
        case 'X':
            trace_rig_slice(&rig, event);
            break;
        case 'i':
            rig.n_steps++;
            break;
        case 's':
            rig.n_arrows++;
            break;
        case 'C':
            rig.n_counters++;
            break;
        default:
            break;
        }
    }
    json_decref(root);
    trace_rig_align(&rig);
    return rig;
}

static inline void trace_rig_finish(struct trace_rig *rig)
{
    free(rig->slices);
}

/* Of a synchronous plan: the run made what was predicted, instruction for instruction. */
static inline void trace_rig_same_instructions(const struct trace_rig *rig)
{
    assert_true(rig->n_run > 0);
    assert_int_equal(rig->n, 2 * rig->n_run);
    for (size_t i = 0; i < rig->n_run; i++) {
        const struct trace_slice *run = &rig->slices[i], *predicted = &rig->slices[rig->n_run + i];

        if (run->rank != predicted->rank || run->step != predicted->step ||
            run->instr != predicted->instr || strcmp(run->name, predicted->name) != 0) {
            fail_msg("rank %lld, step %lld, instruction %lld: %s in the run, %s predicted",
                     run->rank, run->step, run->instr, run->name, predicted->name);
        }
    }
}

/* Nothing begins before what stands ahead of it in its row has: passes of a rank in list order. */
static inline void trace_rig_ordered(const struct trace_rig *rig)
{
    for (size_t i = 0; i + 1 < rig->n; i++) {
        const struct trace_slice *at = &rig->slices[i], *next = at + 1;

        while (next < rig->slices + rig->n && next->rank == at->rank &&
               next->predicted == at->predicted && next->tid != at->tid) {
            next++;
        }
        if (next < rig->slices + rig->n && next->rank == at->rank &&
            next->predicted == at->predicted &&
            (next->start_ns < at->start_ns ||
             (at->tid == 0 && next->start_ns + 1 < at->end_ns))) { /* 1: decimals are cut off */
            fail_msg("%s rank %lld: %s at %lld ns, but %s from %lld to %lld",
                     at->predicted ? "predicted" : "run", at->rank, next->name, next->start_ns,
                     at->name, at->start_ns, at->end_ns);
        }
    }
}

static inline long long trace_rig_begin(const struct trace_rig *rig, bool predicted, long long step)
{
    long long begin = INT64_MAX;

    for (size_t i = 0; i < rig->n; i++) {
        const struct trace_slice *slice = &rig->slices[i];

        if (slice->predicted == predicted && slice->step == step && slice->start_ns < begin) {
            begin = slice->start_ns;
        }
    }
    return begin;
}

/* The largest difference of a start or end, both counted from the begin of the step. */
static inline long long trace_rig_difference(const struct trace_rig *rig)
{
    long long most = 0, run_begin = 0, predicted_begin = 0, step = -1;

    for (size_t i = 0; i < rig->n_run; i++) {
        const struct trace_slice *run = &rig->slices[i], *predicted = &rig->slices[rig->n_run + i];
        long long ends[2];

        if (run->step != step) {
            step = run->step;
            run_begin = trace_rig_begin(rig, false, step);
            predicted_begin = trace_rig_begin(rig, true, step);
        }
        ends[0] = llabs(run->start_ns - run_begin - (predicted->start_ns - predicted_begin));
        ends[1] = llabs(run->end_ns - run_begin - (predicted->end_ns - predicted_begin));
        most = ends[0] > most ? ends[0] : most;
        most = ends[1] > most ? ends[1] : most;
    }
    return most;
}

#endif
