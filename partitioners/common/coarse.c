/* SPDX-License-Identifier: Apache-2.0
 *
 * A smaller problem: runs of an order become nodes.
 */
#include <string.h>

#include "places.h"
#include "refine_parts.h"
#include "sequence.h"

static uint32_t *copy(const uint32_t *list, uint32_t n)
{
    uint32_t *made = part_alloc((size_t)n + 1, sizeof *made);

    memcpy(made, list, n * sizeof *made);
    return made;
}

static void add_up(const struct part_problem *p, const uint32_t *group_of, struct part_problem *g)
{
    uint32_t v, i, e, n = 0;

    for (v = 0; v < p->n; v++) {
        uint32_t to = group_of[v];

        g->weight_bytes[to] += p->weight_bytes[v];
        g->saved_bytes[to] += p->saved_bytes[v];
        if (p->workspace_bytes[v] > g->workspace_bytes[to]) {
            g->workspace_bytes[to] = p->workspace_bytes[v];
        }
        for (i = 0; i < g->n_samples; i++) {
            g->forward_ns[(size_t)i * g->n + to] += p->forward_ns[(size_t)i * p->n + v];
            g->backward_ns[(size_t)i * g->n + to] += p->backward_ns[(size_t)i * p->n + v];
        }
    }
    for (e = 0; e < p->n_edges; e++) {
        if (group_of[p->from[e]] != group_of[p->to[e]]) {
            g->from[n] = group_of[p->from[e]];
            g->to[n] = group_of[p->to[e]];
            g->edge_bytes[n++] = p->edge_bytes[e];
        }
    }
    g->n_edges = n;
}

/* Parallel edges become one. */
static void merge_edges(struct part_problem *g)
{
    uint32_t e, n = 0;

    part_problem_index(g);
    for (e = 0; e < g->n_edges; e++) {
        if (n > 0 && g->from[n - 1] == g->from[e] && g->to[n - 1] == g->to[e]) {
            g->edge_bytes[n - 1] += g->edge_bytes[e];
            continue;
        }
        g->from[n] = g->from[e];
        g->to[n] = g->to[e];
        g->edge_bytes[n++] = g->edge_bytes[e];
    }
    g->n_edges = n;
    part_problem_index(g);
}

void part_problem_merge(const struct part_problem *p, const uint32_t *group_of, uint32_t n_groups,
                        struct part_problem *ret_merged)
{
    struct part_problem g = {
        .host = p->host,
        .figures = p->figures,
        .n = n_groups,
        .n_edges = p->n_edges,
        .n_devices = p->n_devices,
        .batch = p->batch,
        .n_sizes = p->n_sizes,
        .sizes = copy(p->sizes, p->n_sizes),
        .n_degrees = p->n_degrees,
        .degrees = copy(p->degrees, p->n_degrees),
        .weight_multiplier = p->weight_multiplier,
        .capacity_bytes = p->capacity_bytes,
    };

    if (g.sizes != NULL && g.degrees != NULL) {
        part_problem_init(&g);
    }
    add_up(p, group_of, &g);
    merge_edges(&g);
    *ret_merged = g;
}

void coarse_init(const struct part_problem *p, const struct part_costs *c, const uint32_t *order,
                 uint32_t n_groups, uint32_t *group_of, struct part_problem *ret_coarse)
{
    const struct part_dag dag = part_sequence_dag(p);
    uint32_t *first = part_alloc((size_t)p->n + 1, sizeof *first), r, i;

    part_runs(&dag, p->edge_bytes, c->comp[0], order, n_groups, first, &n_groups);
    for (r = 0; r < n_groups; r++) {
        for (i = first[r]; i < first[r + 1]; i++) {
            group_of[order[i]] = r;
        }
    }
    part_problem_merge(p, group_of, n_groups, ret_coarse);
}
