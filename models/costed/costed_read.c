/* SPDX-License-Identifier: Apache-2.0
 *
 * A penstock-graph file, or such an object in another file, as a draft of a costed graph.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "base/names.h"
#include "config/config.h"
#include "config/json_fields.h"
#include "models/costed/costed_impl.h"

#define COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof *(rows)))

static const char *const pass_keys[] = {"forward_us", "backward_input_us", "backward_weight_us"};
static const char *const growth_keys[] = {"forward_growth_us", "backward_input_growth_us",
                                          "backward_input_last_saves_us"};

static double read_ns(struct pst_fields *fields, const json_t *object, const char *key)
{
    return pst_fields_number(fields, object, key, 0, PST_COSTED_US, 0) * 1000.0;
}

static double read_bytes(struct pst_fields *fields, const json_t *object, const char *key,
                         double initial)
{
    return pst_fields_number(fields, object, key, 0, PST_COSTED_BYTES, initial);
}

/* Element i of a list, an object with none but these keys. */
static const json_t *element(struct pst_fields *fields, const json_t *list, size_t i,
                             const char *const *keys, uint32_t n_keys)
{
    const json_t *object = json_array_get(list, i);

    if (!json_is_object(object)) {
        pst_fields_fail(fields, "config.value", NULL, "must be an object");
        return NULL;
    }
    pst_fields_known(fields, object, keys, n_keys);
    return object;
}

/* Zeroed room for the elements of a list of at most `most`; NULL and a failure otherwise. */
static void *room(struct pst_fields *fields, struct pst_arena *arena, const json_t *list,
                  const char *key, size_t most, size_t size)
{
    size_t n = json_array_size(list);

    if (n > most) {
        pst_fields_fail(fields, "input.limit", key, "has %zu elements; at most %zu are read", n,
                        most);
        return NULL;
    }
    return pst_arena_array(arena, n + 1, size);
}

static void read_times(struct pst_fields *fields, struct pst_arena *arena, const json_t *object,
                       struct pst_costed_node *node)
{
    const char *const keys[] = {"batch",        pass_keys[0],   pass_keys[1],  pass_keys[2],
                                growth_keys[0], growth_keys[1], growth_keys[2]};
    static const char *const excluded[] = {"forward_us", "backward_input_us", "backward_weight_us",
                                           "fixed_us"};
    const json_t *list = pst_fields_array(fields, object, "times");
    struct pst_costed_times *times;

    if (list == NULL) {
        return;
    }
    if (json_array_size(list) == 0) {
        pst_fields_fail(fields, "config.value", "times", "must have at least one row");
    }
    for (uint32_t i = 0; i < COUNT(excluded); i++) {
        if (json_object_get(object, excluded[i]) != NULL) {
            pst_fields_fail(fields, "config.value", excluded[i], "\"times\" stands in its place");
        }
    }
    times = room(fields, arena, list, "times", PST_COSTED_TIMES, sizeof *times);
    for (size_t i = 0; fields->status == PST_OK && i < json_array_size(list); i++) {
        size_t mark = pst_fields_enter(fields, "times", i);
        const json_t *row = element(fields, list, i, keys, COUNT(keys));

        pst_fields_require(fields, row, "batch");
        times[i].samples = pst_fields_count(fields, row, "batch", 1, PST_COSTED_SAMPLES, 1);
        for (uint32_t p = 0; p < 3; p++) {
            times[i].ns[p] = read_ns(fields, row, pass_keys[p]);
            times[i].growth[p] = read_ns(fields, row, growth_keys[p]);
        }
        pst_fields_leave(fields, mark);
    }
    node->times = times;
    node->n_times = (uint32_t)json_array_size(list);
}

static void read_configs(struct pst_fields *fields, struct pst_arena *arena, const json_t *object,
                         struct pst_costed_node *node)
{
    static const char *const keys[] = {"name",        "tensor_degree",   "time_us",
                                       "param_bytes", "in_flight_bytes", "fixed_bytes"};
    const json_t *list = pst_fields_array(fields, object, "configs");
    struct pst_costed_config *configs;

