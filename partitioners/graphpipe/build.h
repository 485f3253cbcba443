/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe's recognition: graphs whose arcs carry blocks, being reduced to one arc.
 */
#ifndef GRAPHPIPE_BUILD_H
#define GRAPHPIPE_BUILD_H

#include "block.h"

/* A block under construction; a and b: the two blocks of a series or side by side. */
struct gp_node {
    uint32_t kind, a, b;
    uint32_t op;    /* series: between a and b */
    uint32_t links; /* edge: list in build.links */
    uint32_t depth; /* of nesting */
    int64_t work;   /* longest path inside */
};

struct gp_link {
    uint32_t edge, next; /* of the problem; of the list */
};

/* All memory of one recognition. */
struct gp_build {
    const struct part_problem *problem;
    const int64_t *work; /* [n] */
    uint32_t rule;
    struct gp_node *nodes;
    uint32_t n_nodes, room_nodes;
    struct gp_link *links;
    uint32_t n_links, room_links;
    uint32_t n_ops; /* problem's n + virtual ones so far */
    bool joined;    /* not by the two rules alone */
    uint32_t kernel[3], n_kernel;
};

struct gp_arc {
    uint32_t from, to; /* places; from = GP_NONE: gone */
    uint32_t block;
    uint32_t next_out, prev_out, next_in, prev_in;
};

/* The ends of a graph are its places 0 and 1. */
enum { GP_SOURCE = 0, GP_SINK = 1, GP_INNER = 2 };

struct gp_graph {
    uint32_t n, room; /* places */
    uint32_t *ops;    /* [room] operator of a place */
    uint32_t *first_out, *first_in, *n_out, *n_in;
    struct gp_arc *arcs;
    uint32_t n_arcs, room_arcs;
    uint32_t *slots; /* hash of arcs by ends; arc + 1 */
    uint32_t n_slots;
};

/* Building blocks. */
void gp_build_pair(struct gp_build *build, uint32_t kind, uint32_t a, uint32_t op, uint32_t b,
                   uint32_t *ret_node);
void gp_build_edge(struct gp_build *build, uint32_t links, uint32_t *ret_node);
void gp_build_link(struct gp_build *build, uint32_t edge, uint32_t *links);
void gp_build_virtual(struct gp_build *build, uint32_t *ret_op);

/* Room for n places inside and as many arcs; it grows by neither. */
void gp_graph_init(struct gp_graph *graph, uint32_t source, uint32_t sink, uint32_t n,
                   uint32_t n_arcs);
void gp_graph_finish(struct gp_graph *graph);
uint32_t gp_graph_place(struct gp_graph *graph, uint32_t op);
/* Beside an arc with the same ends it becomes one with it. */
void gp_graph_arc(struct gp_build *build, struct gp_graph *graph, uint32_t from, uint32_t to,
                  uint32_t block);
void gp_graph_drop(struct gp_graph *graph, uint32_t arc);
uint32_t gp_graph_find(const struct gp_graph *graph, uint32_t from, uint32_t to);
bool gp_graph_lives(const struct gp_graph *graph, uint32_t place);
/* Live places in topological order, source first, sink last; ret_order has room for all. */
void gp_graph_order(const struct gp_graph *graph, uint32_t *ret_order, uint32_t *ret_n);

/* Series and parallel rules until none applies. Is one arc from source to sink left? */
void gp_graph_reduce(struct gp_build *build, struct gp_graph *graph, bool *ret_done);
/* Virtual operators between completely joined layers; edges that others imply go. */
void gp_graph_join(struct gp_build *build, struct gp_graph *graph, bool *ret_changed);
/* Reduces, rewriting where that stops: the block of the whole graph. PST_ERR_UNSUPPORTED: the rule
   is GP_SP_REQUIRE; build.kernel is set. */
void gp_graph_solve(struct gp_build *build, struct gp_graph *graph, uint32_t *ret_block);
/* The inside of a stuck graph in an upper and a lower part with a synchronisation between them. */
void gp_graph_split(struct gp_build *build, struct gp_graph *graph, uint32_t *ret_block);

/* Blocks in their final form. */
void gp_tree_flatten(struct gp_build *build, uint32_t root, struct gp_tree *tree);

#endif
