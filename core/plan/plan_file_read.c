/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a plan file, which may come from anybody: limits first (plan_file_scan.c), then the JSON
 * parser, then every field with its type and range. What the fields say is for the checker.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "plan/plan_file.h"

static json_t *parse(const char *path, const char *text, size_t length, struct pst_error *err)
{
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path,
                    error.line > 0 ? (uint32_t)error.line : 0,
                    error.column > 0 ? (uint32_t)error.column : 0, "%s", error.text);
    }
    return root;
}

/* The file as text, within the limits, and where its config stands. */
static pst_status load(const char *path, char **ret_text, size_t *ret_length, size_t *ret_begin,
                       size_t *ret_end, struct pst_error *err)
{
    char *text = NULL;
    size_t length = 0;
    pst_status status = pst_file_read(path, PST_PLAN_FILE_BYTES, "input.path", &text, &length, err);
    if (status != PST_OK) {
        return status;
    }
    status = pst_plan_file_scan(path, text, length, ret_begin, ret_end, err);
    if (status != PST_OK) {
        free(text);
        return status;
    }
    *ret_text = text;
    *ret_length = length;
    return PST_OK;
}

pst_status pst_plan_read_config(const char *path, char **ret_config_json, struct pst_error *err)
{
    char *text, *copy;
    size_t length, begin, end;
    pst_status status = load(path, &text, &length, &begin, &end, err);
    if (status != PST_OK) {
        return status;
    }
    if (begin == end || text[begin] != '{') {
        status =
            pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0,
                        "provenance.config: no object, so the model cannot be rebuilt; is this "
                        "a plan file?");
        goto out;
    }
    json_t *config = parse(path, text + begin, end - begin, err);
    if (config == NULL) {
        status = PST_ERR_CONFIG;
        goto out;
    }
    json_decref(config);
    copy = strndup(text + begin, end - begin);
    if (copy == NULL) {
        status = pst_fail_nomem(err);
        goto out;
    }
    *ret_config_json = copy;
out:
    free(text);
    return status;
}

/* --- the head -------------------------------------------------------------------------------- */

static const char *const root_keys[] = {"format",   "version",     "provenance", "batch",
                                        "mode",     "drain_every", "barrier",    "deferred_step",
                                        "versions", "stages",      "edges",      "ties",
                                        "devices",  "predicted",   NULL};

static void read_format(struct pst_plan_reader *reader, json_t *root)
{
    if (!json_is_object(root)) {
        pst_plan_fail(reader, NULL, "expected an object");
        return;
    }
    const char *format = pst_plan_string(reader, root, "format");
    if (format != NULL && strcmp(format, "penstock-plan") != 0) {
        pst_plan_fail(reader, NULL, "format \"%.32s\", expected \"penstock-plan\"", format);
    }
    uint32_t version = pst_plan_u32(reader, root, "version");
    if (reader->status == PST_OK && version != 1) {
        pst_plan_fail(reader, "input.unsupported", "version %u; this program reads version 1",
                      version);
    }
    pst_plan_known_keys(reader, root, root_keys);
}

/* True or false; `initial` where the key is absent. */
static bool read_bool(struct pst_plan_reader *reader, json_t *root, const char *key, bool initial)
{
    json_t *value = json_object_get(root, key);
    if (value == NULL) {
        return initial;
    }
    if (!json_is_boolean(value)) {
        pst_plan_fail(reader, NULL, "%s: expected true or false", key);
    }
    return json_is_true(value);
}