    if (list == NULL) {
        return;
    }
    configs = room(fields, arena, list, "configs", PST_COSTED_CONFIGS, sizeof *configs);
    for (size_t i = 0; fields->status == PST_OK && i < json_array_size(list); i++) {
        size_t mark = pst_fields_enter(fields, "configs", i);
        const json_t *row = element(fields, list, i, keys, COUNT(keys));

        pst_fields_require(fields, row, "name");
        configs[i] = (struct pst_costed_config){
            .name = pst_fields_string(fields, row, "name", ""),
            .tensor_degree = pst_fields_count(fields, row, "tensor_degree", 1, 65536, 1),
            .ns = read_ns(fields, row, "time_us"),
            .param_bytes = read_bytes(fields, row, "param_bytes", node->param_bytes),
            .in_flight_bytes = read_bytes(fields, row, "in_flight_bytes", 0),
            .fixed_bytes = read_bytes(fields, row, "fixed_bytes", 0),
        };
        pst_fields_leave(fields, mark);
    }
    node->configs = configs;
    node->n_configs = (uint32_t)json_array_size(list);
}

static void read_node(struct pst_fields *fields, struct pst_arena *arena, const json_t *object,
                      struct pst_costed_node *node)
{
    pst_fields_require(fields, object, "name");
    node->name = pst_fields_string(fields, object, "name", NULL);
    node->op = pst_fields_string(fields, object, "op", "op");
    node->module = pst_fields_string(fields, object, "module", NULL);
    for (uint32_t p = 0; p < 3; p++) {
        node->ns[p] = read_ns(fields, object, pass_keys[p]);
    }
    node->fixed_ns = read_ns(fields, object, "fixed_us");
    node->param_bytes = read_bytes(fields, object, "param_bytes", 0);
    node->saved_bytes = read_bytes(fields, object, "saved_bytes", 0);
    node->output_bytes = read_bytes(fields, object, "output_bytes", 0);
    node->workspace_bytes = read_bytes(fields, object, "workspace_bytes", 0);
    node->backward_workspace_bytes =
        read_bytes(fields, object, "backward_workspace_bytes", node->workspace_bytes);
    read_times(fields, arena, object, node);
    read_configs(fields, arena, object, node);
}

static void read_nodes(struct pst_fields *fields, const json_t *root, struct pst_costed *draft)
{
    static const char *const keys[] = {"name",
                                       "op",
                                       "module",
                                       "forward_us",
                                       "backward_input_us",
                                       "backward_weight_us",
                                       "fixed_us",
                                       "times",
                                       "param_bytes",
                                       "saved_bytes",
                                       "output_bytes",
                                       "workspace_bytes",
                                       "backward_workspace_bytes",
                                       "configs"};
    const json_t *list = pst_fields_array(fields, root, "nodes");

    pst_fields_require(fields, root, "nodes");
    draft->nodes =
        room(fields, &draft->arena, list, "nodes", PST_COSTED_NODES, sizeof *draft->nodes);
    for (size_t i = 0; fields->status == PST_OK && i < json_array_size(list); i++) {
        size_t mark = pst_fields_enter(fields, "nodes", i);
        const json_t *object = element(fields, list, i, keys, COUNT(keys));

        if (object != NULL) {
            fields->item = json_string_value(json_object_get(object, "name"));
            read_node(fields, &draft->arena, object, &draft->nodes[i]);
            fields->item = NULL;
        }
        pst_fields_leave(fields, mark);
    }
    draft->n_nodes = (uint32_t)json_array_size(list);
}

static void fail_end(struct pst_fields *fields, const struct pst_costed *draft, const char *key,
                     const char *name)
{
    const char **names = pst_alloc(draft->n_nodes + (size_t)1, sizeof *names);
    char hint[96];

    for (uint32_t i = 0; i < draft->n_nodes; i++) {
        names[i] = draft->nodes[i].name;
    }
    pst_fields_fail(fields, "graph.edge", key, "no node has the name \"%.200s\"%s", name,
                    pst_nearest_hint(hint, name, names, draft->n_nodes));
    free(names);
}

static uint32_t read_end(struct pst_fields *fields, const struct pst_costed *draft,
                         const struct pst_names *names, const json_t *object, const char *key)
{
    const char *name;
    uint32_t node = 0;

    if (pst_fields_require(fields, object, key)) {
        name = pst_fields_string(fields, object, key, NULL);
        node = name == NULL ? 0 : pst_names_find(names, name);
    }
    if (node == PST_NONE && fields->status == PST_OK) {
        fail_end(fields, draft, key, name);
    }
    return node;
}

