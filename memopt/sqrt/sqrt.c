/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints at even distances: the order of nodes is cut into segments of about as many bytes,
 * the last node of each is kept, the others are dropped. How many bytes is tried out, so that
 * sizes, workspaces and micro-batches in flight count as the evaluator charges them.
 * Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016.
 */
#include <math.h>

#include "mem_plugin.h"
#include "optimizer.h"

struct config {
    int64_t budgets;
    bool fit;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, budgets, PST_PARAM_INT, "32", "1..4096",
              "Segment sizes that are tried, from the smallest tensor to all of them."),
    PST_PARAM(struct config, fit, PST_PARAM_BOOL, "true", NULL,
              "Recompute as little as fits; false: the least memory, whatever the capacity."),
};

/* Ends a segment where it has this many bytes: at any node, or only where no edge passes over it,
   so that nothing else need be kept for what follows. */
static void cut(struct mem_opt *opt, const struct pst_stage_view *view, double budget,
                bool anywhere)
{
    uint64_t bytes = 0;
    uint32_t reach = 0; /* the furthest reader of anything so far */

    mem_reset(opt, view);
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);
        bool crossed = reach > v;

        reach = opt->last[v] > reach ? opt->last[v] : reach;
        bytes += node->saved_bytes;
        if ((double)bytes >= budget && (anywhere || !crossed)) {
            bytes = 0;
        } else if (mem_may_recompute(node)) {
            opt->trial[v] = PST_ACTION_RECOMPUTE;
        }
    }
    mem_make_legal(view, opt->trial, opt->run);
}

static void consider(struct mem_opt *opt, const struct pst_stage_view *view)
{
    const struct config *config = opt->config;
    struct pst_stage_view none = *view;

    none.capacity_bytes = 0; /* where nothing fits the smaller peak is better */
    mem_consider(opt, config->fit ? view : &none);
}

static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    const struct config *config = opt->config;
    double least = INFINITY, all = 0;

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        double bytes = (double)pst_stage_node_at(view, v)->saved_bytes;

        least = bytes > 0 && bytes < least ? bytes : least;
        all += bytes;
    }
    if (config->fit || all <= 0) {
        consider(opt, view); /* everything kept */
    }
    if (config->fit && mem_is_done(opt, view)) {
        return; /* also where a replay would take no time */
    }
    for (int64_t i = 0; all > 0 && i <= config->budgets; i++) {
        double part = config->budgets > 1 ? (double)i / (double)(config->budgets - 1) : 0.5;
        double budget = i < config->budgets ? least * pow(all / least, part) : (double)INFINITY;

        for (int anywhere = 0; anywhere < 2; anywhere++) {
            cut(opt, view, budget, anywhere == 1);
            consider(opt, view);
        }
    }
}

MEM_OPTIMIZER(struct mem_opt, decide, false)

MEM_PLUGIN(
    "sqrt", "1.0", MEM_WORDS("chain", "dag", "alike", "recompute"), MEM_WORDS("recompute"),
    .summary = "Checkpoints at even distances in bytes, as many as fit or need least memory.",
    .reference = "Chen, Xu, Zhang, Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016",
    PST_PLUGIN_PARAMS(params, struct config))
