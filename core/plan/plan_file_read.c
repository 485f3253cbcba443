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
#include "plan/sequence.h"

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
    copy = pst_strndup(text + begin, end - begin);
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
    return pst_arena_strdup(&reader->plan->arena, pst_plan_string(reader, object, key));
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

/* --- stages, edges and ties ---------------------------------------------------------------------
 */

struct positions {
    const uint32_t *nodes;
    uint32_t n;
};

/* Sets one action for the named operators; each must be a node of the stage. */
static void read_actions(struct pst_plan_reader *reader, json_t *object, const char *key,
                         struct positions nodes, uint8_t action, uint8_t *actions)
{
    json_t *names = pst_plan_array(reader, object, key);
    size_t mark = pst_plan_enter(reader, key);
    uint32_t at = 0;
    for (size_t i = 0; i < json_array_size(names) && reader->status == PST_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        uint32_t op = name != NULL ? pst_plan_find_op(reader, name) : PST_NONE;
        /* in the order of the nodes, so one walk finds them all */
        while (op != PST_NONE && at < nodes.n && nodes.nodes[at] != op) {
            at++;
        }
        if (op == PST_NONE || at == nodes.n || actions[at] != PST_ACTION_KEEP) {
            pst_plan_fail(reader, NULL,
                          "element %zu: expected an operator of the stage, in the order of nodes, "
                          "with one action",
                          i);
            break;
        }
        actions[at++] = action;
    }
    pst_plan_leave(reader, mark);
}

/* Position in the stage of the operator that element i names. */
static uint32_t read_position(struct pst_plan_reader *reader, json_t *names, size_t i,
                              const struct pst_plan_stage *stage)
{
    const char *name = json_string_value(json_array_get(names, i));
    uint32_t op = name != NULL ? pst_plan_find_op(reader, name) : PST_NONE;
    return op != PST_NONE ? pst_plan_node(stage, op) : PST_NONE;
}

static void read_replay(struct pst_plan_reader *reader, json_t *names,
                        const struct pst_plan_stage *stage, struct pst_replay *ret_replay)
{
    struct pst_replay r = {read_position(reader, names, 0, stage),
                           read_position(reader, names, 1, stage),
                           read_position(reader, names, 2, stage)};
    if (json_array_size(names) != 3 || r.before == PST_NONE || r.first == PST_NONE ||
        r.last == PST_NONE) {
        pst_plan_fail(reader, NULL,
                      "expected three operators of the stage: whose backward comes next, the first "
                      "and the last that run again");
    }
    *ret_replay = r;
}

/* The replays of a stage, which ascends; there may be none. */
static void read_sequence(struct pst_plan_reader *reader, json_t *object,
                          struct pst_plan_stage *stage)
{
    if (reader->status != PST_OK || json_object_get(object, "sequence") == NULL) {
        return;
    }
    json_t *items = pst_plan_array(reader, object, "sequence");
    size_t n = json_array_size(items), mark = pst_plan_enter(reader, "sequence");
    struct pst_replay *replays = NULL;
    if (reader->status == PST_OK && n > stage->n_nodes) {
        pst_plan_fail(reader, NULL, "%zu replays, more than the stage has operators", n);
    } else if (reader->status == PST_OK) {
        replays = pst_arena_array(&reader->plan->arena, n, sizeof *replays);
    }
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        size_t inner = pst_plan_enter_index(reader, i);
        read_replay(reader, json_array_get(items, i), stage, &replays[i]);
        pst_plan_leave(reader, inner);
    }
    if (reader->status == PST_OK) {
        uint32_t at = 0;
        const char *fault = pst_sequence_fault(replays, (uint32_t)n, stage->n_nodes, &at);
        size_t inner = pst_plan_enter_index(reader, at);
        if (fault != NULL) {
            pst_plan_fail(reader, NULL, "%s", fault);
        }
        pst_plan_leave(reader, inner);
        stage->n_replays = (uint32_t)n;
        stage->replays = replays;
    }
    pst_plan_leave(reader, mark);
}

