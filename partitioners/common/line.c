/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefix sums of an order.
 */
#include "chain_line.h"

static int64_t **rows(uint32_t n_rows, uint32_t n)
{
    int64_t **all = call_alloc((size_t)n_rows + 1, sizeof *all);
    uint32_t k;

    for (k = 0; k < n_rows; k++) {
        all[k] = call_alloc((size_t)n + 1, sizeof **all);
    }
    return all;
}

static void sum_times(struct line *l)
{
    const struct part_costs *c = l->costs;
    uint32_t i, k;

    for (i = 0; i < l->n; i++) {
        uint32_t v = l->order[i];
        int64_t least = INT64_MAX;

        for (k = 0; k < l->n_degrees; k++) {
            int64_t comp = c->comp[k][v], sync = c->sync[k][v], both = comp + sync;

            if (l->sync != NULL) {
                l->sync[k][i + 1] = l->sync[k][i] + sync;
                both = comp;
            }
            l->work[k][i + 1] = l->work[k][i] + both;
            if (both * c->degrees[k] < least) {
                least = both * c->degrees[k];
            }
        }
        l->least[i + 1] = l->least[i] + (least == INT64_MAX ? 0 : least);
    }
}

/* Differences first, then sums: an edge crosses the positions after its source up to its target. */
static void sum_transfers(struct line *l)
{
    const struct part_problem *p = l->problem;
    uint32_t e, i, k;

    for (e = 0; e < p->n_edges; e++) {
        uint32_t a = l->position[p->from[e]], b = l->position[p->to[e]];

        for (k = 0; k < l->n_degrees; k++) {
            l->cross[k][a + 1] += l->costs->p2p[k][e];
            if (b < l->n) {
                l->cross[k][b + 1] -= l->costs->p2p[k][e];
            }
            l->straight = l->straight && (b == a + 1 || l->costs->p2p[k][e] == 0);
        }
    }
    for (k = 0; k < l->n_degrees; k++) {
        for (i = 0; i < l->n; i++) {
            l->cross[k][i + 1] += l->cross[k][i];
        }
    }
}

static void sum_bytes(struct line *l, const uint32_t *depths)
{
    const struct part_problem *p = l->problem;
    bool any = false;
    uint32_t i;

    for (i = 0; i < l->n; i++) {
        uint32_t v = l->order[i];

        l->weight[i + 1] = l->weight[i] + p->weight_bytes[v];
        l->saved[i + 1] = l->saved[i] + p->saved_bytes[v];
        any = any || p->workspace_bytes[v] > 0;
    }
    any = any && l->memory;
    l->workspace = any ? part_most_create(l->n) : NULL;
    l->depths = depths != NULL && l->memory ? part_most_create(l->n) : NULL;
    for (i = 0; i < l->n && l->workspace != NULL; i++) {
        l->workspace[0][i] = p->workspace_bytes[l->order[i]];
    }
    for (i = 0; i < l->n && l->depths != NULL; i++) {
        l->depths[0][i] = depths[l->order[i]];
    }
    if (l->workspace != NULL) {
        part_most_fill(l->workspace, l->n);
    }
    if (l->depths != NULL) {
        part_most_fill(l->depths, l->n);
    }
}

static bool has_transfers(const struct part_problem *p, const struct part_costs *c)
{
    uint32_t e, k;

    if (c->comm_model == PST_COMM_NONE) {
        return false;
    }
    for (e = 0; e < p->n_edges; e++) {
        for (k = 0; k < c->n_degrees; k++) {
            if (c->p2p[k][e] != 0) {
                return true;
            }
        }
    }
    return false;
}

static void set_limits(struct line *l, const struct part_chain_limits *limits)
{
    const struct part_problem *p = l->problem;

    l->memory = limits->memory && p->capacity_bytes < (double)UINT64_MAX;
    l->max_devices = limits->max_devices == 0 || limits->max_devices > p->n_devices
                         ? p->n_devices
                         : limits->max_devices;
    l->max_stages = limits->max_stages == 0 || limits->max_stages > l->max_devices
                        ? l->max_devices
                        : limits->max_stages;
    l->max_stages = l->max_stages < l->n ? l->max_stages : l->n;
    if (l->n_degrees == 1 && l->costs->degrees[0] == 1) {
        l->max_devices = l->max_stages; /* a stage is a device */
    }
    l->layered = (l->memory && limits->depths == NULL) ||
                 l->max_stages < (l->max_devices < l->n ? l->max_devices : l->n);
}

void line_init(struct line *l, const struct part_problem *p, const struct part_costs *c,
               const uint32_t *order, const struct part_chain_limits *limits)
{
    uint32_t i;

    *l = (struct line){
        .problem = p, .costs = c, .order = order, .n = p->n, .n_degrees = c->n_degrees};
    set_limits(l, limits);
    l->straight = true;
    l->cap = LINE_TICKS_MAX / (p->n_devices == 0 ? 1 : p->n_devices);
    CALL_TAKE(l->position, (size_t)l->n + 1);
    CALL_TAKE(l->least, (size_t)l->n + 1);
    CALL_TAKE(l->weight, (size_t)l->n + 1);
    CALL_TAKE(l->saved, (size_t)l->n + 1);
    l->work = rows(l->n_degrees, l->n);
    l->sync = c->comm_model == PST_COMM_MAX ? rows(l->n_degrees, l->n) : NULL;
    l->cross = has_transfers(p, c) ? rows(l->n_degrees, l->n + 1) : NULL;
    for (i = 0; i < l->n; i++) {
        l->position[order[i]] = i;
    }
    sum_times(l);
    sum_bytes(l, limits->depths);
    if (l->cross != NULL) {
        sum_transfers(l);
    }
}

bool line_fits(const struct line *l, uint32_t i, uint32_t j, uint32_t k, uint32_t depth)
{
    double workspace;

    if (!l->memory) {
        return true;
    }
    workspace = l->workspace == NULL ? 0 : part_most(l->workspace, i, j);
    depth = l->depths == NULL ? depth : (uint32_t)part_most(l->depths, i, j);
    return part_fits(l->problem,
                     part_memory(l->problem, l->weight[j] - l->weight[i], l->saved[j] - l->saved[i],
                                 workspace, l->costs->degrees[k], (uint64_t)l->costs->b * depth));
}

/* --- cuts --------------------------------------------------------------------------------------*/

void cuts_init(struct cuts *cuts, uint32_t max_stages)
{
    cuts->n = 0;
    CALL_TAKE(cuts->first, (size_t)max_stages + 2);
    CALL_TAKE(cuts->k, (size_t)max_stages + 2);
}
