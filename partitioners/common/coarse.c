/* SPDX-License-Identifier: Apache-2.0
 *
 * A smaller problem: runs of an order become nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "refine_parts.h"

/* Bytes per sample over each position of the order: [n + 1]. */
static double *crossing(const struct part_problem *p, const uint32_t *order)
{
    double *bytes = calloc((size_t)p->n + 2, sizeof *bytes);
    uint32_t *position = calloc((size_t)p->n + 1, sizeof *position);
    uint32_t i, e;

    if (bytes == NULL || position == NULL) {
        free(bytes);
        free(position);
        return NULL;
    }
    for (i = 0; i < p->n; i++) {
        position[order[i]] = i;
    }
    for (e = 0; e < p->n_edges; e++) {
        bytes[position[p->from[e]] + 1] += p->edge_bytes[e];
        bytes[position[p->to[e]] + 1] -= p->edge_bytes[e];
    }
    for (i = 0; i < p->n; i++) {
        bytes[i + 1] += bytes[i];
    }
    free(position);
    return bytes;
}

/* A group ends between half of its share of the work and all of it, where least crosses. */
static uint32_t group(const struct part_problem *p, const struct part_costs *c,
                      const uint32_t *order, uint32_t n_groups, const double *bytes,
                      uint32_t *group_of)
{
    int64_t total = 0, share, sum;
    uint32_t at = 0, n = 0, i;

    for (i = 0; i < p->n; i++) {
        total += c->comp[0][i];
    }
    share = total / (n_groups / 2 + 1) + 1;
    while (at < p->n) {
        uint32_t end = 0;

        for (i = at, sum = 0; i < p->n; i++) {
            sum += c->comp[0][order[i]];
            if (sum > share && i > at) {
                break;
            }
            if (end == 0 || (2 * sum >= share && bytes[i + 1] <= bytes[end]) || 2 * sum < share) {
                end = i + 1;
            }
        }
        end = i == p->n && sum <= share ? p->n : end;
        for (; at < end; at++) {
            group_of[order[at]] = n;
        }
        n++;
    }
    return n;
}

static uint32_t *copy(const uint32_t *list, uint32_t n)
{
    uint32_t *made = calloc((size_t)n + 1, sizeof *made);

    return made == NULL ? NULL : memcpy(made, list, n * sizeof *made);
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
static pst_status merge_edges(struct part_problem *g)
{
    uint32_t e, n = 0;
    pst_status st = part_problem_index(g);

    if (st != PST_OK) {
        return st;
    }
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
    return part_problem_index(g);
}

pst_status part_problem_merge(const struct part_problem *p, const uint32_t *group_of,
                              uint32_t n_groups, struct part_problem *ret_merged)
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
    pst_status st = PST_ERR_NOMEM;

    if (g.sizes != NULL && g.degrees != NULL) {
        st = part_problem_init(&g);
    }
    if (st == PST_OK) {
        add_up(p, group_of, &g);
        st = merge_edges(&g);
    }
    if (st != PST_OK) {
        part_problem_finish(&g);
        return st;
    }
    *ret_merged = g;
    return PST_OK;
}

pst_status coarse_init(const struct part_problem *p, const struct part_costs *c,
                       const uint32_t *order, uint32_t n_groups, uint32_t *group_of,
                       struct part_problem *ret_coarse)
{
    double *bytes = crossing(p, order);
    pst_status st;

    if (bytes == NULL) {
        return PST_ERR_NOMEM;
    }
    n_groups = group(p, c, order, n_groups, bytes, group_of);
    st = part_problem_merge(p, group_of, n_groups, ret_coarse);
    free(bytes);
    return st;
}
