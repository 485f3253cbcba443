/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a given order better, or builds one from priorities, with the real costs, delays and bytes.
 * Effort is counted in evaluations, so that the answer does not depend on the machine.
 */
#ifndef V_ADAPTIVE_IMPROVE_H
#define V_ADAPTIVE_IMPROVE_H

#include "problem.h"

struct va_random {
    uint64_t state;
};

static inline uint64_t va_random_next(struct va_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15U;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

/* Uniform in 0..n-1; n below 2^32. */
static inline uint32_t va_random_below(struct va_random *random, uint32_t n)
{
    return (uint32_t)(((va_random_next(random) >> 32) * n) >> 32);
}

/*
 * Builds an order pass by pass. Where several passes of a device could run, the one of smallest
 * urgency[(d * VA_KINDS + kind) * m + micro-batch] does; `patience` (0..16) says how much of a
 * short pass's time a device may wait for a more urgent one. A forward only begins where all
 * micro-batches can still be finished one after the other, so the result is complete for every cap
 * that holds one micro-batch. False: a cap is below that.
 */
bool va_dispatch(const struct va_problem *q, const uint64_t *urgency, uint32_t patience,
                 struct va_work *work, uint8_t *ret_order);

struct va_search {
    const struct va_problem *q;
    const struct pst_host *host;
    struct va_work work;
    struct va_random random;
    uint8_t *best, *current, *trial; /* orders */
    struct va_cost best_cost, current_cost;
    uint64_t *urgency, *late;
    uint32_t *path; /* critical positions of `current`: device * 6m + position */
    uint32_t *nth;  /* [device * 6m + position]: micro-batch of `current` there */
    uint32_t n_path;
    uint64_t evaluations;
};

void va_search_init(struct va_search *search, const struct va_problem *q,
                    const struct pst_host *host);

/* Begins anew for another problem of the same size; `seed` decides the random numbers. */
void va_search_aim(struct va_search *search, const struct va_problem *q, uint64_t seed);

/* Offers orders in which one micro-batch walks down and up the V without waiting and the next ones
   follow at a pace, dispatched with the real costs; `brief`: at the pace of the busiest device
   only. */
void va_search_walk(struct va_search *search, bool brief);

/* Takes the order as the one to improve when it is better than the best so far. */
bool va_search_offer(struct va_search *search, const uint8_t *order);

/* Spends up to `evaluations` from the best order on; ends early at `bound`. */
void va_search_improve(struct va_search *search, uint64_t evaluations, uint64_t bound);

#endif
