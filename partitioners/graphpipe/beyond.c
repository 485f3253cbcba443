/* SPDX-License-Identifier: Apache-2.0
 *
 * Beyond the family: plans that put parts of branches into one stage without their join.
 */
#include <math.h>

#include "refine.h"
#include "solver.h"

/* Looks at a node for all sizes together: a fraction of a second. */
#define STEPS UINT64_C(5000000)
/* Searches for a shorter path at most, each with that part of the looks that the last one left. */
enum { PATHS = 12, PART = 4 };

static bool is_worth_it(const struct gp_try *t, double best_ns)
{
    if (t->b == 0) {
        return false; /* sizes of its own: nothing knows how to go on */
    }
    return t->result.found || t->result.probes == 0 || t->result.lower_ns < best_ns * (1 - 1e-12);
}

struct beyond {
    const struct part_problem *p;
    const struct gp_options *options;
    struct gp_watch *watch;
    struct gp_candidates *candidates, *chains;
    struct gp_tail_problem whole; /* nothing merged */
    struct gp_tails tails;
    uint64_t steps;  /* of each size */
    double *step_ns; /* the shortest of plans looked at by paths, of all sizes */
};

/* By the reference model the shortest step is wanted among plans of the least T alone. */
static bool is_shorter(const struct part_problem *p, const struct part_value *a,
                       const struct part_value *b)
{
    double room = 1e-12 * b->bottleneck_ns;

    if (p->figures.reference != 0 && fabs(a->bottleneck_ns - b->bottleneck_ns) > room) {
        return a->bottleneck_ns < b->bottleneck_ns;
    }
    return a->step_ns < b->step_ns;
}

/* The search goes on for the least T; a plan with a shorter path may still make the shorter step.
 */
static void keep(const struct beyond *b, struct gp_try *t, struct gp_result *r)
{
    struct part_plan plan;

    if (!r->found) {
        return;
    }
    gp_candidates_add(b->candidates, &r->plan);
    gp_result_step(b->p, r);
    if ((t->fast.found && !is_shorter(b->p, &r->value, &t->fast.value))) {
        return;
    }
    part_plan_copy(&r->plan, &plan);
    part_plan_finish(&t->fast.plan);
    t->fast = (struct gp_result){.found = true, .plan = plan, .value = r->value};
}

