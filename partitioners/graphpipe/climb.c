/* SPDX-License-Identifier: Apache-2.0
 *
 * From a plan to better ones next to it, by simulated steps.
 */
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "refine_parts.h"

enum {
    ROUNDS = 40, /* improvements */
    HOPS = 4,    /* steps to somewhere else, at most */
    AHEAD = 8    /* neighbours whose neighbours are looked at */
};

/* Stages as arrays; the last one may be empty. */
struct cut {
    uint32_t n, *stage_of, *degree; /* [nodes], [n + 1] */
};

struct neighbour {
    struct part_plan plan;
    double guess_ns;
    uint32_t at;
};

struct climb {
    struct gp_trials *t;
    const struct part_problem *p;
    struct part_plan *plan;
    uint32_t idle;
    struct cut now, next;
    struct neighbour *list;
    uint32_t n, room;
    double guess_ns; /* of the plan */
};

/* next as a plan, with what the model of the step says of it. */
static void offer(struct climb *c)
{
    struct part_plan plan = {0};
    double guess_ns;
    uint32_t b = c->plan->stages[0].b, s;

    part_plan_init(&plan, c->p, c->next.stage_of, c->next.n + 1, b);
    for (s = 0; s < plan.n_stages; s++) {
        plan.stages[s].d = c->next.degree[c->next.stage_of[plan.stages[s].nodes[0]]];
        plan.stages[s].k = c->plan->stages[0].k;
    }
    if (c->t->chain && !gp_is_chain(&plan)) {
        part_plan_finish(&plan);
        return;
    }
    gp_trials_guess(c->t, &plan, &guess_ns);
    if (guess_ns < INFINITY) {
        CALL_MAKE_ROOM(c->list, c->n, c->room);
        c->list[c->n] = (struct neighbour){plan, guess_ns, c->n};
        c->n++;
        return;
    }
    part_plan_finish(&plan);
}

static void reset(struct climb *c)
{
    memcpy(c->next.stage_of, c->now.stage_of, c->p->n * sizeof *c->next.stage_of);
    memcpy(c->next.degree, c->now.degree, (c->now.n + 1) * sizeof *c->next.degree);
    c->next.n = c->now.n;
}

/* The first or last few nodes of s go to t. */
static void move(struct climb *c, uint32_t s, uint32_t t, uint32_t count, bool last)
{
    const struct part_stage *stage = &c->plan->stages[s];
    uint32_t i;

    reset(c);
    for (i = 0; i < count; i++) {
        c->next.stage_of[stage->nodes[last ? stage->n_nodes - 1 - i : i]] = t;
    }
    offer(c);
}

static void move_runs(struct climb *c, uint32_t s, uint32_t t, bool last)
{
    uint32_t n = c->plan->stages[s].n_nodes, count;

    for (count = 1; count < n; count *= 2) {
        move(c, s, t, count, last);
    }
}

/* Parts of s on devices that are idle. */
static void split(struct climb *c, uint32_t s)
{
    uint32_t k, d;

    for (k = 0; k < c->p->n_degrees; k++) {
        d = c->p->degrees[k];
        if (d <= c->idle && c->plan->stages[0].b % d == 0) {
            c->now.degree[c->now.n] = d;
            move_runs(c, s, c->now.n, false);
            move_runs(c, s, c->now.n, true);
        }
    }
    c->now.degree[c->now.n] = 1;
}

static bool is_degree(const struct climb *c, uint32_t d)
{
    uint32_t k;

    for (k = 0; k < c->p->n_degrees && c->p->degrees[k] != d; k++) {
    }
    return k < c->p->n_degrees && c->plan->stages[0].b % d == 0;
}

/* s with another number of devices, and another stage with what that leaves. */
static void redegree(struct climb *c, uint32_t s)
{
    uint32_t k, d, t, e;

    for (k = 0; k < c->p->n_degrees; k++) {
        d = c->p->degrees[k];
        if (d == c->now.degree[s] || !is_degree(c, d)) {
            continue;
        }
        if (d < c->now.degree[s] || d - c->now.degree[s] <= c->idle) {
            reset(c);
            c->next.degree[s] = d;
            offer(c);
        }
        for (t = 0; d > c->now.degree[s] && t < c->now.n; t++) {
            e = c->now.degree[t] + c->idle + c->now.degree[s] > d
                    ? c->now.degree[t] + c->idle + c->now.degree[s] - d
                    : 0;
            while (e > 0 && !is_degree(c, e)) {
                e--;
            }
            if (t != s && e > 0 && e < c->now.degree[t]) {
                reset(c);
                c->next.degree[s] = d;
                c->next.degree[t] = e;
                offer(c);
            }
        }
    }
}

