/* SPDX-License-Identifier: Apache-2.0
 *
 * V-Min: a V whose four passes go from device to device without delay, so that every device holds
 * about a third of what 1F1B holds on its first. Qi, Wan, Amar, Lin, "Pipeline Parallelism with
 * Controllable Memory", NeurIPS 2024.
 */
#include "vplugin.h"

static const struct pst_param params[] = {VPLUGIN_VARIANT_ROW};

/* Every pass one slot after its neighbour; where p is a multiple of 3 the backwards wait two
   slots, or two passes would meet in one. */
static void build(const struct fixed_question *question, struct order *order)
{
    const struct vplugin_config *config = question->self->config;
    int32_t p = (int32_t)question->p, extra = p % 3 == 0 ? 2 : 0;

    if (p == 2 && config->variant == VPLUGIN_IMPROVED) {
        /* Two devices do with three chunks instead of four if b0 waits on device 0. */
        vplugin_build(question, (int32_t[]){0, 3, 4, 13}, (int32_t[]){1, -1, 1, -4}, 3, order);
        return;
    }
    vplugin_build(question, (int32_t[]){0, 2 * p - 1, 2 * p + extra, 4 * p + extra - 1},
                  (int32_t[]){1, -1, 1, -1}, 2 * ((question->p + 4) / 3), order);
}

static const struct fixed_rules rules = {
    .id = "v-min",
    .placement = FIXED_VSHAPE,
    .build = build,
};

FIXED_PLUGIN(
    "v-min", "1.0", FIXED_WORDS_V,
    .summary = "A V at a third of the memory of 1F1B, for passes of about equal length.",
    .reference = "Qi, Wan, Amar, Lin, Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    PST_PLUGIN_PARAMS(params, struct vplugin_config))
