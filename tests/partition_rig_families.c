/* SPDX-License-Identifier: Apache-2.0
 *
 * Families of graphs.
 */

#include "partition_rig.h"

void rig_chain(struct rig_graph *g, uint32_t n)
{
    rig_graph_init(g, n);
    g->series_parallel = true;
    for (uint32_t v = 0; v + 1 < n; v++) {
        rig_edge(g, v, v + 1, 0);
    }
}

void rig_branches(struct rig_graph *g, uint32_t k, const uint32_t *lens, uint32_t head,
                  uint32_t tail, bool skip)
{
    uint32_t n = head + tail, at = head, join;

    for (uint32_t i = 0; i < k; i++) {
        n += lens[i];
    }
    rig_graph_init(g, n);
    g->series_parallel = true;
    join = n - tail;
    for (uint32_t v = 0; v + 1 < head; v++) {
        rig_edge(g, v, v + 1, 0);
    }
    for (uint32_t i = 0; i < k; i++) {
        for (uint32_t v = 0; v < lens[i]; v++, at++) {
            if (v > 0) {
                rig_edge(g, at - 1, at, 0);
            } else if (head > 0) {
                rig_edge(g, head - 1, at, 0);
            }
        }
        if (tail > 0) {
            rig_edge(g, at - 1, join, 0);
        }
    }
    if (skip && head > 0 && tail > 0) {
        rig_edge(g, head - 1, join, 0);
    }
    for (uint32_t v = join; v + 1 < n; v++) {
        rig_edge(g, v, v + 1, 0);
    }
    rig_sort(g);
}

struct nest {
    struct rig_graph *graph;
    uint64_t *state;
    uint32_t q, percent, next; /* next: id of the next op */
};

/* n ops in series behind op `before` (UINT32_MAX: none); the last one. */
static uint32_t series(struct nest *nest, uint32_t n, uint32_t depth, uint32_t before)
{
    uint32_t left = n;

    while (left > 0) {
        uint32_t op;

        if (depth > 0 && left >= 3 && rig_draw(nest->state, 0, 99) < nest->percent) {
            uint32_t inside = (uint32_t)rig_draw(nest->state, 2, left - 1);
            uint32_t most = nest->q < inside ? nest->q : inside;
            uint32_t children = (uint32_t)rig_draw(nest->state, 2, most), i;
            uint32_t ends[64];

            children = children < 64 ? children : 64;
            left -= inside;
            for (i = 0; i < children; i++) {
                uint32_t rest = children - 1 - i;
                uint32_t mine =
                    rest == 0 ? inside : (uint32_t)rig_draw(nest->state, 1, inside - rest);

                inside -= mine;
                ends[i] = series(nest, mine, depth - 1, before);
            }
            op = nest->next++;
            for (i = 0; i < children; i++) {
                rig_edge(nest->graph, ends[i], op, 0);
            }
        } else {
            op = nest->next++;
            if (before != UINT32_MAX) {
                rig_edge(nest->graph, before, op, 0);
            }
        }
        before = op;
        left--;
    }
    return before;
}

void rig_nested(struct rig_graph *g, uint32_t n, uint32_t q, uint32_t depth, uint32_t percent,
                uint64_t *state)
{
    struct nest nest = {g, state, q, percent, 0};

    rig_graph_init(g, n);
    g->series_parallel = true;
    series(&nest, n, depth, UINT32_MAX);
    rig_sort(g);
}

static void edges_of(struct rig_graph *g, const uint32_t (*edges)[2], uint32_t n)
{
    for (uint32_t e = 0; e < n; e++) {
        rig_edge(g, edges[e][0], edges[e][1], 0);
    }
}

void rig_special(struct rig_graph *g, int kind, uint32_t size)
{
    static const uint32_t n_shape[][2] = {{0, 2}, {0, 3}, {1, 3}};
    static const uint32_t w_shape[][2] = {{0, 3}, {1, 3}, {1, 4}, {2, 4}};
    static const uint32_t bridge[][2] = {{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}};

    switch (kind) {
    case RIG_N:
        rig_graph_init(g, 4);
        edges_of(g, n_shape, 3);
        break;
    case RIG_W:
        rig_graph_init(g, 5);
        edges_of(g, w_shape, 4);
        break;
    case RIG_BRIDGE:
        rig_graph_init(g, 4);
        edges_of(g, bridge, 5);
        break;
    case RIG_UNET: /* nested long edges: series-parallel */
        rig_chain(g, size);
        for (uint32_t v = 0; v + 1 < size - 1 - v; v++) {
            rig_edge(g, v, size - 1 - v, 0);
        }
        break;
    default:
        rig_graph_init(g, size * size);
        for (uint32_t v = 0; v < size * size; v++) {
            if (v % size + 1 < size) {
                rig_edge(g, v, v + 1, 0);
            }
            if (v + size < size * size) {
                rig_edge(g, v, v + size, 0);
            }
        }
        g->series_parallel = size <= 2;
    }
    rig_sort(g);
}

void rig_layered(struct rig_graph *g, uint32_t n, uint32_t width, uint32_t fan_in, uint32_t span,
                 uint64_t *state)
{
    rig_graph_init(g, n);
    for (uint32_t v = 1; v < n; v++) {
        uint32_t reach = width * span < v ? width * span : v, taken[64];
        uint32_t k = (uint32_t)rig_draw(state, 1, fan_in), i, j;

        k = k < reach ? k : reach;
        k = k < 64 ? k : 64;
        for (i = 0; i < k; i++) {
            bool again = true;

            while (again) {
                taken[i] = v - 1 - (uint32_t)rig_draw(state, 0, reach - 1);
                for (j = 0, again = false; j < i; j++) {
                    again = again || taken[j] == taken[i];
                }
            }
            rig_edge(g, taken[i], v, 0);
        }
    }
    rig_sort(g);
}

