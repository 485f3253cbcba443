/* SPDX-License-Identifier: Apache-2.0
 *
 * A zero-bubble order on a V for the times, links and memory at hand: the heuristic behind ZB-V of
 * Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, with costs of
 * each stage, any cap that it can meet, and a choice between span and makespan.
 */
#include "vrounds.h"

static const struct pst_param params[] = {GREEDY_LIMIT_ROW("the number of devices, more only if "
                                                           "devices have a limit and it makes the "
                                                           "order faster"),
                                          GREEDY_OBJECTIVE_ROW};

static void build(const struct fixed_question *question, struct order *order)
{
    greedy_search(question, vrounds_runs, NULL, order);
}

static const struct fixed_rules rules = {
    .id = "v-zb",
    .placement = FIXED_VSHAPE,
    .build = build,
};

FIXED_PLUGIN(
    "v-zb", "1.0", FIXED_WORDS_V,
    .summary = "Zero bubble on a V, for the given times, links and memory.",
    .reference = "Qi, Wan, Amar, Lin, Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    PST_PLUGIN_PARAMS(params, struct greedy_config))
