/* SPDX-License-Identifier: Apache-2.0
 *
 * The model as strategies see it: operators as nodes, tensors as edges, bytes per sample.
 */
#include "graph/costed.h"
#include "graph/op_rules.h"

/* Returns true if the backward passes of `op` read the tensor, as an input or output of it. */
static bool backward_reads(const struct pst_graph *graph, uint32_t op, uint32_t tensor)
{
    struct pst_op_grad info;

    pst_op_grad_info(graph, op, &info);
    for (uint32_t i = 0; i < graph->ops[op].n_in; i++) {
        if (graph->ops[op].in[i] == tensor && ((info.b_reads_x | info.w_reads_x) >> i & 1) != 0) {
            return true;
        }
    }
    for (uint32_t i = 0; i < graph->ops[op].n_out; i++) {
        if (graph->ops[op].out[i] == tensor && ((info.b_reads_y | info.w_reads_y) >> i & 1) != 0) {
            return true;
        }
    }
    return false;
}

/* Bytes per sample of the outputs of an operator that a backward pass reads. */
static uint64_t op_saved_bytes(const struct pst_graph *graph, uint32_t op_index)
{
    const struct pst_op *op = &graph->ops[op_index];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < op->n_out; i++) {
        const struct pst_tensor *tensor = &graph->tensors[op->out[i]];
        bool read = backward_reads(graph, op_index, op->out[i]);

        for (uint32_t k = 0; k < tensor->n_consumers && !read; k++) {
            read = backward_reads(graph, tensor->consumers[k], op->out[i]);
        }
        bytes += read ? tensor->bytes : 0;
    }
    return bytes;
}

uint64_t pst_graph_parameters(const struct pst_graph *graph)
{
    uint64_t n = 0;

    graph = pst_graph_model(graph);
    for (uint32_t i = 0; i < graph->n_params; i++) {
        n += graph->params[i].elems;
    }
    return n;
}

static uint32_t node_flags(const struct pst_op *op)
{
    const struct pst_op_rules *rules = pst_op_rules_of(op->kind);

    return rules->flags | (rules->more_flags != NULL ? rules->more_flags(op) : 0u) |
           (rules->costly || rules->loss ? 0u : (uint32_t)PST_NODE_CHEAP) |
           (op->p > 0.0f ? (uint32_t)PST_NODE_RNG : 0u);
}

static void fill_nodes(const struct pst_graph *graph, struct pst_node *nodes)
{
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_op *op = &graph->ops[i];
        struct pst_node *node = &nodes[i];

        node->name = op->name;
        node->op = graph->costed != NULL && i < graph->costed->n_nodes ? graph->costed->nodes[i].op
                                                                       : pst_op_title(op);
        node->layer = op->layer;
        node->flags = node_flags(op);
        node->flags |= pst_op_stays(graph, i) ? PST_NODE_NO_RECOMPUTE | PST_NODE_NO_OFFLOAD : 0;
        for (uint32_t k = 0; k < op->n_param; k++) {
            if (op->param[k] != PST_NONE) {
                node->param_bytes += graph->params[op->param[k]].elems * sizeof(float);
            }
        }
        node->output_bytes = graph->tensors[op->out[0]].bytes;
        node->saved_bytes = op_saved_bytes(graph, i);
    }
}

/*
 * Edges by (from, to): one per pair of operators. With edges == NULL only counts. An operator that
 * reads a tensor twice stands twice, side by side, among its consumers.
 */
static uint32_t fill_edges(const struct pst_graph *graph, struct pst_edge *edges)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_tensor *tensor = &graph->tensors[graph->ops[i].out[0]];

        for (uint32_t k = 0; k < tensor->n_consumers; k++) {
            if (k != 0 && tensor->consumers[k] == tensor->consumers[k - 1]) {
                continue;
            }
            if (edges != NULL) {
                edges[n].from = i;
                edges[n].to = tensor->consumers[k];
                edges[n].bytes = tensor->bytes;
                edges[n].batched = tensor->batched;
            }
            n++;
        }
    }
    return n;
}

/* Edges are sorted by `from` already; a counting sort gives those by `to`. */
static void index_edges(const struct pst_edge *edges, uint32_t n_edges, struct pst_node *nodes,
                        uint32_t n_nodes, uint32_t *in_edges, uint32_t *out_edges)
{
    uint32_t in = 0, out = 0;

    for (uint32_t i = 0; i < n_edges; i++) {
        nodes[edges[i].from].n_out++;
        nodes[edges[i].to].n_in++;
        out_edges[i] = i;
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        nodes[i].first_in = in;
        nodes[i].first_out = out;
        in += nodes[i].n_in;
        out += nodes[i].n_out;
        nodes[i].n_in = 0;
    }
    for (uint32_t i = 0; i < n_edges; i++) {
        struct pst_node *node = &nodes[edges[i].to];

        in_edges[node->first_in + node->n_in++] = i;
    }
}

struct pst_graph_view pst_graph_view_of(struct pst_arena *arena, struct pst_node *nodes,
                                        uint32_t n_nodes, const struct pst_edge *edges,
                                        uint32_t n_edges, uint32_t batch)
{
    uint32_t *in_edges = pst_arena_array(arena, n_edges, sizeof *in_edges);
    uint32_t *out_edges = pst_arena_array(arena, n_edges, sizeof *out_edges);

    index_edges(edges, n_edges, nodes, n_nodes, in_edges, out_edges);
    return (struct pst_graph_view){
        .size = sizeof(struct pst_graph_view),
        .n_nodes = n_nodes,
        .node_size = sizeof *nodes,
        .n_edges = n_edges,
        .edge_size = sizeof *edges,
        .batch = batch,
        .nodes = nodes,
        .edges = edges,
        .in_edges = in_edges,
        .out_edges = out_edges,
    };
}

void pst_graph_make_view(struct pst_graph *graph, uint32_t batch, struct pst_graph_view **ret_view)
{
    struct pst_arena *arena = &graph->arena;
    uint32_t n_edges = fill_edges(graph, NULL);
    struct pst_graph_view *view = pst_arena_array(arena, 1, sizeof *view);
    struct pst_node *nodes = pst_arena_array(arena, graph->n_ops, sizeof *nodes);
    struct pst_edge *edges = pst_arena_array(arena, n_edges, sizeof *edges);

    fill_nodes(graph, nodes);
    fill_edges(graph, edges);
    *view = pst_graph_view_of(arena, nodes, graph->n_ops, edges, n_edges, batch);
    *ret_view = view;
}
