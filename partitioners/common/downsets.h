/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: predecessor-closed sets of nodes ("downsets"), the states of searches that
 * build a sequential pipeline stage by stage: a stage is the difference of two nested downsets.
 * Depends on nothing but the C library.
 */
#ifndef PARTITIONERS_COMMON_DOWNSETS_H
#define PARTITIONERS_COMMON_DOWNSETS_H

#include <stdbool.h>
#include <stdint.h>

#include "plugin_call.h"

/* Edges of a DAG whose nodes 0..n-1 are in topological order: from < to. */
struct part_dag {
    uint32_t n, n_edges;
    const uint32_t *from, *to; /* [n_edges] by (from, to) */
    const uint32_t *first_out; /* [n + 1]: edges of v are first_out[v] .. first_out[v+1] */
    const uint32_t *first_in, *in_edges; /* [n + 1]; [n_edges] edges by (to, from) */
};

/*
 * Set 0 is empty, the last one holds every node, smaller sets come first. Set k > 0 is set
 * parent[k] < k and the nodes added[first_added[k] .. first_added[k + 1]), one but for the family
 * that grows from a source and for runs. A linear family has no bits: its sets are prefixes of an
 * order, and `added` is that order.
 */
struct part_downsets {
    uint32_t n, n_sets, n_words;
    uint64_t *bits;                /* [n_sets * n_words], or NULL: linear */
    uint32_t *parent, *size;       /* [n_sets]; 0 for set 0; nodes in a set */
    uint32_t *first_added, *added; /* [n_sets + 1] */
};

/* The n + 1 prefixes of a topological order. */
void part_downsets_linear(uint32_t n, const uint32_t *order, struct part_downsets *ret_sets);
/* The sets that end where a run ends: run r is order[first[r]] .. order[first[r + 1] - 1], set k is
   the first k runs. */
void part_downsets_runs(const uint32_t *order, uint32_t n_runs, const uint32_t *first,
                        struct part_downsets *ret_sets);

/*
 * All downsets. *ret_count: how many there are; above max_sets nothing else is set and the status
 * is PST_ERR_INFEASIBLE; *ret_exact is false then where counting was given up, and *ret_count is
 * a lower bound. Counting takes products over unconnected parts and splits at the most comparable
 * node, so models of chains and branches are counted at once, however many downsets they have.
 *
 */
pst_status part_downsets_all(const struct part_dag *dag, uint32_t max_sets,
                             const struct pst_host *host, struct part_downsets *ret_sets,
                             uint64_t *ret_count, bool *ret_exact);

/*
 * The family of PipeDream's optimizer: the first source, and from there on, again and again, one
 * more node that an edge leads to from the set, with all that it needs. With one source these are
 * all downsets but the empty one; with more, a source comes with the first node that needs it.
 * Errors and results as above; *ret_count counts the empty set, too. A graph that is not connected
 * cannot be reached in whole: PST_ERR_UNSUPPORTED.
 */
pst_status part_downsets_grown(const struct part_dag *dag, uint32_t max_sets,
                               const struct pst_host *host, struct part_downsets *ret_sets,
                               uint64_t *ret_count, bool *ret_exact);

/* The count alone. *ret_exact as above; UINT64_MAX: that many or more. */
void part_downsets_count(const struct part_dag *dag, const struct pst_host *host,
                         uint64_t *ret_count, bool *ret_exact);

/* Is set a part of set b? */
static inline bool part_downsets_nested(const struct part_downsets *sets, uint32_t a, uint32_t b)
{
    const uint64_t *x, *y;
    uint32_t w;

    if (sets->bits == NULL) {
        return a <= b;
    }
    x = sets->bits + (uint64_t)a * sets->n_words;
    y = sets->bits + (uint64_t)b * sets->n_words;
    for (w = 0; w < sets->n_words; w++) {
        if ((x[w] & ~y[w]) != 0) {
            return false;
        }
    }
    return true;
}

/* Nodes of set b that are not in set a, ascending but for linear families (order of the chain);
   ret_nodes has room for n. */
uint32_t part_downsets_between(const struct part_downsets *sets, uint32_t a, uint32_t b,
                               uint32_t *ret_nodes);

/* ret_sums[k] = sum of values[v] over set k, for all sets. */
void part_downsets_sum(const struct part_downsets *sets, const double *values, double *ret_sums);

#endif
