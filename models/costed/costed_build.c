/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft becomes a costed graph: checked, sorted, copied.
 */
#include "models/costed/costed_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/names.h"
#include "config/json_fields.h"
#include "models/costed/costed_impl.h"

#define MAX_TOTAL 4611686018427387904.0 /* 2^62: sums of bytes fit in 64 bits */

/* Fails with the place in front if a number is not from 0 to `most`. */
static void check(struct pst_fields *fields, const char *list, size_t i, const char *key,
                  double value, double most)
{
    if (!(value >= 0 && value <= most) && fields->status == PST_OK) {
        size_t mark = pst_fields_enter(fields, list, i);

        pst_fields_fail(fields, "config.value", key, "must be a number from 0 to %.17g, not %.15g",
                        most, value);
        pst_fields_leave(fields, mark);
    }
}

static void check_node(struct pst_fields *fields, const struct pst_costed_node *node, size_t i)
{
    static const char *const passes[] = {"forward_us", "backward_input_us", "backward_weight_us"};

    for (uint32_t p = 0; p < 3; p++) {
        check(fields, "nodes", i, passes[p], node->ns[p] / 1000, PST_COSTED_US);
        for (uint32_t t = 0; t < node->n_times; t++) {
            check(fields, "nodes", i, passes[p], node->times[t].ns[p] / 1000, PST_COSTED_US);
            check(fields, "nodes", i, "growth", node->times[t].growth[p] / 1000, PST_COSTED_US);
        }
    }
    check(fields, "nodes", i, "fixed_us", node->fixed_ns / 1000, PST_COSTED_US);
    check(fields, "nodes", i, "param_bytes", node->param_bytes, PST_COSTED_BYTES);
    check(fields, "nodes", i, "saved_bytes", node->saved_bytes, PST_COSTED_BYTES);
    check(fields, "nodes", i, "output_bytes", node->output_bytes, PST_COSTED_BYTES);
    check(fields, "nodes", i, "workspace_bytes", node->workspace_bytes, PST_COSTED_BYTES);
    check(fields, "nodes", i, "backward_workspace_bytes", node->backward_workspace_bytes,
          PST_COSTED_BYTES);
    for (uint32_t c = 0; c < node->n_configs; c++) {
        const struct pst_costed_config *config = &node->configs[c];

        check(fields, "nodes", i, "configs: time_us", config->ns / 1000, PST_COSTED_US);
        check(fields, "nodes", i, "configs: param_bytes", config->param_bytes, PST_COSTED_BYTES);
        check(fields, "nodes", i, "configs: in_flight_bytes", config->in_flight_bytes,
              PST_COSTED_BYTES);
        check(fields, "nodes", i, "configs: fixed_bytes", config->fixed_bytes, PST_COSTED_BYTES);
    }
}

void pst_costed_fail_empty(struct pst_fields *fields)
{
    pst_fields_fail(fields, "graph.empty", "nodes", "there are none, so nothing can be cut");
}

void pst_costed_fail_twice(struct pst_fields *fields, uint32_t node, const char *name,
                           uint32_t other)
{
    size_t mark = pst_fields_enter(fields, "nodes", node);

    pst_fields_fail(fields, "graph.duplicate", "name",
                    "\"%.200s\" is the name of nodes[%u] already", name, other);
    pst_fields_leave(fields, mark);
}

static void check_size(struct pst_fields *fields, const struct pst_costed *draft)
{
    if (draft->batch < 1 || draft->batch > PST_COSTED_SAMPLES) {
        pst_fields_fail(fields, "config.value", "batch", "must be from 1 to %u, not %u",
                        PST_COSTED_SAMPLES, draft->batch);
    } else if (draft->n_nodes == 0) {
        pst_costed_fail_empty(fields);
    } else if (draft->n_nodes > PST_COSTED_NODES || draft->n_edges > PST_COSTED_EDGES) {
        pst_fields_fail(fields, "input.limit", NULL,
                        "%u nodes and %u edges; a graph may have %u and %u", draft->n_nodes,
                        draft->n_edges, PST_COSTED_NODES, PST_COSTED_EDGES);
    }
}

static void check_names(struct pst_fields *fields, const struct pst_costed *draft)
{
    struct pst_arena arena = {0};
    struct pst_names names;

    pst_names_init(&names, &arena, draft->n_nodes);
    for (uint32_t i = 0; fields->status == PST_OK && i < draft->n_nodes; i++) {
        size_t mark = strlen(fields->where);
        uint32_t other;

        if (draft->nodes[i].name == NULL || draft->nodes[i].name[0] == '\0') {
            pst_fields_enter(fields, "nodes", i);
            pst_fields_fail(fields, "config.value", "name", "every node needs one");
        } else if ((other = pst_names_add(&names, draft->nodes[i].name, i)) != PST_NONE) {
            pst_costed_fail_twice(fields, i, draft->nodes[i].name, other);
        }
        pst_fields_leave(fields, mark);
    }
    pst_arena_finish(&arena);
}

