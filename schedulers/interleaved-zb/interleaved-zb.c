/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaved 1F1B with backwards split and weight gradients kept back as in ZB-H1: device d keeps
 * d of them waiting. The order that PyTorch calls InterleavedZeroBubble; after Qi et al., "Zero
 * Bubble Pipeline Parallelism", ICLR 2024, and Narayanan et al., SC 2021.
 */
#include "fixed.h"

struct config {
    int64_t chunks;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, chunks, PST_PARAM_INT, "2", "1..64", "Stages on each device."),
};

static uint32_t chunks_of(const void *config)
{
    return (uint32_t)((const struct config *)config)->chunks;
}

static pst_status build_device(const struct fixed_question *q, uint32_t r, uint32_t d,
                               struct order *order)
{
    uint64_t total = (uint64_t)q->v * q->m, n;
    uint64_t w = (uint64_t)(q->v - 1) * r + (q->p - 1 - d);
    struct fixed_hand hand;

    w = w < total ? w : total;
    fixed_hand_init(&hand, q, order, d);
    for (n = 0; n < total + w && hand.status == PST_OK; n++) {
        if (n < total) {
            fixed_deal(&hand, PST_PASS_F, (uint32_t)(n / r % q->v));
        }
        if (n >= w) {
            fixed_deal(&hand, PST_PASS_B, (uint32_t)(q->v - 1 - (n - w) / r % q->v));
            if (n - w >= d) {
                fixed_deal_oldest(&hand);
            }
        }
    }
    fixed_deal_waiting(&hand);
    return hand.status;
}

static pst_status build(const struct fixed_question *q, struct order *order)
{
    return fixed_rounds(q, build_device, order);
}

static const struct fixed_rules rules = {
    .id = "interleaved-zb",
    .placement = FIXED_LOOPED,
    .chunks = chunks_of,
    .build = build,
};

FIXED_PLUGIN(
    "interleaved-zb", "1.0", FIXED_WORDS("chain", "chunks", "placement=looped", "split-backward"),
    .summary = "Interleaved 1F1B with weight gradients kept for idle moments.",
    .reference = "PyTorch, torch.distributed.pipelining, ScheduleInterleavedZeroBubble; Qi et al., "
                 "Zero Bubble Pipeline Parallelism, ICLR 2024",
    PST_PLUGIN_PARAMS(params, struct config))
