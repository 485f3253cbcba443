/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs whose arcs carry blocks: arcs by ends, and the series and parallel rules.
 */
#include <string.h>

#include "build.h"

static void add_node(struct gp_build *build, const struct gp_node *node, uint32_t *ret_node)
{
    CALL_MAKE_ROOM(build->nodes, build->n_nodes, build->room_nodes);
    build->nodes[build->n_nodes] = *node;
    *ret_node = build->n_nodes++;
}

static uint32_t depth_under(const struct gp_build *build, uint32_t kind, uint32_t node)
{
    return build->nodes[node].depth + (build->nodes[node].kind != kind);
}

void gp_build_pair(struct gp_build *build, uint32_t kind, uint32_t a, uint32_t op, uint32_t b,
                   uint32_t *ret_node)
{
    uint32_t left = depth_under(build, kind, a), right = depth_under(build, kind, b);
    int64_t x = build->nodes[a].work, y = build->nodes[b].work;
    struct gp_node node = {kind, a, b, op, GP_NONE, left > right ? left : right, x > y ? x : y};

    if (kind == GP_SERIES) {
        node.work = x + y + (op < build->problem->n ? build->work[op] : 0);
    }

    add_node(build, &node, ret_node);
}

void gp_build_edge(struct gp_build *build, uint32_t links, uint32_t *ret_node)
{
    struct gp_node node = {GP_EDGE, GP_NONE, GP_NONE, GP_NONE, links, 0, 0};

    add_node(build, &node, ret_node);
}

void gp_build_link(struct gp_build *build, uint32_t edge, uint32_t *links)
{
    CALL_MAKE_ROOM(build->links, build->n_links, build->room_links);
    build->links[build->n_links] = (struct gp_link){edge, *links};
    *links = build->n_links++;
}

void gp_build_virtual(struct gp_build *build, uint32_t *ret_op)
{
    if (build->n_ops >= GP_NONE - 1) {
        call_end(PST_ERR_NOMEM);
    }
    *ret_op = build->n_ops++;
}

void gp_graph_init(struct gp_graph *graph, uint32_t source, uint32_t sink, uint32_t n,
                   uint32_t n_arcs)
{
    size_t room = (size_t)n * 2 + 4, arcs = (size_t)n_arcs * 2 + 2 * room, slots = 16;

    memset(graph, 0, sizeof *graph);
    while (slots < 2 * arcs) {
        slots *= 2;
    }
    if (slots > UINT32_MAX / 2) {
        call_end(PST_ERR_NOMEM);
    }
    graph->room = (uint32_t)room;
    graph->room_arcs = (uint32_t)arcs;
    graph->n_slots = (uint32_t)slots;
    CALL_TAKE(graph->ops, room);
    CALL_TAKE(graph->first_out, room);
    CALL_TAKE(graph->first_in, room);
    CALL_TAKE(graph->n_out, room);
    CALL_TAKE(graph->n_in, room);
    CALL_TAKE(graph->arcs, arcs);
    CALL_TAKE(graph->slots, slots);
    memset(graph->first_out, 0xff, room * sizeof *graph->first_out);
    memset(graph->first_in, 0xff, room * sizeof *graph->first_in);
    graph->ops[GP_SOURCE] = source;
    graph->ops[GP_SINK] = sink;
    graph->n = GP_INNER;
}

void gp_graph_finish(struct gp_graph *graph)
{
    call_free(graph->ops);
    call_free(graph->first_out);
    call_free(graph->first_in);
    call_free(graph->n_out);
    call_free(graph->n_in);
    call_free(graph->arcs);
    call_free(graph->slots);
    memset(graph, 0, sizeof *graph);
}

uint32_t gp_graph_place(struct gp_graph *graph, uint32_t op)
{
    graph->ops[graph->n] = op;
    return graph->n++;
}

bool gp_graph_lives(const struct gp_graph *graph, uint32_t place)
{
    return graph->n_in[place] + graph->n_out[place] > 0;
}

static uint32_t slot_of(const struct gp_graph *graph, uint32_t from, uint32_t to)
{
    uint64_t key = ((uint64_t)from << 32 | to) * 0x9E3779B97F4A7C15u;

    return (uint32_t)(key >> 32) & (graph->n_slots - 1);
}

uint32_t gp_graph_find(const struct gp_graph *graph, uint32_t from, uint32_t to)
{
    uint32_t slot = slot_of(graph, from, to);

    for (; graph->slots[slot] != 0; slot = (slot + 1) & (graph->n_slots - 1)) {
        const struct gp_arc *arc = &graph->arcs[graph->slots[slot] - 1];

        if (arc->from == from && arc->to == to) {
            return graph->slots[slot] - 1;
        }
    }
    return GP_NONE;
}

