/* SPDX-License-Identifier: Apache-2.0
 *
 * Every valid plan is a cut of some topological order, also those that blocks cannot express.
 */
#include <math.h>

#include "chain.h"
#include "solver.h"

static void cut(const struct part_problem *problem, const struct part_costs *costs,
                const uint32_t *order, struct gp_result *result)
{
    struct part_chain_stats stats = {0};
    struct part_chain_limits limits = {
        .below = INT64_MAX, .memory = problem->capacity_bytes < 1e300, .stats = &stats};
    struct part_plan plan = {0};
    struct part_value value;
    int64_t ticks;
    bool found;

    if (result->found) {
        limits.below = (int64_t)ceil(result->value.bottleneck_ns / costs->ns_per_tick);
    }
    part_chain_solve(problem, costs, order, &limits, &found, &ticks, &plan);
    result->probes += stats.probes;
    result->states += stats.states;
    if (!found) {
        return;
    }
    part_plan_rank(&plan, problem, &value);
    if (value.legal && value.fits &&
        (!result->found || part_value_better(&value, &result->value))) {
        part_plan_finish(&result->plan);
        result->plan = plan;
        result->value = value;
        result->found = true;
    } else {
        part_plan_finish(&plan);
    }
}

void gp_search_chain(const struct part_problem *problem, uint32_t b, uint32_t max_stages,
                     double below_ns, struct gp_result *ret_result, bool *ret_exact)
{
    struct part_chain_stats stats = {0};
    struct part_chain_limits limits = {.below = INT64_MAX,
                                       .max_stages = max_stages,
                                       .memory = problem->capacity_bytes < 1e300,
                                       .stats = &stats};
    uint32_t *order = call_alloc((size_t)problem->n + 1, sizeof *order);
    struct part_costs costs = {0};
    int64_t ticks;

    part_costs_init(problem, b, &costs);
    *ret_result = (struct gp_result){0};
    part_order(problem, PART_ORDER_INDEX, NULL, order);
    if (costs.n_degrees > 0) {
        double most = below_ns / costs.ns_per_tick * (1 - 1e-12);

        limits.below = most < 9e18 ? (int64_t)ceil(most) : INT64_MAX;
        ret_result->lower_ns = (double)part_lower_bound(problem, &costs) * costs.ns_per_tick;
        ret_result->bound_ns = ret_result->lower_ns;
        part_chain_solve(problem, &costs, order, &limits, &ret_result->found, &ticks,
                         &ret_result->plan);
    }
    if (ret_result->found) {
        part_plan_rank(&ret_result->plan, problem, &ret_result->value);
        ret_result->bound_ns =
            stats.exact ? (double)ticks * costs.ns_per_tick : ret_result->lower_ns;
    }
    ret_result->probes = stats.probes;
    ret_result->states = stats.states;
    ret_result->proven = stats.exact;
    *ret_exact = stats.exact;
    if (!stats.exact) {
        *ret_result = (struct gp_result){0};
    }
}

/* Too large in any order: one operator alone, or all parameters together. */
static bool is_too_large(const struct part_problem *p, const struct part_costs *costs)
{
    uint32_t most = costs->n_degrees > 0 ? costs->degrees[costs->n_degrees - 1] : 1, v;
    double weight = 0;

    for (v = 0; v < p->n; v++) {
        weight += p->weight_bytes[v];
        if (!part_fits(p, part_memory(p, p->weight_bytes[v], p->saved_bytes[v],
                                      p->workspace_bytes[v], most, costs->b))) {
            return true;
        }
    }
    return !part_fits(p, p->weight_multiplier * weight / p->n_devices);
}

void gp_orders(const struct part_problem *problem, uint32_t b, uint32_t n_orders,
               struct gp_watch *watch, struct gp_result *result)
{
    static const uint32_t kinds[] = {PART_ORDER_INDEX, PART_ORDER_DFS, PART_ORDER_BFS,
                                     PART_ORDER_LONGEST};
    uint32_t *order = call_alloc((size_t)problem->n + 1, sizeof *order), k;
    struct part_costs costs = {0};

    part_costs_init(problem, b, &costs);
    if (result->lower_ns == 0) {
        result->lower_ns = (double)part_lower_bound(problem, &costs) * costs.ns_per_tick;
    }
    if ((costs.n_degrees == 0 || is_too_large(problem, &costs))) {
        n_orders = 0;
    }
    for (k = 0; k < n_orders && k < sizeof kinds / sizeof kinds[0]; k++) {
        if (gp_watch_stop(watch) && k > 0) {
            break; /* out of time, one order is still cut: better than no plan */
        }
        part_order(problem, kinds[k], NULL, order);
        cut(problem, &costs, order, result);
    }
}