static void merge(struct climb *c, uint32_t s, uint32_t t)
{
    uint32_t v, k, most = c->now.degree[s] + c->now.degree[t] + c->idle;

    for (k = 0; k < c->p->n_degrees; k++) {
        uint32_t d = c->p->degrees[k];

        if (d <= most && 2 * d > most && is_degree(c, d)) {
            reset(c);
            for (v = 0; v < c->p->n; v++) {
                if (c->next.stage_of[v] == t) {
                    c->next.stage_of[v] = s;
                }
            }
            c->next.degree[s] = d;
            offer(c);
        }
    }
}

/* s later in the order, as far as nothing in between needs it: what stages hold may depend on it.
   Else there is nothing to look at. */
static void reorder(struct climb *c, uint32_t s, const bool *linked)
{
    uint32_t n = c->now.n, t, u, v, before;

    for (t = s + 1; t < n && !linked[(size_t)s * n + t]; t++) {
        reset(c);
        for (v = 0; v < c->p->n; v++) {
            u = c->now.stage_of[v];
            c->next.stage_of[v] = u == s ? t : u > s && u <= t ? u - 1 : u;
        }
        for (u = s; u < t; u++) {
            c->next.degree[u] = c->now.degree[u + 1];
        }
        c->next.degree[t] = c->now.degree[s];
        before = c->n;
        offer(c);
        if (c->n > before && c->list[before].guess_ns == c->guess_ns) {
            part_plan_finish(&c->list[--c->n].plan);
        }
    }
}

/* Moves v to stage t, with all that comes before it in its stage, or with all that comes after. */
static void move_with(struct climb *c, uint32_t v, uint32_t t, bool behind)
{
    const struct part_problem *p = c->p;
    uint32_t s = c->now.stage_of[v], i, j, u = v;

    reset(c);
    c->next.stage_of[v] = t;
    for (i = behind ? v : v + 1; behind ? i < p->n : i > 0; i = behind ? i + 1 : i - 1) {
        u = behind ? i : i - 1;
        if (c->now.stage_of[u] != s || c->next.stage_of[u] != t) {
            continue;
        }
        for (j = behind ? p->first_out[u] : p->first_in[u];
             j < (behind ? p->first_out[u + 1] : p->first_in[u + 1]); j++) {
            uint32_t w = behind ? p->to[j] : p->from[p->in_edges[j]];

            if (c->now.stage_of[w] == s) {
                c->next.stage_of[w] = t;
            }
        }
    }
    offer(c);
}

/* Parts of branches: where a guess is all there is to a trial. */
static void move_parts(struct climb *c, const bool *linked)
{
    uint32_t n = c->now.n, v, t;

    for (v = 0; v < c->p->n; v++) {
        uint32_t s = c->now.stage_of[v];

        for (t = 0; t < n; t++) {
            if (linked[(size_t)s * n + t]) {
                move_with(c, v, t, true);
            }
            if (linked[(size_t)t * n + s]) {
                move_with(c, v, t, false);
            }
        }
    }
}

static int by_guess(const void *a_, const void *b_)
{
    const struct neighbour *a = a_, *b = b_;

    return a->guess_ns != b->guess_ns ? (a->guess_ns < b->guess_ns ? -1 : 1)
                                      : (a->at < b->at ? -1 : a->at > b->at);
}

static void all_neighbours(struct climb *c)
{
    const struct part_problem *p = c->p;
    uint32_t n = c->now.n, s, t, e;
    bool *linked = call_alloc((size_t)n * n + 1, sizeof *linked);

    for (e = 0; e < p->n_edges; e++) {
        linked[(size_t)c->now.stage_of[p->from[e]] * n + c->now.stage_of[p->to[e]]] = true;
    }
    for (s = 0; s < n; s++) {
        for (t = 0; t < n; t++) {
            if (s != t && linked[(size_t)s * n + t]) {
                move_runs(c, s, t, true);
                move_runs(c, t, s, false);
                merge(c, s, t);
            }
        }
        split(c, s);
        redegree(c, s);
    }
    gp_trials_guess(c->t, c->plan, &c->guess_ns);
    if (c->t->trial == NULL) { /* trials are for what is more likely to gain */
        move_parts(c, linked);
        for (s = 0; s < n; s++) {
            reorder(c, s, linked);
        }
    }
    if (c->n > 0) {
        qsort(c->list, c->n, sizeof *c->list, by_guess);
    }
}

