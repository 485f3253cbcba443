/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators in a row after a join become one with it, as do those before a fork. So a stage may
 * hold the end of a branch, the join and what follows it, which no series of blocks allows: little
 * work after a join would otherwise need a separate device.
 */
#include <string.h>

#include "solver.h"

/* The most work that is merged with an operator, in shares of a device; each is tried. */
static const double shares[] = {0.25, 1};

struct merge {
    const struct part_problem *p;
    double limit, *work; /* [n] ns */
    uint32_t *group;     /* [n] the join or fork that it is one with, or itself */
};

/* The only operator after v (before it); GP_NONE: none, or several. */
static uint32_t next_of(const struct part_problem *p, uint32_t v)
{
    uint32_t n = p->first_out[v + 1] - p->first_out[v];

    return n == 1 ? p->to[p->first_out[v]] : GP_NONE;
}

static uint32_t last_of(const struct part_problem *p, uint32_t v)
{
    uint32_t n = p->first_in[v + 1] - p->first_in[v];

    return n == 1 ? p->from[p->in_edges[p->first_in[v]]] : GP_NONE;
}

static bool is_join(const struct part_problem *p, uint32_t v)
{
    return p->first_in[v + 1] - p->first_in[v] > 1;
}

static bool is_fork(const struct part_problem *p, uint32_t v)
{
    return p->first_out[v + 1] - p->first_out[v] > 1;
}

/* A row between a join and a fork is the join's as far as that reaches. */
static void behind(struct merge *m, uint32_t join)
{
    double sum = 0;
    uint32_t at = join, v;

    while ((v = next_of(m->p, at)) != GP_NONE && last_of(m->p, v) == at) {
        sum += m->work[v];
        if (sum > m->limit) {
            break;
        }
        m->group[v] = join;
        at = v;
    }
}

static void before(struct merge *m, uint32_t fork)
{
    double sum = 0;
    uint32_t at = fork, v;

    if (m->group[fork] != fork) {
        return;
    }
    while ((v = last_of(m->p, at)) != GP_NONE && next_of(m->p, v) == at && m->group[v] == v &&
           !is_join(m->p, v)) {
        sum += m->work[v];
        if (sum > m->limit) {
            break;
        }
        m->group[v] = fork;
        at = v;
    }
}

/* Groups by number. The join's or fork's own place is a topological one for all of its group. */
static uint32_t number(struct merge *m)
{
    uint32_t *of = call_alloc((size_t)m->p->n + 1, sizeof *of), n = 0, v;

    for (v = 0; v < m->p->n; v++) {
        of[v] = m->group[v] == v ? n++ : GP_NONE;
    }
    for (v = 0; v < m->p->n; v++) {
        m->group[v] = of[m->group[v]];
    }
    return n;
}

static void group(const struct part_problem *p, double share, uint32_t *group_of, uint32_t *ret_n)
{
    struct merge m = {.p = p, .group = group_of};
    double total = 0;
    uint32_t v;

    CALL_TAKE(m.work, (size_t)p->n + 1);
    for (v = 0; v < p->n; v++) {
        m.work[v] = p->n_samples > 0 ? p->forward_ns[v] + p->backward_ns[v] : 0;
        total += m.work[v];
        group_of[v] = v;
    }
    m.limit = share * total / p->n_devices;
    for (v = 0; v < p->n; v++) {
        if (is_join(p, v)) {
            behind(&m, v);
        }
    }
    for (v = 0; v < p->n; v++) {
        if (is_fork(p, v)) {
            before(&m, v);
        }
    }
    *ret_n = number(&m);
}

static void add(const struct part_problem *p, double share, uint32_t rule, struct gp_tails *tails)
{
    struct gp_tail_problem *t = &tails->of[tails->n];
    uint32_t n, before_n = tails->n > 0 ? tails->of[tails->n - 1].problem.n : p->n;

    CALL_TAKE(t->group_of, (size_t)p->n + 1);
    group(p, share, t->group_of, &n);
    if (n == before_n) {
        t->group_of = NULL; /* nothing, or nothing more */
        return;
    }
    part_problem_merge(p, t->group_of, n, &t->problem);
    tails->n++;
    gp_tree_of(&t->problem, rule, &t->tree);
}

void gp_tails_whole(struct gp_tail_problem *t, const struct part_problem *p, uint32_t rule)
{
    uint32_t v;

    *t = (struct gp_tail_problem){.problem = *p};
    CALL_TAKE(t->group_of, (size_t)p->n + 1);
    for (v = 0; v < p->n; v++) {
        t->group_of[v] = v;
    }
    gp_tree_of(p, rule, &t->tree);
}

void gp_tails_init(struct gp_tails *tails, const struct part_problem *p, uint32_t rule)
{
    uint32_t i;

    memset(tails, 0, sizeof *tails);
    for (i = 0; i < sizeof shares / sizeof *shares; i++) {
        add(p, shares[i], rule, tails);
    }
}

/* Makes the stages of the operators from those of the groups. */
static void expand(const struct part_problem *p, const struct gp_tail_problem *t,
                   const struct part_plan *coarse, struct part_plan *ret_plan)
{
    uint32_t *stage_of = call_alloc((size_t)p->n + 1, sizeof *stage_of);
    uint32_t *of_group = call_alloc((size_t)t->problem.n + 1, sizeof *of_group), s, i, v;

    for (s = 0; s < coarse->n_stages; s++) {
        for (i = 0; i < coarse->stages[s].n_nodes; i++) {
            of_group[coarse->stages[s].nodes[i]] = s;
        }
    }
    for (v = 0; v < p->n; v++) {
        stage_of[v] = of_group[t->group_of[v]];
    }
    part_plan_init(ret_plan, p, stage_of, coarse->n_stages, coarse->stages[0].b);
    for (s = 0; s < coarse->n_stages; s++) {
        ret_plan->stages[s].d = coarse->stages[s].d;
        ret_plan->stages[s].b = coarse->stages[s].b;
        ret_plan->stages[s].k = coarse->stages[s].k;
    }
}

void gp_tails_plan(const struct part_problem *p, const struct gp_tail_problem *t,
                   const struct gp_options *options, uint32_t b, double below_ns,
                   struct gp_watch *watch, struct gp_result *ret_result)
{
    struct part_plan plan = {0};

    memset(ret_result, 0, sizeof *ret_result);
    if (t->tree.n_blocks == 0) {
        return;
    }
    gp_search_size(&t->problem, &t->tree, options, b, below_ns, watch, ret_result);
    if (!ret_result->found) {
        return;
    }
    expand(p, t, &ret_result->plan, &plan);
    part_plan_finish(&ret_result->plan);
    ret_result->plan = plan;
    part_plan_value(&plan, p, false, &ret_result->value);
}
