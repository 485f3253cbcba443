/* SPDX-License-Identifier: Apache-2.0 */
#include "candidates.h"

#include <math.h>
#include <string.h>

#include "chain.h"
#include "ranges.h"
#include "sequence.h"

static bool is_same(const struct part_plan *a, const struct part_plan *b)
{
    uint32_t s;

    for (s = 0; a->n_stages == b->n_stages && s < a->n_stages; s++) {
        const struct part_stage *x = &a->stages[s], *y = &b->stages[s];

        if (x->n_nodes != y->n_nodes || x->d != y->d || x->b != y->b || x->k != y->k ||
            memcmp(x->nodes, y->nodes, x->n_nodes * sizeof *x->nodes) != 0) {
            return false;
        }
    }
    return a->n_stages == b->n_stages;
}

void gp_candidates_add(struct gp_candidates *c, const struct part_plan *plan)
{
    uint32_t i;

    if (!c->wanted) {
        return;
    }
    for (i = 0; i < c->n; i++) {
        if (is_same(&c->list[i], plan)) {
            return;
        }
    }
    CALL_MAKE_ROOM(c->list, c->n, c->room);
    part_plan_copy(plan, &c->list[c->n++]);
}

/* --- chains ------------------------------------------------------------------------------------*/

struct chains {
    struct gp_candidates *candidates;
    const struct part_problem *p;
    const struct part_costs *costs; /* one degree alone: of single devices */
    uint32_t n_stages, *order, *stage_of, *degrees, *cuts;
    double *sum_ns;
};

static void add_cut(const struct chains *s)
{
    struct part_plan plan = {0};

    part_plan_cut(&plan, s->p, s->order, s->cuts, s->n_stages, s->costs->b);
    gp_candidates_add(s->candidates, &plan);
    part_plan_finish(&plan);
}

/* Adds a cut of equal times; operators without work go with those before them. */
static void add_even(const struct chains *s)
{
    const struct part_problem *p = s->p;
    uint32_t i;

    s->sum_ns[0] = 0;
    for (i = 0; i < p->n; i++) {
        s->sum_ns[i + 1] =
            s->sum_ns[i] + (double)s->costs->comp[0][s->order[i]] * s->costs->ns_per_tick;
    }
    part_balance(s->sum_ns, p->n, s->n_stages, s->cuts);
    add_cut(s);
}

static void add_filled(const struct chains *s, const struct part_plan *plan)
{
    struct part_plan filled = {0};
    uint32_t t, i;

    for (t = 0; t < plan->n_stages; t++) {
        s->degrees[t] = 1;
        for (i = 0; i < plan->stages[t].n_nodes; i++) {
            s->stage_of[plan->stages[t].nodes[i]] = t;
        }
    }
    part_sequence_plan(s->p, s->stage_of, plan->n_stages, s->degrees, s->costs->b, s->n_stages,
                       &filled);
    gp_candidates_add(s->candidates, &filled);
    part_plan_finish(&filled);
}

static int64_t ticks_below(const struct chains *s, double step_ns)
{
    double most = step_ns / s->p->batch / s->costs->ns_per_tick;

    return most < 9e18 ? (int64_t)ceil(most) : INT64_MAX;
}

/* Fewer stages take less time to fill and to drain. */
static void add_fewer(const struct chains *s)
{
    struct part_chain_limits limits = {
        .below = INT64_MAX, .memory = true, .max_stages = s->n_stages};
    int64_t ticks;
    bool found;

    do {
        struct part_plan plan = {0};
        struct part_value value;

        part_chain_solve(s->p, s->costs, s->order, &limits, &found, &ticks, &plan);
        if (found) {
            gp_candidates_add(s->candidates, &plan);
            part_plan_value(&plan, s->p, false, &value);
            limits.max_stages = plan.n_stages - 1;
            ticks = ticks_below(s, value.step_ns);
            limits.below = ticks < limits.below ? ticks : limits.below;
        }
        part_plan_finish(&plan);
    } while (found && limits.max_stages > 0);
}

static void add_least(const struct chains *s)
{
    struct part_chain_limits limits = {
        .below = INT64_MAX, .memory = true, .max_stages = s->n_stages};
    struct part_plan plan = {0};
    int64_t ticks;
    bool found;

    part_chain_solve(s->p, s->costs, s->order, &limits, &found, &ticks, &plan);
    if (found) {
        gp_candidates_add(s->candidates, &plan);
        add_filled(s, &plan);
    }
    part_plan_finish(&plan);
}

void gp_candidates_cuts(struct gp_candidates *candidates, const struct part_problem *p,
                        const struct part_costs *costs, uint32_t order)
{
    struct part_costs one = *costs;
    struct chains s = {
        .candidates = candidates,
        .p = p,
        .costs = costs,
        .n_stages = p->n_devices < p->n ? p->n_devices : p->n,
    };

    if (!candidates->wanted || costs->n_degrees == 0) {
        return;
    }
    CALL_TAKE(s.order, (size_t)p->n + 1);
    CALL_TAKE(s.stage_of, (size_t)p->n + 1);
    CALL_TAKE(s.degrees, (size_t)p->n + 1);
    CALL_TAKE(s.cuts, (size_t)p->n + 2);
    CALL_TAKE(s.sum_ns, (size_t)p->n + 1);
    part_order(p, order, NULL, s.order);
    add_fewer(&s);
    if (costs->degrees[0] == 1) {
        one.n_degrees = 1;
        s.costs = &one;
        add_least(&s);
        add_even(&s);
    }
}
