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

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    return fixed_create(host, config, &rules, ret_self);
}

static const char *const provides[] = {"chain", "chunks=2", "placement=vshape", "split-backward",
                                       NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    SCHEDULER_DESCRIPTION("v-zb"),
    .summary = "Zero bubble on a V, made for the times, links and memory at hand.",
    .reference = "Qi, Wan, Amar, Lin, Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    .provides = provides,
    .needs = needs,
    .params = params,
    .n_params = sizeof params / sizeof params[0],
    .config_size = sizeof(struct greedy_config),
    .create = create,
    .destroy = fixed_destroy,
    .get_interface = fixed_get_interface,
};

PST_PLUGIN(plugin)
