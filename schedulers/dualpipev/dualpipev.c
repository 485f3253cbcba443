/* SPDX-License-Identifier: Apache-2.0
 *
 * DualPipeV: one copy of the model on a V, with forwards and backwards of different micro-batches
 * paired so that the communication inside one can hide behind the computation of the other. After
 * DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, and its "cut in half" form on a V.
 */
#include "fixed.h"

enum { DOWN = 0, UP = 1 }; /* chunks; backwards run UP first */

static uint32_t least(uint32_t n_devices)
{
    return 2 * n_devices;
}

static void deal_fill(struct fixed_hand *hand, uint32_t after)
{
    uint32_t i;

    for (i = 0; i < 2 * after; i++) {
        fixed_deal(hand, PST_PASS_F, DOWN);
    }
    for (i = 0; i <= hand->d; i++) {
        fixed_deal(hand, PST_PASS_F, DOWN);
        fixed_deal(hand, PST_PASS_F, UP);
    }
    for (i = 0; i < after; i++) {
        fixed_deal(hand, PST_PASS_B, UP);
        fixed_deal(hand, PST_PASS_W, UP);
        fixed_deal(hand, PST_PASS_F, UP);
    }
}

/* On the last device the first forward has nothing to be paired with that is ready. */
static void deal_body(struct fixed_hand *hand, uint32_t after, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (i == 0 && after == 0) {
            fixed_deal(hand, PST_PASS_F, DOWN);
            fixed_deal(hand, PST_PASS_BW, UP);
        } else {
            fixed_deal_pair(hand, DOWN, UP);
        }
        fixed_deal_pair(hand, UP, DOWN);
    }
    for (i = 0; i < after; i++) {
        fixed_deal(hand, PST_PASS_BW, UP);
        fixed_deal_pair(hand, UP, DOWN);
    }
}

/* d + 1 times a backward of either stage. The last d + 1 of these 2d + 2 are split, and their
   weight gradients wait. */
static void deal_drain(struct fixed_hand *hand, uint32_t after)
{
    uint32_t i, n = 2 * (hand->d + 1);

    for (i = 0; i < n; i++) {
        fixed_deal(hand, i < n / 2 ? PST_PASS_BW : PST_PASS_B, i % 2 == 0 ? UP : DOWN);
    }
    hand->oldest = hand->order->lists[hand->device].n - n / 2;
    for (i = 0; i < after; i++) {
        fixed_deal_oldest(hand);
        fixed_deal(hand, PST_PASS_B, DOWN);
    }
    fixed_deal_waiting(hand);
}

static void deal(struct fixed_hand *hand)
{
    const struct fixed_question *q = hand->question;
    uint32_t after = q->p - 1 - hand->d;

    deal_fill(hand, after);
    deal_body(hand, after, q->m - 2 * q->p + hand->d + 1);
    deal_drain(hand, after);
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