static void check_edge(struct pst_fields *fields, const struct pst_costed *draft, size_t i)
{
    const struct pst_costed_edge *edge = &draft->edges[i];
    size_t mark;

    check(fields, "edges", i, "bytes", edge->bytes, PST_COSTED_BYTES);
    if (edge->from < draft->n_nodes && edge->to < draft->n_nodes && edge->from != edge->to) {
        return;
    }
    mark = pst_fields_enter(fields, "edges", i);
    if (edge->from == edge->to && edge->to < draft->n_nodes) {
        pst_fields_fail(fields, "graph.edge", NULL, "goes from \"%.200s\" to itself",
                        draft->nodes[edge->to].name);
    } else {
        pst_fields_fail(fields, "graph.edge", NULL, "goes from node %u to %u; there are %u",
                        edge->from, edge->to, draft->n_nodes);
    }
    pst_fields_leave(fields, mark);
}

static void check_total(struct pst_fields *fields, const struct pst_costed *draft)
{
    double total = 0;

    for (uint32_t i = 0; i < draft->n_nodes; i++) {
        const struct pst_costed_node *node = &draft->nodes[i];

        total += node->param_bytes + node->saved_bytes + node->output_bytes +
                 node->workspace_bytes + node->backward_workspace_bytes;
    }
    for (uint32_t i = 0; i < draft->n_edges; i++) {
        total += draft->edges[i].bytes;
    }
    if (total >= MAX_TOTAL) {
        pst_fields_fail(fields, "input.limit", NULL,
                        "all bytes together are %.3g; at most %.3g can be counted", total,
                        MAX_TOTAL);
    }
}

double pst_costed_us(double ns, double *ret_ns)
{
    double quotient = ns / 1000.0, down = quotient, up = quotient;

    *ret_ns = ns;
    for (int step = 0; step < 3; step++) {
        if (down * 1000.0 == ns) {
            return down;
        }
        if (up * 1000.0 == ns) {
            return up;
        }
        down = nextafter(down, 0.0);
        up = nextafter(up, INFINITY);
    }
    *ret_ns = quotient * 1000.0;
    return quotient;
}

static const char *text_or(const char *text, const char *initial)
{
    return text == NULL || text[0] == '\0' ? initial : text;
}

static int by_samples(const void *a, const void *b)
{
    uint32_t x = ((const struct pst_costed_times *)a)->samples;
    uint32_t y = ((const struct pst_costed_times *)b)->samples;

    return (x > y) - (x < y);
}

static void copy_times(struct pst_arena *arena, const struct pst_costed_node *from,
                       struct pst_costed_node *node)
{
    struct pst_costed_times *times =
        pst_arena_copy(arena, from->times, from->n_times, sizeof *times);

    qsort(times, from->n_times, sizeof *times, by_samples);
    for (uint32_t t = 0; t < from->n_times; t++) {
        for (uint32_t p = 0; p < 3; p++) {
            pst_costed_us(times[t].ns[p] + 0.0, &times[t].ns[p]);
            pst_costed_us(times[t].growth[p] + 0.0, &times[t].growth[p]);
        }
    }
    node->times = times;
}

static void copy_configs(struct pst_arena *arena, const struct pst_costed_node *from,
                         struct pst_costed_node *node)
{
    struct pst_costed_config *configs = pst_arena_array(arena, from->n_configs, sizeof *configs);

    for (uint32_t c = 0; c < from->n_configs; c++) {
        configs[c] = from->configs[c];
        configs[c].name = pst_arena_strdup(arena, text_or(configs[c].name, "config"));
        pst_costed_us(configs[c].ns + 0.0, &configs[c].ns);
    }
    node->configs = configs;
}

static void copy_node(struct pst_arena *arena, const struct pst_costed_node *from,
                      struct pst_costed_node *node)
{
    *node = *from;
    node->name = pst_arena_strdup(arena, from->name);
    node->op = pst_arena_strdup(arena, text_or(from->op, "op"));
    node->module = pst_arena_strdup(arena, from->module);
    for (uint32_t p = 0; p < 3; p++) {
        pst_costed_us(from->n_times > 0 ? 0.0 : from->ns[p] + 0.0, &node->ns[p]);
    }
    pst_costed_us(from->n_times > 0 ? 0.0 : from->fixed_ns + 0.0, &node->fixed_ns);
    node->times = NULL;
    node->configs = NULL;
    if (from->n_times > 0) {
        copy_times(arena, from, node);
    }
    if (from->n_configs > 0) {
        copy_configs(arena, from, node);
    }
}

