/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several plans makes the shortest step is known when the step is simulated: what shares a
 * link waits in queues, and the scheduler may run further ahead than 1F1B.
 */
#include "trial.h"

#include <math.h>
#include <stdlib.h>

/* A pass is simulated in some hundred nanoseconds and lowered in some thousand. */
#define PASSES_MAX   UINT64_C(8000000)
#define PASSES_STRAY UINT64_C(400000) /* of a job's strays: some tenths of a second */

/* Plans to climb from; neighbours looked at of each, and of the best that comes of them. */
enum { STARTS = 4, LOOKS = 24, LAST_LOOKS = 100 };
/* For problem files, where a trial is cheap. */
enum { PROBLEM_STARTS = 32, STRAYS = 300 };
/* A job's start whose step is so much longer than the best is not tried, unless trials are cheap
   and fewer than so many passes have been simulated. */
#define REACH        1.15
#define PASSES_REACH UINT64_C(300000)
/* A guess takes as long as one pass in so many. */
enum { GUESS = 16 };

static void trials_init(struct gp_trials *trials, const struct part_problem *problem)
{
    const struct pst_host *host = problem->host;

    *trials = (struct gp_trials){.problem = problem, .left = PASSES_MAX, .looks = LOOKS};
    if (host != NULL && problem->figures.reference == 0) {
        trials->trial = host->get_extension(host, PST_TRIAL);
    }
}

/* Is a stage that is said to take so much to be laid out before it is believed to fit? */
static bool is_near(const struct gp_trials *t, uint64_t peak_bytes)
{
    return (double)peak_bytes > (double)t->problem->in->capacity_bytes * 0.75;
}

static void simulate(struct gp_trials *t, const struct part_plan *plan, bool exact,
                     double *ret_step_ns, bool *ret_near)
{
    struct pst_trial_value value = {.size = sizeof value, .quick = !exact};

    call_check(t->trial->step(t->problem->host, part_plan_decls(plan, t->problem), plan->n_stages,
                              &value));
    *ret_step_ns = value.fits != 0 ? (double)value.step_ns : INFINITY;
    *ret_near = is_near(t, value.peak_bytes);
    t->n++;
}

/* Takes the passes of a step off those that are left; 1 in so many. */
static bool afford(struct gp_trials *t, const struct part_plan *plan, uint32_t share)
{
    uint64_t passes = t->trial != NULL ? 0 : t->problem->n_edges, n_ranks = 0;
    uint32_t s;

    for (s = 0; s < plan->n_stages; s++) {
        passes += 2 * (uint64_t)plan->stages[s].d * (t->problem->batch / plan->stages[s].b);
        n_ranks += plan->stages[s].d;
    }
    call_go_on(t->problem->host);
    passes /= share;
    if (passes > t->left || n_ranks > t->problem->n_devices) {
        return false;
    }
    t->left -= passes;
    return true;
}

void gp_trials_guess(struct gp_trials *t, const struct part_plan *plan, double *ret_step_ns)
{
    struct part_value value = {.legal = false};

    if (afford(t, plan, t->trial != NULL ? GUESS : 1)) {
        part_plan_value(plan, t->problem, true, &value);
    }
    *ret_step_ns = value.legal && value.fits ? value.step_ns : INFINITY;
}

/* INFINITY: it does not fit, or the rest of the trials does not suffice for it. */
static void step_of(struct gp_trials *t, const struct part_plan *plan, bool exact,
                    double *ret_step_ns, bool *ret_near)
{
    struct call_region region;

    *ret_near = false;
    if (t->trial == NULL || t->guess) {
        gp_trials_guess(t, plan, ret_step_ns);
        return;
    }
    *ret_step_ns = INFINITY;
    if (afford(t, plan, 1)) {
        double guess_ns;

        gp_trials_guess(t, plan, &guess_ns);
        if (guess_ns < INFINITY) {
            call_enter(&region);
            simulate(t, plan, exact, ret_step_ns, ret_near);
            call_leave(&region);
        }
    }
}

void gp_trials_step(struct gp_trials *t, const struct part_plan *plan, double below_ns,
                    double *ret_step_ns)
{
    double exact_ns;
    bool near;

    step_of(t, plan, false, ret_step_ns, &near);
    if (near && *ret_step_ns < below_ns) {
        step_of(t, plan, true, &exact_ns, &near);
        *ret_step_ns = exact_ns < INFINITY ? *ret_step_ns : INFINITY;
    }
}

static void take(struct gp_trials *t, struct gp_answer *a, struct part_plan *plan, double step_ns)
{
    part_plan_value(plan, t->problem, true, &a->value);
    part_plan_finish(&a->plan);
    a->plan = *plan;
    *plan = (struct part_plan){0};
    a->b = a->plan.stages[0].b;
    a->value.step_ns = step_ns;
}

struct ranked {
    uint32_t at;
    double step_ns;
};

static int by_step(const void *a_, const void *b_)
{
    const struct ranked *a = a_, *b = b_;

    return a->step_ns != b->step_ns ? (a->step_ns < b->step_ns ? -1 : 1)
                                    : (a->at < b->at ? -1 : a->at > b->at);
}

/* Every candidate once; those that seem to fit first, by their steps. */
static struct ranked *rank(struct gp_trials *t, const struct gp_candidates *c)
{
    struct ranked *ranked = call_alloc((size_t)c->n + 1, sizeof *ranked);
    uint32_t i;

    for (i = 0; i < c->n; i++) {
        ranked[i].at = i;
        gp_trials_step(t, &c->list[i], 0, &ranked[i].step_ns);
    }
    qsort(ranked, c->n, sizeof *ranked, by_step);
    return ranked;
}

