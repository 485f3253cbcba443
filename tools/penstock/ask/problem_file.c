/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/problem_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/json_fields.h"
#include "models/costed/costed_impl.h"

#include <penstock/ext/profile.h>

#define COUNT(rows)       ((uint32_t)(sizeof(rows) / sizeof *(rows)))
#define MAX_DEVICES       65536.0
#define MAX_MICRO_BATCHES 1048576u /* of a step */
#define MAX_MULTIPLIER    1e6
#define MAX_BANDWIDTH     1e18

static const char *const keys[] = {"format",
                                   "version",
                                   "name",
                                   "notes",
                                   "graph",
                                   "graph_file",
                                   "devices",
                                   "node_size",
                                   "memory_bytes",
                                   "mini_batch",
                                   "micro_batches",
                                   "degrees",
                                   "weight_multiplier",
                                   "p2p_bandwidth",
                                   "allreduce_bandwidth",
                                   "comm_model",
                                   "cost",
                                   "scheduler",
                                   "memopt",
                                   "scheduler_options",
                                   "memopt_options",
                                   "options",
                                   "in_flight",
                                   "static_bytes",
                                   "input_bytes",
                                   "swap_bandwidth",
                                   "link_directions",
                                   "staging"};

/* `name` in the folder of the problem; it must stay there. malloc'd. */
static char *beside(struct pst_fields *fields, const char *name)
{
    const char *slash = strrchr(fields->path, '/');

    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            pst_fields_fail(fields, "config.value", "graph_file",
                            "\"%.300s\" leads out of the problem's folder", name);
            return NULL;
        }
    }
    if (name[0] == '/') {
        pst_fields_fail(fields, "config.value", "graph_file",
                        "\"%.300s\" must be relative to the problem's folder", name);
        return NULL;
    }
    return pst_printf("%.*s%s", slash == NULL ? 0 : (int)(slash - fields->path + 1), fields->path,
                      name);
}

static void read_graph(struct pst_fields *fields, const json_t *root, struct pst_problem *problem)
{
    const json_t *graph = pst_fields_object(fields, root, "graph");
    const char *name = pst_fields_string(fields, root, "graph_file", NULL);
    char *path;

    if (fields->status != PST_OK) {
        return;
    }
    if ((graph == NULL) == (name == NULL)) {
        pst_fields_fail(fields, "config.key", NULL, "%s",
                        graph == NULL ? "\"graph\" or \"graph_file\" is missing"
                                      : "\"graph\" and \"graph_file\" exclude each other");
    } else if (graph != NULL) {
        fields->status =
            pst_costed_parse(graph, fields->path, "graph.", &problem->graph, fields->err);
    } else {
        path = beside(fields, name);
        if (path != NULL) {
            fields->status = pst_costed_read(path, &problem->graph, fields->err);
        }
        free(path);
    }
}

/* All powers of two that divide the mini-batch. */
static void default_sizes(struct pst_fields *fields, struct pst_problem *problem)
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
        pst_fields_fail(fields, "config.value", "micro_batches",
                        "no power of two cuts %u samples into at most %u; name sizes",
                        problem->mini_batch, MAX_MICRO_BATCHES);
    }
}

/* Samples of the graph; a question about one stage, where steps do not count, names any size. */
static uint32_t default_mini_batch(const json_t *root, const struct pst_problem *problem)
{
    bool one_stage = json_object_get(root, "in_flight") != NULL || problem->no_devices;
    uint32_t samples = problem->graph->batch;

    for (uint32_t i = 0; one_stage && i < problem->n_micro_batches; i++) {
        samples = problem->micro_batches[i] > samples ? problem->micro_batches[i] : samples;
    }
    return samples;
}

/* The first as written, not the smallest; a value that is no count is refused elsewhere. */
static uint32_t first_size(const json_t *root, const struct pst_problem *problem)
{
    const json_t *sizes = json_object_get(root, "micro_batches");
    double size = json_number_value(json_is_array(sizes) ? json_array_get(sizes, 0) : sizes);

    return size >= 1 && size <= PST_COSTED_SAMPLES ? (uint32_t)size : problem->graph->batch;
}

static void read_sizes(struct pst_fields *fields, const json_t *root, struct pst_problem *problem)
{
    static const uint32_t one[] = {1};
    uint32_t n = 0;

    problem->micro_batches = pst_fields_counts(fields, root, "micro_batches", 1, PST_COSTED_SAMPLES,
                                               &problem->arena, &problem->n_micro_batches);
    problem->mini_batch = pst_fields_count(fields, root, "mini_batch", 1, PST_COSTED_SAMPLES,
                                           default_mini_batch(root, problem));
    for (uint32_t i = 0; fields->status == PST_OK && i < problem->n_micro_batches; i++) {
        uint32_t size = problem->micro_batches[i];

        if (size > problem->mini_batch) {
            pst_fields_fail(fields, "config.value", "micro_batches",
                            "%u is more than mini_batch, which is %u", size, problem->mini_batch);
        } else if (problem->mini_batch / size > MAX_MICRO_BATCHES) {
            pst_fields_fail(fields, "config.value", "micro_batches",
                            "%u cuts %u samples into more than %u", size, problem->mini_batch,
                            MAX_MICRO_BATCHES);
        }
    }
    problem->stage_samples = first_size(root, problem);
    if (fields->status == PST_OK && problem->micro_batches == NULL) {
        default_sizes(fields, problem);
    }
    problem->degrees =
        pst_fields_counts(fields, root, "degrees", 1, MAX_DEVICES, &problem->arena, &n);
    problem->n_degrees = problem->degrees == NULL ? 1 : n;
    problem->degrees = problem->degrees == NULL ? one : problem->degrees;
}

