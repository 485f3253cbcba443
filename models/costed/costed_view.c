/* SPDX-License-Identifier: Apache-2.0
 *
 * The view of a costed graph for strategies, and its digest.
 */
#include "models/costed/costed_impl.h"
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Below 2^62 because pst_costed_build has seen to it. */
static uint64_t round_up(double bytes)
{
    return (uint64_t)ceil(bytes);
}

static void fill_nodes(const struct pst_costed *graph, struct pst_node *nodes, double *saved)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct pst_costed_node *node = &graph->nodes[i];

        saved[i] = node->saved_bytes / graph->batch;
        nodes[i] = (struct pst_node){
            .name = node->name,
            .op = node->op,
            .layer = i,
            .param_bytes = round_up(node->param_bytes),
            .saved_bytes = round_up(saved[i]),
            .output_bytes = round_up(node->output_bytes / graph->batch),
            .forward_work_bytes = round_up(node->workspace_bytes),
            .backward_work_bytes = round_up(node->backward_workspace_bytes),
        };
    }
}

static void fill_edges(const struct pst_costed *graph, struct pst_edge *edges, double *bytes)
{
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        const struct pst_costed_edge *edge = &graph->edges[i];

        bytes[i] = edge->bytes / graph->batch;
        edges[i] = (struct pst_edge){
            .from = edge->from, .to = edge->to, .bytes = round_up(bytes[i]), .batched = 1};
    }
}

void pst_costed_make_view(struct pst_costed *graph)
{
    struct pst_arena *arena = &graph->arena;
    struct pst_node *nodes = pst_arena_array(arena, graph->n_nodes, sizeof *nodes);
    struct pst_edge *edges = pst_arena_array(arena, graph->n_edges, sizeof *edges);

    graph->saved_bytes = pst_arena_array(arena, graph->n_nodes, sizeof *graph->saved_bytes);
    graph->edge_bytes = pst_arena_array(arena, graph->n_edges, sizeof *graph->edge_bytes);
    fill_nodes(graph, nodes, graph->saved_bytes);
    fill_edges(graph, edges, graph->edge_bytes);
    graph->view =
        pst_graph_view_of(arena, nodes, graph->n_nodes, edges, graph->n_edges, graph->batch);
}

/* Length of the beginning of a name that its layer shares: up to its first number. */
static size_t layer_length(const char *name)
{
    size_t begin = strcspn(name, "0123456789");

    return begin + strspn(name + begin, "0123456789");
}

static bool same_layer(const char *a, const char *b)
{
    size_t n = layer_length(a);

    return a[strcspn(a, "0123456789")] != '\0' && layer_length(b) == n && strncmp(a, b, n) == 0;
}

void pst_costed_layers(const struct pst_costed *graph, uint32_t *ret_layers)
{
    ret_layers[0] = 0;
    for (uint32_t i = 1; i < graph->n_nodes; i++) {
        ret_layers[i] =
            ret_layers[i - 1] + !same_layer(graph->nodes[i - 1].name, graph->nodes[i].name);
    }
}

static void put(XXH3_state_t *state, uint64_t value)
{
    XXH3_64bits_update(state, &value, sizeof value);
}

static void put_numbers(XXH3_state_t *state, const double *values, uint32_t n)
{
    XXH3_64bits_update(state, values, n * sizeof *values);
}

static void put_text(XXH3_state_t *state, const char *text)
{
    put(state, strlen(text));
    XXH3_64bits_update(state, text, strlen(text));
}

static void put_node(XXH3_state_t *state, const struct pst_costed_node *node)
{
    const double numbers[] = {
        node->ns[0],        node->ns[1],           node->ns[2],
        node->fixed_ns,     node->param_bytes,     node->saved_bytes,
        node->output_bytes, node->workspace_bytes, node->backward_workspace_bytes};

    put_text(state, node->name);
    put_text(state, node->op);
    if (node->module != NULL) {
        put_text(state, node->module);
    }
    put_numbers(state, numbers, sizeof numbers / sizeof *numbers);
    put(state, node->n_times);
    for (uint32_t i = 0; i < node->n_times; i++) {
        put(state, node->times[i].samples);
        put_numbers(state, node->times[i].ns, 3);
        if (node->times[i].growth[0] != 0 || node->times[i].growth[1] != 0 ||
            node->times[i].growth[2] != 0) {
            put_numbers(state, node->times[i].growth, 3);
        }
    }
    put(state, node->n_configs);
    for (uint32_t i = 0; i < node->n_configs; i++) {
        const struct pst_costed_config *config = &node->configs[i];
        const double amounts[] = {config->ns, config->param_bytes, config->in_flight_bytes,
                                  config->fixed_bytes};

        put_text(state, config->name);
        put(state, config->tensor_degree);
        put_numbers(state, amounts, 4);
    }
}

uint64_t pst_costed_digest(const struct pst_costed *graph)
{
    XXH3_state_t state;

    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    put_text(&state, graph->name);
    put(&state, graph->batch);
    if (graph->update_bytes_per_second > 0) {
        put_numbers(&state, &graph->update_bytes_per_second, 1);
    }
    if (graph->host_devices > 0) {
        const double host[] = {graph->host_step_ns, graph->host_sample_ns, graph->host_devices};

        put_numbers(&state, host, 3);
    }
    put(&state, graph->n_nodes);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        put_node(&state, &graph->nodes[i]);
    }
    put(&state, graph->n_edges);
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        put(&state, (uint64_t)graph->edges[i].from << 32 | graph->edges[i].to);
        put_numbers(&state, &graph->edges[i].bytes, 1);
    }
    return XXH3_64bits_digest(&state);
}
