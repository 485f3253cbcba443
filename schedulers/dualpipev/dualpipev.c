/* SPDX-License-Identifier: Apache-2.0
 *
 * DualPipeV: one copy of the model on a V, with forwards and backwards of different micro-batches
 * paired so that the communication inside one can hide behind the computation of the other. After
 * DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, and its "cut in half" form on a V.
 */
#include "fixed.h"

enum { DOWN = 0, UP = 1 }; /* chunks */

static uint32_t least(uint32_t n_devices)
{
    return 2 * n_devices;
}

static void deal(struct fixed_hand *hand)
{
    fixed_deal_dual(hand, hand->question->p, hand->d, DOWN, UP);
}

static const struct fixed_rules rules = {
    .id = "dualpipev",
    .placement = FIXED_VSHAPE,
    .least = least,
    .deal = deal,
};

FIXED_PLUGIN("dualpipev", "1.0", FIXED_WORDS_V,
             .summary = "Pairs of a forward and a backward on a V of two stages per device.",
             .reference = "DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv 2412.19437, 2024; "
                          "github.com/deepseek-ai/DualPipe",
             PST_PLUGIN_NO_PARAMS)
