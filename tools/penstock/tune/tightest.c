/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the least memory that a job needs, without a given limit: cuts are made for ever less
 * memory until none fits, and on them the memory optimizers use as little as they can. Where the
 * layout of the best of these plans exceeds the estimates, the cuts of the next round are charged
 * for it. Plans for a given amount of memory are made for speed instead: their layouts exceed the
 * estimates by other amounts, which may refuse cuts that would do.
 */
#include <string.h>

#include "base/saturate.h"
#include "planner/attempts.h"
#include "tune/advise.h"
#include "base/hash.h"

#define TRIES  4   /* at a plan that fits into a given amount */
#define ROUNDS 5   /* cuts, layouts, cuts once more */
#define TILT   4   /* part of its share by which a stage's allowance is varied */
#define FINE   128 /* part of an amount in which the least is sought by halving */
#define COARSE 32  /* of a job that takes long, in a single round */

struct tightest {
    struct pst_attempts *a;
    const struct pst_advice *advice;
    uint64_t need; /* of a plan with all the memory it wants, then of the best one */
    uint64_t seen; /* digest of the cuts that were planned on last */
    int64_t *bias; /* [n_ops] by stage: what the layout of the best plan shows */
};

static bool is_over(const struct tightest *t)
{
    return *t->advice->search.work + t->a->planner->work >= t->advice->most;
}

static uint64_t digest_of(const struct pst_plan *cuts)
{
    uint64_t digest = PST_FNV1A;

    for (uint32_t s = 0; s < cuts->n_stages; s++) {
        for (uint32_t i = 0; i < cuts->stages[s].n_nodes; i++) {
            digest = pst_fnv1a(digest, cuts->stages[s].nodes[i]);
        }
        digest = pst_fnv1a(digest, UINT32_MAX);
    }
    return digest;
}

/* Returns the mean bytes of the stages of a device less the bytes of this one. */
static int64_t to_level(const struct pst_plan *plan, uint32_t s)
{
    int64_t sum = 0, n = 0;

    for (uint32_t t = 0; t < plan->n_stages; t++) {
        if (pst_plan_shares(&plan->stages[t], &plan->stages[s])) {
            sum += (int64_t)plan->stages[t].estimated_bytes;
            n++;
        }
    }
    return sum / n - (int64_t)plan->stages[s].estimated_bytes;
}

static void learn_held(struct pst_planner *planner, const struct pst_plan *plan)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (plan->stages[s].in_flight > planner->attempt.counted[s]) {
            planner->attempt.counted[s] = plan->stages[s].in_flight;
        }
    }
    planner->attempt.exceeded = true;
}

/* In the next round stages are charged what the last layout took. Partitioners give the stages of a
   device equal parts of it, but the best parts are not equal: what a stage took more than others is
   let off it, so that cuts that fit into less are better for the device. */
static void learn_charges(struct pst_attempts *a, const struct pst_plan *plan)
{
    struct pst_planner *planner = a->planner;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        a->cut_bias[s] =
            planner->attempt.bias[s] + pst_attempts_excess(plan, s) + to_level(plan, s);
    }
    learn_held(planner, plan);
}

/* Stores how much the layout of the best plan exceeds the estimates. */
static void remember(struct tightest *t)
{
    const struct pst_plan *plan = t->a->best->plan;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        t->bias[s] = t->a->planner->attempt.bias[s] + pst_attempts_excess(plan, s);
    }
}

/* The least on the last cuts. */
static pst_status take_least(struct tightest *t, struct pst_error *err)
{
    struct pst_planner *planner = t->a->planner;
    struct pst_planned planned = {.plan = NULL};
    uint64_t digest = digest_of(t->a->cuts), need;
    pst_status status;

    if (digest == t->seen) {
        return PST_OK;
    }
    t->seen = digest;
    planner->attempt.capacity_bytes = UINT64_MAX;
    planner->attempt.least = true;
    status = pst_attempts_make(t->a, true, &planned, err);
    planner->attempt.least = false;
    need = status == PST_OK ? pst_planned_need(&planned) : UINT64_MAX;
    if (status == PST_OK) {
        learn_charges(t->a, planned.plan);
    }
    if (status != PST_OK || (t->a->best->plan != NULL && need >= t->need)) {
        pst_planned_finish(&planned);
        return status;
    }
    pst_planned_finish(t->a->best);
    *t->a->best = planned;
    t->need = need;
    remember(t);
    return PST_OK;
}

/* Cuts for so much memory; those before stay where there are none. */
static pst_status cut_stages(struct pst_attempts *a, uint64_t memory, bool *ret_found,
                             struct pst_error *err)
{
    struct pst_error why = {.status = PST_OK};
    pst_status status;

    a->planner->attempt.capacity_bytes = memory;
    status = pst_attempts_cut(a, &why);
    *ret_found = status == PST_OK;
    if (status != PST_OK && status != PST_ERR_INFEASIBLE) {
        *err = why;
        return status;
    }
    return PST_OK;
}

/* Halves what lies between none and some. The last cuts take least by the estimates, which are not
   the layouts: where there is time for that those before count, too. */
static pst_status round_of(struct tightest *t, bool few, struct pst_error *err)
{
    uint64_t low = t->a->best->plan == NULL ? 0 : t->need / 2;
    uint64_t high = pst_sat_add(t->need, t->need / 4);
    bool found = false;
    pst_status status = cut_stages(t->a, high, &found, err);

    if (status == PST_OK && !found) {
        return take_least(t, err); /* on those made for all the memory there may be */
    }
    while (status == PST_OK && !is_over(t) && high - low > high / (few ? COARSE : FINE) + 1) {
        uint64_t middle = low + (high - low) / 2;

        status = found && !few ? take_least(t, err) : PST_OK;
        PST_TRY(status, cut_stages(t->a, middle, &found, err));
        low = found ? low : middle;
        high = found ? middle : high;
    }
    return status == PST_OK ? take_least(t, err) : status;
}

