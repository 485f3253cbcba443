/* SPDX-License-Identifier: Apache-2.0
 *
 * For memory optimizers: branch and bound over the plans of a stage. It begins with the best plan
 * that is known and leaves the best that there is, or the best that a number of steps finds.
 */
#ifndef MEMOPT_COMMON_ORACLE_H
#define MEMOPT_COMMON_ORACLE_H

#include "tally.h"

/* Is a legal plan one that is wanted? With an offload less it still is. */
typedef bool mem_accepts(void *context, const uint8_t *actions);

struct mem_oracle {
    const struct mem_costs *costs;
    struct mem_tally *tally;
    uint8_t *best;           /* [n] the best plan, if there is one */
    struct mem_score score;  /* of it; period_ns UINT64_MAX: none yet */
    struct mem_score lowest; /* of the legal plan of least peak seen; peak UINT64_MAX: none */
    uint8_t *lowest_actions; /* [n] or NULL: not wanted */
    uint64_t steps, max_steps;
    mem_accepts *accepts; /* NULL: every legal plan */
    void *context;
    bool stopped; /* max_steps were not enough */
};

/* The tally's plan, if it is legal and wanted: the best, the lowest? False: it is not. */
bool mem_oracle_note(struct mem_oracle *oracle);
/* Counts a step; false: there are no more. */
bool mem_oracle_step(struct mem_oracle *oracle);

/* Large tensors first; a branch ends where parts of what is undecided, however well chosen, do not
   free what is missing in less than the best period. The tally holds what earlier optimizers
   decided, KEEP elsewhere, before and after. Proven unless stopped. */
void mem_oracle_branch(struct mem_oracle *oracle);

/* Can what is undecided (letter KEEP in the tally, decided[v] false) free what is missing within
   the period? */
bool mem_may_fit(const struct mem_tally *tally, const bool *decided, double period_ns);
/* Nodes of which one thing alone may become. */
void mem_find_decided(const struct mem_costs *costs, bool *decided);

#endif
