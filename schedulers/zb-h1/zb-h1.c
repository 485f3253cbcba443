/* SPDX-License-Identifier: Apache-2.0
 *
 * ZB-H1: 1F1B with backwards split, and weight gradients kept back to fill what would be idle.
 * Every device holds as many micro-batches as the first one of 1F1B does.
 * Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
 */
#include "zero_bubble.h"

static const struct fixed_rules rules = {
    .id = "zb-h1",
    .placement = FIXED_SEQUENTIAL,
    .ahead = 1,
    .deal = zero_bubble_deal,
};

FIXED_PLUGIN_WITH(
    zero_bubble_get_interface, "zb-h1", "1.0", SCHEDULER_WORDS("chain", "split-backward"),
    .summary =
        "1F1B with weight gradients deferred to idle times: a third of the bubble, no more memory.",
    .reference = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024", PST_PLUGIN_NO_PARAMS)
