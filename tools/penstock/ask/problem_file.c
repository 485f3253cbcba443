/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/problem_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "config/codec.h"
#include "models/costed/costed_impl.h"

#include <penstock/ext/profile.h>

#define MAX_DEVICES       65536.0
#define MAX_MICRO_BATCHES 1048576u /* of a step */
#define MAX_MULTIPLIER    1e6
#define MAX_BANDWIDTH     1e18

/* `name` in the folder of the problem; it must stay there. malloc'd. */
static char *beside(struct pst_codec *c, const char *name)
{
    const char *path = c->in->path, *slash = strrchr(path, '/');

    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            pst_codec_fail(c, "config.value", "graph_file",
                           "\"%.300s\" leads out of the problem's folder", name);
            return NULL;
        }
    }
    if (name[0] == '/') {
        pst_codec_fail(c, "config.value", "graph_file",
                       "\"%.300s\" must be relative to the problem's folder", name);
        return NULL;
    }
    return pst_printf("%.*s%s", slash == NULL ? 0 : (int)(slash - path + 1), path, name);
}

static void code_graph(struct pst_codec *c, struct pst_problem *problem)
{
    const char *name = NULL;
    char *path;

    pst_codec_label(c, "graph_file", &name, NULL);
    if (name == NULL) {
        pst_codec_require(c, "graph", "\"graph\" or \"graph_file\" is missing");
        pst_costed_code(c, "graph", &problem->graph);
    } else if (pst_codec_has(c, "graph", false)) {
        pst_codec_fail(c, "config.key", NULL, "\"graph\" and \"graph_file\" exclude each other");
    } else if ((path = beside(c, name)) != NULL) {
        c->in->status = pst_costed_read(path, &problem->graph, c->in->err);
        free(path);
    }
}

/* All powers of two that divide the mini-batch. */
static void default_sizes(struct pst_codec *c, struct pst_problem *problem)
{
    uint32_t *sizes = pst_arena_array(&problem->arena, 32, sizeof *sizes);
    uint32_t n = 0;

    for (uint32_t b = 1; n < 31 && problem->mini_batch % b == 0; b *= 2) {
        if (problem->mini_batch / b <= MAX_MICRO_BATCHES) {
            sizes[n++] = b;
        }
    }
    problem->n_micro_batches = n;
    problem->micro_batches = sizes;
    if (n == 0) {
        pst_codec_fail(c, "config.value", "micro_batches",
                       "no power of two cuts %u samples into at most %u; name sizes",
                       problem->mini_batch, MAX_MICRO_BATCHES);
    }
}

/* Samples of the graph; a question about one stage, where steps do not count, names any size. */
static uint32_t default_mini_batch(uint32_t samples, bool one_stage,
                                   const struct pst_problem *problem)
{
    for (uint32_t i = 0; one_stage && i < problem->n_micro_batches; i++) {
        samples = problem->micro_batches[i] > samples ? problem->micro_batches[i] : samples;
    }
    return samples;
}

/* The first as written, not the smallest; a value that is no count is refused elsewhere. */
static uint32_t first_size(const json_t *sizes, uint32_t initial)
{
    double size = json_number_value(json_is_array(sizes) ? json_array_get(sizes, 0) : sizes);

    return size >= 1 && size <= PST_COSTED_SAMPLES ? (uint32_t)size : initial;
}

static void code_sizes(struct pst_codec *c, struct pst_problem *problem)
{
    uint32_t samples = problem->graph != NULL ? problem->graph->batch : 1; /* NULL: it failed */
    bool one_stage = pst_codec_has(c, "in_flight", true) || problem->no_devices;

    if (pst_codec_reads(c)) {
        problem->stage_samples = first_size(pst_codec_find(c, "micro_batches"), samples);
    }
    pst_codec_counts(c, "micro_batches", &problem->micro_batches, &problem->n_micro_batches,
                     PST_COSTED_SAMPLES);
    pst_codec_count(c, "mini_batch", &problem->mini_batch, 1, PST_COSTED_SAMPLES,
                    default_mini_batch(samples, one_stage, problem));
    pst_codec_counts(c, "degrees", &problem->degrees, &problem->n_degrees, MAX_DEVICES);
}

