/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and links, from [cluster]: every two devices of a node have a link of their own, all
 * transfers between two nodes share the links of these nodes.
 */
#ifndef PST_GRAPH_CLUSTER_H
#define PST_GRAPH_CLUSTER_H

#include <penstock/cluster.h>
#include <penstock/params.h>

#include "base/error.h"

struct pst_cluster {
    int64_t devices;  /* number of devices */
    uint64_t memory;  /* bytes each; 0: no limit */
    uint64_t reserve; /* of them: that plans leave free */
    double flops;     /* peak FLOP/s of one device, f32 */
    double bf16_flops;
    double efficiency;            /* part of the peak that products reach */
    uint64_t memory_bandwidth;    /* bytes/s */
    uint64_t launch_overhead;     /* ns per kernel */
    uint64_t host_overhead;       /* ns that the host takes for a pass of an operator */
    double softmax_traffic;       /* times that a pass moves scores or logits */
    uint64_t link_bandwidth;      /* bytes/s between two devices */
    uint64_t link_latency;        /* ns */
    int64_t node_size;            /* devices per node, by rank; 0: all in one node */
    uint64_t node_link_bandwidth; /* bytes/s of a node's link to the others, each direction */
    uint64_t node_link_latency;   /* ns */
    uint64_t host_bandwidth;      /* bytes/s between a device and host memory; 0: not modelled */
    int64_t link_directions; /* 2: copies in both directions share that link; else they do not */
};

extern const struct pst_param pst_cluster_params[]; /* rows of [cluster] */
extern const uint32_t pst_cluster_n_params;

/* Bytes that plans may take of each device; UINT64_MAX: no limit. */
uint64_t pst_cluster_capacity(const struct pst_cluster *cluster);
/* Of a section as it was read. Errors: config.value, memory that is reserved as a whole. */
pst_status pst_cluster_check(const struct pst_cluster *cluster, struct pst_error *err);

#endif