static void read_mode(struct pst_plan_reader *reader, json_t *root)
{
    static const char *const keys[] = {"rule", "count", NULL};
    struct pst_plan *plan = reader->plan;
    const char *mode = pst_plan_string(reader, root, "mode");
    json_t *versions = pst_plan_object(reader, root, "versions");
    const char *rule = versions != NULL ? pst_plan_string(reader, versions, "rule") : NULL;
    plan->drain_every = pst_plan_u32(reader, root, "drain_every");
    plan->barrier = read_bool(reader, root, "barrier", true);
    plan->deferred_step = read_bool(reader, root, "deferred_step", false);
    if (mode == NULL || rule == NULL) {
        return;
    }
    pst_plan_known_keys(reader, versions, keys);
    plan->asynchronous = strcmp(mode, "async") == 0;
    plan->version_rule = plan->asynchronous ? PST_VERSION_DELAYED : PST_VERSION_SYNC;
    if (plan->asynchronous && strcmp(rule, "stashed") == 0) {
        plan->version_rule = PST_VERSION_STASHED;
    } else if (strcmp(mode, plan->asynchronous ? "async" : "sync") != 0 ||
               strcmp(rule, plan->asynchronous ? "delayed" : "sync") != 0) {
        pst_plan_fail(reader, "input.unsupported",
                      "mode \"%.16s\" with versions \"%.16s\"; this program knows \"sync\" with "
                      "\"sync\", \"async\" with \"delayed\" or \"stashed\"",
                      mode, rule);
    } else if (!plan->asynchronous && (plan->drain_every != 0 || plan->deferred_step)) {
        pst_plan_fail(reader, NULL, "drain_every and deferred_step belong to asynchronous plans");
    }
}

static bool parse_digest(const char *text, uint64_t *ret_digest)
{
    uint64_t digest = 0;
    if (text == NULL || strlen(text) != 16) {
        return false;
    }
    for (uint32_t i = 0; i < 16; i++) {
        const char *digits = "0123456789abcdef", *at = strchr(digits, text[i]);
        if (at == NULL) {
            return false;
        }
        digest = digest << 4 | (uint64_t)(at - digits);
    }
    *ret_digest = digest;
    return true;
}

static const char *copy_id(struct pst_plan_reader *reader, json_t *object, const char *key)
{
    if (json_is_null(json_object_get(object, key))) {
        return NULL;
    }
    const char *text = pst_plan_string(reader, object, key);
    const char *copy = pst_arena_strdup(&reader->plan->arena, text);
    if (text != NULL && copy == NULL) {
        reader->status = pst_fail_nomem(reader->err);
    }
    return copy;
}

static void read_provenance(struct pst_plan_reader *reader, json_t *root, const char *config,
                            size_t config_length)
{
    static const char *const keys[] = {"config",         "partitioner",     "scheduler",
                                       "memopt",         "isolated",        "graph_digest",
                                       "capacity_bytes", "optimizer_slots", NULL};
    struct pst_plan *plan = reader->plan;
    json_t *object = pst_plan_object(reader, root, "provenance");
    if (object == NULL) {
        return;
    }
    size_t mark = pst_plan_enter(reader, "provenance");
    pst_plan_known_keys(reader, object, keys);
    json_t *value = json_object_get(object, "config");
    if (json_is_object(value) && config_length > 0 && config[0] == '{') {
        plan->config_json = pst_arena_strndup(&plan->arena, config, config_length);
        if (plan->config_json == NULL) {
            reader->status = pst_fail_nomem(reader->err);
        }
    } else if (!json_is_null(value)) {
        pst_plan_fail(reader, NULL, "config: expected an object or null");
    }
    plan->partitioner = copy_id(reader, object, "partitioner");
    plan->scheduler = copy_id(reader, object, "scheduler");
    plan->memopt = copy_id(reader, object, "memopt");
    json_t *isolated = json_object_get(object, "isolated");
    if (isolated != NULL && !json_is_boolean(isolated)) {
        pst_plan_fail(reader, NULL, "isolated: expected true or false");
    }
    plan->isolated = json_is_true(isolated);
    const char *digest = pst_plan_string(reader, object, "graph_digest");
    if (digest != NULL && !parse_digest(digest, &plan->graph_digest)) {
        pst_plan_fail(reader, NULL, "graph_digest: expected 16 hexadecimal digits");
    }
    plan->capacity_bytes = json_is_null(json_object_get(object, "capacity_bytes"))
                               ? UINT64_MAX
                               : pst_plan_u64(reader, object, "capacity_bytes");
    plan->optimizer_slots = pst_plan_u32(reader, object, "optimizer_slots");
    pst_plan_leave(reader, mark);
}

