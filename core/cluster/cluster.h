/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and links, from [cluster]. One level of links for now; the hierarchy comes with profiles.
 */
#ifndef PST_CLUSTER_CLUSTER_H
#define PST_CLUSTER_CLUSTER_H

#include <penstock/cluster.h>
#include <penstock/params.h>

#include "base/error.h"

struct pst_cluster {
    int64_t devices;            /* number of devices */
    uint64_t memory;            /* bytes each; 0: no limit */
    double flops;               /* peak FLOP/s of one device, f32 */
    double bf16_flops;
    uint64_t memory_bandwidth;  /* bytes/s */
    uint64_t launch_overhead;   /* ns per kernel */
    uint64_t link_bandwidth;    /* bytes/s between two devices */
    uint64_t link_latency;      /* ns */
};

extern const struct pst_param pst_cluster_params[]; /* rows of [cluster] */
extern const uint32_t pst_cluster_n_params;

#endif