/* The best plan so far; no stages: none. */
struct hill {
    struct part_plan plan;
    double step_ns;
};

/* The plan takes the place of the best one if its step, exactly, is shorter. Does it fit? */
static bool compare(struct gp_trials *t, const struct part_plan *plan, struct hill *best)
{
    double step_ns;
    bool near;

    step_of(t, plan, true, &step_ns, &near);
    if (step_ns < best->step_ns) {
        part_plan_finish(&best->plan);
        part_plan_copy(plan, &best->plan);
        best->step_ns = step_ns;
    }
    return step_ns < INFINITY;
}

/* False: the start does not fit. */
static bool climb_from(struct gp_trials *t, const struct part_plan *start, double step_ns,
                       struct hill *best)
{
    struct part_plan plan = {0};
    double before_ns = step_ns;

    if (!compare(t, start, best)) {
        return false;
    }
    part_plan_copy(start, &plan);
    if (t->chain) {
        gp_move_borders(t, &plan, &step_ns);
    }
    gp_climb(t, &plan, &step_ns);
    if (step_ns < before_ns) {
        compare(t, &plan, best);
    }
    part_plan_finish(&plan);
    return true;
}

static bool is_in_reach(const struct gp_trials *t, double step_ns, const struct hill *best)
{
    bool cheap = t->trial == NULL || (!t->chain && t->left > PASSES_MAX - PASSES_REACH);

    return step_ns < INFINITY && (cheap || step_ns < best->step_ns * REACH);
}

/* From the first few: the best plan need not be next to the best candidate. */
static void climb(struct gp_trials *t, const struct gp_candidates *c, struct hill *best)
{
    const struct ranked *ranked = rank(t, c);
    uint32_t i, n_starts = 0, n_climbs = t->trial != NULL ? STARTS : PROBLEM_STARTS;

    for (i = 0; i < c->n && n_starts < n_climbs && is_in_reach(t, ranked[i].step_ns, best); i++) {
        n_starts += climb_from(t, &c->list[ranked[i].at], ranked[i].step_ns, best);
    }
}

/* Once more, with more looks. */
static void climb_on(struct gp_trials *t, struct hill *best)
{
    struct part_plan start = {0};

    if (best->plan.n_stages > 0) {
        t->looks = LAST_LOOKS;
        t->ahead = t->trial == NULL;
        part_plan_copy(&best->plan, &start);
        climb_from(t, &start, best->step_ns, best);
        part_plan_finish(&start);
        t->looks = LOOKS;
        t->ahead = false;
    }
}

/* From the best cut of the model's order, and the best with a stage on every device, among such
   cuts: no chain is to be better. */
static void climb_chains(struct gp_trials *t, const struct gp_candidates *c, struct hill *best)
{
    const struct ranked *ranked = rank(t, c);
    uint32_t i,
        n_full = t->problem->n < t->problem->n_devices ? t->problem->n : t->problem->n_devices;
    bool has_chain = false, has_full = false, chain = t->chain;

    t->chain = true;
    for (i = 0; i < c->n && is_in_reach(t, ranked[i].step_ns, best); i++) {
        const struct part_plan *plan = &c->list[ranked[i].at];

        if ((!has_chain || (!has_full && plan->n_stages == n_full)) &&
            climb_from(t, plan, ranked[i].step_ns, best)) {
            has_chain = true;
            has_full = has_full || plan->n_stages == n_full;
        }
    }
    climb_on(t, best);
    t->chain = chain;
}

/* From the best plan over worse ones to other hills, while there are passes left. First by the
   model of the step. */
static void wander(struct gp_trials *t, struct hill *best)
{
    uint64_t seed = 1, end = t->left > PASSES_STRAY ? t->left - PASSES_STRAY : 0;
    uint32_t i;

    end = t->trial != NULL ? end : 0;
    for (i = 0; i < STRAYS && best->plan.n_stages > 1 && t->left > end; i++) {
        struct part_plan plan = {0};
        double step_ns, guess_ns;

        part_plan_copy(&best->plan, &plan);
        t->guess = true;
        gp_stray(t, &plan, &seed, &step_ns);
        gp_climb(t, &plan, &step_ns);
        t->guess = false;
        gp_trials_guess(t, &best->plan, &guess_ns);
        if (t->trial != NULL && step_ns < guess_ns * GP_MARGIN) {
            gp_trials_step(t, &plan, best->step_ns, &step_ns);
            gp_climb(t, &plan, &step_ns);
        }
        if (step_ns < best->step_ns * (1 - 1e-9)) {
            compare(t, &plan, best);
        }
        part_plan_finish(&plan);
    }
}

void gp_trial_best(struct part_problem *p, bool chain, struct gp_answer *a, bool *ret_found)
{
    struct gp_candidates *c = &a->candidates;
    struct hill best = {.step_ns = INFINITY};
    struct gp_trials t;
    uint32_t i;

    *ret_found = false;
    trials_init(&t, p);
    t.chain = chain;
    if (p->in->n_stages != 0) {
        return;
    }
    gp_candidates_add(chain ? &a->chains : c, &a->plan);
    climb_chains(&t, &a->chains, &best);
    if (!chain) {
        for (i = 0; i < a->chains.n; i++) {
            gp_candidates_add(c, &a->chains.list[i]);
        }
        climb(&t, c, &best);
        climb_on(&t, &best);
    }
    if (!chain || t.trial == NULL) {
        wander(&t, &best);
    }
    *ret_found = best.plan.n_stages > 0;
    if (*ret_found) {
        take(&t, a, &best.plan, best.step_ns);
    }
    part_plan_finish(&best.plan);
    a->tried = t.n;
    a->passes = PASSES_MAX - t.left;
}
