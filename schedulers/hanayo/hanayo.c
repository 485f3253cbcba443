/* SPDX-License-Identifier: Apache-2.0
 *
 * Hanayo: stages laid out in waves, down and up the devices `waves` times, so that the pipeline
 * turns round at its ends instead of jumping back, and needs no second copy of the weights. Liu,
 * Cheng, Zhou, You, "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model
 * Training Efficiency", SC 2023.
 */
#include "fixed.h"

struct config {
    int64_t waves, window;
};

static const struct pst_param params[] = {
    PST_PARAM(
        struct config, waves, PST_PARAM_INT, "1", "1..32",
        "Times that stages go down and up the devices; each device has twice as many stages."),
    PST_PARAM(struct config, window, PST_PARAM_INT, "0", "0..65536",
              "Micro-batches in flight; 0: the number of devices."),
};

static void build(const struct fixed_question *question, struct order *order)
{
    const struct config *config = question->self->config;
    const struct fixed_slots slots = {
        .forward = 1,
        .backward = 2,
        .window = config->window == 0 ? question->p : (uint32_t)config->window,
    };

    fixed_build_slots(question, &slots, order);
}

static uint32_t chunks(const void *config)
{
    return 2 * (uint32_t)((const struct config *)config)->waves;
}

static const struct fixed_rules rules = {
    .id = "hanayo",
    .placement = FIXED_VSHAPE,
    .chunks = chunks,
    .build = build,
};

FIXED_PLUGIN("hanayo", "1.0", SCHEDULER_WORDS("chain", "chunks", "placement=wave"),
             .summary = "1F1B on stages that go down and up the devices in waves.",
             .reference = "Liu, Cheng, Zhou, You, Hanayo: Harnessing Wave-like Pipeline "
                          "Parallelism for Enhanced Large Model Training Efficiency, SC 2023",
             PST_PLUGIN_PARAMS(params, struct config))
