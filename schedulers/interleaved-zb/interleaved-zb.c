/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaved 1F1B with backwards split and weight gradients kept back as in ZB-H1: device d keeps
 * d of them waiting. The order that PyTorch calls InterleavedZeroBubble; after Qi et al., "Zero
 * Bubble Pipeline Parallelism", ICLR 2024, and Narayanan et al., SC 2021.
 */
#include "fixed.h"

static const struct pst_param params[] = {FIXED_CHUNKS_ROW};

static void deal_backward(struct fixed_hand *hand, uint64_t n, uint32_t chunk)
{
    fixed_deal(hand, PST_PASS_B, chunk);
    if (n >= hand->d) {
        fixed_deal_oldest(hand);
    }
}

static void deal(struct fixed_hand *hand)
{
    fixed_deal_looped(hand, hand->question->p - 1 - hand->d, deal_backward);
    fixed_deal_waiting(hand);
}

static const struct fixed_rules rules = {
    .id = "interleaved-zb",
    .placement = FIXED_LOOPED,
    .chunks = fixed_chunks_of,
    .rounds = true,
    .deal = deal,
};

FIXED_PLUGIN("interleaved-zb", "1.0",
             SCHEDULER_WORDS("chain", "chunks", "placement=looped", "split-backward"),
             .summary = "Interleaved 1F1B with weight gradients deferred to idle times.",
             .reference =
                 "PyTorch, torch.distributed.pipelining, ScheduleInterleavedZeroBubble; Qi et al., "
                 "Zero Bubble Pipeline Parallelism, ICLR 2024",
             PST_PLUGIN_PARAMS(params, struct fixed_chunks))