static void insert(struct gp_graph *graph, uint32_t from, uint32_t to, uint32_t block)
{
    uint32_t slot = slot_of(graph, from, to), arc = graph->n_arcs++;
    struct gp_arc *a = &graph->arcs[arc];

    *a = (struct gp_arc){.from = from,
                         .to = to,
                         .block = block,
                         .next_out = graph->first_out[from],
                         .prev_out = GP_NONE,
                         .next_in = graph->first_in[to],
                         .prev_in = GP_NONE};
    if (a->next_out != GP_NONE) {
        graph->arcs[a->next_out].prev_out = arc;
    }
    if (a->next_in != GP_NONE) {
        graph->arcs[a->next_in].prev_in = arc;
    }
    graph->first_out[from] = arc;
    graph->first_in[to] = arc;
    graph->n_out[from]++;
    graph->n_in[to]++;
    while (graph->slots[slot] != 0) {
        slot = (slot + 1) & (graph->n_slots - 1);
    }
    graph->slots[slot] = arc + 1;
}

void gp_graph_arc(struct gp_build *build, struct gp_graph *graph, uint32_t from, uint32_t to,
                  uint32_t block)
{
    uint32_t beside = gp_graph_find(graph, from, to);

    if (beside != GP_NONE) {
        gp_build_pair(build, GP_PARALLEL, graph->arcs[beside].block, GP_NONE, block,
                      &graph->arcs[beside].block);
        return;
    }
    if (graph->n_arcs == graph->room_arcs) {
        call_end(PST_ERR_BUG);
    }
    insert(graph, from, to, block);
}

void gp_graph_drop(struct gp_graph *graph, uint32_t arc)
{
    struct gp_arc *a = &graph->arcs[arc];

    if (a->prev_out == GP_NONE) {
        graph->first_out[a->from] = a->next_out;
    } else {
        graph->arcs[a->prev_out].next_out = a->next_out;
    }
    if (a->next_out != GP_NONE) {
        graph->arcs[a->next_out].prev_out = a->prev_out;
    }
    if (a->prev_in == GP_NONE) {
        graph->first_in[a->to] = a->next_in;
    } else {
        graph->arcs[a->prev_in].next_in = a->next_in;
    }
    if (a->next_in != GP_NONE) {
        graph->arcs[a->next_in].prev_in = a->prev_in;
    }
    graph->n_out[a->from]--;
    graph->n_in[a->to]--;
    a->from = GP_NONE;
}

void gp_graph_order(const struct gp_graph *graph, uint32_t *ret_order, uint32_t *ret_n)
{
    uint32_t *waits = call_alloc((size_t)graph->n, sizeof *waits);
    uint32_t at = 0, n = 0, arc;

    memcpy(waits, graph->n_in, (size_t)graph->n * sizeof *waits);
    ret_order[n++] = GP_SOURCE;
    for (; at < n; at++) {
        for (arc = graph->first_out[ret_order[at]]; arc != GP_NONE;
             arc = graph->arcs[arc].next_out) {
            if (--waits[graph->arcs[arc].to] == 0) {
                ret_order[n++] = graph->arcs[arc].to;
            }
        }
    }
    call_free(waits);
    *ret_n = n;
}

/* One operator between two arcs: they become one. Puts ends that may be next on the list. */
static void contract(struct gp_build *build, struct gp_graph *graph, uint32_t place)
{
    uint32_t in = graph->first_in[place], out = graph->first_out[place], block;
    uint32_t from = graph->arcs[in].from, to = graph->arcs[out].to;

    gp_build_pair(build, GP_SERIES, graph->arcs[in].block, graph->ops[place],
                  graph->arcs[out].block, &block);
    gp_graph_drop(graph, in);
    gp_graph_drop(graph, out);
    gp_graph_arc(build, graph, from, to, block);
    /* gone arcs fill room that the new one needs: at most one for each operator */
}

static bool is_link(const struct gp_graph *graph, uint32_t place)
{
    return place >= GP_INNER && graph->n_in[place] == 1 && graph->n_out[place] == 1;
}

void gp_graph_reduce(struct gp_build *build, struct gp_graph *graph, bool *ret_done)
{
    uint32_t *list = call_alloc((size_t)graph->n * 3 + 1, sizeof *list);
    uint32_t n = 0, place;

    for (place = graph->n; place-- > GP_INNER;) {
        if (is_link(graph, place)) {
            list[n++] = place;
        }
    }
    while (n > 0) {
        uint32_t ends[2];

        place = list[--n];
        if (!is_link(graph, place)) {
            continue;
        }
        ends[0] = graph->arcs[graph->first_in[place]].from;
        ends[1] = graph->arcs[graph->first_out[place]].to;
        contract(build, graph, place);
        for (place = 0; place < 2; place++) {
            if (is_link(graph, ends[place])) {
                list[n++] = ends[place];
            }
        }
    }
    call_free(list);
    *ret_done = graph->n_out[GP_SOURCE] == 1 && graph->n_in[GP_SINK] == 1 &&
                graph->arcs[graph->first_out[GP_SOURCE]].to == GP_SINK;
}
