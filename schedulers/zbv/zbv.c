/* SPDX-License-Identifier: Apache-2.0
 *
 * The zero-bubble order of equal pass times on a V: every device has a stage on the way down and
 * one on the way up, and holds what 1F1B holds on its first. Qi et al., "Zero Bubble Pipeline
 * Parallelism", ICLR 2024, ZB-V; written down in closed form as PyTorch's ScheduleZBVZeroBubble.
 */
#include "fixed.h"

enum { DOWN = 0, UP = 1 }; /* chunks; backwards run UP first */

static void deal_backward(struct fixed_hand *hand, uint32_t chunk)
{
    fixed_deal(hand, PST_PASS_B, chunk);
    fixed_deal(hand, PST_PASS_W, chunk);
}

/* Until the first micro-batch has come back: forwards, and backwards on the way up. */
static void deal_warm_up(struct fixed_hand *hand, uint32_t p, uint32_t d)
{
    uint32_t i;

    for (i = 0; i < 2 * (p - d) - 1; i++) {
        fixed_deal(hand, PST_PASS_F, DOWN);
    }
    for (i = 0; i < d; i++) {
        fixed_deal(hand, PST_PASS_F, UP);
        fixed_deal(hand, PST_PASS_F, DOWN);
    }
    for (i = 0; i < p - d; i++) {
        fixed_deal(hand, PST_PASS_F, UP);
        deal_backward(hand, UP);
    }
}

static void deal_cool_down(struct fixed_hand *hand, uint32_t p, uint32_t d)
{
    uint32_t i;

    for (i = 0; i < d; i++) {
        fixed_deal(hand, PST_PASS_B, DOWN);
        fixed_deal(hand, PST_PASS_B, UP);
    }
    for (i = 0; i < p - d; i++) {
        deal_backward(hand, DOWN);
    }
    while (hand->n_weight[UP] < hand->n_backward[UP]) {
        fixed_deal(hand, PST_PASS_W, UP);
    }
    while (hand->n_weight[DOWN] < hand->n_backward[DOWN]) {
        fixed_deal(hand, PST_PASS_W, DOWN);
    }
}

/* The order is that of at least 2p - 1 micro-batches; those that there are not drop out. */
static void deal(struct fixed_hand *hand)
{
    uint32_t p = hand->question->p, m = hand->question->m, n = 2 * p - 1 > m ? 2 * p - 1 : m;

    deal_warm_up(hand, p, hand->d);
    while (hand->n_forward[UP] < hand->n_forward[DOWN] || hand->n_forward[DOWN] < n) {
        if (hand->n_forward[DOWN] < n) {
            fixed_deal(hand, PST_PASS_F, DOWN);
        }
        deal_backward(hand, DOWN);
        fixed_deal(hand, PST_PASS_F, UP);
        deal_backward(hand, UP);
    }
    deal_cool_down(hand, p, hand->d);
}

static const struct fixed_rules rules = {
    .id = "zbv",
    .placement = FIXED_VSHAPE,
    .deal = deal,
};

FIXED_PLUGIN("zbv", "1.0", FIXED_WORDS_V,
             .summary = "Zero bubble on a V of two stages per device, for equal pass times.",
             .reference = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024; PyTorch, "
                          "torch.distributed.pipelining, ScheduleZBVZeroBubble",
             PST_PLUGIN_NO_PARAMS)
