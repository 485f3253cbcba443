/* SPDX-License-Identifier: Apache-2.0
 *
 * A cut of the model's order: its borders moved by simulated steps, devices as they are.
 */
#include "trial.h"

#include <math.h>
#include <stdlib.h>

#include "borders.h"
#include "chain.h"

struct rows {
    struct gp_trials *t;
    const struct part_plan *plan; /* its stages in order say the degrees */
    uint32_t *order;              /* [nodes] */
    const double *step_ns;        /* of the best cut so far */
    double guess_ns;              /* of the same, by the model */
};

static int by_place(const void *a_, const void *b_)
{
    const struct part_stage *a = a_, *b = b_;

    return a->nodes[0] < b->nodes[0] ? -1 : 1;
}

static void plan_of(const struct rows *rows, const uint32_t *cuts, struct part_plan *ret_plan)
{
    const struct part_plan *plan = rows->plan;
    uint32_t s;

    part_plan_cut(ret_plan, rows->t->problem, rows->order, cuts, plan->n_stages, plan->stages[0].b);
    for (s = 0; s < plan->n_stages; s++) {
        ret_plan->stages[s].d = plan->stages[s].d;
        ret_plan->stages[s].k = plan->stages[s].k;
    }
}

static void guess(void *rows_, const uint32_t *cuts, double *ret_ns)
{
    const struct rows *rows = rows_;
    struct part_plan plan = {0};

    plan_of(rows, cuts, &plan);
    gp_trials_guess(rows->t, &plan, ret_ns);
    part_plan_finish(&plan);
}

static void step(void *rows_, const uint32_t *cuts, double *ret_ns)
{
    struct rows *rows = rows_;
    struct part_plan plan = {0};
    double guess_ns;

    *ret_ns = INFINITY;
    guess(rows, cuts, &guess_ns);
    if (guess_ns <= rows->guess_ns * GP_MARGIN) {
        plan_of(rows, cuts, &plan);
        gp_trials_step(rows->t, &plan, *rows->step_ns, ret_ns);
        part_plan_finish(&plan);
    }
    rows->guess_ns = *ret_ns < *rows->step_ns ? guess_ns : rows->guess_ns;
}

void gp_move_borders(struct gp_trials *trials, struct part_plan *plan, double *step_ns)
{
    const struct part_problem *p = trials->problem;
    struct rows rows = {.t = trials,
                        .plan = plan,
                        .order = call_alloc((size_t)p->n + 1, sizeof *rows.order),
                        .step_ns = step_ns};
    const struct part_borders borders = {
        .n = p->n, .n_stages = plan->n_stages, .impl = &rows, .guess = guess, .step = step};
    uint32_t *cuts = call_alloc((size_t)plan->n_stages + 1, sizeof *cuts), s, v;
    struct part_plan moved = {0};

    for (v = 0; v < p->n; v++) {
        rows.order[v] = v;
    }
    qsort(plan->stages, plan->n_stages, sizeof *plan->stages, by_place);
    for (s = 0; s < plan->n_stages; s++) {
        cuts[s] = plan->stages[s].nodes[0];
    }
    cuts[s] = p->n;
    guess(&rows, cuts, &rows.guess_ns);
    part_borders_move(&borders, cuts, step_ns);
    plan_of(&rows, cuts, &moved);
    part_plan_finish(plan);
    *plan = moved;
}