static void read_predicted(struct pst_plan_reader *reader, json_t *root)
{
    static const char *const keys[] = {"step_us", NULL};
    json_t *object = pst_plan_object(reader, root, "predicted");
    if (object == NULL) {
        return;
    }
    size_t mark = pst_plan_enter(reader, "predicted");
    json_t *step = json_object_get(object, "step_us");
    double step_us = json_number_value(step);
    pst_plan_known_keys(reader, object, keys);
    if (!json_is_number(step) || !(step_us >= 0 && step_us < 9e15)) {
        pst_plan_fail(reader, NULL, "step_us: expected a number from 0 on");
    } else {
        reader->plan->step_ns = (uint64_t)llround(step_us * 1000.0);
    }
    pst_plan_leave(reader, mark);
}

/* How many devices there are decides about the plan's first allocation. */
static void create(struct pst_plan_reader *reader, json_t *root)
{
    uint32_t batch = pst_plan_u32(reader, root, "batch");
    json_t *devices = pst_plan_array(reader, root, "devices");
    json_t *stages = pst_plan_array(reader, root, "stages");
    if (reader->status != PST_OK) {
        return;
    }
    size_t n = json_array_size(devices), n_stages = json_array_size(stages);
    if (n == 0 || n_stages == 0) {
        pst_plan_fail(reader, NULL, "no devices or no stages");
    } else if (n > PST_PLAN_FILE_DEVICES || n_stages > PST_PLAN_FILE_STAGES) {
        pst_plan_fail(reader, "input.limit", "%zu devices, %zu stages; at most %u and %u", n,
                      n_stages, PST_PLAN_FILE_DEVICES, PST_PLAN_FILE_STAGES);
    } else {
        reader->status =
            pst_plan_create(reader->graph, batch, (uint32_t)n, &reader->plan, reader->err);
    }
}

pst_status pst_plan_parse(const char *name, const char *text, size_t length,
                          const struct pst_graph *graph, struct pst_plan **ret_plan,
                          struct pst_error *err)
{
    struct pst_plan_reader reader = {.path = name, .graph = graph, .err = err};
    size_t begin = 0, end = 0;
    pst_status status = pst_plan_file_scan(name, text, length, &begin, &end, err);
    if (status != PST_OK) {
        return status;
    }
    json_t *root = parse(name, text, length, err);
    if (root == NULL) {
        return PST_ERR_CONFIG;
    }
    read_format(&reader, root);
    if (reader.status == PST_OK) {
        create(&reader, root);
    }
    if (reader.status == PST_OK && pst_plan_index_names(&reader)) {
        read_mode(&reader, root);
        read_provenance(&reader, root, text + begin, end - begin);
        pst_plan_read_stages(&reader, root);
        pst_plan_read_edges(&reader, root);
        pst_plan_read_devices(&reader, root);
        read_predicted(&reader, root);
    }
    json_decref(root);
    if (reader.status != PST_OK) {
        pst_plan_destroy(reader.plan);
        return reader.status;
    }
    *ret_plan = reader.plan;
    return PST_OK;
}

pst_status pst_plan_read(const char *path, const struct pst_graph *graph,
                         struct pst_plan **ret_plan, struct pst_error *err)
{
    char *text = NULL;
    size_t length = 0;
    pst_status status = pst_file_read(path, PST_PLAN_FILE_BYTES, "input.path", &text, &length, err);
    if (status == PST_OK) {
        status = pst_plan_parse(path, text, length, graph, ret_plan, err);
        free(text);
    }
    return status;
}
