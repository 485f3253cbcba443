/* SPDX-License-Identifier: Apache-2.0
 *
 * A penstock-graph file, or such an object in another file, described once for both directions:
 * what is read is a draft of a costed graph; what is written has a node or an edge on a line, and
 * leaves out what is 0.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/names.h"
#include "config/codec.h"
#include "config/config.h"
#include "models/costed/costed_impl.h"

static const char *const pass_keys[] = {"forward_us", "backward_input_us", "backward_weight_us"};
static const char *const growth_keys[] = {"forward_growth_us", "backward_input_growth_us",
                                          "backward_input_last_saves_us"};

static void code_ns(struct pst_codec *c, const char *key, double *ns)
{
    double same, us = pst_codec_reads(c) ? 0 : pst_costed_us(*ns, &same);

    pst_codec_amount(c, key, &us, 0, PST_COSTED_US, 0);
    if (pst_codec_reads(c)) {
        *ns = us * 1000.0;
    }
}

static void code_bytes(struct pst_codec *c, const char *key, double *bytes, double initial)
{
    pst_codec_amount(c, key, bytes, 0, PST_COSTED_BYTES, initial);
}

/* `initial` is not 0, so that a writer says it. */
static void code_stated_bytes(struct pst_codec *c, const char *key, double *bytes, double initial)
{
    code_bytes(c, key, bytes, pst_codec_reads(c) ? initial : NAN);
}

/* pst_codec_items of at most `most`, which an allocation may depend on. */
static void *code_rows(struct pst_codec *c, const char *key, void *items, uint32_t *n, size_t size,
                       uint32_t most)
{
    size_t there = pst_codec_reads(c) ? json_array_size(pst_codec_find(c, key)) : 0;

    if (there > most) {
        pst_codec_fail(c, "input.limit", key, "has %zu elements; at most %u are read", there, most);
    }
    return pst_codec_items(c, key, items, n, size);
}

static void code_times(struct pst_codec *c, struct pst_costed_node *node)
{
    static const char *const excluded[] = {"forward_us", "backward_input_us", "backward_weight_us",
                                           "fixed_us"};
    struct pst_costed_times *times;

    if (!pst_codec_has(c, "times", node->n_times > 0)) {
        return;
    }
    for (uint32_t i = 0; pst_codec_reads(c) && i < sizeof excluded / sizeof *excluded; i++) {
        if (pst_codec_has(c, excluded[i], false)) {
            pst_codec_fail(c, "config.value", excluded[i], "\"times\" stands in its place");
        }
    }
    times = code_rows(c, "times", &node->times, &node->n_times, sizeof *times, PST_COSTED_TIMES);
    if (node->n_times == 0) {
        pst_codec_fail(c, "config.value", NULL, "must have at least one row");
    }
    for (uint32_t i = 0; pst_codec_is_sound(c) && i < node->n_times; i++) {
        pst_codec_object(c, NULL);
        pst_codec_require(c, "batch", NULL);
        pst_codec_count(c, "batch", &times[i].samples, 1, PST_COSTED_SAMPLES, 1);
        for (uint32_t p = 0; p < 3; p++) {
            code_ns(c, pass_keys[p], &times[i].ns[p]);
        }
        for (uint32_t p = 0; p < 3; p++) {
            code_ns(c, growth_keys[p], &times[i].growth[p]);
        }
        pst_codec_end(c);
    }
    pst_codec_end(c);
}

