/* SPDX-License-Identifier: Apache-2.0
 *
 * Chimera: two copies of the model in opposite directions, each of which fills the bubbles of the
 * other. Li, Hoefler, "Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional
 * Pipelines", SC 2021.
 */
#include "fixed.h"

struct config {
    bool forward_doubling;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, forward_doubling, PST_PARAM_BOOL, "false", NULL,
              "Run the passes of two micro-batches back to back: more than p micro-batches run "
              "without bubbles in between, and twice as many are held."),
};

/* The paper lays its passes out in equal slots: so both directions meet without conflict. With
   forward doubling (section 3.5) a slot has the passes of two micro-batches. */
static void build(const struct fixed_question *question, struct order *order)
{
    const struct config *config = question->self->config;
    const struct fixed_slots slots = {
        .forward = 1,
        .backward = 1,
        .window = question->p / 2,
        .group = config->forward_doubling ? 2 : 1,
    };

    fixed_build_slots(question, &slots, order);
}

static const struct fixed_rules rules = {
    .id = "chimera",
    .placement = FIXED_VSHAPE,
    .two_way = true,
    .build = build,
};

FIXED_PLUGIN("chimera", "1.1", SCHEDULER_WORDS("chain", "two-way"),
             .summary = "1F1B in both directions at once, on two copies of the model.",
             .reference = "Li, Hoefler, Chimera: Efficiently Training Large-Scale Neural Networks "
                          "with Bidirectional Pipelines, SC 2021, arXiv 2107.06925",
             PST_PLUGIN_PARAMS(params, struct config))
