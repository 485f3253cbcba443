/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a memory optimizer's stage over one micro-batch, as a timeline for figures: the
 * forward pass, replays and backward passes above, the bytes of the device below.
 */
#ifndef PST_FIGURES_MEMOPT_FIGURE_H
#define PST_FIGURES_MEMOPT_FIGURE_H

#include "planner/problem_memopt.h"
#include "sim/timeline.h"

/* In *ret_timeline, of the caller, who destroys it. */
void pst_memopt_timeline(const struct pst_memopt_result *result,
                         struct pst_timeline **ret_timeline);

#endif
