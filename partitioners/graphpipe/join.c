/* SPDX-License-Identifier: Apache-2.0
 *
 * Where two layers of operators are completely joined, a virtual operator between them says the
 * same with fewer edges, and vertex-series-parallel graphs become reducible. Edges that others
 * imply would hide such layers.
 */

#include "build.h"

/* Beyond this, finding implied edges takes too long. */
#define MOST_PLACES 2000

static bool is_bare(const struct gp_build *build, const struct gp_graph *graph, uint32_t arc)
{
    return build->nodes[graph->arcs[arc].block].kind == GP_EDGE;
}

/* Are the successors of a those of b, all by bare edges? */
static bool same_out(const struct gp_build *build, const struct gp_graph *graph, uint32_t a,
                     uint32_t b)
{
    uint32_t arc;

    if (graph->n_out[a] != graph->n_out[b]) {
        return false;
    }
    for (arc = graph->first_out[a]; arc != GP_NONE; arc = graph->arcs[arc].next_out) {
        uint32_t other = gp_graph_find(graph, b, graph->arcs[arc].to);

        if (other == GP_NONE || !is_bare(build, graph, other) || !is_bare(build, graph, arc)) {
            return false;
        }
    }
    return true;
}

static bool same_in(const struct gp_build *build, const struct gp_graph *graph, uint32_t a,
                    uint32_t b)
{
    uint32_t arc;

    if (graph->n_in[a] != graph->n_in[b]) {
        return false;
    }
    for (arc = graph->first_in[a]; arc != GP_NONE; arc = graph->arcs[arc].next_in) {
        uint32_t other = gp_graph_find(graph, graph->arcs[arc].from, b);

        if (other == GP_NONE || !is_bare(build, graph, other)) {
            return false;
        }
    }
    return true;
}

/* Do all successors of `place` have the same predecessors, and these the same successors? */
static bool is_complete(const struct gp_build *build, const struct gp_graph *graph, uint32_t place)
{
    uint32_t arc, to;

    if (graph->n_out[place] < 2) {
        return false;
    }
    to = graph->arcs[graph->first_out[place]].to;
    if (graph->n_in[to] < 2) {
        return false;
    }
    for (arc = graph->first_out[place]; arc != GP_NONE; arc = graph->arcs[arc].next_out) {
        if (!same_in(build, graph, to, graph->arcs[arc].to)) {
            return false;
        }
    }
    for (arc = graph->first_in[to]; arc != GP_NONE; arc = graph->arcs[arc].next_in) {
        if (!same_out(build, graph, place, graph->arcs[arc].from)) {
            return false;
        }
    }
    return true;
}

/* Links of all arcs that start (or end) at a place, as one bare edge. */
static void gather(struct gp_build *build, const struct gp_graph *graph, uint32_t place, bool out,
                   uint32_t *ret_block)
{
    uint32_t arc = out ? graph->first_out[place] : graph->first_in[place], links = GP_NONE;

    while (arc != GP_NONE) {
        uint32_t link = build->nodes[graph->arcs[arc].block].links;

        for (; link != GP_NONE; link = build->links[link].next) {
            gp_build_link(build, build->links[link].edge, &links);
        }
        arc = out ? graph->arcs[arc].next_out : graph->arcs[arc].next_in;
    }
    gp_build_edge(build, links, ret_block);
}

struct layer {
    uint32_t n, *places, *blocks;
};

static void layer_of(struct gp_build *build, const struct gp_graph *graph, uint32_t place,
                     bool upper, struct layer *layer)
{
    uint32_t n = upper ? graph->n_in[place] : graph->n_out[place];
    uint32_t arc = upper ? graph->first_in[place] : graph->first_out[place];

    CALL_TAKE(layer->places, (size_t)n);
    CALL_TAKE(layer->blocks, (size_t)n);
    while (arc != GP_NONE) {
        uint32_t i = layer->n++;

        layer->places[i] = upper ? graph->arcs[arc].from : graph->arcs[arc].to;
        gather(build, graph, layer->places[i], upper, &layer->blocks[i]);
        arc = upper ? graph->arcs[arc].next_in : graph->arcs[arc].next_out;
    }
}

