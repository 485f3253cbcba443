/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans, and the graph of their stages: sums, order, depths, in-flight counts.
 */
#include "stage_graph.h"

#include <stdlib.h>
#include <string.h>

/* --- plans -------------------------------------------------------------------------------------*/

/* Stages and after them their nodes are one block. */
static uint32_t *room_for(struct part_plan *plan, uint32_t n_stages, size_t n_nodes)
{
    plan->n_stages = 0;
    plan->stages =
        call_alloc((n_stages + 1) * sizeof *plan->stages + n_nodes * sizeof(uint32_t), 1);
    return (uint32_t *)(plan->stages + n_stages + 1);
}

void part_plan_init(struct part_plan *plan, const struct part_problem *p, const uint32_t *stage_of,
                    uint32_t n_stages, uint32_t b)
{
    uint32_t *counts = call_alloc((size_t)n_stages + 1, sizeof *counts);
    uint32_t *nodes = room_for(plan, n_stages, p->n), s, v;

    for (v = 0; v < p->n; v++) {
        counts[stage_of[v]]++;
    }
    for (s = 0; s < n_stages; s++) {
        if (counts[s] == 0) {
            continue;
        }
        plan->stages[plan->n_stages] = (struct part_stage){.nodes = nodes, .d = 1, .b = b, .k = 1};
        nodes += counts[s];
        counts[s] = plan->n_stages++; /* from here on its place */
    }
    for (v = 0; v < p->n; v++) {
        struct part_stage *stage = &plan->stages[counts[stage_of[v]]];

        stage->nodes[stage->n_nodes++] = v;
    }
    call_free(counts);
}

void part_plan_copy(const struct part_plan *plan, struct part_plan *ret_copy)
{
    size_t n_nodes = 0;
    uint32_t *nodes, s;

    for (s = 0; s < plan->n_stages; s++) {
        n_nodes += plan->stages[s].n_nodes;
    }
    nodes = room_for(ret_copy, plan->n_stages, n_nodes);
    for (s = 0; s < plan->n_stages; s++) {
        struct part_stage *to = &ret_copy->stages[ret_copy->n_stages++];

        *to = plan->stages[s];
        to->nodes = nodes;
        memcpy(nodes, plan->stages[s].nodes, to->n_nodes * sizeof *nodes);
        nodes += to->n_nodes;
    }
}

void part_plan_finish(struct part_plan *plan)
{
    call_free(plan->stages);
    *plan = (struct part_plan){0};
}

/* --- their graph -------------------------------------------------------------------------------*/

