/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.claim/1: what a scheduler says about its own answer. The host computes times and peaks itself
 * and warns where they differ by more than 5 %; a proven bound is reported as the plugin's.
 */
#ifndef PENSTOCK_EXT_CLAIM_H
#define PENSTOCK_EXT_CLAIM_H

#include "../host.h"

#define PST_CLAIM "pst.claim/1"

/* Values not claimed are 0. Times follow the eager rule: order as given, links are latency only. */
struct pst_claimed {
    uint32_t size;
    uint32_t minimised;      /* what the search minimised: 1 makespan, 2 span */
    uint64_t makespan_ns, span_ns;
    uint64_t lower_bound_ns; /* proven: no order of this placement and memory has less of it */
};

struct pst_claim {
    uint32_t size;
    /* About the answer that schedule() is giving; the last call counts. Copies. [plan] */
    pst_status (*claim)(const struct pst_host *host, const struct pst_claimed *claimed);
};

#endif