/* A virtual operator between the predecessors and the successors of a complete join. */
static void put_between(struct gp_build *build, struct gp_graph *graph, uint32_t place)
{
    struct layer upper = {0}, lower = {0};
    uint32_t op, middle, i, to = graph->arcs[graph->first_out[place]].to;

    layer_of(build, graph, to, true, &upper);
    layer_of(build, graph, place, false, &lower);
    gp_build_virtual(build, &op);
    if (graph->n == graph->room) {
        call_end(PST_ERR_BUG);
    }
    middle = gp_graph_place(graph, op);
    for (i = 0; i < upper.n; i++) {
        while (graph->first_out[upper.places[i]] != GP_NONE) {
            gp_graph_drop(graph, graph->first_out[upper.places[i]]);
        }
    }
    for (i = 0; i < upper.n; i++) {
        gp_graph_arc(build, graph, upper.places[i], middle, upper.blocks[i]);
    }
    for (i = 0; i < lower.n; i++) {
        gp_graph_arc(build, graph, middle, lower.places[i], lower.blocks[i]);
    }
    call_free(upper.places);
    call_free(upper.blocks);
    call_free(lower.places);
    call_free(lower.blocks);
}

static void join_all(struct gp_build *build, struct gp_graph *graph, bool *changed)
{
    uint32_t place, n = graph->n;

    for (place = 0; place < n; place++) {
        if (is_complete(build, graph, place)) {
            put_between(build, graph, place);
            *changed = true;
        }
    }
}

/* Moves the bytes of an implied edge to another one that leaves the same operator. */
static void drop_implied(struct gp_build *build, struct gp_graph *graph, uint32_t arc)
{
    uint32_t from = graph->arcs[arc].from, link = build->nodes[graph->arcs[arc].block].links, other;

    gp_graph_drop(graph, arc);
    for (other = graph->first_out[from]; other != GP_NONE; other = graph->arcs[other].next_out) {
        struct gp_node *node = &build->nodes[graph->arcs[other].block];

        if (node->kind == GP_EDGE) {
            uint32_t links = node->links;

            for (; link != GP_NONE; link = build->links[link].next) {
                gp_build_link(build, build->links[link].edge, &links);
            }
            build->nodes[graph->arcs[other].block].links = links;
            break;
        }
    }
}

/* Does a path of two or more arcs lead where the arc leads? reach: rows of bits. */
static bool is_implied(const struct gp_graph *graph, uint32_t arc, const uint64_t *reach,
                       size_t words)
{
    uint32_t to = graph->arcs[arc].to, other;

    for (other = graph->first_out[graph->arcs[arc].from]; other != GP_NONE;
         other = graph->arcs[other].next_out) {
        uint32_t via = graph->arcs[other].to;

        if (via != to && (reach[via * words + to / 64] >> to % 64 & 1) != 0) {
            return true;
        }
    }
    return false;
}

static void drop_all_implied(struct gp_build *build, struct gp_graph *graph, bool *changed)
{
    size_t words = (graph->n + 63) / 64, w;
    uint64_t *reach = call_alloc(words * graph->n, sizeof *reach);
    uint32_t *order = call_alloc((size_t)graph->n, sizeof *order);
    uint32_t n = 0, i, arc, n_arcs = graph->n_arcs;

    gp_graph_order(graph, order, &n);
    for (i = n; i-- > 0;) {
        uint64_t *row = reach + order[i] * words;

        for (arc = graph->first_out[order[i]]; arc != GP_NONE; arc = graph->arcs[arc].next_out) {
            uint32_t to = graph->arcs[arc].to;

            for (w = 0; w < words; w++) {
                row[w] |= reach[to * words + w];
            }
            row[to / 64] |= UINT64_C(1) << to % 64;
        }
    }
    for (arc = 0; arc < n_arcs; arc++) {
        if (graph->arcs[arc].from != GP_NONE && is_bare(build, graph, arc) &&
            is_implied(graph, arc, reach, words)) {
            drop_implied(build, graph, arc);
            *changed = true;
        }
    }
    call_free(reach);
    call_free(order);
}

void gp_graph_join(struct gp_build *build, struct gp_graph *graph, bool *ret_changed)
{
    bool changed = false;

    join_all(build, graph, &changed);
    if (!changed && graph->n <= MOST_PLACES) {
        drop_all_implied(build, graph, &changed);
    }
    build->joined = build->joined || changed;
    *ret_changed = changed;
}
