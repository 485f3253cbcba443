/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.rng/1: random numbers for searches, seeded by the job so that plans repeat.
 */
#ifndef PENSTOCK_EXT_RNG_H
#define PENSTOCK_EXT_RNG_H

#include "../host.h"

#define PST_RNG "pst.rng/1"

struct pst_rng {
    uint32_t size;
    /* 64 uniform bits: the value number `counter` of stream `stream`. Pure. [any] */
    uint64_t (*bits)(const struct pst_host *host, uint64_t stream, uint64_t counter);
};

#endif
