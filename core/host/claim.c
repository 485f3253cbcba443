/* SPDX-License-Identifier: Apache-2.0 */
#include "host/claim.h"

#include "base/log.h"

/* Does what is claimed differ from what was found by more than 5 %? 0 claims nothing. */
static bool differs(uint64_t claimed, uint64_t found)
{
    uint64_t apart = claimed > found ? claimed - found : found - claimed;

    return claimed != 0 && apart > found / 20;
}

static void warn(const char *scheduler, const char *what, uint64_t claimed, uint64_t found,
                 double unit)
{
    if (differs(claimed, found)) {
        pst_log(PST_LOG_WARN, scheduler, "claims a %s of %.6g, but it is %.6g", what,
                (double)claimed / unit, (double)found / unit);
    }
}

void pst_claim_check(const char *scheduler, const struct pst_claimed *claim, uint64_t makespan_ns,
                     uint64_t span_ns, double ns_per_unit)
{
    uint64_t cost = claim->minimised == 2 ? span_ns : makespan_ns;

    if (claim->size == 0) {
        return;
    }
    warn(scheduler, "makespan", claim->makespan_ns, makespan_ns, ns_per_unit);
    warn(scheduler, "span", claim->span_ns, span_ns, ns_per_unit);
    if (claim->lower_bound_ns > cost) {
        pst_log(PST_LOG_WARN, scheduler,
                "claims that no order takes less than %.6g, but its own takes %.6g",
                (double)claim->lower_bound_ns / ns_per_unit, (double)cost / ns_per_unit);
    }
}
