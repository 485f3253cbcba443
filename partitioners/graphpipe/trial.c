/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several plans makes the shortest step is known when the step is simulated: what shares a
 * link waits in queues, and the scheduler may run further ahead than 1F1B.
 */
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A pass is simulated in some hundred nanoseconds and lowered in some thousand. */
#define PASSES_MAX UINT64_C(8000000)

enum { STARTS = 4 };

static void trials_init(struct gp_trials *trials, const struct part_problem *problem)
{
    const struct pst_host *host = problem->host;

    *trials = (struct gp_trials){.problem = problem, .left = PASSES_MAX};
    if (host != NULL && problem->figures.reference == 0) {
        trials->trial = host->get_extension(host, PST_TRIAL);
    }
}

/* Takes the stages of an answer down. */
struct notes {
    struct pst_partition_out out;
    struct pst_stage_decl *stages;
    uint32_t n, n_ranks, *ranks;
};

static pst_status note(struct pst_partition_out *out, const struct pst_stage_decl *stage)
{
    struct notes *notes = out->impl;
    struct pst_stage_decl *mine = &notes->stages[notes->n++];

    *mine = *stage;
    memcpy(notes->ranks + notes->n_ranks, stage->ranks, stage->n_ranks * sizeof *notes->ranks);
    mine->ranks = notes->ranks + notes->n_ranks;
    notes->n_ranks += stage->n_ranks;
    return PST_OK;
}

static pst_status simulate(struct gp_trials *t, const struct part_plan *plan, double *ret_step_ns)
{
    struct pst_trial_value value = {.size = sizeof value, .quick = !t->exact};
    struct notes notes = {.out = {.size = sizeof notes.out, .impl = &notes, .stage = note}};
    pst_status st = PST_OK;

    notes.stages = part_alloc((size_t)plan->n_stages + 1, sizeof *notes.stages);
    notes.ranks = part_alloc((size_t)t->problem->n_devices + 1, sizeof *notes.ranks);
    st = part_plan_answer(plan, t->problem, &notes.out);
    if (st == PST_OK) {
        st = t->trial->step(t->problem->host, notes.stages, notes.n, &value);
    }
    if (st == PST_OK) {
        *ret_step_ns = value.fits != 0 ? (double)value.step_ns : INFINITY;
        t->n++;
    }
    part_free(notes.stages);
    part_free(notes.ranks);
    return st;
}

pst_status gp_trials_step(struct gp_trials *t, const struct part_plan *plan, double *ret_step_ns)
{
    struct part_value value;
    uint64_t passes = 0, n_ranks = 0;
    uint32_t s;
    pst_status st;

    *ret_step_ns = INFINITY;
    for (s = 0; s < plan->n_stages; s++) {
        passes += 2 * (uint64_t)plan->stages[s].d * (t->problem->batch / plan->stages[s].b);
        n_ranks += plan->stages[s].d;
    }
    part_poll(t->problem);
    if (passes > t->left || n_ranks > t->problem->n_devices) {
        return PST_OK;
    }
    t->left -= passes;
    st = part_plan_value(plan, t->problem, true, &value);
    return st == PST_OK && value.legal && value.fits ? simulate(t, plan, ret_step_ns) : st;
}

