/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan for any graph. Every valid partition is a cut of some topological order, so a few orders
 * are cut optimally. The best plan is refined.
 */
#include <math.h>

#include "refine_parts.h"
#include "stage_graph.h"

struct dag {
    const struct part_problem *problem;
    const struct part_costs *costs;
    uint32_t *order; /* [n] */
    bool found;
    struct part_plan plan;
    struct part_value value;
    struct part_chain_stats chain;
    uint64_t orders;
};

static void offer(struct dag *d, struct part_plan *plan)
{
    struct part_value value;

    part_plan_rank(plan, d->problem, &value);
    if (value.legal && value.fits && (!d->found || part_value_better(&value, &d->value))) {
        struct part_plan old = d->plan;

        d->plan = *plan;
        *plan = old;
        d->value = value;
        d->found = true;
    }
    part_plan_finish(plan);
}

static void cut(struct dag *d)
{
    struct part_chain_limits limits = {
        .below = INT64_MAX, .memory = true, .scan_steps = 2e7, .stats = &d->chain};
    struct part_plan plan = {NULL, 0};
    int64_t ticks;
    bool found;

    part_chain_solve(d->problem, d->costs, d->order, &limits, &found, &ticks, &plan);
    d->orders++;
    if (found) {
        offer(d, &plan);
    }
}

/* A plan that counts depths by the plan before it, from one that knows no memory limit, until one
   fits. Where the place in a row alone decides, branches cost memory that they do not take. */
static void cut_by_depths(struct dag *d)
{
    struct part_chain_limits limits = {.below = INT64_MAX, .scan_steps = 2e7, .stats = &d->chain};
    uint32_t *depths = call_alloc((size_t)d->problem->n + 1, sizeof *depths), round;
    bool found = true, fits = false;

    for (round = 0; found && !fits && round < 6; round++) {
        struct part_plan plan = {NULL, 0};
        struct part_value value = {.legal = false};
        struct stage_graph g = {.n = 0};
        int64_t ticks;

        part_chain_solve(d->problem, d->costs, d->order, &limits, &found, &ticks, &plan);
        if (found) {
            part_plan_rank(&plan, d->problem, &value);
            stage_graph_init(&g, &plan, d->problem);
            stage_graph_depths(&g, d->problem, depths);
            fits = value.legal && value.fits;
            if (fits) {
                offer(d, &plan);
            }
        }
        limits.memory = true;
        limits.depths = depths;
    }
}

/* A path has one order, whose optimum is that of all partitions: run index and depth agree. */
static bool is_path(const struct part_problem *p)
{
    uint32_t v;

    for (v = 0; v + 1 < p->n; v++) {
        if (p->first_out[v] == p->first_out[v + 1] || p->to[p->first_out[v]] != v + 1) {
            return false;
        }
    }
    return true;
}

static void cut_orders(struct dag *d)
{
    uint32_t kind, last = is_path(d->problem) ? PART_ORDER_INDEX : PART_ORDER_LONGEST;
    bool exact;

    for (kind = PART_ORDER_INDEX; kind <= last; kind++) {
        part_order(d->problem, kind, NULL, d->order);
        cut(d);
        if (last != PART_ORDER_INDEX && !d->problem->in_row &&
            d->problem->capacity_bytes < (double)UINT64_MAX) {
            exact = d->chain.exact;
            cut_by_depths(d);
            d->chain.exact = exact;
        }
    }
}

/* Rows of few sets: the best of all orders. Under a memory limit every number of stages and of
   devices after a set is looked at. */
static void all_rows(struct dag *d, const struct part_refine_limits *limits,
                     struct part_refine_stats *stats)
{
    const struct part_problem *p = d->problem;
    bool limited = p->capacity_bytes < (double)UINT64_MAX, found = false;
    uint64_t steps = limits != NULL && limits->steps != 0 ? limits->steps : PART_REFINE_STEPS;
    uint32_t n_stages = p->n < p->n_devices ? p->n : p->n_devices;
    double below_ns = d->found ? d->value.bottleneck_ns : INFINITY, least_ns;
    struct part_plan plan = {NULL, 0};
    struct part_set_search search;
    struct call_region region;

    call_enter(&region);
    if (part_set_open(p, d->costs, limited ? steps / p->n_devices / n_stages : steps, &search)) {
        part_set_plan(&search, false, below_ns, &plan, &least_ns, &found, &stats->optimal);
        call_keep(plan.stages);
    }
    call_leave(&region);
    if (found) {
        offer(d, &plan);
    }
    if (stats->optimal && d->found) {
        stats->ticks = part_plan_ticks(&d->plan, p, d->costs);
        stats->bound = stats->ticks;
    }
}

static void solve(struct dag *d, const struct part_refine_limits *limits,
                  struct part_refine_stats *stats)
{
    bool small = d->problem->n <= SMALL_NODES && !d->problem->in_row, found = false;
    struct part_plan plan = {NULL, 0};

    cut_orders(d);
    if (d->chain.exact && is_path(d->problem)) {
        stats->optimal = true;
        if (d->found) {
            stats->ticks = part_plan_ticks(&d->plan, d->problem, d->costs);
            stats->bound = stats->ticks;
        }
        return;
    }
    if (d->problem->in_row) {
        all_rows(d, limits, stats);
        if (stats->optimal) {
            return;
        }
    }
    if (!d->found && small) {
        small_best(d->problem, d->costs, INT64_MAX, &found, &plan);
        stats->optimal = !found;
        if (found) {
            offer(d, &plan);
        }
    }
    if (d->found) {
        part_refine(d->problem, d->costs, limits, &d->plan, stats);
    }
}

void part_dag_solve(const struct part_problem *p, const struct part_costs *c,
                    const struct part_refine_limits *limits, bool *ret_found,
                    struct part_plan *ret_plan, struct part_refine_stats *ret_stats)
{
    struct dag d = {
        .problem = p,
        .costs = c,
        .order = call_alloc((size_t)p->n + 1, sizeof *d.order),
    };
    struct part_refine_stats stats = {.bound = part_lower_bound(p, c)};

    if (c->n_degrees == 0 || p->n == 0) {
        stats.optimal = true;
    } else {
        solve(&d, limits, &stats);
    }
    stats.orders += d.orders;
    stats.probes += d.chain.probes;
    *ret_found = d.found;
    *ret_plan = d.plan;
    if (ret_stats != NULL) {
        *ret_stats = stats;
    }
}
