/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes, and classes of operators and blocks.
 */
#include <math.h>

#include "chain.h"
#include "classes.h"

static int64_t *copy_row(const int64_t *from, size_t n, double factor)
{
    int64_t *to = call_alloc(n + 1, sizeof *to);
    size_t i;

    for (i = 0; i < n; i++) {
        to[i] = factor == 1 ? from[i] : llround((double)from[i] * factor);
    }
    return to;
}

static void add_lanes(struct gp_costs *costs, const struct part_costs *c, double factor)
{
    const struct part_problem *p = costs->problem;
    uint32_t k;

    for (k = 0; k < c->n_degrees; k++) {
        struct gp_lane *lane = &costs->lanes[costs->n_lanes++];

        *lane = (struct gp_lane){.b = c->b, .d = c->degrees[k]};
        lane->comp = copy_row(c->comp[k], p->n, factor);
        lane->sync = copy_row(c->sync[k], p->n, factor);
        lane->p2p = copy_row(c->p2p[k], p->n_edges, factor);
    }
}

/* Costs of every size at one tick, the coarsest, so that all totals stay in range. */
static void make_lanes(struct gp_costs *costs, struct gp_levels *levels, struct part_costs *all)
{
    uint32_t g, h;
    size_t room = 0;

    costs->ns_per_tick = 0;
    for (g = 0; g < levels->n_groups; g++) {
        part_costs_init(costs->problem, levels->groups[g].b, &all[g]);
        room += all[g].n_degrees;
        costs->ns_per_tick = fmax(costs->ns_per_tick, all[g].ns_per_tick);
    }
    costs->lower_bound = INT64_MAX;
    for (g = 0; g < levels->n_groups; g++) {
        /* stages of any of the sizes may be in a plan */
        double bound = (double)part_lower_bound(costs->problem, &all[g]) *
                       (all[g].ns_per_tick / costs->ns_per_tick);

        costs->lower_bound =
            bound < (double)costs->lower_bound ? (int64_t)floor(bound) : costs->lower_bound;
    }
    costs->comm_model = all[0].comm_model;
    CALL_TAKE(costs->lanes, room + 1);
    for (g = 0; g < levels->n_groups; g++) {
        for (h = 0; h < g && levels->groups[h].b != levels->groups[g].b; h++) {
        }
        if (h < g) {
            levels->groups[g].first_lane = levels->groups[h].first_lane;
            levels->groups[g].n_lanes = levels->groups[h].n_lanes;
            continue;
        }
        levels->groups[g].first_lane = costs->n_lanes;
        levels->groups[g].n_lanes = all[g].n_degrees;
        add_lanes(costs, &all[g], all[g].ns_per_tick / costs->ns_per_tick);
    }
}

static void notice(struct gp_costs *costs)
{
    const struct part_problem *p = costs->problem;
    uint32_t l, i;

    for (i = 0; i < p->n; i++) {
        costs->workspaces = costs->workspaces || p->workspace_bytes[i] > 0;
    }
    for (l = 0; l < costs->n_lanes; l++) {
        for (i = 0; i < p->n_edges; i++) {
            costs->links = costs->links || costs->lanes[l].p2p[i] > 0;
        }
    }
}

void gp_costs_init(struct gp_costs *costs, const struct part_problem *problem,
                   const struct gp_tree *tree, struct gp_levels *levels)
{
    struct part_costs *all = call_alloc(levels->n_groups, sizeof *all);

    *costs = (struct gp_costs){.problem = problem, .tree = tree};
    make_lanes(costs, levels, all);
    notice(costs);
    gp_classes_of_ops(costs);
    gp_classes_of_blocks(costs);
}
