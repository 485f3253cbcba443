/* SPDX-License-Identifier: Apache-2.0
 *
 * ZB-H2: like ZB-H1 with twice as many forwards ahead, so that with equal pass times no device
 * idles between its first and its last pass; for up to 2p - 1 micro-batches held.
 * Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
 */
#include "zero_bubble.h"

static const struct fixed_rules rules = {
    .id = "zb-h2",
    .placement = FIXED_SEQUENTIAL,
    .ahead = 2,
    .deal = zero_bubble_deal,
};

FIXED_PLUGIN_WITH(
    zero_bubble_get_interface, "zb-h2", "1.0", SCHEDULER_WORDS("chain", "split-backward"),
    .summary =
        "Fills the whole pipeline ahead: no bubble within a device's span, twice the memory.",
    .reference = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024", PST_PLUGIN_NO_PARAMS)
