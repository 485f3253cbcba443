/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/costed_stage.h"

#include <math.h>
#include <string.h>

#include "base/saturate.h"
#include "models/costed/costed_file.h"

/* The last part of a name, without a number at its end. */
static const char *kind_of(const char *name, struct pst_arena *arena)
{
    const char *dot = strrchr(name, '.'), *from = dot != NULL && dot[1] != '\0' ? dot + 1 : name;
    size_t n = strlen(from);

    while (n > 1 && strchr("0123456789_", from[n - 1]) != NULL) {
        n--;
    }
    return pst_arena_strndup(arena, from, n);
}

void pst_costed_stage_init(struct pst_costed_stage *stage, const struct pst_problem *problem,
                           struct pst_arena *arena)
{
    const struct pst_costed *graph = problem->graph;
    uint32_t n = graph->n_nodes;

    *stage = (struct pst_costed_stage){
        .problem = problem,
        .nodes = pst_arena_array(arena, n, sizeof *stage->nodes),
        .producers = pst_arena_array(arena, graph->n_edges, sizeof *stage->producers),
        .position = pst_arena_array(arena, n, sizeof *stage->position),
        .stamps = pst_arena_array(arena, n, sizeof *stage->stamps),
        .read = pst_arena_array(arena, n, sizeof *stage->read),
        .layers = pst_arena_array(arena, n, sizeof *stage->layers),
        .kinds = pst_arena_array(arena, n, sizeof *stage->kinds),
    };
    pst_costed_layers(graph, stage->layers);
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_costed_node *node = &graph->nodes[i];
        bool named = node->op != NULL && strcmp(node->op, "op") != 0;

        stage->kinds[i] = named ? node->op : kind_of(node->name, arena);
    }
}

/* Two stamps a view: its nodes have the even one, nodes outside that it reads the odd one. */
static void begin(struct pst_costed_stage *stage, const uint32_t *nodes, uint32_t n_nodes)
{
    if (stage->stamp >= UINT32_MAX - 3) {
        memset(stage->stamps, 0, stage->problem->graph->n_nodes * sizeof *stage->stamps);
        stage->stamp = 0;
    }
    stage->stamp += 2;
    for (uint32_t i = 0; i < n_nodes; i++) {
        stage->stamps[nodes[i]] = stage->stamp;
        stage->position[nodes[i]] = i;
    }
}

/* Bytes of a sample by which the stage's input grows: a node's output comes once, as large as the
   largest edge that the stage reads it through. */
static double read_edge(struct pst_costed_stage *stage, uint32_t e)
{
    const struct pst_costed *graph = stage->problem->graph;
    uint32_t from = graph->edges[e].from;
    double old;

    if (stage->stamps[from] != stage->stamp + 1) {
        stage->stamps[from] = stage->stamp + 1;
        stage->read[from] = 0;
    }
    old = stage->read[from];
    stage->read[from] = fmax(old, graph->edge_bytes[e]);
    return stage->read[from] - old;
}

/* Bytes of a node's result for one sample: the figure of the file or, if more, of its largest edge;
   without both all that it saves. The caller limits the result to what the node saves, if it saves
   anything, since the saved bytes of a graph file include the result. */
static double output_bytes(const struct pst_costed *graph, uint32_t v)
{
    const struct pst_node *node = pst_graph_node(&graph->view, v);
    double bytes = graph->nodes[v].output_bytes / graph->batch;

    for (uint32_t k = 0; k < node->n_out; k++) {
        bytes = fmax(bytes, graph->edge_bytes[graph->view.out_edges[node->first_out + k]]);
    }
    return bytes > 0 ? bytes : graph->saved_bytes[v];
}

struct pst_stage_node *pst_costed_stage_build(struct pst_costed_stage *stage, const uint32_t *nodes,
                                              uint32_t n_nodes, uint32_t samples, uint32_t versions,
                                              struct pst_stage_view *ret_view)
{
    const struct pst_problem *problem = stage->problem;
    const struct pst_costed *graph = problem->graph;
    double weights = 0, input = 0, own_input = 0;
    uint32_t n_producers = 0;

    begin(stage, nodes, n_nodes);
    for (uint32_t i = 0; i < n_nodes; i++) {
        const struct pst_costed_node *costed = &graph->nodes[nodes[i]];
        const struct pst_node *node = pst_graph_node(&graph->view, nodes[i]);
        struct pst_stage_node *to = &stage->nodes[i];
        double ns[3];

        pst_costed_node_ns(graph, nodes[i], samples, ns);
        *to = (struct pst_stage_node){
            .node = nodes[i],
            .layer = stage->layers[nodes[i]],
            .op = stage->kinds[nodes[i]],
            .action = PST_ACTION_KEEP,
            .forward_ns = pst_sat_up(ns[0]),
            .backward_ns = pst_sat_up(ns[1] + ns[2]),
            .saved_bytes = pst_sat_up(graph->saved_bytes[nodes[i]] * samples),
            .forward_work_bytes = pst_sat_up(costed->workspace_bytes),
            .backward_work_bytes = pst_sat_up(costed->backward_workspace_bytes),
            .first_producer = n_producers,
            .output_bytes = pst_sat_up(output_bytes(graph, nodes[i]) * samples),
        };
        if (to->saved_bytes > 0 && to->output_bytes > to->saved_bytes) {
            to->output_bytes = to->saved_bytes;
        }
        to->output_saved = to->output_bytes <= to->saved_bytes;
        weights += costed->param_bytes;
        if (node->n_in == 0) { /* reads what goes into the model */
            own_input = problem->input_bytes / problem->micro_batches[0];
        }
        for (uint32_t k = 0; k < node->n_in; k++) {
            uint32_t e = graph->view.in_edges[node->first_in + k];

            if (stage->stamps[graph->edges[e].from] == stage->stamp) {
                stage->producers[n_producers++] = stage->position[graph->edges[e].from];
                to->n_producers++;
            } else {
                input += read_edge(stage, e);
            }
        }
    }
    input += own_input;
    *ret_view = (struct pst_stage_view){
        .size = sizeof *ret_view,
        .n_stages = 1,
        .n_nodes = n_nodes,
        .node_size = sizeof *stage->nodes,
        .nodes = stage->nodes,
        .producers = stage->producers,
        .in_flight = 1,
        .weight_versions = versions,
        .staging_copies = problem->staging,
        .link_directions = problem->link_directions,
        .capacity_bytes = UINT64_MAX,
        .static_bytes = pst_sat_up((problem->weight_multiplier + versions - 1.0) * weights),
        .input_bytes = pst_sat_up(input * samples),
        .host_capacity_bytes = UINT64_MAX,
        .link_bytes_per_s = pst_sat_up(problem->swap_bandwidth),
    };
    return stage->nodes;
}
