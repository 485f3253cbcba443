/* SPDX-License-Identifier: Apache-2.0
 *
 * DAPPLE's three ways to choose devices for a stage, on machines of equal size that are known by
 * how many of their devices are taken.
 */
#ifndef DAPPLE_PLACE_H
#define DAPPLE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DAPPLE_FRESH = 0,   /* machines without a stage first: fast links inside the stage */
    DAPPLE_APPEND = 1,  /* machines in use first */
    DAPPLE_SCATTER = 2, /* spread over all machines in use, one device after another */
    DAPPLE_POLICIES = 3
};

struct dapple_machines {
    uint32_t n_machines, size, n_devices; /* the last machine may be smaller */
};

/* One machine of all devices where size is 0 or large. */
struct dapple_machines dapple_machines_of(uint32_t n_devices, uint32_t size);

/*
 * Takes d devices: used[n_machines] -> ret_used. *ret_machine: the one machine that they are on, or
 * UINT32_MAX. False: not that many are free. ret_used may not be used itself.
 */
bool dapple_place(const struct dapple_machines *machines, const uint16_t *used, uint32_t d,
                  uint32_t policy, uint16_t *ret_used, uint32_t *ret_machine);

/* Ranks that were taken between two states; ascending. Returns how many. */
uint32_t dapple_ranks(const struct dapple_machines *machines, const uint16_t *before,
                      const uint16_t *after, uint32_t *ret_ranks);

#endif
