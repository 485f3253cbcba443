/* SPDX-License-Identifier: Apache-2.0
 *
 * When passes gather weights whose replicas keep pieces (ZeRO 3: Rajbhandari et al., SC 2020,
 * section 5.3): before the first kernel that reads one, all parameters of its layer in the stage
 * come at once, or a tied one alone. Of these buckets the last PST_GATHERED_BUCKETS are there, and
 * what one operator reads; one that is read again after that is gathered again.
 *
 * The gradients of such a bucket are summed over the replicas at once, too (ZeRO 2), after the last
 * operator of the layer that makes one; those of a tied parameter alone, after each of its users.
 */
#ifndef PST_PLAN_GATHERS_H
#define PST_PLAN_GATHERS_H

#include "plan/plan.h"

enum { PST_GATHERED_BUCKETS = 2, PST_MOST_PREFETCH = 8 };

/* plan->prefetch of a job: without gathers all that counts is whether sums go on beside kernels. */
static inline uint32_t pst_gathers_prefetch(int64_t zero, int64_t prefetch)
{
    return zero >= 3 ? (uint32_t)prefetch : zero == 2 && prefetch > 0;
}

/* How many meetings of replicas a pass has open at most: gathers, and one sum. */
static inline uint32_t pst_gathers_open(const struct pst_plan *plan)
{
    return plan->prefetch + 2;
}

/* Tells which buckets a pass has gathered so far. One thread. */
struct pst_gathers {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    uint32_t *number; /* [parameter] of the gather that it came with last; NULL: zero < 3 */
    uint32_t *bucket; /* of the last gather */
    uint32_t n;       /* gathers so far */
};

/* A pass begins: nothing is gathered yet. Arrays come from the arena. */
void pst_gathers_init(struct pst_gathers *gathers, const struct pst_plan *plan,
                      const struct pst_graph *graph, struct pst_arena *arena);
/* The operator at `node` of the stage reads the parameter. Returns how many parameters are gathered
   for that, 0: it is there, or is never gathered. *ret_bucket: which; good until the next call. */
uint32_t pst_gathers_need(struct pst_gathers *gathers, uint32_t stage, uint32_t node,
                          uint32_t parameter, const uint32_t **ret_bucket);

/* The operator at `node` of the stage is the last of its layer, in the order of backward passes,
   with gradients of the bucket; *ret_end, if so: the node after the first of them. The gradients
   are those of pst_scatters_in_layer. */
bool pst_scatters_layer(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t stage,
                        uint32_t node, uint32_t *ret_end);
/* The replicas of the stage sum the gradients of the parameter with others of its layer. */
bool pst_scatters_in_layer(const struct pst_plan *plan, const struct pst_graph *graph,
                           uint32_t stage, uint32_t parameter);
/* Bytes of those of nodes [first, end). */
uint64_t pst_scatters_layer_bytes(const struct pst_plan *plan, const struct pst_graph *graph,
                                  uint32_t stage, uint32_t first, uint32_t end);

#endif
