/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that do not reduce: what lies between a place and its nearest common post-dominator is
 * solved on its own, so that the rest is rewritten no more than it must be.
 */
#include <string.h>

#include "build.h"

/* Order, and for every place its nearest dominator and post-dominator, as positions in the order.
 */
struct frame {
    uint32_t n;
    uint32_t *order, *at, *dom, *post;
    uint32_t *region; /* stamp of the region that a place is in */
};

static uint32_t meet(const uint32_t *up, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (a > b) {
            a = up[a];
        } else {
            b = up[b];
        }
    }
    return a;
}

static uint32_t meet_down(const uint32_t *down, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (a < b) {
            a = down[a];
        } else {
            b = down[b];
        }
    }
    return a;
}

static void frame_init(struct frame *f, const struct gp_graph *graph)
{
    uint32_t i, arc;

    memset(f, 0, sizeof *f);
    CALL_TAKE(f->order, (size_t)graph->n);
    CALL_TAKE(f->at, graph->n);
    CALL_TAKE(f->dom, (size_t)graph->n);
    CALL_TAKE(f->post, (size_t)graph->n);
    CALL_TAKE(f->region, graph->n);
    gp_graph_order(graph, f->order, &f->n);
    for (i = 0; i < f->n; i++) {
        f->at[f->order[i]] = i;
    }
    f->dom[0] = 0;
    for (i = 1; i < f->n; i++) {
        uint32_t up = GP_NONE;

        for (arc = graph->first_in[f->order[i]]; arc != GP_NONE; arc = graph->arcs[arc].next_in) {
            uint32_t from = f->at[graph->arcs[arc].from];

            up = up == GP_NONE ? from : meet(f->dom, up, from);
        }
        f->dom[i] = up;
    }
    f->post[f->n - 1] = f->n - 1;
    for (i = f->n - 1; i-- > 0;) {
        uint32_t down = GP_NONE;

        for (arc = graph->first_out[f->order[i]]; arc != GP_NONE; arc = graph->arcs[arc].next_out) {
            uint32_t to = f->at[graph->arcs[arc].to];

            down = down == GP_NONE ? to : meet_down(f->post, down, to);
        }
        f->post[i] = down;
    }
}

/* The places reachable from `from` without passing `to`, as a graph between the two; their arcs
   leave the old graph. `first`: only what hangs together with that arc of `from`. */
struct cut {
    struct gp_graph *graph;
    uint32_t from, to, stamp;
    uint32_t *region;             /* by place */
    uint32_t *list, n, *place_in; /* places inside; their places in the new graph */
};

static void take(struct cut *c, uint32_t place)
{
    if (place != c->from && place != c->to && c->region[place] != c->stamp) {
        c->region[place] = c->stamp;
        c->list[c->n++] = place;
    }
}

static uint32_t collect(struct cut *c, uint32_t first, bool whole)
{
    const struct gp_graph *g = c->graph;
    uint32_t at, arc, n_arcs = 0;

    c->n = 0;
    take(c, g->arcs[first].to);
    for (at = 0; at < c->n; at++) {
        for (arc = g->first_out[c->list[at]]; arc != GP_NONE; arc = g->arcs[arc].next_out) {
            take(c, g->arcs[arc].to);
            n_arcs++;
        }
        for (arc = g->first_in[c->list[at]]; whole && arc != GP_NONE; arc = g->arcs[arc].next_in) {
            take(c, g->arcs[arc].from);
            n_arcs += g->arcs[arc].from == c->from;
        }
    }
    return n_arcs;
}

static void move_arcs(struct gp_build *build, struct cut *c, struct gp_graph *part)
{
    struct gp_graph *g = c->graph;
    uint32_t i, pass;

    for (i = 0; i < c->n; i++) {
        c->place_in[c->list[i]] = gp_graph_place(part, g->ops[c->list[i]]);
    }
    for (i = 0; i < c->n; i++) {
        for (pass = 0; pass < 2; pass++) {
            uint32_t arc = pass == 0 ? g->first_in[c->list[i]] : g->first_out[c->list[i]];

            while (arc != GP_NONE) {
                const struct gp_arc a = g->arcs[arc];
                uint32_t from = a.from == c->from ? GP_SOURCE : c->place_in[a.from];
                uint32_t to = a.to == c->to ? GP_SINK : c->place_in[a.to];

                gp_graph_drop(g, arc);
                gp_graph_arc(build, part, from, to, a.block);
                arc = pass == 0 ? a.next_in : a.next_out;
            }
        }
    }
}

/* One part between `from` and `to`, solved, as one arc. */
static void solve_part(struct gp_build *build, struct cut *c, uint32_t first)
{
    struct gp_graph part;
    uint32_t n_arcs = collect(c, first, true), block;

    gp_graph_init(&part, c->graph->ops[c->from], c->graph->ops[c->to], c->n, n_arcs);
    move_arcs(build, c, &part);
    gp_graph_solve(build, &part, &block);
    gp_graph_finish(&part);
    gp_graph_arc(build, c->graph, c->from, c->to, block);
}

