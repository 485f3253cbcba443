/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.ask/1: a partitioner's questions to the scheduler and the memory optimizer of the job. Other
 * kinds get no such extension, so questions never nest. The host remembers every answer.
 */
#ifndef PENSTOCK_EXT_ASK_H
#define PENSTOCK_EXT_ASK_H

#include "../memopt.h"
#include "../scheduler.h"
#include "cost.h"

#define PST_ASK "pst.ask/1"

/* A set of nodes considered as a stage. */
struct pst_stage_question {
    uint32_t size;
    const uint32_t *nodes; /* ascending, convex */
    uint32_t n_nodes;
    uint32_t stage, n_stages;          /* where topology() fixes n_stages: no more than that */
    uint32_t microbatch_size, n_ranks; /* samples over all replicas, <= the batch; replicas */
    uint32_t in_flight, weight_versions;
    uint64_t capacity_bytes;
    /* Since 1.6: those of struct pst_stage_decl, n_ranks times the tensor degree, where the stage
       would be. NULL: on devices as slow as any. */
    const uint32_t *ranks;
    /* Since 1.7: devices that share each operator, one of pst_partition_in.tensors; 0, or no such
       field: 1. Bytes are those of each of them. Where the model cannot be shared by so many,
       price() says that nothing fits, and bound() UINT64_MAX of everything; of the usual number
       both fail. A stage none of whose parameters would be shared fits at no degree but 1. */
    uint32_t tensor;
};

struct pst_ask {
    uint32_t size;
    pst_status (*topology)(const struct pst_host *host, uint32_t n_devices,
                           struct pst_topology *ret_topology); /* [plan] */
    pst_status (*in_flight)(const struct pst_host *host, const struct pst_place *place,
                            struct pst_held *ret_held); /* [plan] */
    /* Lower bound of the period; the sum of times where the optimizer offers none. [plan] */
    pst_status (*bound)(const struct pst_host *host, const struct pst_stage_question *question,
                        uint64_t *ret_period_ns);
    /* Returns whether the stage fits and at what period. fits = 0 is a valid answer. [plan] */
    pst_status (*price)(const struct pst_host *host, const struct pst_stage_question *question,
                        struct pst_stage_price *ret_price);
};

#endif
