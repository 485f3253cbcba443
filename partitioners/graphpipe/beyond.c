/* SPDX-License-Identifier: Apache-2.0
 *
 * Beyond the family: plans that put parts of branches into one stage without their join.
 */
#include <math.h>

#include "refine.h"
#include "solver.h"

/* Looks at a node for all sizes together: a fraction of a second. */
#define STEPS UINT64_C(5000000)

static bool is_worth_it(const struct gp_try *t, double best_ns)
{
    if (t->b == 0) {
        return false; /* sizes of its own: nothing knows how to go on */
    }
    return t->result.found || t->result.probes == 0 || t->result.lower_ns < best_ns * (1 - 1e-12);
}

/* Takes the plan if it is better. */
static pst_status consider(const struct part_problem *p, struct part_plan *plan,
                           struct gp_result *result)
{
    struct part_value value;
    pst_status st = part_plan_value(plan, p, false, &value);

    if (st == PST_OK && value.legal && value.fits &&
        (!result->found || part_value_better(&value, &result->value))) {
        part_plan_finish(&result->plan);
        result->plan = *plan;
        result->value = value;
        result->found = true;
        *plan = (struct part_plan){0};
    }
    part_plan_finish(plan);
    return st;
}

/* A proven optimum of all plans bounds this size. */
static void learn(const struct part_costs *costs, const struct part_refine_stats *stats,
                  struct gp_result *result)
{
    if (stats->optimal) {
        result->lower_ns = fmax(result->lower_ns, (double)stats->bound * costs->ns_per_tick);
    }
    result->probes += stats->probes;
    result->states += stats->moves;
}

static pst_status search(const struct part_problem *p, const struct part_costs *costs,
                         const struct part_refine_limits *limits, struct gp_result *result)
{
    struct part_refine_stats stats = {0};
    struct part_plan plan = {0};
    bool found;
    pst_status st = part_dag_solve(p, costs, limits, &found, &plan, &stats);

    if (st != PST_OK) {
        return st;
    }
    learn(costs, &stats, result);
    if (!found && stats.optimal) {
        result->lower_ns = INFINITY; /* nothing fits */
    }
    if (found) {
        st = consider(p, &plan, result);
    }
    if (st == PST_OK && result->found && !stats.optimal) {
        st = part_refine(p, costs, limits, &result->plan, &stats);
        if (st == PST_OK) {
            learn(costs, &stats, result);
            st = part_plan_value(&result->plan, p, false, &result->value);
        }
    }
    return st;
}

static pst_status beyond(const struct part_problem *p, struct gp_watch *watch, uint64_t steps,
                         struct gp_try *t)
{
    struct part_refine_limits limits = {.steps = steps};
    struct part_costs costs = {0};
    pst_status st = gp_orders(p, t->b, 4, watch, &t->result);

    if (st == PST_OK) {
        st = part_costs_init(p, t->b, &costs);
    }
    if (st == PST_OK && costs.n_degrees > 0) {
        st = search(p, &costs, &limits, &t->result);
    }
    part_costs_finish(&costs);
    return st;
}

pst_status gp_beyond(const struct part_problem *p, uint64_t steps, struct gp_watch *watch,
                     struct gp_answer *answer)
{
    double best_ns = INFINITY, before_ns;
    uint32_t i;
    pst_status st = PST_OK;

    steps = steps > 0 ? steps : STEPS;
    for (i = 0; i < answer->table.n; i++) {
        const struct gp_result *r = &answer->table.tries[i].result;

        best_ns = r->found ? fmin(best_ns, r->value.bottleneck_ns) : best_ns;
    }
    before_ns = best_ns;
    for (i = 0; st == PST_OK && i < answer->table.n; i++) {
        struct gp_try *t = &answer->table.tries[i];

        if (gp_watch_stop(watch)) {
            st = watch->is_cancelled ? PST_ERR_CANCELLED : PST_OK;
            break;
        }
        if (is_worth_it(t, best_ns)) {
            st = beyond(p, watch, steps / answer->table.n + 1, t);
        }
        if (t->result.found) {
            t->skipped = false;
            best_ns = fmin(best_ns, t->result.value.bottleneck_ns);
        }
    }
    if (best_ns < before_ns * (1 - 1e-12)) {
        answer->source = "refined";
    }
    return st;
}
