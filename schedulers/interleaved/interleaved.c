/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaved 1F1B: every device runs several short stages in turn, so that the pipeline fills and
 * drains in a fraction of the time. Narayanan et al., "Efficient Large-Scale Language Model
 * Training on GPU Clusters Using Megatron-LM", SC 2021; here with rounds of any equal size.
 */
#include "fixed.h"

struct config {
    struct fixed_chunks chunks;
    bool split;
};

static const struct pst_param params[] = {
    FIXED_CHUNKS_ROW,
    PST_PARAM(struct config, split, PST_PARAM_BOOL, "false", NULL,
              "Send the input gradient before the weight gradient is computed."),
};

static void deal_backward(struct fixed_hand *hand, uint64_t n, uint32_t chunk)
{
    const struct config *config = hand->question->self->config;

    (void)n;
    fixed_deal(hand, config->split ? PST_PASS_B : PST_PASS_BW, chunk);
    if (config->split) {
        fixed_deal(hand, PST_PASS_W, chunk);
    }
}

static void deal(struct fixed_hand *hand)
{
    fixed_deal_looped(hand, 2 * (hand->question->p - 1 - hand->d), deal_backward);
}

static const struct fixed_rules rules = {
    .id = "interleaved",
    .placement = FIXED_LOOPED,
    .chunks = fixed_chunks_of,
    .rounds = true,
    .deal = deal,
};

FIXED_PLUGIN(
    "interleaved", "1.0", SCHEDULER_WORDS("chain", "chunks", "placement=looped", "split-backward"),
    .summary = "1F1B over several stages per device: a smaller bubble for more transfers.",
    .reference = "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters "
                 "Using Megatron-LM, SC 2021",
    PST_PLUGIN_PARAMS(params, struct config))
