/* SPDX-License-Identifier: Apache-2.0
 *
 * A zero-bubble order for the times, links and memory at hand, one stage per device: the heuristic
 * behind ZB-1p and ZB-2p of Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024,
 * with costs of each stage, any cap, and a choice between span and makespan.
 */
#include "list.h"
#include "rounds.h"

static const struct pst_param params[] = {
    GREEDY_LIMIT_ROW("twice the number of devices, more only if devices have a limit and it makes "
                     "the order faster"),
    GREEDY_OBJECTIVE_ROW};

static void build(const struct fixed_question *question, struct order *order)
{
    greedy_search(question, zb_auto_runs, zb_auto_lists, order);
}

static const struct fixed_rules rules = {
    .id = "zb-auto",
    .placement = FIXED_SEQUENTIAL,
    .build = build,
};

FIXED_PLUGIN("zb-auto", "1.0", SCHEDULER_WORDS("chain", "split-backward", "within-memory"),
             .summary = "A zero-bubble order for the given times, links and memory.",
             .reference = "Qi, Wan, Huang, Lin, Zero Bubble Pipeline Parallelism, ICLR 2024",
             PST_PLUGIN_PARAMS(params, struct greedy_config))
