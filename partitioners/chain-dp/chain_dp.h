/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to chain-dp: one search for one micro-batch size, and the price of a range as a stage.
 */
#ifndef CHAIN_DP_H
#define CHAIN_DP_H

#include <penstock/ext/profile.h>
#include <penstock/penstock.h>

#include "ranges.h"

enum { COMM_NONE = 0, COMM_SUM = 1, COMM_MAX = 2 };

/* The price of a range of nodes as one particular stage. */
struct range_price {
    uint64_t cost_ns; /* of one micro-batch: period and transfers, as `comm` combines them */
    uint64_t period_ns, in_ns, out_ns;
    uint64_t sync_ns; /* of the step's sum of gradients over replicas, a micro-batch's share */
    uint64_t peak_bytes;
    bool fits;
    bool skipped;  /* an edge leads over it, which is not to be: it counts as not fitting */
    bool hopeless; /* so far from fitting that no range around it will */
};

struct chain {
    const struct pst_host *host;
    const struct pst_cost *cost;
    const struct pst_partition_in *in;
    uint32_t comm;
    uint32_t *reach; /* [n + 1] largest node that one before a position feeds: stages are to form a
                        chain; NULL: edges may skip stages */
    uint32_t n, n_stages, microbatch_size;
    uint64_t **prefix_ns; /* [n_stages][n + 1] compute time of the nodes before a position, on the
                             device of a stage; of like devices the same array */
    uint32_t *stamps;     /* [n] for incoming bytes: the last range that counted a node */
    uint32_t stamp;
    struct part_asker asker;
    struct part_map prices; /* struct range_price */
};

/* Nodes [first, end) as stage `stage`; remembered. */
void chain_price(struct chain *chain, uint32_t stage, uint32_t first, uint32_t end,
                 struct range_price *ret_price);

/* Returns the time that a micro-batch takes a stage, of the figures above, by `comm`. */
uint64_t chain_cost(const struct range_price *price, uint32_t comm);
/*
 * More nodes need more memory, but for two things: the input of a range may shrink when it takes in
 * the producer, and a memory optimizer may find better borders. So its input, which is all that it
 * holds, does not count here, and the rest must be twice what there is before larger ranges are
 * given up unasked.
 */
bool chain_is_hopeless(const struct range_price *price, uint64_t capacity, uint64_t input);
/* Bytes that nodes [first, end) receive as a stage for so many samples: every source once; and
   send: every output that is read later, once. */
uint64_t chain_incoming(struct chain *chain, uint32_t first, uint32_t end, uint32_t samples);
uint64_t chain_outgoing(const struct chain *chain, uint32_t first, uint32_t end, uint32_t samples);

struct chain_answer {
    uint32_t *cuts; /* [n_stages + 1] first node of each stage; cuts[n_stages] = n */
    uint64_t bottleneck_ns, sum_ns;
};

/* PST_ERR_INFEASIBLE: explained to the host already. cuts is the caller's. */
pst_status chain_search(struct chain *chain, struct chain_answer *ret_answer);

/* Moves the borders as long as the host, where it can simulate, says that the step gets shorter.
   Bounded by counts of passes and nodes, so that answers repeat.
 */
pst_status chain_shorten(struct chain *chain, uint32_t *cuts);

/* Fills chain->reach. */
void chain_find_reach(struct chain *chain);

/* Answers a job whose stages may share operators (ways.c). comm, chain: the parameters. size: of a
   micro-batch, 0: all of the job's. */
pst_status chain_by_ways(const struct pst_host *host, const struct pst_partition_in *in,
                         uint32_t comm, bool chain, uint32_t size, struct pst_partition_out *out);

/* Answers a problem that the host judges by the reference cost model. order: PART_ORDER_*, or
   ORDER_BEST. size: of a micro-batch, 0: all of the problem's. */
enum { ORDER_BEST = 4 };
pst_status chain_by_reference(const struct pst_host *host, const struct pst_partition_in *in,
                              uint32_t order, uint32_t size, struct pst_partition_out *out);

#endif