static uint32_t *read_nodes(struct pst_plan_reader *reader, json_t *object, uint32_t *ret_n)
{
    json_t *names = pst_plan_array(reader, object, "nodes");
    size_t n = json_array_size(names);
    size_t mark = pst_plan_enter(reader, "nodes");
    uint32_t *nodes = NULL;
    if (reader->status == PST_OK && n > reader->graph->n_ops) {
        pst_plan_fail(reader, NULL, "%zu operators, the model has %u", n, reader->graph->n_ops);
    }
    if (reader->status == PST_OK) {
        nodes = pst_alloc(n + 1, sizeof *nodes);
    }
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL) {
            pst_plan_fail(reader, NULL, "element %zu: expected the name of an operator", i);
        } else {
            nodes[i] = pst_plan_find_op(reader, name);
        }
    }
    pst_plan_leave(reader, mark);
    *ret_n = (uint32_t)n;
    return nodes;
}

/* Pairs of a micro-batch and the device that keeps it. */
static void read_guests(struct pst_plan_reader *reader, json_t *object,
                        struct pst_plan_stage *stage)
{
    if (reader->status != PST_OK || json_object_get(object, "guests") == NULL) {
        return;
    }
    json_t *rows = pst_plan_array(reader, object, "guests");
    size_t n = json_array_size(rows), mark = pst_plan_enter(reader, "guests");
    struct pst_plan_guest *guests = NULL;
    if (reader->status == PST_OK && (n == 0 || n > stage->n_microbatches)) {
        pst_plan_fail(reader, NULL, "%zu guests of %u micro-batches; leave the list out for none",
                      n, stage->n_microbatches);
    }
    if (reader->status == PST_OK) {
        guests = pst_arena_array(&reader->plan->arena, n, sizeof *guests);
    }
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        json_t *row = json_array_get(rows, i);
        if (json_array_size(row) != 2) {
            pst_plan_fail(reader, NULL, "element %zu: expected [micro-batch, device]", i);
            break;
        }
        guests[i].microbatch = pst_plan_u32_at(reader, row, 0);
        guests[i].rank = pst_plan_u32_at(reader, row, 1);
    }
    pst_plan_leave(reader, mark);
    if (reader->status == PST_OK) {
        stage->guests = guests;
        stage->n_guests = (uint32_t)n;
    }
}

static void add_stage(struct pst_plan_reader *reader, json_t *object, const uint32_t *nodes,
                      uint32_t n_nodes, const uint32_t *ranks, uint32_t n_ranks)
{
    struct pst_plan *plan = reader->plan;
    uint32_t size = pst_plan_u32(reader, object, "microbatch_size");
    uint32_t k = pst_plan_u32(reader, object, "k");
    uint32_t in_flight = pst_plan_u32(reader, object, "in_flight");
    uint32_t weight_versions = pst_plan_u32(reader, object, "weight_versions");
    if (reader->status == PST_OK && size == 0) {
        pst_plan_fail(reader, NULL, "microbatch_size: 0, expected at least 1");
    } else if (reader->status == PST_OK && plan->batch / size > PST_PLAN_FILE_MICROBATCHES) {
        pst_plan_fail(reader, "input.limit", "%u micro-batches; at most %u", plan->batch / size,
                      PST_PLAN_FILE_MICROBATCHES);
    }
    if (reader->status != PST_OK) {
        return;
    }
    pst_plan_add_stage(plan, nodes, n_nodes, ranks, n_ranks, size, k);
    struct pst_plan_stage *stage = &plan->stages[plan->n_stages - 1];
    struct positions positions = {stage->nodes, n_nodes};
    uint8_t *actions = pst_arena_array(&plan->arena, n_nodes, 1);
    stage->in_flight = in_flight;
    stage->weight_versions = weight_versions;
    stage->actions = actions;
    read_actions(reader, object, "recompute", positions, PST_ACTION_RECOMPUTE, actions);
    read_actions(reader, object, "offload", positions, PST_ACTION_OFFLOAD, actions);
    read_actions(reader, object, "peer", positions, PST_ACTION_PEER, actions);
    read_guests(reader, object, stage);
    read_sequence(reader, object, stage);
}

