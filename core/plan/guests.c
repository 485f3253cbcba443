/* SPDX-License-Identifier: Apache-2.0
 *
 * Guests: micro-batches of which another device keeps what they leave for their backward passes
 * (Kim et al., BPipe, ICML 2023).
 */
#include <stdlib.h>

#include "base/memory.h"
#include "base/util.h"
#include "plan/plan.h"

const struct pst_plan_guest *pst_plan_guest_of(const struct pst_plan_stage *stage,
                                               uint32_t microbatch)
{
    const uint32_t at = PST_FIRST(i, stage->n_guests, stage->guests[i].microbatch >= microbatch);

    return at < stage->n_guests && stage->guests[at].microbatch == microbatch ? &stage->guests[at]
                                                                              : NULL;
}

uint32_t pst_plan_guest_rank(const struct pst_plan *plan, const struct pst_plan_stage *stage,
                             const struct pst_plan_guest *guest, uint32_t place)
{
    const bool alone = pst_plan_replicas(stage) == 1;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *host = &plan->stages[s];

        if (alone ? pst_plan_replica(host, guest->rank) != PST_NONE
                  : host->ranks[0] == guest->rank && host->n_ranks == stage->n_ranks) {
            return host->tensor != stage->tensor || pst_plan_part(host, guest->rank) != 0 ? PST_NONE
                   : alone ? guest->rank + place
                           : host->ranks[place];
        }
    }
    return alone && (uint64_t)guest->rank + place < plan->n_devices ? guest->rank + place
                                                                    : PST_NONE;
}

void pst_plan_guest_tensors(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            struct pst_arena *arena, uint32_t **ret_tensors, uint32_t *ret_n)
{
    bool *saved = pst_alloc((size_t)graph->n_tensors + 1, sizeof *saved);
    uint32_t *tensors = NULL, n = 0;

    pst_plan_saved(stage, graph, saved);
    for (int pass = 0; pass < 2; pass++) { /* how many, then which */
        if (pass == 1) {
            tensors = pst_arena_array(arena, (size_t)n + 1, sizeof *tensors);
            n = 0;
        }
        for (uint32_t i = 0; i < stage->n_nodes; i++) {
            const struct pst_op *op = &graph->ops[stage->nodes[i]];

            for (uint32_t k = 0; stage->actions[i] == PST_ACTION_PEER && k < op->n_out; k++) {
                if (saved[op->out[k]] && pass == 1) {
                    tensors[n] = op->out[k];
                }
                n += saved[op->out[k]];
            }
        }
    }
    free(saved);
    *ret_tensors = tensors;
    *ret_n = n;
}

uint64_t pst_plan_guest_bytes(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                              const uint32_t *tensors, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct pst_tensor *tensor = &graph->tensors[tensors[i]];

        bytes += pst_tensor_bytes(tensor, pst_plan_samples(stage));
    }
    return bytes;
}
