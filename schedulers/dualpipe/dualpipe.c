/* SPDX-License-Identifier: Apache-2.0
 *
 * DualPipe: two copies of the model in opposite directions, with forwards of one and backwards of
 * the other paired so that the communication inside one can hide behind the computation of the
 * other. After DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024.
 */
#include "fixed.h"

static uint32_t least(uint32_t n_devices)
{
    return 2 * n_devices;
}

/* Device d is near the start of the copy of its half, and near the end of the other. */
static void deal(struct fixed_hand *hand)
{
    uint32_t p = hand->question->p, d = hand->d, near = d < p / 2 ? 0 : 1;

    fixed_deal_dual(hand, p / 2, near == 0 ? d : p - 1 - d, near, 1 - near);
}

static const struct fixed_rules rules = {
    .id = "dualpipe",
    .placement = FIXED_VSHAPE,
    .two_way = true,
    .least = least,
    .deal = deal,
};

FIXED_PLUGIN("dualpipe", "1.0", SCHEDULER_WORDS("chain", "two-way", "split-backward"),
             .summary = "Pairs of a forward and a backward of two copies in opposite directions.",
             .reference = "DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv 2412.19437, 2024; "
                          "github.com/deepseek-ai/DualPipe",
             PST_PLUGIN_NO_PARAMS)
