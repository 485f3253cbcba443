/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training run prints under --json, as far as two runs can be held against each other bit by
 * bit. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_BITS_H
#define PENSTOCK_TESTS_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "support.h"

#define BITS_STEPS 16 /* most of a run */

struct trace {
    uint32_t n_steps, n_evals;
    char losses[BITS_STEPS][40]; /* hexadecimal floats */
    double norms[BITS_STEPS];
    uint32_t eval_steps[BITS_STEPS]; /* evaluations: behind which step, and what came of it */
    double evals[BITS_STEPS];
    char sample[200]; /* generated text; empty: none */
};

/* Every device's arena peaks exactly where it was predicted to; a device may have nothing to do. */
static inline void bits_check_peaks(const json_t *object)
{
    json_t *peak = json_object_get(object, "peak_bytes");
    json_t *predicted = json_object_get(object, "predicted_peak_bytes");

    json_int_t all = 0;

    assert_true(json_array_size(peak) > 0);
    assert_int_equal(json_array_size(peak), json_array_size(predicted));
    for (size_t i = 0; i < json_array_size(peak); i++) {
        all += json_integer_value(json_array_get(peak, i));
        assert_int_equal(json_integer_value(json_array_get(peak, i)),
                         json_integer_value(json_array_get(predicted, i)));
    }
    assert_true(all > 0);
}

static inline void bits_read_line(const char *line, struct trace *trace)
{
    json_t *object = json_loads(line, 0, NULL);
    json_t *hex;

    assert_non_null(object);
    hex = json_object_get(object, "loss_hex");
    if (json_is_true(json_object_get(object, "eval"))) {
        assert_true(trace->n_evals < BITS_STEPS);
        trace->eval_steps[trace->n_evals] =
            (uint32_t)json_integer_value(json_object_get(object, "step"));
        trace->evals[trace->n_evals++] = json_number_value(json_object_get(object, "loss"));
    } else if (hex != NULL) {
        assert_true(trace->n_steps < BITS_STEPS);
        snprintf(trace->losses[trace->n_steps], sizeof trace->losses[0], "%s",
                 json_string_value(hex));
        trace->norms[trace->n_steps++] = json_real_value(json_object_get(object, "grad_norm"));
    }
    if (json_is_true(json_object_get(object, "done"))) {
        const char *sample = json_string_value(json_object_get(object, "sample"));

        bits_check_peaks(object);
        snprintf(trace->sample, sizeof trace->sample, "%s", sample == NULL ? "" : sample);
    }
    json_decref(object);
}

/* A run of `path` with settings (up to a NULL) that must end well; *ret_trace is overwritten. */
static inline void bits_train(const char *path, const char *const *sets, struct trace *ret_trace)
{
    const char *args[SUPPORT_ARGUMENTS] = {"train", path, "--json", "--quiet"};
    struct outcome outcome;
    char *rest, *line;

    for (uint32_t i = 0; sets[i] != NULL; i++) {
        assert_true(2 * i + 6 < SUPPORT_ARGUMENTS);
        args[4 + 2 * i] = "--set";
        args[5 + 2 * i] = sets[i];
    }
    memset(ret_trace, 0, sizeof *ret_trace);
    outcome = support_run(args);
    expect_code(&outcome, 0);
    rest = outcome.out;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (*line != '\0') {
            bits_read_line(line, ret_trace);
        }
    }
    assert_true(ret_trace->n_steps > 0);
    outcome_finish(&outcome);
}

/* The first n steps. */
static inline bool bits_steps_are_same(const struct trace *a, const struct trace *b, uint32_t n)
{
    bool same = n <= a->n_steps && n <= b->n_steps;

    for (uint32_t i = 0; same && i < n; i++) {
        same = strcmp(a->losses[i], b->losses[i]) == 0 && a->norms[i] == b->norms[i];
    }
    return same;
}

static inline bool bits_are_same(const struct trace *a, const struct trace *b)
{
    bool same = a->n_steps == b->n_steps && a->n_evals == b->n_evals &&
                bits_steps_are_same(a, b, a->n_steps) && strcmp(a->sample, b->sample) == 0;

    for (uint32_t i = 0; same && i < a->n_evals; i++) {
        same = a->evals[i] == b->evals[i] && a->eval_steps[i] == b->eval_steps[i];
    }
    return same;
}

static inline void bits_expect_same(const char *what, const struct trace *a, const struct trace *b)
{
    if (!bits_are_same(a, b)) {
        fail_msg("%s: steps %u and %u, evaluations %u and %u; first losses %s and %s, last %s and "
                 "%s, last evaluations %a and %a, \"%s\" and \"%s\"",
                 what, a->n_steps, b->n_steps, a->n_evals, b->n_evals, a->losses[0], b->losses[0],
                 a->losses[a->n_steps - 1], b->losses[b->n_steps - 1],
                 a->n_evals > 0 ? a->evals[a->n_evals - 1] : 0,
                 b->n_evals > 0 ? b->evals[b->n_evals - 1] : 0, a->sample, b->sample);
    }
}

#endif
