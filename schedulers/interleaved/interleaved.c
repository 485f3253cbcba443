/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaved 1F1B: every device runs several short stages in turn, so that the pipeline fills and
 * drains in a fraction of the time. Narayanan et al., "Efficient Large-Scale Language Model
 * Training on GPU Clusters Using Megatron-LM", SC 2021; here with rounds of any equal size.
 */
#include "fixed.h"

struct config {
    int64_t chunks;
    bool split;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, chunks, PST_PARAM_INT, "2", "1..64", "Stages on each device."),
    PST_PARAM(struct config, split, PST_PARAM_BOOL, "false", NULL,
              "Send the input gradient before the weight gradient is computed."),
};

static uint32_t chunks_of(const void *config)
{
    return (uint32_t)((const struct config *)config)->chunks;
}

static void deal_backward(struct fixed_hand *hand, bool split, uint32_t chunk)
{
    fixed_deal(hand, split ? PST_PASS_B : PST_PASS_BW, chunk);
    if (split) {
        fixed_deal(hand, PST_PASS_W, chunk);
    }
}

/* The n-th forward of a device is of chunk (n div r) mod v, the n-th backward of the mirrored one.
   Backward n follows forward n + w. */
static pst_status build_device(const struct fixed_question *q, uint32_t r, uint32_t d,
                               struct order *order)
{
    const struct config *config = q->self->config;
    uint64_t total = (uint64_t)q->v * q->m, n;
    uint64_t w = (uint64_t)(q->v - 1) * r + 2 * (uint64_t)(q->p - 1 - d);
    struct fixed_hand hand;

    w = w < total ? w : total;
    fixed_hand_init(&hand, q, order, d);
    for (n = 0; n < total + w && hand.status == PST_OK; n++) {
        if (n < total) {
            fixed_deal(&hand, PST_PASS_F, (uint32_t)(n / r % q->v));
        }
        if (n >= w) {
            deal_backward(&hand, config->split, (uint32_t)(q->v - 1 - (n - w) / r % q->v));
        }
    }
    return hand.status;
}

static pst_status build(const struct fixed_question *q, struct order *order)
{
    return fixed_rounds(q, build_device, order);
}

static const struct fixed_rules rules = {
    .id = "interleaved",
    .placement = FIXED_LOOPED,
    .chunks = chunks_of,
    .build = build,
};

FIXED_PLUGIN(
    "interleaved", "1.0", FIXED_WORDS("chain", "chunks", "placement=looped", "split-backward"),
    .summary = "1F1B over several stages per device: a smaller bubble for more transfers.",
    .reference = "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters "
                 "Using Megatron-LM, SC 2021",
    PST_PLUGIN_PARAMS(params, struct config))
