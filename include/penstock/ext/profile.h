/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.profile/1: the numbers behind a partitioning problem, not rounded to whole nanoseconds or
 * bytes, and how its answer will be judged. For partitioners. Since ABI 1.2.
 */
#ifndef PENSTOCK_EXT_PROFILE_H
#define PENSTOCK_EXT_PROFILE_H

#include "../host.h"

#define PST_PROFILE "pst.profile/1"

/* How the time of a stage counts its transfers and its all-reduce beside its compute. */
enum {
    PST_COMM_NONE = 0, /* compute + all-reduce; transfers are free */
    PST_COMM_SUM = 1,  /* nothing overlaps */
    PST_COMM_MAX = 2   /* everything overlaps: the largest of the three */
};

struct pst_figures {
    uint32_t size;
    uint32_t comm_model; /* PST_COMM_* */
    uint32_t reference;  /* 1: judged by the reference cost model alone (docs/partitioning.md): in
                            flight by its closed form, memory linear; pst.ask/1 answers by it too.
                            0: by planning: in-flight counts and prices are those of pst.ask/1 */
    uint32_t node_size;  /* devices of a node; 0: all are in one */
    double weight_multiplier; /* bytes kept per parameter byte, with one weight version */
    double p2p_bytes_per_s, allreduce_bytes_per_s; /* 0: free */
    const double *saved_bytes;                     /* [n_nodes] of the view, per sample */
    const double *edge_bytes;                      /* [n_edges], per sample */
    uint32_t problem; /* 1: of a problem file: a step is timed with a transfer between any two
                         devices at p2p_bytes_per_s, which waits for no other */
};

/* A way to run a node that a planner may choose for it: Piper's TMPC. */
struct pst_node_config {
    uint32_t size;
    uint32_t tensor_degree; /* devices that share the node */
    const char *name;       /* "vanilla", "recompute" */
    double ns_per_sample;   /* F + B + W on that many devices */
    double param_bytes;     /* on each of them */
    double in_flight_bytes; /* held per sample in flight */
    double fixed_bytes;     /* held in any case */
};

struct pst_profile {
    uint32_t size;
    /*
     * Nanoseconds of F, B and W of a node for `samples` samples on one device, in this order:
     * between profiled sizes linear, beyond them by the last slope. PST_ERR_BUG: there is no such
     * node, or samples is 0. [any]
     */
    pst_status (*node_ns)(const struct pst_host *host, uint32_t node, uint32_t samples,
                          double ret_ns[3]);
    /* Lives as long as the host. [any] */
    const struct pst_figures *(*figures)(const struct pst_host *host);
    /* Returns how many configurations the problem states for a node: mostly 0. [any] */
    uint32_t (*n_configs)(const struct pst_host *host, uint32_t node);
    /* PST_ERR_BUG: there is no such one. [any] */
    pst_status (*config)(const struct pst_host *host, uint32_t node, uint32_t index,
                         struct pst_node_config *ret_config);
};

#endif
