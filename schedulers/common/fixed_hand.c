/* SPDX-License-Identifier: Apache-2.0
 *
 * Dealing the passes of one device.
 */
#include "fixed.h"

void fixed_hand_init(struct fixed_hand *hand, const struct fixed_question *question,
                     struct order *order, uint32_t d)
{
    *hand = (struct fixed_hand){
        .question = question,
        .order = order,
        .d = d,
        .device = pst_schedule_stage_at(question->in, fixed_stage(question, d, 0))->device,
    };
}

static void add(struct fixed_hand *hand, uint32_t pass, uint32_t stage, uint32_t microbatch)
{
    if (microbatch < hand->question->m) {
        order_add(hand->order, hand->device, pass, stage, microbatch);
    }
}

void fixed_deal(struct fixed_hand *hand, uint32_t pass, uint32_t chunk)
{
    uint32_t *n = pass == PST_PASS_F   ? &hand->n_forward[chunk]
                  : pass == PST_PASS_W ? &hand->n_weight[chunk]
                                       : &hand->n_backward[chunk];

    add(hand, pass, fixed_stage(hand->question, hand->d, chunk), (*n)++);
}

void fixed_deal_pair(struct fixed_hand *hand, uint32_t forward_chunk, uint32_t backward_chunk)
{
    struct order_list *list = &hand->order->lists[hand->device];
    uint32_t before = list->n;

    fixed_deal(hand, PST_PASS_F, forward_chunk);
    fixed_deal(hand, PST_PASS_BW, backward_chunk);
    if (list->n == before + 2) {
        list->ops[before].paired = 1;
    }
}

void fixed_deal_oldest(struct fixed_hand *hand)
{
    const struct order_list *list = &hand->order->lists[hand->device];

    while (hand->oldest < list->n && list->ops[hand->oldest].pass != PST_PASS_B) {
        hand->oldest++;
    }
    if (hand->oldest < list->n) {
        struct order_op op = list->ops[hand->oldest++];

        add(hand, PST_PASS_W, op.stage, op.microbatch);
    }
}

void fixed_deal_waiting(struct fixed_hand *hand)
{
    const struct order_list *list = &hand->order->lists[hand->device];

    while (hand->oldest < list->n) {
        fixed_deal_oldest(hand);
    }
}

void fixed_deal_looped(struct fixed_hand *hand, uint32_t ahead, fixed_backward_fn *backward)
{
    const struct fixed_question *q = hand->question;
    uint64_t total = (uint64_t)q->v * q->m, w = (uint64_t)(q->v - 1) * q->r + ahead, n;

    w = w < total ? w : total;
    for (n = 0; n < total + w; n++) {
        if (n < total) {
            fixed_deal(hand, PST_PASS_F, (uint32_t)(n / q->r % q->v));
        }
        if (n >= w) {
            backward(hand, n - w, (uint32_t)(q->v - 1 - (n - w) / q->r % q->v));
        }
    }
}
