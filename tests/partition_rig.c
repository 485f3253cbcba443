/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs by hand, costs, and problems.
 */
#include "partition_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static void *need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        abort();
    }
    return memory;
}

void rig_graph_init(struct rig_graph *g, uint32_t n)
{
    *g = (struct rig_graph){.n = n, .forward_share = 0.25};
    g->tau = need(calloc((size_t)n + 1, sizeof *g->tau));
    g->alpha = need(calloc((size_t)n + 1, sizeof *g->alpha));
    g->weight = need(calloc((size_t)n + 1, sizeof *g->weight));
    g->saved = need(calloc((size_t)n + 1, sizeof *g->saved));
    g->workspace = need(calloc((size_t)n + 1, sizeof *g->workspace));
}

void rig_graph_finish(struct rig_graph *g)
{
    free(g->from);
    free(g->to);
    free(g->bytes);
    free(g->tau);
    free(g->alpha);
    free(g->weight);
    free(g->saved);
    free(g->workspace);
    memset(g, 0, sizeof *g);
}

void rig_edge(struct rig_graph *g, uint32_t from, uint32_t to, double bytes)
{
    if (g->n_edges == g->room) {
        g->room = g->room == 0 ? 64 : 2 * g->room;
        g->from = need(realloc(g->from, g->room * sizeof *g->from));
        g->to = need(realloc(g->to, g->room * sizeof *g->to));
        g->bytes = need(realloc(g->bytes, g->room * sizeof *g->bytes));
    }
    g->from[g->n_edges] = from;
    g->to[g->n_edges] = to;
    g->bytes[g->n_edges++] = bytes;
}

struct row {
    uint32_t from, to;
    double bytes;
};

static int by_ends(const void *a_, const void *b_)
{
    const struct row *a = a_, *b = b_;

    if (a->from != b->from) {
        return a->from < b->from ? -1 : 1;
    }
    return a->to < b->to ? -1 : a->to > b->to;
}

void rig_sort(struct rig_graph *g)
{
    struct row *rows = need(calloc((size_t)g->n_edges + 1, sizeof *rows));
    uint32_t n = g->n_edges;

    for (uint32_t e = 0; e < n; e++) {
        rows[e] = (struct row){g->from[e], g->to[e], g->bytes[e]};
    }
    qsort(rows, n, sizeof *rows, by_ends);
    g->n_edges = 0;
    for (uint32_t e = 0; e < n; e++) {
        if (g->n_edges == 0 || by_ends(&rows[e], &rows[e - 1]) != 0) {
            rig_edge(g, rows[e].from, rows[e].to, rows[e].bytes);
        }
    }
    free(rows);
}

void rig_costs(struct rig_graph *g, int kind, uint64_t *state)
{
    static const double pattern[] = {48, 32, 32};

    rig_sort(g);
    for (uint32_t v = 0; v < g->n; v++) {
        if (kind == RIG_FLAT || kind == RIG_LAYERS) {
            g->tau[v] = kind == RIG_FLAT ? 10 : pattern[v % 3];
            g->weight[v] = 16;
            g->saved[v] = 4;
            continue;
        }
        if (kind == RIG_SKEWED) {
            g->tau[v] = (double)(UINT64_C(1) << rig_draw(state, 0, 12));
        } else if (kind == RIG_ZERO && rig_draw(state, 0, 4) == 0) {
            g->tau[v] = 0;
        } else {
            g->tau[v] = (double)rig_draw(state, 1, 100);
        }
        g->weight[v] = (double)rig_draw(state, 0, 64);
        g->saved[v] = (double)rig_draw(state, 1, 16);
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        bool drawn = kind != RIG_FLAT && kind != RIG_LAYERS;

        g->bytes[e] = drawn ? (double)rig_draw(state, 0, 32) : 8;
    }
}

/* --- problems ----------------------------------------------------------------------------------*/

