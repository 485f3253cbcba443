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

/* Answers a problem that the host judges by the reference cost model. order: PART_ORDER_*, or
   ORDER_BEST. size: of a micro-batch, 0: all of the problem's. */
enum { ORDER_BEST = 4 };
pst_status chain_by_reference(const struct pst_host *host, const struct pst_partition_in *in,
                              uint32_t order, uint32_t size, struct pst_partition_out *out);

#endif