/* Sizes of a table are known to be ascending now; each may stand once, and a degree is no 0. */
static void check_rows(struct pst_fields *fields, const struct pst_costed_node *node)
{
    for (uint32_t t = 0; t < node->n_times; t++) {
        uint32_t samples = node->times[t].samples;

        if (samples < 1 || samples > PST_COSTED_SAMPLES) {
            pst_fields_fail(fields, "config.value", NULL,
                            "node \"%.200s\": times: batch must be from 1 to %u, not %u",
                            node->name, PST_COSTED_SAMPLES, samples);
        } else if (t > 0 && samples == node->times[t - 1].samples) {
            pst_fields_fail(fields, "config.value", NULL,
                            "node \"%.200s\": times: batch %u stands twice", node->name, samples);
        }
    }
    for (uint32_t c = 0; c < node->n_configs; c++) {
        if (node->configs[c].tensor_degree < 1) {
            pst_fields_fail(fields, "config.value", NULL,
                            "node \"%.200s\": configs: tensor_degree must be at least 1",
                            node->name);
        }
    }
}

/* Everything but edges and view. */
static void copy_all(struct pst_fields *fields, const struct pst_costed *draft,
                     const uint32_t *order, struct pst_costed *graph)
{
    struct pst_arena *arena = &graph->arena;

    graph->batch = draft->batch;
    graph->update_bytes_per_second = draft->update_bytes_per_second;
    graph->host_step_ns = draft->host_step_ns;
    graph->host_sample_ns = draft->host_sample_ns;
    graph->host_devices = draft->host_devices;
    graph->name = pst_arena_strdup(arena, text_or(draft->name, "graph"));
    graph->notes = pst_arena_strdup(arena, draft->notes);
    graph->n_nodes = draft->n_nodes;
    graph->nodes = pst_arena_array(arena, draft->n_nodes, sizeof *graph->nodes);
    for (uint32_t i = 0; i < draft->n_nodes; i++) {
        copy_node(arena, &draft->nodes[order[i]], &graph->nodes[i]);
        check_rows(fields, &graph->nodes[i]);
    }
}

/* The draft is sound: in order, then. */
static pst_status assemble(struct pst_fields *fields, const struct pst_costed *draft,
                           struct pst_costed *graph)
{
    uint32_t *order = pst_alloc(2 * (size_t)draft->n_nodes, sizeof *order);
    uint32_t *position = order + draft->n_nodes;
    pst_status status;

    status = pst_costed_sort(draft, fields->path, order, fields->err);
    if (status == PST_OK) {
        for (uint32_t i = 0; i < draft->n_nodes; i++) {
            position[order[i]] = i;
        }
        copy_all(fields, draft, order, graph);
        status = fields->status;
    }
    PST_TRY(status, pst_costed_merge_edges(draft, position, graph, fields->err));
    if (status == PST_OK) {
        pst_costed_make_view(graph);
    }
    free(order);
    return status;
}

pst_status pst_costed_build(const struct pst_costed *draft, const char *path, const char *where,
                            struct pst_costed **ret_graph, struct pst_error *err)
{
    struct pst_fields fields = {.path = path, .err = err, .status = PST_OK};
    struct pst_costed *graph;
    pst_status status;

    pst_fields_enter(&fields, where, PST_FIELDS_NO_INDEX);
    check_size(&fields, draft);
    if (fields.status == PST_OK) {
        check_names(&fields, draft);
    }
    for (uint32_t i = 0; fields.status == PST_OK && i < draft->n_nodes; i++) {
        check_node(&fields, &draft->nodes[i], i);
    }
    for (uint32_t i = 0; fields.status == PST_OK && i < draft->n_edges; i++) {
        check_edge(&fields, draft, i);
    }
    if (fields.status == PST_OK) {
        check_total(&fields, draft);
    }
    if (fields.status != PST_OK) {
        return fields.status;
    }
    graph = pst_alloc(1, sizeof *graph);
    status = assemble(&fields, draft, graph);
    if (status != PST_OK) {
        pst_costed_destroy(graph);
        return status;
    }
    graph->digest = pst_costed_digest(graph);
    *ret_graph = graph;
    return PST_OK;
}

pst_status pst_costed_create(const struct pst_costed *draft, struct pst_costed **ret_graph,
                             struct pst_error *err)
{
    return pst_costed_build(draft, NULL, "", ret_graph, err);
}
