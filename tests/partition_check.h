/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans and figures of partitioners held against those of partition_rig.h.
 */
#ifndef TEST_PARTITION_CHECK_H
#define TEST_PARTITION_CHECK_H

#include <math.h>

#include "answer.h"
#include "partition_rig.h"
#include "test.h"

/* The stage of every operator, and degrees. */
static inline void rig_stages(const struct part_plan *plan, uint32_t *stage_of, uint32_t *d)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        d[s] = plan->stages[s].d;
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            stage_of[plan->stages[s].nodes[i]] = s;
        }
    }
}

/* Equal but for rounding, or both without an answer; round: or a seed. */
static inline void rig_agree(double is, double should, uint64_t round)
{
    if (isinf(is) || isinf(should) ? is != should
                                   : !(fabs(is - should) <= 1e-9 * fmax(fabs(is), fabs(should)))) {
        fail_msg("round %llu: %.12g is not %.12g", (unsigned long long)round, is, should);
    }
}

static inline void rig_close(double is, double should)
{
    rig_agree(is, should, 0);
}

#endif
