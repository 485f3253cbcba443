/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMOPT_ADAPIPE_KNAPSACK_H
#define MEMOPT_ADAPIPE_KNAPSACK_H

#include <penstock/penstock.h>

/* A unit of nodes that is saved or replayed as a whole. */
struct unit {
    uint32_t first, end; /* positions */
    uint64_t bytes, ns;  /* freed per micro-batch, and replayed, if it is dropped */
    bool saved;
};

/*
 * Saves units of most replay time within `budget` bytes; ties: earlier units. Bytes are counted in
 * units of the larger of their greatest common divisor and budget / quanta, rounded up.
 */
void knapsack(const struct pst_host *host, struct unit *units, uint32_t n, uint64_t budget,
              uint32_t quanta);

#endif