static pst_status take(struct gp_trials *t, struct gp_answer *a, struct part_plan *plan,
                       double step_ns)
{
    pst_status st = part_plan_value(plan, t->problem, true, &a->value);

    if (st == PST_OK) {
        part_plan_finish(&a->plan);
        a->plan = *plan;
        *plan = (struct part_plan){0};
        a->b = a->plan.stages[0].b;
        a->value.step_ns = step_ns;
    }
    return st;
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

/* Every candidate once; those that fit first, by their steps. */
static pst_status rank(struct gp_trials *t, const struct gp_candidates *c, struct ranked *ranked)
{
    uint32_t i;
    pst_status st = PST_OK;

    for (i = 0; st == PST_OK && i < c->n; i++) {
        ranked[i].at = i;
        st = gp_trials_step(t, &c->list[i].plan, &ranked[i].step_ns);
    }
    if (st == PST_OK) {
        qsort(ranked, c->n, sizeof *ranked, by_step);
    }
    return st;
}

/* The plan takes the place of the best one if its step, exactly, is shorter. */
static pst_status compare(struct gp_trials *t, const struct part_plan *plan, struct part_plan *best,
                          double *best_ns)
{
    double step_ns;
    bool exact = t->exact;
    pst_status st;

    t->exact = true;
    st = gp_trials_step(t, plan, &step_ns);
    t->exact = exact;
    if (st == PST_OK && step_ns < *best_ns) {
        part_plan_finish(best);
        part_plan_copy(plan, best);
        *best_ns = step_ns;
    }
    return st;
}

static pst_status climb_from(struct gp_trials *t, const struct part_plan *start, double step_ns,
                             struct part_plan *best, double *best_ns)
{
    struct part_plan plan = {0};
    double before_ns = step_ns;
    pst_status st = PST_OK;

    part_plan_copy(start, &plan);
    if (t->chain) {
        st = gp_move_borders(t, &plan, &step_ns);
    }
    if (st == PST_OK) {
        st = gp_climb(t, &plan, &step_ns);
    }
    if (st == PST_OK && step_ns < before_ns) {
        st = compare(t, &plan, best, best_ns);
    }
    part_plan_finish(&plan);
    return st == PST_OK ? compare(t, start, best, best_ns) : st;
}

/* From the first few: the best plan need not be next to the best candidate. And from the best cut
   of the model's order, and the best with a stage on every device, among such cuts: no chain is to
   be better. */
static pst_status climb(struct gp_trials *t, const struct gp_candidates *c,
                        const struct ranked *ranked, struct part_plan *best, double *best_ns)
{
    uint32_t i,
        n_full = t->problem->n < t->problem->n_devices ? t->problem->n : t->problem->n_devices;
    bool has_chain = false, has_full = false;
    pst_status st = PST_OK;

    for (i = 0; st == PST_OK && i < c->n && ranked[i].step_ns < INFINITY; i++) {
        const struct part_plan *plan = &c->list[ranked[i].at].plan;

        if (i < STARTS && !t->chain) {
            st = climb_from(t, plan, ranked[i].step_ns, best, best_ns);
        }
        if (st == PST_OK && gp_is_chain(plan) &&
            (!has_chain || (!has_full && plan->n_stages == n_full))) {
            bool chain = t->chain;

            has_chain = true;
            has_full = has_full || plan->n_stages == n_full;
            t->chain = true;
            st = climb_from(t, plan, ranked[i].step_ns, best, best_ns);
            t->chain = chain;
        }
    }
    return st;
}

pst_status gp_trial_best(struct part_problem *p, bool chain, struct gp_answer *a, bool *ret_found)
{
    struct gp_candidates *c = &a->candidates;
    struct part_plan best = {0};
    struct ranked *ranked = NULL;
    struct gp_trials t;
    double best_ns = INFINITY;
    pst_status st;

    *ret_found = false;
    trials_init(&t, p);
    t.chain = chain;
    if (t.trial == NULL || p->in->n_stages != 0) {
        return PST_OK;
    }
    gp_candidates_add(c, p, &a->plan);
    st = PST_OK;
    ranked = part_alloc(c->n, sizeof *ranked);
    st = rank(&t, c, ranked);
    if (st == PST_OK) {
        st = climb(&t, c, ranked, &best, &best_ns);
    }
    if (st == PST_OK && best.n_stages > 0) {
        *ret_found = true;
        st = take(&t, a, &best, best_ns);
    }
    part_plan_finish(&best);
    part_free(ranked);
    a->tried = t.n;
    return st;
}
