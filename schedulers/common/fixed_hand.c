/* SPDX-License-Identifier: Apache-2.0
 *
 * Dealing the passes of one device, and rounds of micro-batches over its chunks.
 */
#include "fixed.h"

static bool rounds_fit(uint32_t m, uint32_t p)
{
    return m < p || m % (m / p) == 0;
}

/*
 * Micro-batches of one round where devices go round their chunks: m div max(1, m div p), the same
 * in every round. Else PST_ERR_INFEASIBLE, explained. One chunk needs no rounds: any m will do.
 */
static pst_status round_of(const struct fixed_question *question, uint32_t *ret_r)
{
    uint32_t m = question->m, p = question->p, fewer = m, more = m;

    if (question->v > 1 && !rounds_fit(m, p)) {
        while (!rounds_fit(fewer, p)) {
            fewer--;
        }
        while (!rounds_fit(more, p)) {
            more++;
        }
        return pst_failf(question->self->host, PST_ERR_INFEASIBLE,
                         "%u micro-batches on %u devices: %s wants %u rounds of equally many "
                         "micro-batches each; %u or %u would do",
                         m, p, question->self->rules->id, m / p, fewer, more);
    }
    *ret_r = m < p ? m : m / (m / p);
    return PST_OK;
}

void fixed_hand_init(struct fixed_hand *hand, const struct fixed_question *question,
                     struct order *order, uint32_t d)
{
    *hand = (struct fixed_hand){
        .question = question,
        .order = order,
        .d = d,
        .device = pst_schedule_stage_at(question->in, fixed_stage(question, d, 0))->device,
        .status = PST_OK,
    };
}

static void add(struct fixed_hand *hand, uint32_t pass, uint32_t stage, uint32_t microbatch)
{
    if (hand->status == PST_OK && microbatch < hand->question->m) {
        hand->status = order_add(hand->order, hand->device, pass, stage, microbatch);
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

    while (hand->status == PST_OK && hand->oldest < list->n) {
        fixed_deal_oldest(hand);
    }
}

pst_status fixed_rounds(const struct fixed_question *q, fixed_device_fn *deal, struct order *order)
{
    uint32_t r = 0, d;
    pst_status st = round_of(q, &r);

    for (d = 0; st == PST_OK && d < q->p; d++) {
        st = deal(q, r, d, order);
    }
    return st;
}
