/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of DualPipe and DualPipeV, which is one: with two copies each device is near the start
 * of one and near the end of the other; on a V the near chunk is the way down.
 */
#include "fixed.h"

/* A device, the `after` of its half that come after it, and its chunks. */
struct dual {
    struct fixed_hand *hand;
    uint32_t after, h, near, far;
};

static void deal_fill(const struct dual *dual)
{
    uint32_t i;

    for (i = 0; i < 2 * dual->after; i++) {
        fixed_deal(dual->hand, PST_PASS_F, dual->near);
    }
    for (i = 0; i <= dual->h; i++) {
        fixed_deal(dual->hand, PST_PASS_F, dual->near);
        fixed_deal(dual->hand, PST_PASS_F, dual->far);
    }
    for (i = 0; i < dual->after; i++) {
        fixed_deal(dual->hand, PST_PASS_B, dual->far);
        fixed_deal(dual->hand, PST_PASS_W, dual->far);
        fixed_deal(dual->hand, PST_PASS_F, dual->far);
    }
}

/* On the last device of the half the first forward has nothing to be paired with that is ready. */
static void deal_body(const struct dual *dual, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (i == 0 && dual->after == 0) {
            fixed_deal(dual->hand, PST_PASS_F, dual->near);
            fixed_deal(dual->hand, PST_PASS_BW, dual->far);
        } else {
            fixed_deal_pair(dual->hand, dual->near, dual->far);
        }
        fixed_deal_pair(dual->hand, dual->far, dual->near);
    }
    for (i = 0; i < dual->after; i++) {
        fixed_deal(dual->hand, PST_PASS_BW, dual->far);
        fixed_deal_pair(dual->hand, dual->far, dual->near);
    }
}

/* h + 1 times a backward of either chunk. The last h + 1 of these 2h + 2 are split, and their
   weight gradients wait. */
static void deal_drain(const struct dual *dual)
{
    uint32_t i, n = 2 * (dual->h + 1);

    for (i = 0; i < n; i++) {
        fixed_deal(dual->hand, i < n / 2 ? PST_PASS_BW : PST_PASS_B,
                   i % 2 == 0 ? dual->far : dual->near);
    }
    dual->hand->oldest = dual->hand->order->lists[dual->hand->device].n - n / 2;
    for (i = 0; i < dual->after; i++) {
        fixed_deal_oldest(dual->hand);
        fixed_deal(dual->hand, PST_PASS_B, dual->near);
    }
    fixed_deal_waiting(dual->hand);
}

void fixed_deal_dual(struct fixed_hand *hand, uint32_t half, uint32_t h, uint32_t near,
                     uint32_t far)
{
    const struct dual dual = {hand, half - 1 - h, h, near, far};

    deal_fill(&dual);
    deal_body(&dual, hand->question->m - 2 * half + h + 1);
    deal_drain(&dual);
}