static bool assign(struct stage_graph *g, const struct part_plan *plan,
                   const struct part_problem *p)
{
    uint32_t s, i, v;

    memset(g->stage_of, 0xff, (size_t)p->n * sizeof *g->stage_of);
    for (s = 0; s < plan->n_stages; s++) {
        for (i = 0; i < plan->stages[s].n_nodes; i++) {
            v = plan->stages[s].nodes[i];
            if (v >= p->n || g->stage_of[v] != UINT32_MAX) {
                return false;
            }
            g->stage_of[v] = s;
        }
    }
    for (v = 0; v < p->n; v++) {
        if (g->stage_of[v] == UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static void add_up(struct stage_graph *g, const struct part_plan *plan,
                   const struct part_problem *p)
{
    uint32_t s, i, e;

    for (s = 0; s < g->n; s++) {
        const struct part_stage *stage = &plan->stages[s];
        uint32_t row = part_samples_row(p, stage->b / (stage->d == 0 ? 1 : stage->d));
        struct stage_sums *sums = &g->sums[s];

        for (i = 0; i < stage->n_nodes; i++) {
            uint32_t v = stage->nodes[i];

            if (row != UINT32_MAX) {
                sums->forward_ns += p->forward_ns[(size_t)row * p->n + v];
                sums->backward_ns += p->backward_ns[(size_t)row * p->n + v];
            }
            sums->weight += p->weight_bytes[v];
            sums->saved += p->saved_bytes[v];
            if (p->workspace_bytes[v] > sums->workspace) {
                sums->workspace = p->workspace_bytes[v];
            }
        }
    }
    for (e = 0; e < p->n_edges; e++) {
        uint32_t a = g->stage_of[p->from[e]], b = g->stage_of[p->to[e]];

        if (a != b) {
            g->sums[a].cut_bytes += p->edge_bytes[e];
            g->sums[b].cut_bytes += p->edge_bytes[e];
        }
    }
}

struct link {
    uint32_t from, to;
};

static int by_ends(const void *a_, const void *b_)
{
    const struct link *a = a_, *b = b_;

    if (a->from != b->from) {
        return a->from < b->from ? -1 : 1;
    }
    return a->to < b->to ? -1 : a->to > b->to;
}

static void link_up(struct stage_graph *g, const struct part_problem *p)
{
    struct link *links = call_alloc((size_t)p->n_edges + 1, sizeof *links);
    uint32_t *from = call_alloc((size_t)p->n_edges + 1, sizeof *from), e, i, n = 0;

    CALL_TAKE(g->out, (size_t)p->n_edges + 1);
    CALL_TAKE(g->in, (size_t)p->n_edges + 1);
    for (e = 0; e < p->n_edges; e++) {
        uint32_t a = g->stage_of[p->from[e]], b = g->stage_of[p->to[e]];

        if (a != b) {
            links[n++] = (struct link){a, b};
        }
    }
    qsort(links, n, sizeof *links, by_ends);
    for (i = 0; i < n; i++) {
        if (i == 0 || by_ends(&links[i - 1], &links[i]) != 0) {
            from[g->n_links] = links[i].from;
            g->out[g->n_links++] = links[i].to;
        }
    }
    part_index_edges(g->n, g->n_links, from, g->out, g->first_out, g->first_in, g->in);
    for (i = 0; i < g->n_links; i++) {
        g->in[i] = from[g->in[i]];
    }
}

/* The plan's own order, where all links go forward in it. */
static bool keep_order(struct stage_graph *g)
{
    uint32_t s, i;

    for (s = 0; s < g->n; s++) {
        for (i = g->first_out[s]; i < g->first_out[s + 1]; i++) {
            if (g->out[i] < s) {
                return false;
            }
        }
        g->order[s] = s;
    }
    return true;
}

/* Else by their least node where free; a cycle: not legal. */
static void sort_stages(struct stage_graph *g, const struct part_plan *plan)
{
    uint32_t *waits = call_alloc((size_t)g->n + 1, sizeof *waits);
    uint32_t *ready = call_alloc((size_t)g->n + 1, sizeof *ready);
    uint32_t s, i, at = 0, n = 0;

    if (keep_order(g)) {
        return;
    }
    for (s = 0; s < g->n; s++) {
        waits[s] = g->first_in[s + 1] - g->first_in[s];
        if (waits[s] == 0) {
            ready[n++] = s;
        }
    }
    while (n > 0) {
        uint32_t best = 0;

        for (i = 1; i < n; i++) {
            if (plan->stages[ready[i]].nodes[0] < plan->stages[ready[best]].nodes[0]) {
                best = i;
            }
        }
        s = ready[best];
        ready[best] = ready[--n];
        g->order[at++] = s;
        for (i = g->first_out[s]; i < g->first_out[s + 1]; i++) {
            if (--waits[g->out[i]] == 0) {
                ready[n++] = g->out[i];
            }
        }
    }
    g->legal = g->legal && at == g->n;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/*
 * From the sinks up: a stage holds what its successor holds, one block of passes more, and what
 * joining micro-batches of different size takes. With one size and k = 1: b times the depth. In a
 * row the next stage is the one successor.
 */
static void look_back(struct stage_graph *g, const struct part_plan *plan,
                      const struct part_problem *p)
{
    uint32_t at, i;

    for (at = g->n; at-- > 0;) {
        uint32_t s = g->order[at];
        const struct part_stage *me = &plan->stages[s];
        const uint32_t *next = p->in_row ? g->order + at + 1 : g->out + g->first_out[s];
        uint32_t n_next = p->in_row ? at + 1 < g->n : g->first_out[s + 1] - g->first_out[s];
        uint64_t b = me->b, k = me->k, held = k * b;

        g->depth[s] = 1;
        for (i = 0; i < n_next; i++) {
            uint32_t t = next[i];
            uint64_t bt = plan->stages[t].b, kt = plan->stages[t].k;
            uint64_t block = k * b > bt ? k * b : bt;
            uint64_t gap = b > kt * bt ? b - kt * bt : 0;
            uint64_t need = round_up(g->in_flight[t] + block + gap, b);

            held = need > held ? need : held;
            if (g->depth[t] + 1 > g->depth[s]) {
                g->depth[s] = g->depth[t] + 1;
            }
        }
        g->in_flight[s] = held < round_up(p->batch, b) ? held : round_up(p->batch, b);
    }
}

static bool sane(const struct part_plan *plan)
{
    uint32_t s;

    for (s = 0; s < plan->n_stages; s++) {
        const struct part_stage *stage = &plan->stages[s];

        if (stage->n_nodes == 0 || stage->d == 0 || stage->k == 0 || stage->b == 0 ||
            stage->b % stage->d != 0) {
            return false;
        }
    }
    return true;
}

void stage_graph_init(struct stage_graph *g, const struct part_plan *plan,
                      const struct part_problem *p)
{
    uint32_t n = plan->n_stages;

    memset(g, 0, sizeof *g);
    g->n = n;
    CALL_TAKE(g->stage_of, (size_t)p->n + 1);
    CALL_TAKE(g->first_out, (size_t)n + 2);
    CALL_TAKE(g->first_in, (size_t)n + 2);
    CALL_TAKE(g->order, (size_t)n + 1);
    CALL_TAKE(g->depth, (size_t)n + 1);
    CALL_TAKE(g->in_flight, (size_t)n + 1);
    CALL_TAKE(g->sums, (size_t)n + 1);
    g->legal = sane(plan) && assign(g, plan, p);
    if (!g->legal) {
        return;
    }
    add_up(g, plan, p);
    link_up(g, p);
    sort_stages(g, plan);
    if (g->legal) {
        look_back(g, plan, p);
    }
}

void stage_graph_depths(const struct stage_graph *g, const struct part_problem *p,
                        uint32_t *ret_depths)
{
    uint32_t v;

    for (v = 0; v < p->n; v++) {
        ret_depths[v] = g->depth[g->stage_of[v]];
    }
}

void part_plan_sort(struct part_plan *plan, const struct part_problem *p)
{
    struct part_stage *sorted;
    struct call_region region;
    struct stage_graph g;
    uint32_t s;

    call_enter(&region);
    stage_graph_init(&g, plan, p);
    if (!g.legal) {
        call_end(PST_ERR_BUG);
    }
    CALL_TAKE(sorted, g.n);
    for (s = 0; s < g.n; s++) {
        sorted[s] = plan->stages[g.order[s]];
    }
    memcpy(plan->stages, sorted, g.n * sizeof *sorted);
    call_leave(&region);
}
