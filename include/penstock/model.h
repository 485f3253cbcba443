/* SPDX-License-Identifier: Apache-2.0
 *
 * The model as strategies see it: planning nodes in topological order, edges, bytes. Times are
 * asked for through pst.cost/1. Arrays of structs are indexed only through the accessors below,
 * so that their elements can grow.
 */
#ifndef PENSTOCK_MODEL_H
#define PENSTOCK_MODEL_H

#include "abi.h"

/* pst_node.flags */
enum {
    PST_NODE_CHEAP = 1u << 0,        /* elementwise or normalisation: bound by memory */
    PST_NODE_RNG = 1u << 1,          /* draws random numbers (by counter: replay is exact) */
    PST_NODE_NO_RECOMPUTE = 1u << 2, /* must not be replayed */
    PST_NODE_NO_OFFLOAD = 1u << 3,   /* must not leave the device */
    PST_NODE_PRESET = 1u << 4        /* of a stage: its action is the host's, and holds unless a
                                        memory optimizer sets another or lists replays; since 1.7 */
};

/* One planning node: an operator after fusion. */
struct pst_node {
    const char *name; /* unique: "block3.attn.qkv" */
    const char *op;   /* kind of operator: "linear" */
    uint32_t layer;   /* layer (block) that it belongs to; nodes of a layer are consecutive */
    uint32_t flags;   /* PST_NODE_* */
    uint64_t param_bytes;
    uint64_t saved_bytes;         /* kept for backward passes, per sample */
    uint64_t output_bytes;        /* its one output, per sample */
    uint64_t forward_work_bytes;  /* workspace of F at graph->batch samples */
    uint64_t backward_work_bytes; /* workspace of B and W at graph->batch samples */
    uint32_t first_in, n_in;      /* rows of graph->in_edges: edges that end here */
    uint32_t first_out, n_out;    /* rows of graph->out_edges: edges that start here */
};

/* Every out-edge of a node carries the node's one output. */
struct pst_edge {
    uint32_t from, to;
    uint64_t bytes; /* per sample where batched, else in all */
    uint32_t batched;
};

struct pst_graph_view {
    uint32_t size;
    uint32_t n_nodes, node_size; /* nodes are in topological order */
    uint32_t n_edges, edge_size;
    uint32_t batch; /* samples for which work bytes are stated */
    const void *nodes, *edges;
    const uint32_t *in_edges, *out_edges;
};

static inline const struct pst_node *pst_graph_node(const struct pst_graph_view *g, uint32_t i)
{
    return (const struct pst_node *)((const char *)g->nodes + (size_t)i * g->node_size);
}

static inline const struct pst_edge *pst_graph_edge(const struct pst_graph_view *g, uint32_t i)
{
    return (const struct pst_edge *)((const char *)g->edges + (size_t)i * g->edge_size);
}

#endif