/* What is read: sizes that fit each other, and those that the file left out. */
static void complete_sizes(struct pst_codec *c, struct pst_problem *problem)
{
    static const uint32_t one[] = {1};

    for (uint32_t i = 0; i < problem->n_micro_batches; i++) {
        uint32_t size = problem->micro_batches[i];

        if (size > problem->mini_batch) {
            pst_codec_fail(c, "config.value", "micro_batches",
                           "%u is more than mini_batch, which is %u", size, problem->mini_batch);
        } else if (problem->mini_batch / size > MAX_MICRO_BATCHES) {
            pst_codec_fail(c, "config.value", "micro_batches",
                           "%u cuts %u samples into more than %u", size, problem->mini_batch,
                           MAX_MICRO_BATCHES);
        }
    }
    if (problem->micro_batches == NULL) {
        default_sizes(c, problem);
    }
    if (problem->degrees == NULL) {
        problem->n_degrees = 1;
        problem->degrees = one;
    }
}

/* Absent and null are the same. */
static void code_or_null(struct pst_codec *c, const char *key, double *number, double most,
                         double initial)
{
    if (pst_codec_null(c, key, false)) {
        *number = initial;
    } else {
        pst_codec_amount(c, key, number, 0, most, initial);
    }
}

static void code_bandwidth(struct pst_codec *c, const char *key, double *bandwidth)
{
    const json_t *value = pst_codec_reads(c) ? pst_codec_find(c, key) : NULL;

    if (json_is_number(value) && !(json_number_value(value) > 0)) {
        pst_codec_fail(c, "config.value", key,
                       "must be above 0 bytes per second, not %.15g; null means free",
                       json_number_value(value));
    }
    code_or_null(c, key, bandwidth, MAX_BANDWIDTH, 0);
}

static void code_devices(struct pst_codec *c, struct pst_problem *problem)
{
    if (pst_codec_reads(c)) {
        problem->no_devices =
            !pst_codec_has(c, "in_flight", true) && !pst_codec_has(c, "devices", true);
    }
    pst_codec_count(c, "devices", &problem->n_devices, 1, MAX_DEVICES, 1);
    if (pst_codec_has(c, "node_size", problem->node_size > 0)) {
        pst_codec_count(c, "node_size", &problem->node_size, 1, MAX_DEVICES, 0);
    }
    code_or_null(c, "memory_bytes", &problem->memory_bytes, PST_COSTED_BYTES, INFINITY);
    pst_codec_amount(c, "weight_multiplier", &problem->weight_multiplier, 0, MAX_MULTIPLIER, 4);
    code_bandwidth(c, "p2p_bandwidth", &problem->p2p_bandwidth);
    code_bandwidth(c, "allreduce_bandwidth", &problem->allreduce_bandwidth);
}

static void code_name(struct pst_codec *c, const char *key, const char **name)
{
    pst_codec_label(c, key, name, NULL);
    if (pst_codec_reads(c)) {
        *name = pst_arena_strdup(c->arena, *name);
    }
}

/* An object that may be absent, as its JSON. */
static void code_options(struct pst_codec *c, const char *key, json_t **options)
{
    char *text;

    if (!pst_codec_has(c, key, *options != NULL)) {
        return;
    }
    if (pst_codec_reads(c)) {
        *options = pst_codec_skip_object(c, key) ? json_incref(pst_codec_find(c, key)) : NULL;
    } else {
        text = pst_json_text(*options);
        pst_json_raw(c->out, key, text);
        free(text);
    }
}

/* Which cost model, and what only one of them reads. */
static void code_cost(struct pst_codec *c, struct pst_problem *problem)
{
    static const char *const comm_words[] = {[PST_COMM_NONE] = "none", /* transfers are free */
                                             [PST_COMM_SUM] = "sum",
                                             [PST_COMM_MAX] = "max",
                                             NULL};
    static const char *const cost_words[] = {"reference", "planned", NULL};
    uint32_t planned = problem->planned;

    pst_codec_word(c, "comm_model", &problem->comm_model, comm_words, PST_COMM_NONE);
    pst_codec_word(c, "cost", &planned, cost_words, 0);
    problem->planned = planned == 1;
    code_name(c, "scheduler", &problem->scheduler);
    code_name(c, "memopt", &problem->memopt);
    code_options(c, "scheduler_options", &problem->scheduler_options);
    code_options(c, "memopt_options", &problem->memopt_options);
    code_options(c, "options", &problem->options);
}

