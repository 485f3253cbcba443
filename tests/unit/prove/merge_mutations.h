/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of lists of ranks whose parts add up gradients of which each made a part.
 */
#ifndef TESTS_CHECK_MERGE_MUTATIONS_H
#define TESTS_CHECK_MERGE_MUTATIONS_H

#include "unit/prove/mutant.h"

static inline bool mu_is_merge(const struct pst_instr *instr)
{
    return instr->op == PST_I_MERGE;
}

static inline const char *mu_lose_merge(struct mutant *m, struct place p)
{
    free((void *)mu_take_out(m, p).waits);
    return "SHARD2";
}

static inline const char *mu_double_merge(struct mutant *m, struct place p)
{
    mu_repeat(m, p);
    return "PASS4";
}

/* Before the sums over the replicas. */
static inline const char *mu_merge_first(struct mutant *m, struct place p)
{
    struct pst_instr out = mu_take_out(m, p);
    out.n_waits = 0;
    do {
        p.i--;
    } while (!(m->lists[p.part][p.d][p.i].op == PST_I_REDUCE &&
               m->lists[p.part][p.d][p.i].stage == out.stage));
    mu_put_in(m, p, out);
    return "SHARD2";
}

static inline const char *mu_merge_early(struct mutant *m, struct place p)
{
    mu_at(m, p)->n_waits = 0;
    return "SHARD2";
}

static inline const char *mu_merge_other(struct mutant *m, struct place p)
{
    rig_need(m->rig, m->made.n_stages > 1);
    mu_at(m, p)->stage = (mu_at(m, p)->stage + 1) % m->made.n_stages;
    return "SHARD2";
}

/* The sum over the replicas in its place, on one part of several. */
static inline const char *mu_reduce_for_merge(struct mutant *m, struct place p)
{
    mu_at(m, p)->op = PST_I_REDUCE;
    return "COMM4";
}

static struct mutation merge_mutations[] = {
    MU_AT(lose_merge, mu_is_merge),  MU_AT(double_merge, mu_is_merge),
    MU_AT(merge_first, mu_is_merge), MU_AT(merge_early, mu_is_merge),
    MU_AT(merge_other, mu_is_merge), MU_AT(reduce_for_merge, mu_is_merge),
};
#define N_MERGES (sizeof merge_mutations / sizeof merge_mutations[0])

#endif