static void solve_region(struct gp_build *build, struct gp_graph *graph, struct frame *f,
                         uint32_t from, uint32_t to)
{
    struct cut c = {.graph = graph, .from = from, .to = to, .region = f->region};

    CALL_TAKE(c.list, (size_t)graph->n);
    CALL_TAKE(c.place_in, (size_t)graph->n);
    while (true) {
        uint32_t arc = graph->first_out[from];

        /* to != from's direct arc, which is a branch of its own */
        while (arc != GP_NONE && graph->arcs[arc].to == to) {
            arc = graph->arcs[arc].next_out;
        }
        if (arc == GP_NONE) {
            break;
        }
        c.stamp++;
        solve_part(build, &c, arc);
    }
    call_free(c.list);
    call_free(c.place_in);
    memset(f->region, 0, (size_t)graph->n * sizeof *f->region);
}

/* Regions that hold no other one: solved in one sweep. */
static void solve_regions(struct gp_build *build, struct gp_graph *graph, bool *ret_changed)
{
    struct call_region region;
    struct frame f;
    uint32_t i, last = 0;

    call_enter(&region);
    frame_init(&f, graph);
    *ret_changed = false;
    for (i = f.n; i-- > 0;) {
        uint32_t post = f.post[i];
        bool mutual = post != i && f.dom[post] == i;
        bool whole = f.order[i] == GP_SOURCE && f.order[post] == GP_SINK;

        if (!mutual || graph->n_out[f.order[i]] < 2 || whole) {
            continue;
        }
        /* later starts are inside, unless this region ends before them */
        if (last != 0 && post > last) {
            continue;
        }
        solve_region(build, graph, &f, f.order[i], f.order[post]);
        last = i;
        *ret_changed = true;
    }
    call_leave(&region);
}

/* Places inside that hang together, and whether these are all of them. */
static void is_one_piece(const struct gp_graph *graph, bool *ret_one, uint32_t *ret_arc)
{
    struct cut c = {
        .graph = (struct gp_graph *)graph, .from = GP_SOURCE, .to = GP_SINK, .stamp = 1};
    uint32_t place, live = 0, arc = graph->first_out[GP_SOURCE];
    bool direct = gp_graph_find(graph, GP_SOURCE, GP_SINK) != GP_NONE;
    struct call_region region;

    call_enter(&region);
    CALL_TAKE(c.list, (size_t)graph->n);
    CALL_TAKE(c.region, graph->n);
    while (graph->arcs[arc].to == GP_SINK) {
        arc = graph->arcs[arc].next_out;
    }
    collect(&c, arc, true);
    for (place = GP_INNER; place < graph->n; place++) {
        live += gp_graph_lives(graph, place);
    }
    *ret_one = c.n == live && !direct;
    *ret_arc = arc;
    call_leave(&region);
}

static void note_kernel(struct gp_build *build, const struct gp_graph *graph)
{
    uint32_t place, n = 0;

    for (place = GP_INNER; place < graph->n; place++) {
        if (gp_graph_lives(graph, place) && graph->ops[place] < build->problem->n) {
            if (n < 3) {
                build->kernel[n] = graph->ops[place];
            }
            n++;
        }
    }
    build->n_kernel = n;
}

/* Nothing reduces any more, and no part is smaller than the whole. */
static void solve_stuck(struct gp_build *build, struct gp_graph *graph, uint32_t *ret_block,
                        bool *ret_done)
{
    struct frame f = {0};
    uint32_t arc;
    bool one;

    is_one_piece(graph, &one, &arc);
    *ret_done = false;
    if (!one) {
        CALL_TAKE(f.region, graph->n);
        solve_region(build, graph, &f, GP_SOURCE, GP_SINK);
        call_free(f.region);
        return;
    }
    if (build->n_kernel == 0) {
        note_kernel(build, graph);
    }
    if (build->rule == GP_SP_REQUIRE) {
        call_end(PST_ERR_UNSUPPORTED);
    }
    *ret_done = true;
    gp_graph_split(build, graph, ret_block);
}

void gp_graph_solve(struct gp_build *build, struct gp_graph *graph, uint32_t *ret_block)
{
    for (;;) {
        bool done, changed = false;

        call_go_on(build->problem->host);
        gp_graph_reduce(build, graph, &done);
        if (!done) {
            gp_graph_join(build, graph, &changed);
        }
        if (!done && !changed) {
            solve_regions(build, graph, &changed);
        }
        if (!done && !changed) {
            solve_stuck(build, graph, ret_block, &done);
            if (done) {
                return;
            }
        }
        if (done) {
            *ret_block = graph->arcs[graph->first_out[GP_SOURCE]].block;
            return;
        }
    }
}
