/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and links, from [cluster]: every two devices of a node have a link of their own, all
 * transfers between two nodes share the links of these nodes.
 */
#ifndef PST_GRAPH_CLUSTER_H
#define PST_GRAPH_CLUSTER_H

#include <penstock/cluster.h>
#include <penstock/params.h>

#include "base/arena.h"
#include "base/error.h"
#include "config/config.h"

struct pst_cluster {
    int64_t devices;  /* number of devices */
    uint64_t memory;  /* bytes each; 0: no limit */
    uint64_t reserve; /* bytes of memory that plans leave free */
    double flops;     /* peak FLOP/s of one device, f32 */
    double bf16_flops;
    double efficiency;             /* part of the peak that products reach */
    uint64_t memory_bandwidth;     /* bytes/s */
    uint64_t launch_overhead;      /* ns per kernel */
    uint64_t host_overhead;        /* ns that the host takes for a pass of an operator */
    uint64_t transfer_overhead;    /* ns that it takes for a send or a receive */
    uint64_t step_overhead;        /* ns that it takes for an update of a stage */
    double softmax_traffic;        /* times that a pass moves scores of attention */
    double loss_traffic;           /* times that it moves logits in f32 */
    uint64_t link_bandwidth;       /* bytes/s between two devices */
    uint64_t link_latency;         /* ns */
    int64_t node_size;             /* devices per node, by rank; 0: all in one node */
    uint64_t node_link_bandwidth;  /* bytes/s of a node's link to the others, each direction */
    uint64_t node_link_latency;    /* ns */
    uint64_t collective_bandwidth; /* bytes/s of a node in collectives between two; 0: its link's */
    double collective_decay;       /* on n nodes (n / 2)^-decay of it */
    double memory_factor;          /* peak of the framework described, over that of penstock; 0:
                                      not known. Planners do not read it */
    double uncertainty;            /* mean relative error of predictions by this; 0: not known */
    uint64_t host_bandwidth;       /* bytes/s between a device and host memory; 0: not modelled */
    int64_t link_directions; /* 2: copies in both directions share that link; else they do not */

    /* Set if devices differ: then each figure above is the worst of any device, except memory and
       reserve, which are those of the largest device. NULL: all devices are alike. */
    struct pst_cluster *kinds;        /* [n_kinds] each as if all devices were like it */
    const uint32_t *kind_of;          /* [devices] */
    const struct pst_cluster *stated; /* [cluster] itself: the device of a profile */
    const char *name;                 /* of a kind */
    uint64_t lacks; /* of a kind: bytes that plans may use less than on the largest device */
    uint32_t n_kinds;
};

extern const struct pst_param pst_cluster_params[]; /* rows of [cluster] */
extern const uint32_t pst_cluster_n_params;

/* Bytes that plans may use on the largest device; UINT64_MAX: no limit. */
uint64_t pst_cluster_capacity(const struct pst_cluster *cluster);
/* Bytes that plans may use on device `rank`; UINT64_MAX: no limit. */
uint64_t pst_cluster_capacity_of(const struct pst_cluster *cluster, uint32_t rank);
/* Checks a section as it was read. Errors: config.value if all memory is reserved. */
pst_status pst_cluster_check(const struct pst_cluster *cluster, struct pst_error *err);

/* cluster_kinds.c: applies [[cluster.device]] and [[cluster.node]] to a cluster whose other keys
   are read. Errors: config.key, config.value, with the position. */
extern const char *const pst_cluster_tables[]; /* "device", "node", NULL */
pst_status pst_cluster_mix(struct pst_config_node *section, struct pst_cluster *cluster,
                           struct pst_arena *arena, struct pst_error *err);
/* Copies a cluster and its kinds, so that the copy may be changed. */
void pst_cluster_copy(const struct pst_cluster *cluster, struct pst_arena *arena,
                      struct pst_cluster *ret_copy);
/* Returns the worst of each figure over these ranks, in `room` if they differ. */
const struct pst_cluster *pst_cluster_on(const struct pst_cluster *cluster, const uint32_t *ranks,
                                         uint32_t n_ranks, struct pst_cluster *room);
/* Returns the kind of a rank; the cluster must have kinds. */
static inline const struct pst_cluster *pst_cluster_kind(const struct pst_cluster *cluster,
                                                         uint32_t rank)
{
    return &cluster->kinds[rank < (uint64_t)cluster->devices ? cluster->kind_of[rank] : 0];
}
/* Bytes that plans may use less on this device than on the largest. */
static inline uint64_t pst_cluster_lacks(const struct pst_cluster *cluster, uint32_t rank)
{
    return cluster->n_kinds == 0 ? 0 : pst_cluster_kind(cluster, rank)->lacks;
}
/* Returns true if their figures are equal. */
bool pst_cluster_equal(const struct pst_cluster *a, const struct pst_cluster *b);

#endif
