/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that no rule reduces is cut in an upper and a lower part, with a point of
 * synchronisation between them: everything above comes before everything below. What is valid then
 * was valid before. After the conversions of task graphs in Escribano, Gonzalez et al. and in
 * SP-ization tools: layers (strata), layers of what hangs together, or the cut whose two parts
 * have the least sum of longest paths.
 */
#include <stdlib.h>
#include <string.h>

#include "build.h"

#define MOST_CUTS 48 /* that the flexible rule tries */

struct split {
    const struct gp_build *build;
    const struct gp_graph *graph;
    uint32_t n, *order;
    int64_t *finish, *tail, *weight; /* by place: longest path to its end; from it; own work */
    uint32_t *layer;
    bool *lower;
};

static void split_init(struct split *s, const struct gp_build *build, const struct gp_graph *graph)
{
    uint32_t i, arc;

    memset(s, 0, sizeof *s);
    s->build = build;
    s->graph = graph;
    CALL_TAKE(s->order, (size_t)graph->n);
    CALL_TAKE(s->finish, graph->n);
    CALL_TAKE(s->tail, graph->n);
    CALL_TAKE(s->weight, graph->n);
    CALL_TAKE(s->layer, graph->n);
    CALL_TAKE(s->lower, graph->n);
    gp_graph_order(graph, s->order, &s->n);
    for (i = 0; i < s->n; i++) {
        uint32_t place = s->order[i];

        if (place >= GP_INNER && graph->ops[place] < build->problem->n) {
            s->weight[place] = build->work[graph->ops[place]];
        }
        for (arc = graph->first_in[place]; arc != GP_NONE; arc = graph->arcs[arc].next_in) {
            uint32_t from = graph->arcs[arc].from;
            int64_t path = s->finish[from] + build->nodes[graph->arcs[arc].block].work;

            s->finish[place] = path > s->finish[place] ? path : s->finish[place];
            if (s->layer[from] + 1 > s->layer[place]) {
                s->layer[place] = s->layer[from] + 1;
            }
        }
        s->finish[place] += s->weight[place];
    }
}

/* Longest path above the cut plus longest path below it. */
static int64_t cut_cost(struct split *s)
{
    const struct gp_graph *g = s->graph;
    int64_t above = 0, below = 0;
    uint32_t i, arc;

    for (i = s->n; i-- > 0;) {
        uint32_t place = s->order[i];
        int64_t most = 0;

        if (place < GP_INNER) {
            continue;
        }
        if (!s->lower[place]) {
            above = s->finish[place] > above ? s->finish[place] : above;
            continue;
        }
        for (arc = g->first_out[place]; arc != GP_NONE; arc = g->arcs[arc].next_out) {
            int64_t path = s->build->nodes[g->arcs[arc].block].work;

            path += g->arcs[arc].to >= GP_INNER ? s->tail[g->arcs[arc].to] : 0;
            most = path > most ? path : most;
        }
        s->tail[place] = most + s->weight[place];
        below = s->tail[place] > below ? s->tail[place] : below;
    }
    return above + below;
}

static uint32_t put_by_layer(struct split *s, uint32_t layer)
{
    uint32_t i, n = 0;

    for (i = 0; i < s->n; i++) {
        s->lower[s->order[i]] = s->order[i] >= GP_INNER && s->layer[s->order[i]] > layer;
        n += s->lower[s->order[i]];
    }
    return n;
}

static uint32_t put_by_finish(struct split *s, int64_t finish)
{
    const struct gp_graph *g = s->graph;
    uint32_t i, n = 0, arc;

    for (i = 0; i < s->n; i++) {
        uint32_t place = s->order[i];
        bool lower = s->finish[place] > finish;

        for (arc = g->first_in[place]; arc != GP_NONE; arc = g->arcs[arc].next_in) {
            lower = lower || s->lower[g->arcs[arc].from]; /* operators without work */
        }
        s->lower[place] = place >= GP_INNER && lower;
        n += s->lower[place];
    }
    return n;
}