/* Absent and null are the same. */
static double number_or_null(struct pst_fields *fields, const json_t *root, const char *key,
                             double most, double initial)
{
    return json_is_null(json_object_get(root, key))
               ? initial
               : pst_fields_number(fields, root, key, 0, most, initial);
}

static double read_bandwidth(struct pst_fields *fields, const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);

    if (json_is_number(value) && !(json_number_value(value) > 0)) {
        pst_fields_fail(fields, "config.value", key,
                        "must be above 0 bytes per second, not %.15g; null means free",
                        json_number_value(value));
    }
    return number_or_null(fields, root, key, MAX_BANDWIDTH, 0);
}

static void read_devices(struct pst_fields *fields, const json_t *root, struct pst_problem *problem)
{
    problem->no_devices =
        json_object_get(root, "in_flight") == NULL && json_object_get(root, "devices") == NULL;
    problem->n_devices = pst_fields_count(fields, root, "devices", 1, MAX_DEVICES, 1);
    problem->node_size = pst_fields_count(fields, root, "node_size", 1, MAX_DEVICES, 0);
    problem->memory_bytes =
        number_or_null(fields, root, "memory_bytes", PST_COSTED_BYTES, INFINITY);
    problem->weight_multiplier =
        pst_fields_number(fields, root, "weight_multiplier", 0, MAX_MULTIPLIER, 4);
    problem->p2p_bandwidth = read_bandwidth(fields, root, "p2p_bandwidth");
    problem->allreduce_bandwidth = read_bandwidth(fields, root, "allreduce_bandwidth");
}

static const char *copy_string(struct pst_fields *fields, const json_t *root, const char *key,
                               struct pst_arena *arena)
{
    return pst_arena_strdup(arena, pst_fields_string(fields, root, key, NULL));
}

/* Which cost model, and what only one of them reads. */
static void read_cost(struct pst_fields *fields, const json_t *root, struct pst_problem *problem)
{
    static const char *const comm_words[] = {"none", /* transfers are free */
                                             "sum", "max", NULL};
    static const uint32_t comm_values[] = {PST_COMM_NONE, PST_COMM_SUM, PST_COMM_MAX};
    static const char *const cost_words[] = {"reference", "planned", NULL};
    static const char *const planned_keys[] = {"scheduler", "memopt", "scheduler_options",
                                               "memopt_options"};

    problem->comm_model = comm_values[pst_fields_word(fields, root, "comm_model", comm_words, 0)];
    problem->planned = pst_fields_word(fields, root, "cost", cost_words, 0) == 1;
    for (uint32_t i = 0; !problem->planned && i < COUNT(planned_keys); i++) {
        if (json_object_get(root, planned_keys[i]) != NULL) {
            pst_fields_fail(fields, "config.value", planned_keys[i],
                            "counts only with \"cost\": \"planned\"");
        }
    }
    problem->scheduler = copy_string(fields, root, "scheduler", &problem->arena);
    problem->memopt = copy_string(fields, root, "memopt", &problem->arena);
    problem->scheduler_options = json_incref(pst_fields_object(fields, root, "scheduler_options"));
    problem->memopt_options = json_incref(pst_fields_object(fields, root, "memopt_options"));
    problem->options = json_incref(pst_fields_object(fields, root, "options"));
}

static void read_stage(struct pst_fields *fields, const json_t *root, struct pst_problem *problem)
{
    double weights = 0;

    for (uint32_t i = 0; i < problem->graph->n_nodes; i++) {
        weights += problem->graph->nodes[i].param_bytes;
    }
    problem->in_flight = pst_fields_count(fields, root, "in_flight", 1, MAX_MICRO_BATCHES, 1);
    problem->static_bytes = pst_fields_number(fields, root, "static_bytes", 0, PST_COSTED_BYTES,
                                              problem->weight_multiplier * weights);
    problem->input_bytes = pst_fields_number(fields, root, "input_bytes", 0, PST_COSTED_BYTES, 0);
    problem->swap_bandwidth =
        pst_fields_number(fields, root, "swap_bandwidth", 0, MAX_BANDWIDTH, 0);
    problem->link_directions = pst_fields_count(fields, root, "link_directions", 1, 2, 1);
    problem->staging = pst_fields_count(fields, root, "staging", 1, 1024, 2);
}

static void read_root(struct pst_fields *fields, const json_t *root, struct pst_problem *problem)
{
    if (!pst_fields_format(fields, root, "penstock-problem")) {
        return;
    }
    pst_fields_known(fields, root, keys, COUNT(keys));
    problem->path = pst_arena_strdup(&problem->arena, fields->path);
    read_devices(fields, root, problem);
    read_cost(fields, root, problem);
    read_graph(fields, root, problem);
    if (fields->status == PST_OK) {
        read_sizes(fields, root, problem);
        read_stage(fields, root, problem);
    }
}

pst_status pst_problem_read(const char *path, struct pst_problem **ret_problem,
                            struct pst_error *err)
{
    struct pst_fields fields = {.path = path, .err = err, .status = PST_OK};
    struct pst_problem *problem = pst_alloc(1, sizeof *problem);
    json_t *root = NULL;

    fields.status = pst_json_load(path, PST_COSTED_FILE_BYTES, &root, err);
    if (fields.status == PST_OK) {
        read_root(&fields, root, problem);
    }
    json_decref(root);
    if (fields.status != PST_OK) {
        pst_problem_destroy(problem);
        return fields.status;
    }
    *ret_problem = problem;
    return PST_OK;
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
