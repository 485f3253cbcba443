/* SPDX-License-Identifier: Apache-2.0
 *
 * The least memory that something can do with, where that is known by planning alone. Strategies
 * and layouts are heuristics: an amount may do where a greater one does not. So the amounts that
 * are tried depend on what is planned alone, not on what memory there is. Whatever of it is enough,
 * all above is, too: the plan that was found for less serves there.
 */
#ifndef PST_TUNE_SMALLEST_H
#define PST_TUNE_SMALLEST_H

#include <string.h>

#include "base/error.h"

#define PST_SMALLEST_MOST 64 /* plans that a small job is worth */
#define PST_SMALLEST_FEW  12 /* that one of some thousand passes of operators is */
/* Said of an amount that a search named with *ret_ended. */
#define PST_SMALLEST_ENDED "less may do, the search for it reached its limit"

struct pst_smallest {
    /* Plans with so much memory. Returns what the plan takes, UINT64_MAX: there is none. One that
       takes more than `memory` and no more than `worth` is an answer, too. Who asks keeps the plan
       if it takes no more than `capacity`. */
    uint64_t (*need)(void *context, uint64_t memory, uint64_t worth);
    bool (*stopped)(void *context); /* what was found by then counts */
    void *context;
    uint64_t capacity; /* what there is */
    uint32_t most;     /* plans, at most PST_SMALLEST_MOST */
};

/* May another amount help? Nothing fits; or a strategy cannot do what the others made of this one.
   Not where a plugin could not be loaded: a second attempt may succeed, with another amount. */
static inline bool pst_smallest_may_help(const struct pst_error *why)
{
    return strcmp(why->kind, "plan.infeasible") == 0 || strcmp(why->kind, "plan.mismatch") == 0;
}

/* Returns how many plans so much work each (operators x micro-batches) is worth; 0: none. */
uint32_t pst_smallest_plans(uint64_t work);

/*
 * need: what a plan without a limit takes. Returns the least that a plan took. The search ends with
 * one that takes no more than the capacity; else planning with as much as is returned finds a plan,
 * and where the plans suffice with one byte less none. A search that was stopped may end earlier
 * the next time: then it is the least amount that was planned for and was enough by itself.
 * *ret_ended: it was stopped, or has made all its plans: less may do.
 */
uint64_t pst_smallest_find(const struct pst_smallest *search, uint64_t need, bool *ret_ended);

#endif
