/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scheduler says of its own answer, held against what the host finds.
 */
#ifndef PST_HOST_CLAIM_H
#define PST_HOST_CLAIM_H

#include <penstock/ext/claim.h>

#include <stdbool.h>

/* Warns in the log of what differs, and of a lower bound above the answer's own cost; times are
   told in units. `claim` of size 0 claims nothing. */
void pst_claim_check(const char *scheduler, const struct pst_claimed *claim, uint64_t makespan_ns,
                     uint64_t span_ns, double ns_per_unit);

#endif
