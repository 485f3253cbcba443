/* SPDX-License-Identifier: Apache-2.0
 *
 * For memory optimizers: a search for the plan of one stage with the least period that fits.
 * Candidates drop the nodes whose replay is cheapest per byte and offload those where it is
 * dearest, in all proportions, or keep nodes at regular distances, which needs least memory; the
 * best of them are improved by changes of one and of two actions. Deterministic.
 */
#ifndef MEMOPT_COMMON_SEARCH_H
#define MEMOPT_COMMON_SEARCH_H

#include "oracle.h"

enum { MEM_STARTS = 4 };

struct mem_effort {
    uint32_t suffixes; /* numbers of offloaded nodes tried */
    uint32_t segments; /* distances tried at most, of kept nodes; with all offsets up to 32 nodes */
    uint32_t starts;   /* candidates that are improved, 1..MEM_STARTS */
    uint32_t window;   /* of changes of two: how far apart, in cost or in place; 0: none */
    uint32_t rounds;   /* of improvement where nothing fits, at most; 0: until nothing improves */
    uint64_t steps;    /* of a branch and bound after it, at most; 0: none */
    uint64_t blind;    /* the same where no plan is known that fits */
};

struct mem_start {
    struct mem_score score;
    uint8_t *actions; /* [n] */
};

struct mem_search {
    const struct mem_costs *costs;
    struct mem_tally tally;
    struct mem_effort effort;
    uint32_t n_starts;
    struct mem_start starts[MEM_STARTS]; /* best first; legal */
    uint32_t *rank;                      /* [n] place in costs->order; PST_NONE */
    bool *skipped;                       /* [n] */
    uint64_t n_evaluated;
    uint64_t bound; /* no plan is shorter; UINT64_MAX: none fits */
    bool proven;    /* the best plan is: no other is shorter, or nothing fits */
    bool met_illegal;
    mem_accepts *accepts; /* set before a run; NULL: every legal plan */
    void *context;
};

/* Searches; the best plan is starts[0] if n_starts > 0 (nothing is legal otherwise), and fits if
   its score is not over. costs must be sound. search: zero at first; may run again for as many
   nodes. */
void mem_search_run(struct mem_search *search, const struct mem_costs *costs,
                    const struct mem_effort *effort);

/* Prepares a search that the caller runs with the functions below; notes the first plan. */
void mem_search_begin(struct mem_search *search, const struct mem_costs *costs,
                      const struct mem_effort *effort);
void mem_search_note(struct mem_search *search); /* the tally's plan, if it is legal */
void mem_search_load(struct mem_search *search, const uint8_t *actions); /* into the tally */
void mem_search_legalize(struct mem_search *search); /* keeps what other runs read */

/* Drops beside v, which was dropped, what would hold its result for that alone, where it is legal.
 */
void mem_search_drop_sources(struct mem_search *search, uint32_t v);

/* Candidates (candidates.c) and improvement (improve.c). */
void mem_search_candidates(struct mem_search *search);
void mem_search_improve(struct mem_search *search);
bool mem_search_accepts(const struct mem_search *search); /* the tally's plan */

#endif
