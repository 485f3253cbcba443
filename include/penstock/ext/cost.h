/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.cost/1: what things cost, for partitioners and schedulers. From a profile or a device
 * description; the same arguments always get the same answer.
 */
#ifndef PENSTOCK_EXT_COST_H
#define PENSTOCK_EXT_COST_H

#include "../host.h"

#define PST_COST "pst.cost/1"

struct pst_times {
    uint64_t forward_ns, backward_input_ns, backward_weight_ns;
};

struct pst_cost {
    uint32_t size;
    /* Times of one pass each over these nodes for `samples` samples on one device; where not all
       are alike, on one as slow as any. Of slices of sequences the mean over these, so times their
       number it is what all take. [any] */
    pst_status (*compute)(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                          uint32_t samples, struct pst_times *ret_times);
    /* Nanoseconds to move bytes between two ranks; 0 where they are the same. [any] */
    uint64_t (*transfer_ns)(const struct pst_host *host, uint64_t bytes, uint32_t from,
                            uint32_t to);
    /* Nanoseconds to sum bytes over n ranks. [any] */
    uint64_t (*allreduce_ns)(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks);
    /* Since 1.6, ask PST_CAN: what the slowest of these ranks takes. [any] */
    pst_status (*compute_on)(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                             uint32_t samples, const uint32_t *ranks, uint32_t n_ranks,
                             struct pst_times *ret_times);
};

#endif
