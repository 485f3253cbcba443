/* SPDX-License-Identifier: Apache-2.0
 *
 * What lowering takes: samples that can be dealt out, and logical devices, ranks that hold the same
 * stages in the same order of replicas.
 */
#include "plan/lower.h"

#include <string.h>

static pst_status check_samples(const struct pst_plan *plan, uint32_t s, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &plan->stages[s];

    if (stage->n_ranks == 0 || stage->microbatch_size == 0 ||
        plan->batch % stage->microbatch_size != 0) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "PART5: stage %u on %u devices has micro-batches of %u samples, batch %u",
                        s, stage->n_ranks, stage->microbatch_size, plan->batch);
    }
    if (stage->microbatch_size % stage->n_ranks != 0) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "PART6: stage %u: micro-batches of %u samples cannot be dealt to %u "
                        "replicas",
                        s, stage->microbatch_size, stage->n_ranks);
    }
    return PST_OK;
}

/* Every rank has one home; its stages have the same ranks in the same order. */
static pst_status settle(struct pst_lowering *low, uint32_t s, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &low->plan->stages[s];

    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        uint32_t rank = stage->ranks[r];
        const struct pst_plan_stage *home;

        if (rank >= low->plan->n_devices) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "PART3: stage %u is on device %u, which does not exist", s, rank);
        }
        if (low->home[rank] == PST_NONE) {
            low->home[rank] = s;
            low->replica[rank] = r;
        }
        home = &low->plan->stages[low->home[rank]];
        if (low->replica[rank] != r || home->n_ranks != stage->n_ranks ||
            memcmp(home->ranks, stage->ranks, stage->n_ranks * sizeof *stage->ranks) != 0) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "PART3: stages %u and %u share device %u, but not all their devices in "
                            "the same order",
                            low->home[rank], s, rank);
        }
    }
    return PST_OK;
}

pst_status pst_lowering_supported(struct pst_lowering *low, struct pst_error *err)
{
    const struct pst_plan *plan = low->plan;
    pst_status st = PST_OK;

    low->home = pst_arena_array(&low->arena, plan->n_devices, sizeof *low->home);
    low->replica = pst_arena_array(&low->arena, plan->n_devices, sizeof *low->replica);
    if (low->home == NULL || low->replica == NULL) {
        return pst_fail_nomem(err);
    }
    memset(low->home, 0xFF, plan->n_devices * sizeof *low->home);
    for (uint32_t s = 0; s < plan->n_stages && st == PST_OK; s++) {
        st = check_samples(plan, s, err);
        st = st == PST_OK ? settle(low, s, err) : st;
    }
    for (uint32_t e = 0; e < plan->n_edges && st == PST_OK; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];

        if (edge->from >= edge->to) {
            st = pst_fail(err, PST_ERR_BUG, "plan.illegal",
                          "PART2: stage %u feeds stage %u, which comes before it; stages must be "
                          "numbered in topological order",
                          edge->from, edge->to);
        } else if (pst_lowering_together(low, edge->from, edge->to) &&
                   plan->stages[edge->from].microbatch_size !=
                       plan->stages[edge->to].microbatch_size) {
            st = pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "stages %u and %u share a device but not a micro-batch size", edge->from,
                          edge->to);
        }
    }
    return st;
}