/* Takes the plan if it is better. */
static void consider(const struct part_problem *p, struct part_plan *plan, struct gp_result *result)
{
    struct part_value value;

    part_plan_rank(plan, p, &value);
    if (value.legal && value.fits &&
        (!result->found || part_value_better(&value, &result->value))) {
        part_plan_finish(&result->plan);
        result->plan = *plan;
        result->value = value;
        result->found = true;
        *plan = (struct part_plan){0};
    }
    part_plan_finish(plan);
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

static void search(const struct part_problem *p, const struct part_costs *costs,
                   const struct part_refine_limits *limits, struct gp_result *result)
{
    struct part_refine_stats stats = {0};
    struct part_plan plan = {0};
    bool found;

    part_dag_solve(p, costs, limits, &found, &plan, &stats);
    learn(costs, &stats, result);
    if (!found && stats.optimal) {
        result->lower_ns = INFINITY; /* nothing fits */
    }
    if (found) {
        consider(p, &plan, result);
    }
    if (result->found && !stats.optimal) {
        part_refine(p, costs, limits, &result->plan, &stats);
        learn(costs, &stats, result);
        part_plan_rank(&result->plan, p, &result->value);
    }
}

/* Spreads the work better in the same graph of stages: no rule of blocks cuts inside a residual
   connection, but single operators may cross there. */
static void even_out(const struct beyond *b, const struct part_costs *costs, struct gp_try *t,
                     const struct part_plan *plan)
{
    const struct part_refine_limits limits = {.steps = b->steps / 4 + 1, .moves_only = true};
    struct part_refine_stats stats = {0};
    struct gp_result r = {.found = true};

    part_plan_copy(plan, &r.plan);
    part_refine(b->p, costs, &limits, &r.plan, &stats);
    part_plan_rank(&r.plan, b->p, &r.value);
    t->result.states += stats.moves;
    if (r.value.legal && r.value.fits) {
        keep(b, t, &r);
    }
}

/* A plan of the family with T more than the last one's but a shorter path, which takes less time to
   fill and to drain; of every depth the least T, as long as the step could still be shorter. */
static void add_flatter(const struct beyond *b, const struct part_costs *costs, struct gp_try *t,
                        const struct gp_tail_problem *tail, const struct part_value *first)
{
    struct gp_options options = *b->options;
    struct gp_result r = {.value = *first};

    do {
        double below = t->fast.found ? t->fast.value.step_ns / b->p->batch : INFINITY;

        options.max_depth = r.value.depth - 1;
        options.above_ns = r.value.bottleneck_ns;
        if (options.max_depth == 0 || !b->candidates->wanted) {
            return;
        }
        gp_tails_plan(b->p, tail, &options, t->b, below, b->watch, &r);
        t->result.probes += r.probes;
        t->result.states += r.states;
        if (r.found && r.value.legal && r.value.fits) {
            keep(b, t, &r);
            even_out(b, costs, t, &r.plan);
        }
    } while (r.found && !gp_watch_stop(b->watch));
}

/* Plans whose joins and forks hold more than one operator. */
static void add_tails(const struct beyond *b, const struct part_costs *costs, struct gp_try *t)
{
    struct gp_result r;
    uint32_t i;

    keep(b, t, &t->result);
    if (t->result.found) {
        even_out(b, costs, t, &t->result.plan);
        add_flatter(b, costs, t, &b->whole, &t->result.value);
    }

    for (i = 0; i < b->tails.n; i++) {
        /* of a job the step is an estimate, which bounds nothing */
        double below = t->fast.found && b->p->figures.reference != 0
                           ? t->fast.value.step_ns / b->p->batch
                           : INFINITY;

        gp_tails_plan(b->p, &b->tails.of[i], b->options, t->b, below, b->watch, &r);
        t->result.probes += r.probes;
        t->result.states += r.states;
        if (r.found && r.value.legal && r.value.fits) {
            keep(b, t, &r);
            even_out(b, costs, t, &r.plan);
            add_flatter(b, costs, t, &b->tails.of[i], &r.value);
            consider(b->p, &r.plan, &t->result);
        }
    }
}

/* Tries several orders: of those with one T the model's own may make the shortest step. */
static void add_orders(const struct beyond *b, struct gp_try *t)
{
    struct gp_result chain = {0};

    gp_orders(b->p, t->b, 4, b->watch, &chain);
    if (chain.found) {
        keep(b, t, &chain);
        consider(b->p, &chain.plan, &t->result);
    }
}

/* Small families of sets: the least T there is. */
static void add_sets(const struct beyond *b, const struct part_set_search *sets, struct gp_try *t,
                     bool *ret_optimal)
{
    double below_ns = t->result.found ? t->result.value.bottleneck_ns : INFINITY;
    struct part_plan plan = {0};
    double ticks_ns;
    bool found;

    part_set_plan(sets, false, below_ns, &plan, &ticks_ns, &found, ret_optimal);
    if (found) {
        consider(b->p, &plan, &t->result);
    }
    if (*ret_optimal) {
        t->result.lower_ns =
            fmax(t->result.lower_ns,
                 t->result.found ? t->result.value.bottleneck_ns * (1 - 1e-12) : INFINITY);
    }
}

struct paths {
    const struct beyond *b;
    struct part_set_search *sets;
    double looks;           /* left */
    struct part_costs busy; /* what keeps a device busy */
    struct gp_try *t;
    uint32_t left; /* plans to look for */
};

/* A step is about b times the path and, for the rest of the mini-batch, the busiest stage, whose
   time per sample is looked at from `from_ns` to `below_ns`. No path is shorter than that. */
static void add_paths(struct paths *s, double from_ns, double below_ns, double path_ns)
{
    const struct part_problem *p = s->b->p;
    struct gp_result r = {0};
    double b = s->t->b, busy_ns;
    bool complete;

    if (s->left == 0 || gp_watch_stop(s->b->watch) ||
        b * path_ns + (p->batch - b) * from_ns >= *s->b->step_ns) {
        return;
    }
    s->left--;
    s->sets->looks = s->looks / PART;
    s->looks -= s->sets->looks;
    part_set_plan(s->sets, true, below_ns, &r.plan, &path_ns, &r.found, &complete);
    if (!r.found) {
        return;
    }
    busy_ns = (double)part_plan_ticks(&r.plan, p, &s->busy) * s->busy.ns_per_tick;
    part_plan_value(&r.plan, p, false, &r.value);
    if (r.value.legal && r.value.fits) {
        keep(s->b, s->t, &r);
        *s->b->step_ns = fmin(*s->b->step_ns, r.value.step_ns);
    }
    part_plan_finish(&r.plan);
    add_paths(s, from_ns, from_ns + (busy_ns - from_ns) / 2, path_ns);
    add_paths(s, from_ns + (busy_ns - from_ns) / 2, busy_ns, path_ns);
}

/* Plans of a larger T that a micro-batch gets through sooner. */
static void add_sooner(const struct beyond *b, const struct part_costs *costs,
                       struct part_set_search *sets, struct gp_try *t)
{
    struct paths s = {
        .b = b, .sets = sets, .looks = sets->looks, .busy = *costs, .t = t, .left = PATHS};
    double least_ns = (double)part_lower_bound(b->p, &s.busy) * costs->ns_per_tick;

    if (!b->candidates->wanted || !t->result.found || !part_is_problem(b->p)) {
        return; /* of a job paths are an estimate, and trials tell more */
    }
    s.busy.comm_model = PST_COMM_NONE;
    keep(b, t, &t->result);
    *b->step_ns = fmin(*b->step_ns, t->fast.value.step_ns);
    add_paths(&s, least_ns, *b->step_ns / b->p->batch, 0);
}

static void search_sets(const struct beyond *b, const struct part_costs *costs, struct gp_try *t)
{
    struct part_set_search sets;
    bool small = b->p->n <= 10, optimal = false; /* of such all plans are looked at */
    bool open;

    open = part_set_open(b->p, costs, b->steps, &sets);
    if (open && !small) {
        add_sets(b, &sets, t, &optimal);
    }
    if (!optimal || b->p->figures.reference == 0) { /* of a job T is not all that counts */
        const struct part_refine_limits limits = {.steps = b->steps};

        search(b->p, costs, &limits, &t->result);
    }
    if (open && !small && !optimal) {
        add_sets(b, &sets, t, &optimal); /* a smaller T leaves fewer borders */
    }
    if (open) {
        add_sooner(b, costs, &sets, t);
    }
}

static void beyond(const struct beyond *b, struct gp_try *t)
{
    struct part_costs costs = {0};

    part_costs_init(b->p, t->b, &costs);
    if (costs.n_degrees > 0) {
        add_tails(b, &costs, t);
    }
    add_orders(b, t);
    if (costs.n_degrees > 0) {
        search_sets(b, &costs, t);
    }
    keep(b, t, &t->result);
    if (costs.n_degrees > 0) {
        gp_candidates_cuts(b->chains, b->p, &costs, PART_ORDER_INDEX);
        gp_candidates_cuts(b->candidates, b->p, &costs, PART_ORDER_DFS);
    }
}

static void all_sizes(const struct beyond *b, struct gp_answer *answer)
{
    double best_ns = INFINITY, before_ns;
    uint32_t i;

    for (i = 0; i < answer->table.n; i++) {
        const struct gp_result *r = &answer->table.tries[i].result;

        best_ns = r->found ? fmin(best_ns, r->value.bottleneck_ns) : best_ns;
    }
    before_ns = best_ns;
    for (i = 0; i < answer->table.n; i++) {
        struct gp_try *t = &answer->table.tries[i];

        if (gp_watch_stop(b->watch)) {
            break;
        }
        if (is_worth_it(t, best_ns)) {
            beyond(b, t);
        }
        if (t->result.found) {
            t->skipped = false;
            best_ns = fmin(best_ns, t->result.value.bottleneck_ns);
        }
    }
    if (best_ns < before_ns * (1 - 1e-12)) {
        answer->source = "refined";
    }
}

void gp_beyond(const struct part_problem *p, const struct gp_options *options, uint32_t rule,
               struct gp_watch *watch, struct gp_answer *answer)
{
    uint64_t steps = options->refine_steps > 0 ? options->refine_steps : STEPS;
    double step_ns = INFINITY;
    struct beyond b = {.p = p,
                       .options = options,
                       .watch = watch,
                       .candidates = &answer->candidates,
                       .chains = &answer->chains,
                       .step_ns = &step_ns,
                       .steps = steps / (answer->table.n > 0 ? answer->table.n : 1) + 1};

    gp_tails_whole(&b.whole, p, rule);
    gp_tails_init(&b.tails, p, rule);
    all_sizes(&b, answer);
}
