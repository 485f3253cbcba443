/* SPDX-License-Identifier: Apache-2.0
 *
 * V-Half: a V whose passes take two slots per device on the way down and one on the way up, so that
 * every device holds about half of what 1F1B holds on its first. Qi, Wan, Amar, Lin, "Pipeline
 * Parallelism with Controllable Memory", NeurIPS 2024.
 */
#include "vplugin.h"

static const struct pst_param params[] = {VPLUGIN_VARIANT_ROW};

/* With an even p the backwards wait three slots, or two passes would meet in one. */
static void build(const struct fixed_question *question, struct order *order)
{
    int32_t p = (int32_t)question->p, extra = p % 2 == 0 ? 3 : 0;

    vplugin_build(question, (int32_t[]){0, 3 * p - 2, 3 * p - 1 + extra, 6 * p - 2 + extra},
                  (int32_t[]){2, -1, 2, -1}, 2 * ((question->p + 2) / 2), order);
}

static const struct fixed_rules rules = {
    .id = "v-half",
    .placement = FIXED_VSHAPE,
    .build = build,
};

FIXED_PLUGIN(
    "v-half", "1.0", FIXED_WORDS_V,
    .summary = "A V at half the memory of 1F1B that stays fast when passes differ in time.",
    .reference = "Qi, Wan, Amar, Lin, Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    PST_PLUGIN_PARAMS(params, struct vplugin_config))