static void check_id(struct pst_plan_reader *reader, json_t *object, const char *key,
                     size_t expected)
{
    uint32_t id = pst_plan_u32(reader, object, key);
    if (reader->status == PST_OK && id != expected) {
        pst_plan_fail(reader, NULL, "%s: %u, expected %zu: they are numbered in order", key, id,
                      expected);
    }
}

static void read_stage(struct pst_plan_reader *reader, json_t *object, size_t index)
{
    static const char *const keys[] = {
        "id",         "nodes",     "devices",         "microbatch_size",
        "k",          "in_flight", "weight_versions", "recompute",
        "offload",    "peer",      "guests",          "sequence",
        "peak_bytes", NULL};
    uint32_t n_nodes = 0;
    pst_plan_known_keys(reader, object, keys);
    check_id(reader, object, "id", index);
    pst_plan_u64(reader, object, "peak_bytes"); /* follows from the devices */
    uint32_t *nodes = read_nodes(reader, object, &n_nodes);
    json_t *devices = pst_plan_array(reader, object, "devices");
    size_t mark = pst_plan_enter(reader, "devices");
    uint32_t *ranks = NULL;
    if (reader->status == PST_OK && json_array_size(devices) > reader->plan->n_devices) {
        pst_plan_fail(reader, NULL, "more devices than there are");
    } else if (reader->status == PST_OK) {
        ranks = pst_plan_u32_array(reader, devices);
    }
    pst_plan_leave(reader, mark);
    if (reader->status == PST_OK) {
        add_stage(reader, object, nodes, n_nodes, ranks, (uint32_t)json_array_size(devices));
    }
    free(nodes);
}

static void read_stages(struct pst_plan_reader *reader, json_t *root)
{
    json_t *stages = pst_plan_array(reader, root, "stages");
    size_t mark = pst_plan_enter(reader, "stages");
    for (size_t s = 0; s < json_array_size(stages) && reader->status == PST_OK; s++) {
        size_t inner = pst_plan_enter_index(reader, s);
        read_stage(reader, json_array_get(stages, s), s);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
}

static void read_edge(struct pst_plan_reader *reader, json_t *object, size_t index,
                      struct pst_plan_edge *ret_edge)
{
    static const char *const keys[] = {"id", "from", "to", "tensors", "bytes_per_sample", NULL};
    pst_plan_known_keys(reader, object, keys);
    check_id(reader, object, "id", index);
    ret_edge->from = pst_plan_u32(reader, object, "from");
    ret_edge->to = pst_plan_u32(reader, object, "to");
    ret_edge->bytes_per_sample = pst_plan_u64(reader, object, "bytes_per_sample");
    json_t *names = pst_plan_array(reader, object, "tensors");
    size_t n = json_array_size(names);
    uint32_t *tensors = pst_arena_array(&reader->plan->arena, n, sizeof *tensors);
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL) {
            pst_plan_fail(reader, NULL, "tensors[%zu]: expected a name", i);
        } else {
            tensors[i] = pst_plan_find_result(reader, name);
        }
    }
    ret_edge->tensors = tensors;
    ret_edge->n_tensors = (uint32_t)n;
}

static void read_tie(struct pst_plan_reader *reader, json_t *object, struct pst_plan_tie *ret_tie)
{
    static const char *const keys[] = {"parameter", "stages", NULL};
    pst_plan_known_keys(reader, object, keys);
    const char *name = pst_plan_string(reader, object, "parameter");
    ret_tie->parameter = name != NULL ? pst_plan_find_param(reader, name) : PST_NONE;
    json_t *stages = pst_plan_array(reader, object, "stages");
    size_t mark = pst_plan_enter(reader, "stages");
    if (reader->status == PST_OK) {
        ret_tie->stages = pst_plan_u32_array(reader, stages);
        ret_tie->n_stages = (uint32_t)json_array_size(stages);
    }
    pst_plan_leave(reader, mark);
}

