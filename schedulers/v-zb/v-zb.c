/* SPDX-License-Identifier: Apache-2.0
 *
 * A zero-bubble order on a V for the times, links and memory at hand: the heuristic behind ZB-V of
 * Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, with costs of
 * each stage, any cap that it can meet, and a choice between span and makespan.
 */
#include "rounds.h"

static const struct pst_param params[] = {GREEDY_LIMIT_ROW("the number of devices"),
                                          GREEDY_OBJECTIVE_ROW};

static pst_status build(const struct fixed_question *question, struct order *order)
{
    return greedy_search(question, v_zb_runs, NULL, order);
}

static const struct fixed_rules rules = {
    .id = "v-zb",
    .placement = FIXED_VSHAPE,
    .build = build,
};

FIXED_CREATE(rules)

static const char *const provides[] = {"chain", "chunks=2", "placement=vshape", "split-backward",
                                       NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", "v-zb", "1.0"),
    .license = "Apache-2.0",
    .summary = "Zero bubble on a V, made for the times, links and memory at hand.",
    .reference = "Qi, Wan, Amar, Lin, Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct greedy_config),
    FIXED_FUNCTIONS,
};

PST_PLUGIN(plugin)