static void read_edges(struct pst_fields *fields, const json_t *root, const struct pst_names *names,
                       struct pst_costed *draft)
{
    static const char *const keys[] = {"from", "to", "bytes"};
    const json_t *list = pst_fields_array(fields, root, "edges");

    draft->edges =
        room(fields, &draft->arena, list, "edges", PST_COSTED_EDGES, sizeof *draft->edges);
    for (size_t i = 0; fields->status == PST_OK && i < json_array_size(list); i++) {
        size_t mark = pst_fields_enter(fields, "edges", i);
        const json_t *object = element(fields, list, i, keys, COUNT(keys));
        struct pst_costed_edge *edge = &draft->edges[i];

        if (object != NULL) {
            edge->from = read_end(fields, draft, names, object, "from");
            edge->to = read_end(fields, draft, names, object, "to");
        }
        if (fields->status == PST_OK) {
            edge->bytes =
                read_bytes(fields, object, "bytes", draft->nodes[edge->from].output_bytes);
        }
        pst_fields_leave(fields, mark);
    }
    draft->n_edges = (uint32_t)json_array_size(list);
}

/* Before edges are read, whose ends would be blamed for what is wrong with the nodes. */
static void add_names(struct pst_fields *fields, const struct pst_costed *draft,
                      struct pst_names *names)
{
    if (fields->status == PST_OK && draft->n_nodes == 0) {
        pst_costed_fail_empty(fields);
    }
    for (uint32_t i = 0; fields->status == PST_OK && i < draft->n_nodes; i++) {
        uint32_t other = pst_names_add(names, draft->nodes[i].name, i);

        if (other != PST_NONE) {
            pst_costed_fail_twice(fields, i, draft->nodes[i].name, other);
        }
    }
}

/* Inside another file "format" and "version" may be left out. */
static void read_root(struct pst_fields *fields, const json_t *root, struct pst_costed *draft)
{
    static const char *const keys[] = {"format",         "version",      "name",
                                       "notes",          "batch",        "update_bytes_per_second",
                                       "host_step_us",   "host_devices", "nodes",
                                       "host_sample_us", "edges"};
    bool named = fields->where[0] == '\0' || json_object_get(root, "format") != NULL;
    struct pst_names names = {NULL, 0};

    if (!named && !json_is_object(root)) {
        pst_fields_fail(fields, "config.value", NULL, "must be an object");
    } else if (!named || pst_fields_format(fields, root, "penstock-graph")) {
        pst_fields_known(fields, root, keys, COUNT(keys));
        draft->name = pst_fields_string(fields, root, "name", "graph");
        draft->notes = pst_fields_string(fields, root, "notes", NULL);
        draft->batch = pst_fields_count(fields, root, "batch", 1, PST_COSTED_SAMPLES, 1);
        draft->update_bytes_per_second =
            pst_fields_number(fields, root, "update_bytes_per_second", 0, PST_COSTED_BYTES, 0);
        draft->host_step_ns = read_ns(fields, root, "host_step_us");
        draft->host_sample_ns = read_ns(fields, root, "host_sample_us");
        draft->host_devices =
            pst_fields_count(fields, root, "host_devices", 0, PST_COSTED_SAMPLES, 0);
        read_nodes(fields, root, draft);
    }
    if (fields->status == PST_OK) {
        pst_names_init(&names, &draft->arena, draft->n_nodes);
    }
    add_names(fields, draft, &names);
    if (fields->status == PST_OK) {
        read_edges(fields, root, &names, draft);
    }
}

pst_status pst_costed_parse(const json_t *object, const char *path, const char *where,
                            struct pst_costed **ret_graph, struct pst_error *err)
{
    struct pst_fields fields = {.path = path, .err = err, .status = PST_OK};
    struct pst_costed draft = {.batch = 1};
    pst_status status;

    pst_fields_begin(&fields, where);
    read_root(&fields, object, &draft);
    status = fields.status;
    PST_TRY(status, pst_costed_build(&draft, path, where, ret_graph, err));
    pst_arena_finish(&draft.arena);
    return status;
}

pst_status pst_costed_read(const char *path, struct pst_costed **ret_graph, struct pst_error *err)
{
    json_t *root = NULL;
    pst_status status = pst_json_load(path, PST_COSTED_FILE_BYTES, &root, err);

    PST_TRY(status, pst_costed_parse(root, path, "", ret_graph, err));
    json_decref(root);
    return status;
}
