/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners that cut one order into stages of one device each (or of the least degree
 * allowed) and look at neither memory nor transfers.
 */
#ifndef PARTITIONERS_COMMON_PART_ROW_H
#define PARTITIONERS_COMMON_PART_ROW_H

#include "chain.h"

struct part_row {
    struct part_problem problem;
    struct part_costs costs;
    uint32_t b, d, n_stages; /* the user's size; replicas of each; at least 1, at most n */
    uint32_t *order, *first; /* [n]; [n_stages + 1] to be filled: first[0] = 0, at the end n */
    const int64_t **ticks;   /* [n_stages][n] time of a node as each stage; where devices are alike
                                the same list */
    bool placed;             /* stage s is to be on device s */
};

/* The number of stages is the scheduler's, else one per device; with fewer nodes than devices as
   many as nodes, but for a run that is planned: there that is refused. */
pst_status part_row_init(struct part_row *row, const struct pst_host *host,
                         const struct pst_partition_in *in, uint32_t order_kind);
/* Where the devices of a job are not alike: stage s on device s, with the times of that. */
void part_row_mix(struct part_row *row);
/* By `first`. */
void part_row_answer(const struct part_row *row, struct pst_partition_out *out);

#endif
