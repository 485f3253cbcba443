/* SPDX-License-Identifier: Apache-2.0
 *
 * Full recomputation: drops all that the forward pass leaves behind, except at the borders of units
 * (the whole stage, or a number of layers), and replays a unit just before its backward.
 * Huang et al., "GPipe", NeurIPS 2019 (unit = stage); Chen et al., "Training Deep Nets with
 * Sublinear Memory Cost", 2016.
 */
#include "mem_plugin.h"
#include "optimizer.h"

enum { UNIT_STAGE = 0, UNIT_LAYER = 1 };

struct config {
    uint32_t unit;
    int64_t every;
    bool skip_last;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, unit, PST_PARAM_ENUM, "stage", "stage|layer",
              "Unit of replay: the whole stage, or a number of layers."),
    PST_PARAM(struct config, every, PST_PARAM_INT, "1", "1..",
              "Layers per unit; for unit = \"layer\"."),
    PST_PARAM(struct config, skip_last, PST_PARAM_BOOL, "true", NULL,
              "Keep the last unit of the last stage, whose backward follows at once."),
};

/* Position after the unit that begins at `first`. */
static uint32_t unit_end(const struct config *config, const struct pst_stage_view *view,
                         uint32_t first)
{
    int64_t layers = 1;
    uint32_t i;

    if (config->unit == UNIT_STAGE) {
        return view->n_nodes;
    }
    for (i = first + 1; i < view->n_nodes; i++) {
        if (pst_stage_node_at(view, i)->layer != pst_stage_node_at(view, i - 1)->layer &&
            ++layers > config->every) {
            break;
        }
    }
    return i;
}

/* Sets the actions that the units require, legal or not. */
static void choose(const struct config *config, const struct pst_stage_view *view, uint8_t *actions)
{
    bool last_stage = view->stage + 1 == view->n_stages && view->in_flight == 1;
    uint32_t first, end, i;

    for (first = 0; first < view->n_nodes; first = end) {
        bool kept;

        end = unit_end(config, view, first);
        kept = config->skip_last && last_stage && end == view->n_nodes;
        for (i = first; i < end; i++) {
            const struct pst_stage_node *node = pst_stage_node_at(view, i);
            bool border = config->unit == UNIT_LAYER && i + 1 == end;

            actions[i] = (uint8_t)node->action;
            if (node->action == PST_ACTION_KEEP && !kept && !border &&
                (node->flags & PST_NODE_NO_RECOMPUTE) == 0) {
                actions[i] = PST_ACTION_RECOMPUTE;
            }
        }
    }
}

static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    choose(opt->config, view, opt->trial);
    mem_make_legal(view, opt->trial, opt->run);
    mem_consider(opt, view);
}

MEM_OPTIMIZER(struct mem_opt, decide, true)

MEM_PLUGIN("full", "1.0", MEM_WORDS("chain", "dag", "alike", "recompute"), MEM_WORDS("recompute"),
           .summary = "Recomputes everything but the borders of stages or layers.",
           .reference =
               "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline "
               "Parallelism, NeurIPS 2019",
           PST_PLUGIN_PARAMS(params, struct config))
