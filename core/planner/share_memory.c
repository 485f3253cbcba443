/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a device that has several stages: who gets how much of it. What the optimizers ask for
 * at a few capacities is known from their prices; the division with the least time in sum wins.
 */
#include "base/saturate.h"
#include "planner/state.h"

#define GRAINS 8 /* into which the bytes are cut that nobody needs at least */

/* A stage of the device, and what it makes of more and more bytes. */
struct sharer {
    uint32_t stage, n_options;
    uint64_t least, most;
    uint64_t bytes[GRAINS + 1], period_ns[GRAINS + 1]; /* by grains; UINT64_MAX: does not fit */
};

static pst_status price_stage(struct pst_planner *planner, const struct pst_plan *plan, uint32_t s,
                              uint64_t capacity_bytes, struct pst_stage_price *ret_price,
                              struct pst_error *err)
{
    struct pst_stage_question question = pst_planner_question(plan, s);

    question.capacity_bytes = capacity_bytes;
    *ret_price = (struct pst_stage_price){.size = sizeof *ret_price};
    return pst_planner_price(planner, &question, ret_price, err);
}

static pst_status price_options(struct pst_planner *planner, const struct pst_plan *plan,
                                uint64_t spare, struct sharer *sharer, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t g = 0; status == PST_OK && g <= GRAINS; g++) {
        struct pst_stage_price answer;
        uint64_t bytes = sharer->least + spare / GRAINS * g;
        bool all = bytes >= sharer->most;

        bytes = all ? sharer->most : bytes;
        status = price_stage(planner, plan, sharer->stage, bytes, &answer, err);
        sharer->bytes[g] = bytes;
        sharer->period_ns[g] = status == PST_OK && answer.fits ? answer.period_ns : UINT64_MAX;
        sharer->n_options = g + 1;
        if (all) {
            break;
        }
    }
    return status;
}

/* Least sum of periods over all divisions of the grains; of equals the one with fewer of them for
   the stages that come first, which get what is not kept for others anyway. Where nothing fits
   everyone is left with its least. */
static void choose_grains(const struct sharer *sharers, uint32_t n, uint64_t *share)
{
    struct pst_arena arena = {0};
    uint64_t(*best)[GRAINS + 1] = pst_arena_array(&arena, n + 1, sizeof *best);
    uint8_t(*taken)[GRAINS + 1] = pst_arena_array(&arena, n + 1, sizeof *taken);

    for (uint32_t i = n; i-- > 0;) { /* of stages i.. with `left` grains; best[n] is zero */
        const struct sharer *sharer = &sharers[i];

        for (uint32_t left = 0; left <= GRAINS; left++) {
            best[i][left] = UINT64_MAX;
            for (uint32_t g = 0; g <= left && g < sharer->n_options; g++) {
                uint64_t rest = best[i + 1][left - g], period = sharer->period_ns[g];

                if (rest != UINT64_MAX && period < UINT64_MAX - rest &&
                    period + rest < best[i][left]) {
                    best[i][left] = period + rest;
                    taken[i][left] = (uint8_t)g;
                }
            }
        }
    }
    for (uint32_t i = 0, left = GRAINS; i < n; i++) {
        uint32_t g = best[i][left] == UINT64_MAX ? 0 : taken[i][left];

        share[sharers[i].stage] = sharers[i].bytes[g];
        left -= g;
    }
    pst_arena_finish(&arena);
}

/* Does memory cost none of them time, as where all goes to the host beside the computation? */
static bool costs_no_time(const struct sharer *sharers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t first = UINT64_MAX;

        for (uint32_t g = 0; g < sharers[i].n_options; g++) {
            uint64_t period = sharers[i].period_ns[g];

            first = first == UINT64_MAX ? period : first;
            if (period != UINT64_MAX && period != first) {
                return false;
            }
        }
    }
    return true;
}

/*
 * Then what is to be saved is saved where micro-batches live longest: a byte that is moved there
 * is gone for more of the time. So the others get what they want first, those with the fewest
 * micro-batches in flight before the rest. (Wan et al., PipeOffload, ICML 2025.)
 */
static void share_by_lifespan(const struct pst_plan *plan, const struct sharer *sharers, uint32_t n,
                              uint64_t spare, uint64_t *share)
{
    for (uint32_t done = 0, lifespan = 0; done < n; lifespan++) {
        for (uint32_t i = n; i-- > 0;) {
            const struct sharer *sharer = &sharers[i];
            uint32_t in_flight = plan->stages[sharer->stage].in_flight;

            if (in_flight == lifespan) {
                uint64_t more = sharer->most - sharer->least;

                more = more < spare ? more : spare;
                share[sharer->stage] = sharer->least + more;
                spare -= more;
                done++;
            }
        }
    }
}

/* The stages of one rank, two or more. */
static pst_status divide_device(struct pst_planner *planner, const struct pst_plan *plan,
                                struct sharer *sharers, uint32_t n, uint64_t *share,
                                struct pst_error *err)
{
    const struct pst_plan_stage *first = &plan->stages[sharers[0].stage];
    uint64_t least = 0, most = 0;
    uint64_t capacity = pst_planner_capacity(planner, first->ranks, first->n_ranks);
    struct pst_stage_price answer;
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        status = price_stage(planner, plan, sharers[i].stage, UINT64_MAX, &answer, err);
        sharers[i].most = answer.peak_bytes;
        most = pst_sat_add(most, answer.peak_bytes);
    }
    if (status != PST_OK || most <= capacity) {
        return status;
    }
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        status = price_stage(planner, plan, sharers[i].stage, 0, &answer,
                             err); /* nothing fits into nothing */
        sharers[i].least =
            answer.peak_bytes < sharers[i].most ? answer.peak_bytes : sharers[i].most;
        share[sharers[i].stage] =
            sharers[i].least < capacity - least ? sharers[i].least : capacity - least;
        least += share[sharers[i].stage];
    }
    if (status != PST_OK || least == capacity) {
        return status; /* not enough: what is missing shows at the last */
    }
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        status = price_options(planner, plan, capacity - least, &sharers[i], err);
    }
    if (status == PST_OK && costs_no_time(sharers, n)) {
        share_by_lifespan(plan, sharers, n, capacity - least, share);
        return PST_OK;
    }
    if (status == PST_OK) {
        choose_grains(sharers, n, share);
    }
    return status;
}

pst_status pst_planner_divide(struct pst_planner *planner, const struct pst_plan *plan,
                              uint64_t *ret_share, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct sharer *sharers = pst_arena_array(&arena, plan->n_stages, sizeof *sharers);
    pst_status status = PST_OK;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        ret_share[s] = 0;
    }
    for (uint32_t r = 0; status == PST_OK && r < plan->n_devices; r++) {
        uint32_t n = 0;

        for (uint32_t s = 0; s < plan->n_stages; s++) {
            if (pst_plan_lowest(&plan->stages[s]) == r) {
                sharers[n++] = (struct sharer){.stage = s};
            }
        }
        if (n > 1 && planner->strategies.n_memopt > 0 &&
            planner->attempt.capacity_bytes != UINT64_MAX) {
            status = divide_device(planner, plan, sharers, n, ret_share, err);
        }
    }
    pst_arena_finish(&arena);
    return status;
}