static void read_edges(struct pst_plan_reader *reader, json_t *root)
{
    struct pst_plan *plan = reader->plan;
    json_t *edges = pst_plan_array(reader, root, "edges"),
           *ties = pst_plan_array(reader, root, "ties");
    if (reader->status != PST_OK) {
        return;
    }
    plan->edges = pst_arena_array(&plan->arena, json_array_size(edges), sizeof *plan->edges);
    plan->ties = pst_arena_array(&plan->arena, json_array_size(ties), sizeof *plan->ties);
    size_t mark = pst_plan_enter(reader, "edges");
    for (size_t e = 0; e < json_array_size(edges) && reader->status == PST_OK; e++) {
        size_t inner = pst_plan_enter_index(reader, e);
        read_edge(reader, json_array_get(edges, e), e, &plan->edges[plan->n_edges++]);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
    mark = pst_plan_enter(reader, "ties");
    for (size_t t = 0; t < json_array_size(ties) && reader->status == PST_OK; t++) {
        size_t inner = pst_plan_enter_index(reader, t);
        read_tie(reader, json_array_get(ties, t), &plan->ties[plan->n_ties++]);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
}

/* --- instruction lists --------------------------------------------------------------------------
 */

static uint32_t find_op(const char *name)
{
    for (uint32_t op = 1; op < PST_I_COUNT; op++) {
        if (strcmp(pst_instr_name(op), name) == 0) {
            return op;
        }
    }
    return 0;
}

static void read_transfer(struct pst_plan_reader *reader, json_t *row, struct pst_instr *instr)
{
    const char *payload = json_string_value(json_array_get(row, 2));
    uint8_t found = 0;
    while (payload != NULL && found < PST_PAYLOAD_COUNT &&
           strcmp(payload, pst_payload_name(found)) != 0) {
        found++;
    }
    if (payload == NULL || found == PST_PAYLOAD_COUNT) {
        pst_plan_fail(reader, NULL, "the payload is \"act\", \"grad\", \"evict\" or \"load\"");
        return;
    }
    instr->payload = found;
    instr->first_sample = pst_plan_u32_at(reader, row, 3);
    instr->n_samples = pst_plan_u32_at(reader, row, 4);
    instr->peer = pst_plan_u32_at(reader, row, 5);
}

static void read_copy(struct pst_plan_reader *reader, json_t *row, struct pst_instr *instr)
{
    const char *name = json_string_value(json_array_get(row, 3));
    instr->microbatch = pst_plan_u32_at(reader, row, 2);
    if (name == NULL) {
        pst_plan_fail(reader, NULL, "a copy names its operator");
    } else {
        instr->node = pst_plan_find_op(reader, name);
    }
}

static void read_waits(struct pst_plan_reader *reader, json_t *object, struct pst_instr *instr)
{
    static const char *const keys[] = {"waits", NULL};
    pst_plan_known_keys(reader, object, keys);
    json_t *waits = pst_plan_array(reader, object, "waits");
    size_t mark = pst_plan_enter(reader, "waits");
    if (reader->status == PST_OK && json_array_size(waits) == 0) {
        pst_plan_fail(reader, NULL, "empty; leave the object out");
    } else if (reader->status == PST_OK) {
        instr->n_waits = (uint32_t)json_array_size(waits);
        instr->waits = pst_plan_u32_array(reader, waits);
    }
    pst_plan_leave(reader, mark);
}

/* How many elements an instruction has, its waits left out. */
static size_t length_of(uint32_t op)
{
    switch (op) {
    case PST_I_SEND:
    case PST_I_RECV:
        return 6;
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        return 4;
    case PST_I_NORM:
        return 1;
    case PST_I_REDUCE:
    case PST_I_TIE:
    case PST_I_STEP:
        return 2;
    default:
        return 3;
    }
}

static void read_instr(struct pst_plan_reader *reader, json_t *row, struct pst_instr *instr)
{
    const char *name = json_string_value(json_array_get(row, 0));
    uint32_t op = name != NULL ? find_op(name) : 0;
    size_t n = json_array_size(row);
    if (op == 0) {
        pst_plan_fail(reader, NULL, "expected [operation, ...] with a known operation");
        return;
    }
    json_t *last = json_array_get(row, n - 1);
    if (json_is_object(last)) {
        n--;
        read_waits(reader, last, instr);
    }
    if (n != length_of(op)) {
        pst_plan_fail(reader, NULL, "%s with %zu elements, expected %zu", name, n, length_of(op));
        return;
    }
    instr->op = (uint8_t)op;
    if (op != PST_I_NORM) {
        instr->stage = pst_plan_u32_at(reader, row, 1);
    }
    if (op == PST_I_SEND || op == PST_I_RECV) {
        read_transfer(reader, row, instr);
    } else if (op == PST_I_OFFLOAD || op == PST_I_FETCH) {
        read_copy(reader, row, instr);
    } else if (op < PST_I_SEND) {
        instr->microbatch = pst_plan_u32_at(reader, row, 2);
    }
}

static const struct pst_instr *read_list(struct pst_plan_reader *reader, json_t *rows,
                                         uint32_t *ret_n)
{
    size_t n = json_array_size(rows);
    reader->n_instrs += n;
    if (reader->n_instrs > PST_PLAN_FILE_INSTRS) {
        pst_plan_fail(reader, "input.limit", "more than %u instructions", PST_PLAN_FILE_INSTRS);
        return NULL;
    }
    struct pst_instr *list = pst_arena_array(&reader->plan->arena, n, sizeof *list);
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        size_t mark = pst_plan_enter_index(reader, i);
        read_instr(reader, json_array_get(rows, i), &list[i]);
        pst_plan_leave(reader, mark);
    }
    *ret_n = (uint32_t)n;
    return list;
}

static void read_part(struct pst_plan_reader *reader, json_t *object, const char *key,
                      const struct pst_instr **ret_list, uint32_t *ret_n)
{
    json_t *rows = pst_plan_array(reader, object, key);
    size_t mark = pst_plan_enter(reader, key);
    if (reader->status == PST_OK) {
        *ret_list = read_list(reader, rows, ret_n);
    }
    pst_plan_leave(reader, mark);
}

static void read_device(struct pst_plan_reader *reader, json_t *object, uint32_t rank)
{
    static const char *const keys[] = {"rank",       "fill",        "body",       "drain",
                                       "peak_bytes", "arena_bytes", "host_bytes", NULL};
    struct pst_plan_device *device = &reader->plan->devices[rank];
    pst_plan_known_keys(reader, object, keys);
    uint32_t stated = pst_plan_u32(reader, object, "rank");
    if (reader->status == PST_OK && stated != rank) {
        pst_plan_fail(reader, NULL, "rank: %u, expected %u: they are numbered in order", stated,
                      rank);
    }
    device->peak_bytes = pst_plan_u64(reader, object, "peak_bytes");
    device->arena_bytes = pst_plan_u64(reader, object, "arena_bytes");
    if (json_object_get(object, "host_bytes") != NULL) {
        device->host_bytes = pst_plan_u64(reader, object, "host_bytes");
    }
    read_part(reader, object, "fill", &device->fill, &device->n_fill);
    read_part(reader, object, "body", &device->body, &device->n_instrs);
    read_part(reader, object, "drain", &device->drain, &device->n_drain);
    if (!reader->plan->asynchronous && device->n_fill + (uint64_t)device->n_drain > 0) {
        pst_plan_fail(reader, "input.unsupported",
                      "fill and drain of a synchronous plan are empty");
    }
}

static void read_devices(struct pst_plan_reader *reader, json_t *root)
{
    json_t *devices = pst_plan_array(reader, root, "devices");
    size_t mark = pst_plan_enter(reader, "devices");
    for (uint32_t d = 0; d < reader->plan->n_devices && reader->status == PST_OK; d++) {
        size_t inner = pst_plan_enter_index(reader, d);
        read_device(reader, json_array_get(devices, d), d);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
}

/* --- the file -----------------------------------------------------------------------------------
 */

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
        pst_plan_create(reader->graph, batch, (uint32_t)n, &reader->plan);
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
    if (reader.status == PST_OK) {
        pst_plan_index_names(&reader);
        read_mode(&reader, root);
        read_provenance(&reader, root, text + begin, end - begin);
        read_stages(&reader, root);
        read_edges(&reader, root);
        read_devices(&reader, root);
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
