/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.partitioner/1: cuts the graph into stages and places them on devices.
 */
#ifndef PENSTOCK_PARTITIONER_H
#define PENSTOCK_PARTITIONER_H

#include "cluster.h"
#include "model.h"

#define PST_PARTITIONER "pst.partitioner/1"

/* The question. Lives until partition() returns. */
struct pst_partition_in {
    uint32_t size;
    const struct pst_graph_view *graph;
    const struct pst_cluster_view *cluster;
    uint32_t batch;                          /* samples of one training step */
    const uint32_t *micro_batches, *degrees; /* candidate sizes, the user's own first;
                                                replica counts allowed, the usual one first */
    uint32_t n_micro_batches, n_degrees;     /* at least 1 each */
    uint32_t
        n_stages; /* stages that the scheduler wants; 0: as many as there are devices, or fewer */
    /* If the plugin provides "replicas" and n_stages is 0: ranks; a stage has as many of them as
       one of `degrees`. Else logical devices, one per stage: `degrees` is 1 alone, the host divides
       the samples of each among its ranks, and costs are those of one rank's part. */
    uint32_t n_devices;
    uint64_t capacity_bytes; /* of one device, for one stage; UINT64_MAX: no limit. Where not all
                                are alike, of the smallest: `cluster` has that of each */
    /* Since 1.7: how many devices may share each operator of a stage, the usual number first, at
       least one. If the plugin provides "ways" and there are several: ranks, as above. Else it
       is 1 alone, and a device may be a group of ranks, which the host divides operators over. */
    const uint32_t *tensors;
    uint32_t n_tensors;
    /* Since 1.7: for each node the first of those that are in stages of its tensor degree, because
       they share a parameter, or the job says so. n_tied: all nodes of the graph; 0 where there is
       one degree. */
    uint32_t n_tied;
    const uint32_t *tied;
};

struct pst_stage_decl {
    uint32_t size;
    const uint32_t *nodes; /* ascending, convex */
    uint32_t n_nodes;
    const uint32_t *ranks; /* replicas in order, the `tensor` ranks of each in a row; the host
                              copies both arrays */
    uint32_t n_ranks;
    uint32_t microbatch_size; /* samples of one micro-batch over all replicas */
    uint32_t k;               /* of a kFkB schedule, at most its micro-batches; 1 otherwise */
    /* Structs of 1.6 end with padding at this offset. Its bytes are undefined, so no field may
       stand here. */
    uint32_t unused;
    uint32_t tensor; /* since 1.7: devices that share each operator; 0, or no such field: 1 */
};

/* The answer: stage() once per stage, in topological order of the stages. */
struct pst_partition_out {
    uint32_t size;
    void *impl;
    /* PST_ERR_BUG  the stage breaks a rule; the host knows which. [plan] */
    pst_status (*stage)(struct pst_partition_out *out, const struct pst_stage_decl *stage);
};

struct pst_partitioner {
    uint32_t size;
    /*
     * PST_ERR_INFEASIBLE  no partition fits; the message names the node or stage that cannot
     * PST_ERR_CANCELLED   stopped on request
     * [plan]
     */
    pst_status (*partition)(void *self, const struct pst_partition_in *in,
                            struct pst_partition_out *out);
};

#endif