static void code_configs(struct pst_codec *c, struct pst_costed_node *node)
{
    struct pst_costed_config *configs;

    if (!pst_codec_has(c, "configs", node->n_configs > 0)) {
        return;
    }
    configs = code_rows(c, "configs", &node->configs, &node->n_configs, sizeof *configs,
                        PST_COSTED_CONFIGS);
    for (uint32_t i = 0; pst_codec_is_sound(c) && i < node->n_configs; i++) {
        pst_codec_object(c, NULL);
        pst_codec_require(c, "name", NULL);
        pst_codec_label(c, "name", &configs[i].name, NULL);
        pst_codec_count(c, "tensor_degree", &configs[i].tensor_degree, 1, 65536, 1);
        code_ns(c, "time_us", &configs[i].ns);
        code_stated_bytes(c, "param_bytes", &configs[i].param_bytes, node->param_bytes);
        code_bytes(c, "in_flight_bytes", &configs[i].in_flight_bytes, 0);
        code_bytes(c, "fixed_bytes", &configs[i].fixed_bytes, 0);
        pst_codec_end(c);
    }
    pst_codec_end(c);
}

static void code_node(struct pst_codec *c, struct pst_costed_node *node)
{
    pst_codec_newline(c);
    pst_codec_object(c, NULL);
    pst_codec_require(c, "name", NULL);
    pst_codec_label(c, "name", &node->name, NULL);
    if (pst_codec_reads(c)) {
        c->in->item = node->name;
    }
    pst_codec_label(c, "op", &node->op, "op");
    pst_codec_label(c, "module", &node->module, NULL);
    for (uint32_t p = 0; p < 3; p++) {
        code_ns(c, pass_keys[p], &node->ns[p]);
    }
    code_ns(c, "fixed_us", &node->fixed_ns);
    code_times(c, node);
    code_bytes(c, "param_bytes", &node->param_bytes, 0);
    code_bytes(c, "saved_bytes", &node->saved_bytes, 0);
    code_bytes(c, "output_bytes", &node->output_bytes, 0);
    code_bytes(c, "workspace_bytes", &node->workspace_bytes, 0);
    code_bytes(c, "backward_workspace_bytes", &node->backward_workspace_bytes,
               node->workspace_bytes);
    code_configs(c, node);
    if (pst_codec_reads(c)) {
        c->in->item = NULL;
    }
    pst_codec_end(c);
}

static void fail_end(struct pst_codec *c, const struct pst_costed *graph, const char *key,
                     const char *name)
{
    const char **names = pst_alloc(graph->n_nodes, sizeof *names);
    char hint[96];

    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        names[i] = graph->nodes[i].name;
    }
    pst_codec_fail(c, "graph.edge", key, "no node has the name \"%.200s\"%s", name,
                   pst_nearest_hint(hint, name, names, graph->n_nodes));
    free(names);
}

/* names: of what is read. */
static void code_end(struct pst_codec *c, const struct pst_costed *graph,
                     const struct pst_names *names, const char *key, uint32_t *node)
{
    const char *name = pst_codec_reads(c) ? NULL : graph->nodes[*node].name;

    pst_codec_require(c, key, NULL);
    pst_codec_label(c, key, &name, NULL);
    if (pst_codec_reads(c) && pst_codec_is_sound(c)) {
        *node = pst_names_find(names, name);
        if (*node == PST_NONE) {
            fail_end(c, graph, key, name);
        }
    }
}

static void code_edge(struct pst_codec *c, const struct pst_costed *graph,
                      const struct pst_names *names, struct pst_costed_edge *edge)
{
    pst_codec_newline(c);
    pst_codec_object(c, NULL);
    code_end(c, graph, names, "from", &edge->from);
    code_end(c, graph, names, "to", &edge->to);
    if (pst_codec_is_sound(c)) {
        code_stated_bytes(c, "bytes", &edge->bytes, graph->nodes[edge->from].output_bytes);
    }
    pst_codec_end(c);
}

/* Before edges are read, whose ends would be blamed for what is wrong with the nodes. */
static void add_names(struct pst_codec *c, const struct pst_costed *draft, struct pst_arena *arena,
                      struct pst_names *names)
{
    if (draft->n_nodes == 0) {
        pst_costed_fail_empty(pst_codec_place(c, false));
        return;
    }
    pst_names_init(names, arena, draft->n_nodes);
    for (uint32_t i = 0; pst_codec_is_sound(c) && i < draft->n_nodes; i++) {
        uint32_t other = pst_names_add(names, draft->nodes[i].name, i);

        if (other != PST_NONE) {
            pst_costed_fail_twice(pst_codec_place(c, false), i, draft->nodes[i].name, other);
        }
    }
}