static void start(struct climb *c)
{
    const struct part_problem *p = c->p;
    uint32_t s, i;

    if (c->t->trial == NULL) {
        part_plan_sort(c->plan, p); /* reorder() goes by it */
    }
    c->n = c->room = 0;
    c->list = NULL;
    c->now.n = c->plan->n_stages;
    c->idle = p->n_devices;
    for (s = 0; s < c->now.n; s++) {
        c->now.degree[s] = c->plan->stages[s].d;
        c->idle -= c->plan->stages[s].d;
        for (i = 0; i < c->plan->stages[s].n_nodes; i++) {
            c->now.stage_of[c->plan->stages[s].nodes[i]] = s;
        }
    }
    c->now.degree[s] = 1;
    all_neighbours(c);
}

/* The first of the most promising neighbours that is faster. */
static void step(struct climb *c, struct part_plan *plan, double *step_ns, bool *ret_better)
{
    struct call_region region;
    uint32_t i;

    call_enter(&region);
    start(c);
    *ret_better = false;
    for (i = 0; i < c->n && i < c->t->looks && !*ret_better; i++) {
        double ns;

        if (c->list[i].guess_ns > c->guess_ns * GP_MARGIN) {
            break;
        }
        gp_trials_step(c->t, &c->list[i].plan, *step_ns, &ns);
        if (ns < *step_ns * (1 - 1e-9)) {
            part_plan_finish(plan);
            *plan = c->list[i].plan;
            call_keep(plan->stages);
            *step_ns = ns;
            *ret_better = true;
        }
    }
    call_leave(&region);
}

/* Looks for a faster neighbour of the most promising neighbours: operators change places between
   two stages, or pass through a third one. */
static void step_twice(struct climb *c, struct part_plan *plan, double *step_ns, bool *ret_better)
{
    struct neighbour ahead[AHEAD];
    struct call_region region;
    uint32_t n, i;

    call_enter(&region);
    start(c);
    n = c->n < AHEAD ? c->n : AHEAD;
    memcpy(ahead, c->list, n * sizeof *ahead);
    for (i = 0; i < n && !*ret_better; i++) {
        c->plan = &ahead[i].plan;
        step(c, &ahead[i].plan, step_ns, ret_better);
    }
    c->plan = plan;
    if (*ret_better) {
        part_plan_finish(plan);
        *plan = ahead[i - 1].plan;
        call_keep(plan->stages);
    }
    call_leave(&region);
}

bool gp_is_chain(const struct part_plan *plan)
{
    uint32_t s;

    for (s = 0; s < plan->n_stages; s++) {
        const struct part_stage *stage = &plan->stages[s];

        if (stage->nodes[stage->n_nodes - 1] - stage->nodes[0] + 1 != stage->n_nodes) {
            return false;
        }
    }
    return true;
}

static bool is_uniform(const struct part_plan *plan)
{
    uint32_t s;

    for (s = 1; s < plan->n_stages; s++) {
        if (plan->stages[s].b != plan->stages[0].b || plan->stages[s].k != plan->stages[0].k) {
            return false;
        }
    }
    return true;
}

/* Some neighbour, faster or not. */
static void hop(struct climb *c, struct part_plan *plan, uint64_t random, bool *ret_done)
{
    struct call_region region;

    call_enter(&region);
    start(c);
    *ret_done = c->n > 0;
    if (c->n > 0) {
        part_plan_finish(plan);
        *plan = c->list[random % c->n].plan;
        call_keep(plan->stages);
    }
    call_leave(&region);
}

static void init(struct climb *c, struct gp_trials *trials, struct part_plan *plan)
{
    const struct part_problem *p = trials->problem;

    *c = (struct climb){.t = trials, .p = p, .plan = plan};
    CALL_TAKE(c->now.stage_of, (size_t)p->n + 1);
    CALL_TAKE(c->next.stage_of, (size_t)p->n + 1);
    CALL_TAKE(c->now.degree, (size_t)p->n + 2);
    CALL_TAKE(c->next.degree, (size_t)p->n + 2);
}

void gp_climb(struct gp_trials *trials, struct part_plan *plan, double *step_ns)
{
    struct climb c;
    uint32_t round;
    bool better = is_uniform(plan);

    init(&c, trials, plan);
    for (round = 0; better && round < ROUNDS; round++) {
        step(&c, plan, step_ns, &better);
        if (!better && trials->ahead) {
            step_twice(&c, plan, step_ns, &better);
        }
    }
}

void gp_stray(struct gp_trials *trials, struct part_plan *plan, uint64_t *seed, double *ret_step_ns)
{
    struct climb c;
    uint32_t hops;
    bool more = is_uniform(plan);

    init(&c, trials, plan);
    for (hops = 1 + next_random(seed) % HOPS; more && hops > 0; hops--) {
        hop(&c, plan, next_random(seed), &more);
    }
    gp_trials_guess(trials, plan, ret_step_ns);
}
