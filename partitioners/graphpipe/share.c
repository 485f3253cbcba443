/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of a group of branches: as one stage, or a single branch by its own states.
 */
#include <string.h>

#include "probe.h"

void gp_group_clear(struct gp_group_sums *g, uint32_t n_lanes)
{
    memset(g->comp, 0, (size_t)4 * n_lanes * sizeof *g->comp); /* its rows are one */
    g->weight = g->saved = g->workspace = 0;
    g->n_real = 0;
}

void gp_group_add(const struct gp_costs *costs, uint32_t class, uint32_t count,
                  struct gp_group_sums *g)
{
    const struct gp_class *kid = &costs->classes[class];
    uint32_t n = costs->n_lanes, l;

    for (l = 0; l < n; l++) {
        g->comp[l] += count * kid->times[l];
        g->sync[l] += count * kid->times[GP_SYNC * n + l];
        g->out[l] += count * kid->times[GP_OUT * n + l];
        g->in[l] += count * kid->times[GP_IN * n + l];
    }
    g->weight += count * kid->load.weight;
    g->saved += count * kid->load.saved;
    g->n_real += count * kid->load.n_real;
    if (count > 0 && kid->load.workspace > g->workspace) {
        g->workspace = kid->load.workspace;
    }
}

void gp_share_sums(const struct gp_probe *probe, const struct gp_group_sums *group,
                   const struct gp_start *start, const struct gp_end *end, bool s, bool t,
                   int64_t *scratch, struct gp_stage_sums *ret_sums)
{
    const struct gp_costs *costs = probe->costs;
    const struct gp_op_class *ends[2] = {s ? &costs->op_classes[start->op] : NULL,
                                         t ? &costs->op_classes[end->op] : NULL};
    uint32_t n = costs->n_lanes, l, i;
    struct gp_stage_sums sums = {scratch,       scratch + n,  scratch + 2 * n,
                                 group->weight, group->saved, group->workspace};

    for (l = 0; l < n; l++) {
        scratch[l] = group->comp[l];
        scratch[n + l] = group->sync[l];
        /* bytes at an end that is owned are inside, but all others of that end are cut */
        scratch[2 * n + l] =
            (s ? -group->out[l] : group->out[l]) + (t ? -group->in[l] : group->in[l]);
        for (i = 0; i < 2; i++) {
            if (ends[i] != NULL) {
                scratch[l] += ends[i]->times[l];
                scratch[n + l] += ends[i]->times[GP_SYNC * n + l];
                scratch[2 * n + l] +=
                    ends[i]->times[GP_OUT * n + l] + ends[i]->times[GP_IN * n + l];
            }
        }
    }
    for (i = 0; i < 2; i++) {
        if (ends[i] != NULL) {
            sums.weight += ends[i]->load.weight;
            sums.saved += ends[i]->load.saved;
            if (ends[i]->load.workspace > sums.workspace) {
                sums.workspace = ends[i]->load.workspace;
            }
        }
    }
    *ret_sums = sums;
}

/* A stage that owns s has s's level; one that owns t has t's; another one is between. */
static void inner_values(struct gp_probe *probe, const struct gp_stage_sums *sums,
                         const struct gp_start *start, const struct gp_end *end, uint32_t *values,
                         uint32_t *levels)
{
    uint32_t x, h, n = probe->levels->n;

    for (x = 0; x < n; x++) {
        uint32_t d;

        if (!gp_stage_precedes(probe, x, end)) {
            continue;
        }
        d = gp_degree(probe, sums, x, NULL);
        for (h = 0; d > 0 && h < n; h++) {
            bool before =
                start->is_virtual ? gp_covers(probe->levels, h, x) : gp_before(probe->levels, h, x);

            if (before && d < values[h]) {
                values[h] = d;
                levels[h] = x;
            }
        }
        if (probe->levels->simple) {
            break; /* the least depth is the best */
        }
    }
}

void gp_share_values(struct gp_probe *probe, const struct gp_group_sums *group,
                     const struct gp_start *start, const struct gp_end *end, bool s, bool t,
                     uint32_t *values, uint32_t *levels)
{
    uint32_t n = probe->levels->n, h, d;
    int64_t *scratch = group->comp + 4 * probe->costs->n_lanes; /* room after the four rows */
    struct gp_stage_sums sums;

    for (h = 0; h < n; h++) {
        values[h] = GP_NEVER;
        levels[h] = 0;
    }
    gp_share_sums(probe, group, start, end, s, t, scratch, &sums);
    if (group->n_real == 0 && !s && !t) {
        for (h = 0; h < n; h++) {
            values[h] = gp_precedes(probe, start, h, end) ? 0 : GP_NEVER;
        }
    } else if (s) {
        for (h = 0; h < n; h++) {
            if (gp_stage_precedes(probe, h, end)) {
                d = gp_degree(probe, &sums, h, NULL);
                values[h] = d > 0 ? d : GP_NEVER;
            }
        }
    } else if (t) {
        d = gp_degree(probe, &sums, end->level, NULL);
        for (h = 0; d > 0 && h < n; h++) {
            values[h] = gp_precedes(probe, start, h, end) ? d : GP_NEVER;
        }
    } else {
        inner_values(probe, &sums, start, end, values, levels);
    }
}

/* A bare edge: nothing, or the end that it owns. */
static void edge_values(struct gp_probe *probe, const struct gp_start *start,
                        const struct gp_end *end, bool s, bool t, const uint32_t **ret_values)
{
    uint32_t n = probe->costs->n_lanes, h;
    uint32_t *values = gp_pool_take(&probe->pool, 2 * probe->levels->n, sizeof *values);
    int64_t *rows = gp_pool_take(&probe->pool, (size_t)7 * n, sizeof *rows);
    struct gp_group_sums none = {rows, rows + n, rows + 2 * n, rows + 3 * n, 0, 0, 0, 0};

    memset(rows, 0, (size_t)7 * n * sizeof *rows);
    *ret_values = values;
    if (s && t) {
        for (h = 0; h < probe->levels->n; h++) {
            values[h] = GP_NEVER;
        }
        return;
    }
    gp_share_values(probe, &none, start, end, s, t, values, values + probe->levels->n);
}

void gp_branch_values(struct gp_probe *probe, uint32_t class, const struct gp_start *start,
                      const struct gp_end *end, bool s, bool t, const uint32_t **ret_values)
{
    struct gp_start from = {.is_virtual = start->is_virtual, .own = s, .op = s ? start->op : 0};
    struct gp_end to = *end;
    const struct gp_head *head;

    if (probe->costs->classes[class].kind == GP_EDGE) {
        edge_values(probe, start, end, s, t, ret_values);
        return;
    }
    to.own = t;
    to.op = t ? end->op : 0;
    gp_head_of(probe, class, &from, &to, !(s && t), &head);
    *ret_values = head->value;
}