static void code_lists(struct pst_codec *c, struct pst_costed *graph)
{
    struct pst_names names = {NULL, 0};

    pst_codec_require(c, "nodes", NULL);
    code_rows(c, "nodes", &graph->nodes, &graph->n_nodes, sizeof *graph->nodes, PST_COSTED_NODES);
    for (uint32_t i = 0; pst_codec_is_sound(c) && i < graph->n_nodes; i++) {
        code_node(c, &graph->nodes[i]);
    }
    pst_codec_end(c);
    if (pst_codec_reads(c) && pst_codec_is_sound(c)) {
        add_names(c, graph, c->arena, &names);
    }
    if (pst_codec_has(c, "edges", true)) {
        code_rows(c, "edges", &graph->edges, &graph->n_edges, sizeof *graph->edges,
                  PST_COSTED_EDGES);
        for (uint32_t i = 0; pst_codec_is_sound(c) && i < graph->n_edges; i++) {
            code_edge(c, graph, &names, &graph->edges[i]);
        }
        pst_codec_end(c);
    }
}

/* Inside another file "format" and "version" may be left out. */
static void code_all(struct pst_codec *c, const char *key, struct pst_costed *graph)
{
    pst_codec_object(c, key);
    if (key == NULL || pst_codec_has(c, "format", true)) {
        pst_codec_format(c, "penstock-graph");
    }
    pst_codec_label(c, "name", &graph->name, "graph");
    pst_codec_label(c, "notes", &graph->notes, NULL);
    pst_codec_count(c, "batch", &graph->batch, 1, PST_COSTED_SAMPLES, 1);
    code_bytes(c, "update_bytes_per_second", &graph->update_bytes_per_second, 0);
    if (pst_codec_reads(c) || graph->host_devices > 0) {
        code_ns(c, "host_step_us", &graph->host_step_ns);
        code_ns(c, "host_sample_us", &graph->host_sample_ns);
        pst_codec_count(c, "host_devices", &graph->host_devices, 0, PST_COSTED_SAMPLES, 0);
    }
    code_lists(c, graph);
    pst_codec_end(c);
}

void pst_costed_code(struct pst_codec *c, const char *key, struct pst_costed **graph)
{
    struct pst_costed draft = {.batch = 1};
    struct pst_arena *outer = c->arena;

    if (!pst_codec_reads(c)) {
        code_all(c, key, *graph);
        return;
    }
    c->arena = &draft.arena;
    code_all(c, key, &draft);
    c->arena = outer;
    PST_TRY(c->in->status,
            pst_costed_build(&draft, c->in->path, key == NULL ? "" : key, graph, c->in->err));
    pst_arena_finish(&draft.arena);
}

pst_status pst_costed_read(const char *path, struct pst_costed **ret_graph, struct pst_error *err)
{
    struct pst_fields fields = {.path = path, .err = err};
    struct pst_codec c = {.in = &fields, .format = "penstock-graph"};

    fields.status = pst_json_load(path, PST_COSTED_FILE_BYTES, &c.root, err);
    pst_costed_code(&c, NULL, ret_graph);
    json_decref(c.root);
    return fields.status;
}

char *pst_costed_write(const struct pst_costed *graph, size_t *ret_length)
{
    struct pst_costed *same = (struct pst_costed *)(uintptr_t)graph; /* which is only read */
    struct pst_json json;
    struct pst_codec c = {.out = &json};
    char *text;

    pst_json_init(&json);
    pst_costed_code(&c, NULL, &same);
    pst_codec_newline(&c);
    text = pst_json_take(&json);
    *ret_length = strlen(text);
    return text;
}