static void check_cost(struct pst_codec *c, const struct pst_problem *problem)
{
    const char *key = problem->scheduler != NULL           ? "scheduler"
                      : problem->memopt != NULL            ? "memopt"
                      : problem->scheduler_options != NULL ? "scheduler_options"
                      : problem->memopt_options != NULL    ? "memopt_options"
                                                           : NULL;

    if (!problem->planned && key != NULL) {
        pst_codec_fail(c, "config.value", key, "counts only with \"cost\": \"planned\"");
    }
}

static void code_stage(struct pst_codec *c, struct pst_problem *problem)
{
    double weights = 0;

    for (uint32_t i = 0; problem->graph != NULL && i < problem->graph->n_nodes; i++) {
        weights += problem->graph->nodes[i].param_bytes;
    }
    pst_codec_count(c, "in_flight", &problem->in_flight, 1, MAX_MICRO_BATCHES, 1);
    pst_codec_amount(c, "static_bytes", &problem->static_bytes, 0, PST_COSTED_BYTES,
                     problem->weight_multiplier * weights);
    pst_codec_amount(c, "input_bytes", &problem->input_bytes, 0, PST_COSTED_BYTES, 0);
    pst_codec_amount(c, "swap_bandwidth", &problem->swap_bandwidth, 0, MAX_BANDWIDTH, 0);
    pst_codec_count(c, "link_directions", &problem->link_directions, 1, 2, 1);
    pst_codec_count(c, "staging", &problem->staging, 1, 1024, 2);
}

static void code_problem(struct pst_codec *c, struct pst_problem *problem)
{
    pst_codec_object(c, NULL);
    pst_codec_format(c, "penstock-problem");
    if (pst_codec_reads(c)) {
        pst_codec_find(c, "name"); /* for people alone */
        pst_codec_find(c, "notes");
    }
    code_devices(c, problem);
    code_cost(c, problem);
    code_graph(c, problem);
    code_sizes(c, problem);
    code_stage(c, problem);
    pst_codec_end(c);
}

/* root: NULL where that has failed. */
static pst_status read_root(struct pst_fields *fields, json_t *root,
                            struct pst_problem **ret_problem)
{
    struct pst_problem *problem = pst_alloc(1, sizeof *problem);
    struct pst_codec c = {
        .in = fields, .root = root, .arena = &problem->arena, .format = "penstock-problem"};

    problem->path = pst_arena_strdup(&problem->arena, fields->path);
    code_problem(&c, problem);
    if (pst_codec_is_sound(&c)) {
        check_cost(&c, problem);
        complete_sizes(&c, problem);
    }
    json_decref(root);
    if (fields->status != PST_OK) {
        pst_problem_destroy(problem);
        return fields->status;
    }
    *ret_problem = problem;
    return PST_OK;
}

pst_status pst_problem_read(const char *path, struct pst_problem **ret_problem,
                            struct pst_error *err)
{
    struct pst_fields fields = {.path = path, .err = err};
    json_t *root = NULL;

    fields.status = pst_json_load(path, PST_COSTED_FILE_BYTES, &root, err);
    return read_root(&fields, root, ret_problem);
}

pst_status pst_problem_parse(const char *text, struct pst_problem **ret_problem,
                             struct pst_error *err)
{
    struct pst_fields fields = {.err = err};
    json_t *root = json_loads(text, 0, NULL);

    return read_root(&fields, root, ret_problem);
}

char *pst_problem_write(const struct pst_problem *problem)
{
    struct pst_json json;
    struct pst_codec c = {.out = &json};

    pst_json_init(&json);
    code_problem(&c, (struct pst_problem *)(uintptr_t)problem); /* which is only read */
    return pst_json_take(&json);
}

void pst_problem_destroy(struct pst_problem *problem)
{
    if (problem != NULL) {
        pst_costed_destroy(problem->graph);
        json_decref(problem->scheduler_options);
        json_decref(problem->memopt_options);
        json_decref(problem->options);
        pst_arena_finish(&problem->arena);
        free(problem);
    }
}
