/* SPDX-License-Identifier: Apache-2.0
 *
 * STAT1: what a file says although its lists, or other fields, say it already, is what they say.
 */
#include "prove/internal.h"

static void check_stage(struct pst_check *check, uint32_t s)
{
    const struct pst_plan *plan = check->plan;
    const struct pst_plan_stage *stage = &plan->stages[s];
    uint64_t peak = plan->devices[stage->ranks[0]].peak_bytes,
             stated = plan->stated->stage_peaks[s];
    uint32_t held, row;

    pst_plan_count(plan, s, &held, &row);
    if (stage->in_flight != held) {
        pst_check_add(check, "STAT1", PST_NONE, PST_NONE,
                      "stage %u: in_flight of %u is stated, found %u micro-batches between F and W",
                      s, stage->in_flight, held);
    }
    if (stage->k != row) {
        pst_check_add(check, "STAT1", PST_NONE, PST_NONE,
                      "stage %u: k of %u is stated, found at most %u forward passes in a row after "
                      "a backward pass",
                      s, stage->k, row);
    }
    if (stated != peak) {
        pst_check_add(check, "STAT1", PST_NONE, PST_NONE,
                      "stage %u: peak_bytes of %llu is stated, found %llu of device %u", s,
                      (unsigned long long)stated, (unsigned long long)peak, stage->ranks[0]);
    }
}

void pst_check_stated(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint32_t versions = 0;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint32_t n = plan->stages[s].weight_versions;

        check_stage(check, s);
        versions = n > versions ? n : versions;
    }
    if (plan->stated->versions != 0 && plan->stated->versions != versions) {
        pst_check_add(check, "STAT1", PST_NONE, PST_NONE,
                      "versions.count of %u is stated, found %u as the most of a stage",
                      plan->stated->versions, versions);
    }
}