static void middle_layer(struct split *s)
{
    put_by_layer(s, (s->layer[GP_SINK] - 1) / 2);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The best of many cuts, by finish time and by layer. */
static void flexible(struct split *s)
{
    uint32_t i, n = 0, inner = s->n - 2, layer, step;
    int64_t *finish = call_alloc((size_t)s->n, sizeof *finish), best = INT64_MAX, best_finish = 0;
    uint32_t best_layer = GP_NONE;

    for (i = 0; i < s->n; i++) {
        if (s->order[i] >= GP_INNER) {
            finish[n++] = s->finish[s->order[i]];
        }
    }
    qsort(finish, n, sizeof *finish, by_value);
    step = n / MOST_CUTS + 1;
    for (i = step - 1; i < n; i += step) {
        uint32_t lower = put_by_finish(s, finish[i]);
        int64_t cost = lower == 0 || lower == inner ? INT64_MAX : cut_cost(s);

        if (cost < best) {
            best = cost;
            best_finish = finish[i];
        }
    }
    step = s->layer[GP_SINK] / MOST_CUTS + 1;
    for (layer = 1; layer + 1 < s->layer[GP_SINK]; layer += step) {
        int64_t cost;

        put_by_layer(s, layer);
        cost = cut_cost(s);
        if (cost < best) {
            best = cost;
            best_layer = layer;
        }
    }
    if (best == INT64_MAX) {
        middle_layer(s);
    } else if (best_layer != GP_NONE) {
        put_by_layer(s, best_layer);
    } else {
        put_by_finish(s, best_finish);
    }
}

struct halves {
    struct gp_graph part[2];
    uint32_t *place_in;
};

static bool is_lower(const struct split *s, uint32_t place)
{
    return place == GP_SINK || (place != GP_SOURCE && s->lower[place]);
}

static uint32_t place_of(const struct halves *h, uint32_t place)
{
    return place < GP_INNER ? place : h->place_in[place];
}

/* An arc across the cut: a bare edge on both sides; a block goes up. */
static void cross(struct gp_build *build, struct halves *h, const struct gp_arc *arc)
{
    uint32_t bare, upper = arc->block, lower = arc->block;

    if (build->nodes[arc->block].kind != GP_EDGE) {
        gp_build_edge(build, GP_NONE, &bare);
        lower = bare;
    }
    gp_graph_arc(build, &h->part[0], place_of(h, arc->from), GP_SINK, upper);
    gp_graph_arc(build, &h->part[1], GP_SOURCE, place_of(h, arc->to), lower);
}

static void distribute(struct gp_build *build, const struct split *s, struct halves *h)
{
    const struct gp_graph *g = s->graph;
    uint32_t i, arc;

    for (i = 0; i < s->n; i++) {
        if (s->order[i] >= GP_INNER) {
            h->place_in[s->order[i]] =
                gp_graph_place(&h->part[s->lower[s->order[i]]], g->ops[s->order[i]]);
        }
    }
    for (i = 0; i < s->n; i++) {
        for (arc = g->first_out[s->order[i]]; arc != GP_NONE; arc = g->arcs[arc].next_out) {
            const struct gp_arc *a = &g->arcs[arc];
            bool from = is_lower(s, a->from), to = is_lower(s, a->to);

            if (from == to) {
                gp_graph_arc(build, &h->part[from], place_of(h, a->from), place_of(h, a->to),
                             a->block);
            } else {
                cross(build, h, a);
            }
        }
    }
}

/* Layers go on being cut until each is alone, also where the part would reduce. */
static void solve_half(struct gp_build *build, struct gp_graph *part, uint32_t *ret_block)
{
    uint32_t *order, n, i;
    bool alone = true;

    if (build->rule == GP_SP_STRATA) {
        CALL_TAKE(order, (size_t)part->n);
        gp_graph_order(part, order, &n);
        for (i = 0; i < n; i++) {
            uint32_t arc = part->first_out[order[i]];

            for (; order[i] >= GP_INNER && arc != GP_NONE; arc = part->arcs[arc].next_out) {
                alone = alone && part->arcs[arc].to == GP_SINK;
            }
        }
    }
    if (alone) {
        gp_graph_solve(build, part, ret_block);
        return;
    }
    gp_graph_split(build, part, ret_block);
}

static void solve_halves(struct gp_build *build, const struct split *s, uint32_t *ret_block)
{
    const struct gp_graph *g = s->graph;
    struct halves h = {.place_in = call_alloc((size_t)g->n, sizeof *h.place_in)};
    uint32_t middle, blocks[2], i;

    gp_build_virtual(build, &middle);
    gp_graph_init(&h.part[0], g->ops[GP_SOURCE], middle, g->n, g->n_arcs);
    gp_graph_init(&h.part[1], middle, g->ops[GP_SINK], g->n, g->n_arcs);
    distribute(build, s, &h);
    for (i = 0; i < 2; i++) {
        solve_half(build, &h.part[i], &blocks[i]);
        gp_graph_finish(&h.part[i]); /* before the other half takes room */
    }
    gp_build_pair(build, GP_SERIES, blocks[0], middle, blocks[1], ret_block);
}

void gp_graph_split(struct gp_build *build, struct gp_graph *graph, uint32_t *ret_block)
{
    struct call_region region;
    struct split s;

    call_enter(&region);
    split_init(&s, build, graph);
    if (build->rule == GP_SP_FLEXIBLE && s.n <= 1000) {
        flexible(&s);
    } else {
        middle_layer(&s);
    }
    solve_halves(build, &s, ret_block);
    call_leave(&region);
}