struct rig_case rig_case_of(const struct rig_graph *g)
{
    return (struct rig_case){
        .graph = g,
        .devices = 1,
        .batch = 1,
        .b = 1,
        .memory = INFINITY,
        .multiplier = 4,
    };
}

struct rig_case rig_two_branches(struct rig_graph *g, double alpha)
{
    static const uint32_t lens[] = {2, 2};
    struct rig_case c;

    rig_branches(g, 2, lens, 0, 1, false);
    for (uint32_t v = 0; v < g->n; v++) {
        g->tau[v] = 6;
        g->saved[v] = 2;
        g->alpha[v] = alpha;
    }
    c = rig_case_of(g);
    c.devices = 5;
    c.batch = 32;
    c.memory = 24;
    return c;
}

void rig_case_choose(struct rig_case *c, uint32_t devices, uint32_t batch, const uint32_t *sizes,
                     uint32_t n_sizes, const uint32_t *degrees, uint32_t n_degrees)
{
    c->devices = devices;
    c->batch = batch;
    c->sizes = sizes;
    c->n_sizes = n_sizes;
    c->degrees = degrees;
    c->n_degrees = n_degrees;
}

static uint32_t *copy(const uint32_t *list, uint32_t n, uint32_t one, uint32_t *ret_n)
{
    uint32_t *made;

    *ret_n = list == NULL ? 1 : n;
    made = call_alloc((size_t)*ret_n + 1, sizeof *made);
    if (list == NULL) {
        made[0] = one;
    } else {
        memcpy(made, list, n * sizeof *made);
    }
    return made;
}

void rig_problem(const struct rig_case *c, struct part_problem *p)
{
    const struct rig_graph *g = c->graph;
    uint32_t most = 0;

    *p = (struct part_problem){
        .n = g->n,
        .n_edges = g->n_edges,
        .n_devices = c->devices,
        .batch = c->batch,
        .weight_multiplier = c->multiplier,
        .capacity_bytes = c->memory,
        .figures = {.size = sizeof p->figures,
                    .comm_model = c->comm,
                    .reference = 1,
                    .weight_multiplier = c->multiplier,
                    .p2p_bytes_per_s = c->p2p * 1e6,
                    .allreduce_bytes_per_s = c->allreduce * 1e6},
    };
    p->sizes = copy(c->sizes, c->n_sizes, c->b, &p->n_sizes);
    p->degrees = copy(c->degrees, c->n_degrees, 1, &p->n_degrees);
    for (uint32_t i = 0; i < p->n_degrees; i++) {
        if (p->degrees[i] <= c->devices) {
            p->degrees[most++] = p->degrees[i];
        }
    }
    p->n_degrees = most;
    part_problem_init(p);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        p->from[e] = g->from[e];
        p->to[e] = g->to[e];
        p->edge_bytes[e] = g->bytes[e];
    }
    for (uint32_t v = 0; v < g->n; v++) {
        p->weight_bytes[v] = g->weight[v];
        p->saved_bytes[v] = g->saved[v];
        p->workspace_bytes[v] = g->workspace[v];
        for (uint32_t i = 0; i < p->n_samples; i++) {
            double ns = 1000 * (g->alpha[v] + g->tau[v] * p->samples[i]);

            p->forward_ns[(size_t)i * g->n + v] = ns * g->forward_share;
            p->backward_ns[(size_t)i * g->n + v] = ns * (1 - g->forward_share);
        }
    }
    part_problem_index(p);
}

