/* SPDX-License-Identifier: Apache-2.0 */
#include "zero_bubble.h"

#include <string.h>

/* A W waits until the device has run as many forwards and backwards as fill the pipeline: then its
   slot was idle in 1F1B. */
static void deal_backward(struct fixed_hand *hand, uint64_t n, uint32_t chunk)
{
    const struct fixed_question *q = hand->question;
    uint64_t ahead = q->self->rules->ahead, before = ahead * (q->p - 1 - hand->d);

    fixed_deal(hand, PST_PASS_B, chunk);
    if ((before < q->m ? before : q->m) + n >= ahead * (q->p - 1)) {
        fixed_deal_oldest(hand);
    }
}

void zero_bubble_deal(struct fixed_hand *hand)
{
    const struct fixed_question *q = hand->question;

    fixed_deal_looped(hand, q->self->rules->ahead * (q->p - 1 - hand->d), deal_backward);
    fixed_deal_waiting(hand);
}

/* The most micro-batches that a device holds: min(m, ahead * (p - 1) + 1). */
static pst_status in_flight(void *self_, const struct pst_place *place, struct pst_held *ret_held)
{
    const struct fixed *self = self_;
    uint64_t most = (uint64_t)self->rules->ahead * (place->n_stages - 1) + 1;

    ret_held->microbatches = most < place->n_microbatches ? (uint32_t)most : place->n_microbatches;
    ret_held->weight_versions = 1;
    return PST_OK;
}

static const struct pst_scheduler scheduler = {
    .size = sizeof scheduler,
    .topology = fixed_topology,
    .in_flight = in_flight,
    .schedule = fixed_schedule,
};

const void *zero_bubble_get_interface(const char *id)
{
    return strcmp(id, PST_SCHEDULER) == 0 ? &scheduler : NULL;
}
