/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs of passes, transfers and workspaces: a roofline over the operators' work (pst_op_work) with
 * the figures of a device description, or measured times. Deterministic, pure.
 */
#ifndef PST_GRAPH_COST_H
#define PST_GRAPH_COST_H

#include <penstock/ext/cost.h>

#include "graph/cluster.h"
#include "graph/costed.h"
#include "graph/graph.h"

/* Workspace bytes of a kernel (pass: 0 F, 1 B, 2 W), as the device module says. Threads call it one
   at a time. */
typedef uint64_t pst_workspace_fn(void *context, uint32_t op, uint32_t pass, uint32_t samples);

struct pst_cost_model {
    const struct pst_graph *graph;
    const struct pst_cluster *cluster;
    const struct pst_costed *profile; /* measured times, or NULL: the roofline of [cluster] */
    const uint32_t *profile_nodes;    /* of each operator; PST_NONE: of no cost */
    uint32_t slice; /* of graphs of slices: 1 + the one whose passes are asked for; 0: the mean of
                       the times, so as many times it is what all slices take */
    uint32_t side_by_side; /* ranks that the cores of a machine let compute at a time, which may be
                              more than there are; 0: all of them */
    bool meets_in_waits;   /* ranks move the bytes of a meeting themselves while they wait for it */
    pst_workspace_fn *workspace; /* NULL: no kernel needs any */
    void *workspace_context;
};

/* Do devices take turns on the cores of a machine? */
static inline bool pst_cost_shares_cores(const struct pst_cost_model *cost, uint32_t n_devices)
{
    return cost->side_by_side > 0 && cost->side_by_side < n_devices;
}

/* Does a meeting of replicas stop the kernels of its pass, because it needs their cores? */
static inline bool pst_cost_meets_alone(const struct pst_cost_model *cost, uint32_t n_devices)
{
    return cost->meets_in_waits || pst_cost_shares_cores(cost, n_devices);
}

/* Costs on some of the ranks, which take what the slowest of them does. */
struct pst_cost_at {
    struct pst_cost_model cost;
    struct pst_cluster cluster;
};

/* The model itself where all devices are alike, else one in `room`: lives as long as both. Without
   it costs are those of a device as slow as any. */
const struct pst_cost_model *pst_cost_on(const struct pst_cost_model *cost, const uint32_t *ranks,
                                         uint32_t n_ranks, struct pst_cost_at *room);
/* Costs of passes of a slice; PST_NONE: the mean over the slices of a sequence. */
static inline struct pst_cost_model pst_cost_of_slice(const struct pst_cost_model *cost,
                                                      uint32_t slice)
{
    struct pst_cost_model of = *cost;

    of.slice = slice + 1;
    return of;
}
/* Times that one operator takes a device of the cluster's description for `samples` samples, or the
   one that was measured. */
void pst_cost_op(const struct pst_cost_model *cost, uint32_t op, uint32_t samples,
                 struct pst_times *ret_times);
/* The sum over ops. */
void pst_cost_ops(const struct pst_cost_model *cost, const uint32_t *ops, uint32_t n_ops,
                  uint32_t samples, struct pst_times *ret_times);
/* Times of passes of a stage of these operators: of each pass that sum, or what they take the host
   if that is more. */
void pst_cost_stage(const struct pst_cost_model *cost, const uint32_t *ops, uint32_t n_ops,
                    uint32_t samples, struct pst_times *ret_times);
/* By how much the passes F, B, W of such a stage take longer than its operators take the device. */
struct pst_pass_scale {
    double of[3]; /* >= 1 */
};
struct pst_pass_scale pst_cost_host_scale(const struct pst_cost_model *cost, const uint32_t *ops,
                                          uint32_t n_ops, uint32_t samples);
/* Times of one operator as its share of the passes of a stage. */
void pst_cost_share(const struct pst_cost_model *cost, const struct pst_pass_scale *scale,
                    uint32_t op, uint32_t samples, struct pst_times *ret_times);
uint64_t pst_cost_workspace(const struct pst_cost_model *cost, uint32_t op, uint32_t pass,
                            uint32_t samples);
/* Node of a rank; 0 where all devices are in one node. */
uint32_t pst_cost_node(const struct pst_cost_model *cost, uint32_t rank);
/* Equal for pairs of ranks whose links are alike. */
uint32_t pst_cost_link(const struct pst_cost_model *cost, uint32_t from, uint32_t to);
/* Latency + bytes / bandwidth of the link: that of the two devices, or that of their nodes where
   these differ; 0 within one rank. Of two ends that are not alike the slower one counts. */
uint64_t pst_cost_transfer_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t from,
                              uint32_t to);
/* Time in which the host of a rank posts a send or a receive. */
uint64_t pst_cost_post_ns(const struct pst_cost_model *cost, uint32_t rank);
/* Between a device and host memory, one direction. */
uint64_t pst_cost_host_ns(const struct pst_cost_model *cost, uint64_t bytes);
/* Ring all-reduce, over the links between nodes if there are more ranks than one node has. */
uint64_t pst_cost_allreduce_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t n_ranks);
/* Collectives: a sum over ranks, in a fixed order; copies of what each of them has, for all; other
   copies of that for each. */
enum pst_meet_kind { PST_MEET_SUM = 0, PST_MEET_GATHER = 1, PST_MEET_EXCHANGE = 2 };
/* Bytes of buffers that all ranks of a meeting have. One of them adds up each element of what is
   added, and sends each of what is copied to all. A sum that all take does both to all bytes. Of an
   exchange all ranks have as many bytes: these are copied, for each byte goes to one of n. */
struct pst_meet_bytes {
    uint64_t added, copied;
};
/* Bytes that go by the link of a node while a ring sums or copies these, where the same meeting of
   each part takes place at the same time; the members of a meeting are in n_nodes. */
struct pst_meet_bytes pst_cost_shared_bytes(struct pst_meet_bytes bytes, uint32_t n_nodes,
                                            uint32_t n_parts);
/* Reduce-scatter of what is added, then all-gather of what is copied, on a ring over the links
   between nodes or within one. No bytes at all: the latencies of both. */
uint64_t pst_cost_ring_ns(const struct pst_cost_model *cost, struct pst_meet_bytes bytes,
                          uint32_t n_ranks, uint32_t n_nodes);
/* Returns in how many nodes these ranks are. */
uint32_t pst_cost_count_nodes(const struct pst_cost_model *cost, const uint32_t *ranks,
                              uint32_t n_ranks);

#endif