struct rig_case rig_draw_case(struct rig_graph *g, uint32_t most_devices, int round,
                              uint64_t *state)
{
    static const uint32_t degrees[] = {1, 2, 4};
    struct rig_case c;
    double total = 0;

    rig_costs(g, RIG_UNIFORM + (int)rig_draw(state, 0, 2), state);
    c = rig_case_of(g);
    c.devices = (uint32_t)rig_draw(state, 1, most_devices);
    c.b = 4;
    c.batch = 4 * (uint32_t)rig_draw(state, 1, 8);
    c.comm = (uint32_t)(round / 2 % 3);
    c.p2p = 1 + (double)rig_draw(state, 0, 3);
    c.allreduce = rig_draw(state, 0, 2) == 0 ? 0 : 0.5;
    c.degrees = degrees;
    c.n_degrees = (uint32_t)(round / 6 % 3) + 1;
    for (uint32_t v = 0; v < g->n; v++) {
        g->alpha[v] = round / 18 % 2 == 0 ? 0 : 3;
        g->workspace[v] = round / 36 % 2 == 0 ? 0 : (double)rig_draw(state, 0, 40);
        total += 4 * g->weight[v] + 8 * g->saved[v];
    }
    if (round / 72 % 2 == 0) {
        c.memory = total * (double)rig_draw(state, 20, 120) / 100;
    }
    return c;
}

static json_t *list_of(const uint32_t *list, uint32_t n, uint32_t one)
{
    json_t *made = json_array();

    for (uint32_t i = 0; i < (list == NULL ? 1 : n); i++) {
        json_array_append_new(made, json_integer(list == NULL ? one : list[i]));
    }
    return made;
}

static json_t *graph_json(const struct rig_graph *g)
{
    json_t *nodes = json_array(), *edges = json_array();
    char from[16], to[16];

    for (uint32_t v = 0; v < g->n; v++) {
        snprintf(from, sizeof from, "n%u", v);
        json_array_append_new(
            nodes, json_pack("{s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "name", from, "op", "op",
                             "forward_us", g->tau[v] * g->forward_share, "backward_input_us",
                             g->tau[v] * (1 - g->forward_share) / 2, "backward_weight_us",
                             g->tau[v] * (1 - g->forward_share) / 2, "fixed_us", g->alpha[v],
                             "param_bytes", g->weight[v], "saved_bytes", g->saved[v],
                             "output_bytes", 0.0, "workspace_bytes", g->workspace[v]));
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        snprintf(from, sizeof from, "n%u", g->from[e]);
        snprintf(to, sizeof to, "n%u", g->to[e]);
        json_array_append_new(
            edges, json_pack("{s:s,s:s,s:f}", "from", from, "to", to, "bytes", g->bytes[e]));
    }
    return json_pack("{s:s,s:i,s:s,s:i,s:o,s:o}", "format", "penstock-graph", "version", 1, "name",
                     "generated", "batch", 1, "nodes", nodes, "edges", edges);
}

static json_t *rate(double bytes_per_us)
{
    return bytes_per_us > 0 ? json_real(bytes_per_us * 1e6) : json_null();
}

char *rig_problem_json(const struct rig_case *c, const char *options)
{
    static const char *const comm[] = {"none", "sum", "max"};
    json_t *root = json_pack("{s:s,s:i,s:o,s:i,s:o,s:i,s:o,s:o,s:f,s:o,s:o,s:s,s:s}", "format",
                             "penstock-problem", "version", 1, "graph", graph_json(c->graph),
                             "devices", (int)c->devices, "memory_bytes",
                             isinf(c->memory) ? json_null() : json_real(c->memory), "mini_batch",
                             (int)c->batch, "micro_batches", list_of(c->sizes, c->n_sizes, c->b),
                             "degrees", list_of(c->degrees, c->n_degrees, 1), "weight_multiplier",
                             c->multiplier, "p2p_bandwidth", rate(c->p2p), "allreduce_bandwidth",
                             rate(c->allreduce), "comm_model", comm[c->comm], "cost", "reference");
    char *text;

    need(root);
    if (options != NULL) {
        json_object_set_new(root, "options", need(json_loads(options, 0, NULL)));
    }
    text = need(json_dumps(root, JSON_COMPACT));
    json_decref(root);
    return text;
}
