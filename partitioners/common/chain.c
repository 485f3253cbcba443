/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimal cut of one order: bisection over T, first by the furthest positions, then, where
 * these are not exact, by scanning all ranges as long as that is affordable.
 */

#include "chain_line.h"

#define SCAN_STEPS_MAX 3e8 /* of all probes */
#define SCAN_PROBES    40

struct search {
    struct line line;
    struct probe probe;
    struct part_chain_stats *stats;
    struct cuts best, tried;
    bool found;
    double scan_steps;
    int64_t low, high; /* T of best, or more than any; nothing is below low */
};

static void to_plan(const struct search *s, struct part_plan *plan)
{
    const struct line *l = &s->line;
    uint32_t i;

    part_plan_cut(plan, l->problem, l->order, s->best.first, s->best.n, l->costs->b);
    for (i = 0; i < s->best.n; i++) {
        plan->stages[i].d = l->costs->degrees[s->best.k[i]];
    }
}

static void try_at(struct search *s, int64_t ticks, bool *ret_found)
{
    call_go_on(s->line.problem->host);
    s->stats->probes++;
    s->probe.run(&s->probe, ticks, ret_found, &s->tried);
    if (*ret_found) {
        struct cuts cuts = s->best;
        struct part_plan plan = {0};

        s->best = s->tried;
        s->tried = cuts;
        s->found = true;
        to_plan(s, &plan);
        s->high = part_plan_ticks(&plan, s->line.problem, s->line.costs);
        part_plan_finish(&plan);
    }
}

/* Between low and high, both of which can be the answer (high: if something was found). */
static void bisect(struct search *s)
{
    int64_t low = s->low, step = s->low / 64 + 1;
    bool found = false;

    /* Up from the bound in growing steps: most answers are near it. */
    while (!found && low < s->high) {
        int64_t ticks = s->high - low > step ? low + step - 1 : s->high - 1;

        try_at(s, ticks, &found);
        low = found ? low : ticks + 1;
        step = step > INT64_MAX / 4 ? step : 4 * step;
    }
    while (low < s->high && s->found) {
        int64_t middle = low + (s->high - low) / 2;

        if (middle == s->high) {
            break;
        }
        try_at(s, middle, &found);
        low = found ? low : middle + 1;
    }
}

static void with(struct search *s)
{
    bisect(s);
    s->probe = (struct probe){.line = &s->line, .stats = s->stats};
}

static int64_t own_bound(const struct line *l)
{
    int64_t bound = part_lower_bound(l->problem, l->costs);
    int64_t total = l->least[l->n];

    total = total / l->max_devices + (total % l->max_devices != 0);
    return total > bound ? total : bound;
}

static void solve(struct search *s)
{
    struct line *l = &s->line;
    bool inexact = false, may_fit = true;

    s->probe = (struct probe){.line = l, .stats = s->stats};
    front_init(&s->probe, &inexact);
    with(s);
    s->stats->exact = l->cross == NULL || (l->straight && !inexact);
    if (s->stats->exact || s->high <= s->low) {
        s->stats->exact = s->stats->exact || s->high <= s->low;
        return;
    }
    if (scan_steps(l, s->high - 1) * SCAN_PROBES <= s->scan_steps) {
        scan_init(&s->probe);
        if (!s->found) {
            /* Where nothing fits at any T, one look tells so. */
            s->probe.run(&s->probe, s->high - 1, &may_fit, &s->tried);
        }
        s->low = may_fit ? s->low : s->high;
        with(s);
        s->stats->exact = true;
    }
}

void part_chain_solve(const struct part_problem *p, const struct part_costs *c,
                      const uint32_t *order, const struct part_chain_limits *limits,
                      bool *ret_found, int64_t *ret_ticks, struct part_plan *ret_plan)
{
    struct part_chain_stats own = {false, 0, 0};
    struct search s = {.stats = limits->stats != NULL ? limits->stats : &own};
    struct part_plan plan = {NULL, 0};
    struct call_region region;

    *ret_found = false;
    s.stats->exact = true;
    if (c->n_degrees == 0 || p->n == 0 || p->n_devices == 0) {
        return;
    }
    call_enter(&region);
    line_init(&s.line, p, c, order, limits);
    cuts_init(&s.best, s.line.max_stages);
    cuts_init(&s.tried, s.line.max_stages);
    s.scan_steps = limits->scan_steps > 0 ? limits->scan_steps : SCAN_STEPS_MAX;
    s.low = own_bound(&s.line);
    s.high = limits->below < s.line.cap + 1 ? limits->below : s.line.cap + 1;
    solve(&s);
    if (s.found) {
        to_plan(&s, &plan);
        call_keep(plan.stages);
        *ret_found = true;
        *ret_ticks = s.high;
        *ret_plan = plan;
    }
    call_leave(&region);
}