/* --- there is more than that -------------------------------------------------------------------*/

static uint64_t step_of(const struct tightest *t, const struct pst_planned *planned)
{
    const struct pst_search *search = &t->advice->search;

    return pst_step_of(search->clock, planned, search->graph, search->cost);
}

/* For `fit` bytes, on the best cuts or on new ones, until a plan fits; the faster one is kept. */
static pst_status quicken(struct tightest *t, bool same_cuts, uint64_t fit, struct pst_error *err)
{
    struct pst_planner *planner = t->a->planner;
    struct pst_error why = {.status = PST_OK};
    uint64_t need = UINT64_MAX;
    pst_status status = PST_OK;

    for (uint32_t n = 0; status == PST_OK && n < TRIES && need > fit; n++) {
        struct pst_planned planned = {.plan = NULL};

        planner->attempt.capacity_bytes = fit;
        status = pst_attempts_make(t->a, same_cuts || n > 0, &planned, &why);
        need = status == PST_OK ? pst_planned_need(&planned) : 0;
        for (uint32_t s = 0; status == PST_OK && s < planned.plan->n_stages; s++) {
            planner->attempt.bias[s] += pst_attempts_excess(planned.plan, s);
        }
        if (status == PST_OK && need <= fit && step_of(t, &planned) < step_of(t, t->a->best)) {
            struct pst_planned spare = *t->a->best;

            *t->a->best = planned;
            planned = spare;
        }
        pst_planned_finish(&planned);
    }
    if (status != PST_OK && status != PST_ERR_INFEASIBLE) {
        *err = why;
        return status;
    }
    return PST_OK;
}

/* The plan that takes least is slow; where there is more memory one for that may be faster. */
static pst_status use_memory(struct tightest *t, uint64_t fit, struct pst_error *err)
{
    struct pst_planner *planner = t->a->planner;
    size_t size = planner->in.graph->n_ops * sizeof *planner->attempt.bias;
    pst_status status = pst_attempts_keep_cuts(t->a, t->a->best->plan, err);

    for (int same = 1; status == PST_OK && same >= 0; same--) {
        memcpy(planner->attempt.bias, t->bias, size);
        status = quicken(t, same == 1, fit, err);
    }
    return status;
}

/* --- rounds ------------------------------------------------------------------------------------*/

/* Finds the memory that a plan needs if there is no limit. */
static pst_status take_all(struct tightest *t, struct pst_error *err)
{
    struct pst_planned planned = {.plan = NULL};
    pst_status status;

    t->a->planner->attempt.capacity_bytes = UINT64_MAX;
    status = pst_attempts_make(t->a, false, &planned, err);
    t->need = status == PST_OK ? pst_planned_need(&planned) : 0;
    pst_planned_finish(&planned);
    return status;
}

/* Stages of a device need not have equal parts of it: those that come first get more, 1, or less,
   -1, than the others. */
static void tilt_shares(struct tightest *t, int32_t way)
{
    struct pst_planner *planner = t->a->planner;
    const struct pst_plan *plan = t->a->best->plan;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        int64_t n = 0, before = 0;

        for (uint32_t r = 0; r < plan->n_stages; r++) {
            bool here = pst_plan_shares(&plan->stages[r], &plan->stages[s]);

            n += here;
            before += here && r < s;
        }
        planner->attempt.bias[s] = (int64_t)(t->need / TILT) / n * (2 * before - n + 1) * way / n;
    }
}

static pst_status run_rounds(struct tightest *t, uint32_t n_rounds, bool few, struct pst_error *err)
{
    struct pst_planner *planner = t->a->planner;
    pst_status status = PST_OK;

    for (uint32_t n = 0; status == PST_OK && n < n_rounds && !is_over(t); n++) {
        t->seen = 0;
        status = round_of(t, few, err);
        memcpy(planner->attempt.bias, t->a->cut_bias,
               planner->in.graph->n_ops * sizeof *planner->attempt.bias);
    }
    return status;
}

pst_status pst_tightest_attempts(struct pst_attempts *a, void *context, struct pst_error *err)
{
    const struct pst_tightest *wanted = context;
    struct tightest t = {.a = a, .advice = wanted->advice};
    struct pst_planner *planner = a->planner;
    bool shares = planner->devices.places.shared > 1;
    pst_status status;

    t.bias = pst_arena_array(&planner->arena, planner->in.graph->n_ops, sizeof *t.bias);
    planner->attempt.tight = true;
    status = take_all(&t, err);
    status = status == PST_OK ? run_rounds(&t, wanted->few ? 1 : ROUNDS, wanted->few, err) : status;
    for (int32_t way = 1; status == PST_OK && shares && !wanted->few && way >= -1; way -= 2) {
        tilt_shares(&t, way);
        status = run_rounds(&t, ROUNDS / 2, false, err);
    }
    if (status == PST_ERR_INFEASIBLE && a->best->plan != NULL) {
        status = PST_OK;
    }
    return status == PST_OK && t.need < wanted->fit_bytes && wanted->advice->search.clock != NULL
               ? use_memory(&t, wanted->fit_bytes, err)
               : status;
}
