/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/smallest.h"

#define SMALL_WORK 4000
#define MAX_WORK   20000
#define FINE       64 /* part of an amount in which its limit is sought by halving */

struct search {
    const struct pst_smallest *asked;
    uint64_t best;   /* what the plan that takes least needs */
    uint64_t proven; /* planning with just that much comes to a plan whatever was tried before */
    uint64_t refused[PST_SMALLEST_MOST];
    uint32_t n_refused, n_plans;
};

/* More than `bytes` are known not to be enough: the greatest such amount below the best. */
static uint64_t low_of(const struct search *s)
{
    uint64_t low = 0;

    for (uint32_t i = 0; i < s->n_refused; i++) {
        low = s->refused[i] < s->best && s->refused[i] > low ? s->refused[i] : low;
    }
    return low;
}

/* Plans with so much memory. A plan may need more, for layouts differ from estimates: less than the
   best so far is enough. Returns true if there is such a plan. */
static bool try_memory(struct search *s, uint64_t memory)
{
    uint64_t need = s->asked->need(s->asked->context, memory, s->best - 1);

    s->n_plans++;
    if (need > memory && !s->asked->stopped(s->asked->context)) {
        s->refused[s->n_refused++] = memory;
    }
    s->proven = need <= memory && memory < s->proven ? memory : s->proven;
    s->best = need < s->best ? need : s->best;
    return need != UINT64_MAX;
}

static bool goes_on(const struct search *s)
{
    return s->best > s->asked->capacity && s->n_plans < s->asked->most &&
           !s->asked->stopped(s->asked->context);
}

/* The very next amount below the best. What needs the best may have been found with more memory:
   planned for with just that, it can come to less. Returns whether it went down. */
static bool step_down(struct search *s)
{
    uint64_t best = s->best;

    if (!try_memory(s, best - 1) && goes_on(s)) {
        try_memory(s, best);
    }
    return s->best < best;
}

/* Halves what lies between enough and not enough; then steps down. */
static void close_in(struct search *s)
{
    while (goes_on(s)) {
        uint64_t low = low_of(s), rest = s->best - low;

        if (rest > s->best / FINE && rest > 1) {
            try_memory(s, low + rest / 2);
        } else if (rest <= 1 || !step_down(s)) {
            return;
        }
    }
}

uint32_t pst_smallest_plans(uint64_t work)
{
    return work > MAX_WORK ? 0 : work > SMALL_WORK ? PST_SMALLEST_FEW : PST_SMALLEST_MOST;
}

uint64_t pst_smallest_find(const struct pst_smallest *search, uint64_t need, bool *ret_ended)
{
    struct search s = {.asked = search, .best = need, .proven = need};
    bool again = true, is_stopped;

    while (again && goes_on(&s)) {
        close_in(&s);
        again = false;
        /* Amounts may have been refused by chance: try smaller ones, in growing steps. */
        for (uint32_t part = 64; part >= 4 && !again && goes_on(&s); part /= 2) {
            again = try_memory(&s, s.best - s.best / part);
        }
    }
    is_stopped = search->stopped(search->context);
    *ret_ended = is_stopped || s.n_plans >= search->most;
    return s.best > search->capacity && is_stopped ? s.proven : s.best;
}