void rig_nearsp(struct rig_graph *g, uint32_t n, uint32_t permille, uint64_t *state)
{
    rig_nested(g, n, 4, 4, 30, state);
    g->series_parallel = false;
    for (uint32_t i = 0; n > 1 && i < (uint64_t)n * permille / 1000; i++) {
        uint32_t from = (uint32_t)rig_draw(state, 0, n - 2);

        rig_edge(g, from, (uint32_t)rig_draw(state, from + 1, n - 1), 0);
    }
    rig_sort(g);
}

void rig_random(struct rig_graph *g, uint32_t n, uint32_t percent, uint64_t *state)
{
    rig_graph_init(g, n);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; j < n; j++) {
            if (rig_draw(state, 0, 99) < (j == i + 1 ? 60 : percent)) {
                rig_edge(g, i, j, 0);
            }
        }
    }
    rig_sort(g);
}

/* --- models of the GraphPipe paper -------------------------------------------------------------*/

#define FLOPS_PER_US 9.4e6 /* 60 % of a V100 in single precision */
#define BYTES_PER_US 9.0e5
#define FIXED_US     20.0

static void cost(struct rig_graph *g, uint32_t v, double flops, double params, double saved,
                 double moved)
{
    double us = 3 * flops / FLOPS_PER_US, memory_us = 3 * moved / BYTES_PER_US;

    g->tau[v] = us > memory_us ? us : memory_us;
    g->alpha[v] = FIXED_US;
    g->weight[v] = 4 * params;
    g->saved[v] = 4 * saved;
    g->forward_share = 1.0 / 3;
}

static void linear(struct rig_graph *g, uint32_t v, double rows, double in, double out)
{
    cost(g, v, 2 * in * out * rows, in * out, rows * in, 4 * rows * (in + out));
}

static void bytes_out(struct rig_graph *g, uint32_t from, double elements)
{
    for (uint32_t e = 0; e < g->n_edges; e++) {
        if (g->from[e] == from) {
            g->bytes[e] = 4 * elements;
        }
    }
}

void rig_mmt(struct rig_graph *g, uint32_t branches, uint32_t layers)
{
    const double rows = 256, h = 1024;
    uint32_t lens[64] = {0}, join = branches * layers * 3;

    for (uint32_t i = 0; i < branches; i++) {
        lens[i] = layers * 3;
    }
    rig_branches(g, branches, lens, 0, 1, false);
    for (uint32_t v = 0; v < join; v++) {
        if (v % 3 == 0) {
            cost(g, v, 8 * rows * h * h + 4 * rows * rows * h, 4 * h * h,
                 5 * rows * h + 16 * rows * rows, 8 * rows * h);
        } else {
            linear(g, v, rows, v % 3 == 1 ? h : 4 * h, v % 3 == 1 ? 4 * h : h);
        }
        bytes_out(g, v, rows * (v % 3 == 1 ? 4 * h : h));
    }
    cost(g, join, 0, 0, 0, 8 * rows * h * branches);
}

void rig_dlrm(struct rig_graph *g, uint32_t dense, uint32_t sparse, uint32_t top)
{
    uint32_t lens[64] = {0}, n = 0, v = 0, i;

    for (i = 0; i < dense || i < sparse; i++) {
        if (i < dense) {
            lens[n++] = 4;
        }
        if (i < sparse) {
            lens[n++] = 1;
        }
    }
    rig_branches(g, n, lens, 0, top + 1, false);
    for (i = 0; i < n; i++) {
        for (uint32_t j = 0; j < lens[i]; j++, v++) {
            if (lens[i] == 4) {
                linear(g, v, 1, 4096, 4096);
            } else {
                cost(g, v, 100 * 64, 64e6, 100, 4 * 100 * 64 * 2);
            }
            bytes_out(g, v, lens[i] == 4 ? 4096 : 6400);
        }
    }
    cost(g, v, 0, 0, 0, 4 * 2 * (4096.0 * dense + 6400.0 * sparse));
    bytes_out(g, v, 4096.0 * dense + 6400.0 * sparse);
    for (i = 0; i < top; i++) {
        linear(g, ++v, 1, i == 0 ? 4096.0 * dense + 6400.0 * sparse : 4096, 4096);
        bytes_out(g, v, 4096);
    }
}

void rig_candle(struct rig_graph *g, uint32_t branches, uint32_t top)
{
    uint32_t lens[64] = {0}, v = 0, i;

    for (i = 0; i < branches; i++) {
        lens[i] = 4;
    }
    rig_branches(g, branches, lens, 0, top + 2, false);
    for (; v < branches * 4; v++) {
        linear(g, v, 1, 4096, 4096);
        bytes_out(g, v, 4096);
    }
    cost(g, v, 0, 0, 0, 4 * 2 * 4096.0 * branches);
    bytes_out(g, v, 4096.0 * branches);
    for (i = 0; i <= top; i++) {
        linear(g, ++v, 1, i == 0 ? 4096.0 * branches : 4096, i == top ? 1 : 4096);
        bytes_out(g, v, i == top ? 1 : 4096);
    }
}
