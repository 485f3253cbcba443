/* SPDX-License-Identifier: Apache-2.0
 *
 * vPipe's memory plan of a stage: whole layers are kept, swapped to the host or recomputed. A
 * reconstruction from the paper's description and its public plans; the partition that goes with
 * it is the partitioner of the same name.
 * Zhao et al., "vPipe: A Virtualized Acceleration System for Achieving Efficient and Scalable
 * Pipeline Parallel DNN Training", IEEE TPDS 33(3), 2022.
 */
#include <stdlib.h>

#include "mem_plugin.h"
#include "inner.h"

enum { MODE_SEARCH = 0, MODE_RATIO = 1 };

static const struct pst_param params[] = {
    PST_PARAM(struct vpipe_config, mode, PST_PARAM_ENUM, "search", "search|ratio",
              "Search what to swap and recompute, or recompute a given part of each stage."),
    PST_PARAM(
        struct vpipe_config, ratio, PST_PARAM_STRING, "0", NULL,
        "For mode = \"ratio\": the part of a stage's nodes, counted from its end; one number, "
        "or one per stage with commas between (the last holds for all further ones)."),
    PST_PARAM(struct vpipe_config, link_target, PST_PARAM_FLOAT, "1", "0..1",
              "Part of the host link's time that swaps may fill."),
    PST_PARAM(struct vpipe_config, min_swap_bytes, PST_PARAM_BYTES, "65536", NULL,
              "Tensors of fewer bytes stay where their layer is swapped."),
    PST_PARAM(struct vpipe_config, exact_layers, PST_PARAM_INT, "6", "0..12",
              "Stages of up to so many layers are solved by enumeration."),
};

/* The ratio of a stage; below 0: the list is none. */
static double ratio_of(const char *list, uint32_t stage)
{
    double ratio = -1;
    char *end;

    for (uint32_t s = 0; s <= stage; s++) {
        ratio = strtod(list, &end);
        if (end == list || !(ratio >= 0 && ratio <= 1)) {
            return -1;
        }
        end += strspn(end, " ");
        if (*end == '\0') {
            return ratio;
        }
        if (*end != ',') {
            return -1;
        }
        list = end + 1;
    }
    return ratio;
}

/* The last nodes of the stage as one run. */
static void drop_ratio(struct vpipe *self, const struct pst_stage_view *view)
{
    double ratio = ratio_of(self->config->ratio, view->stage);
    uint32_t n = (uint32_t)(ratio * view->n_nodes + 1e-9);

    for (uint32_t v = view->n_nodes - n; v < view->n_nodes; v++) {
        if (mem_may_recompute(pst_stage_node_at(view, v))) {
            self->opt.trial[v] = PST_ACTION_RECOMPUTE;
        }
    }
    mem_make_legal(view, self->opt.trial, self->opt.run);
    mem_consider(&self->opt, view);
}

static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct vpipe *self = (struct vpipe *)opt;

    if (self->config->mode == MODE_RATIO) {
        drop_ratio(self, view);
    } else {
        vpipe_inner(self, view);
    }
}

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    const struct vpipe_config *given = config;
    void *self = NULL;
    pst_status st = mem_create(host, config, sizeof(struct vpipe), decide, &self);

    if (st == PST_OK && given->mode == MODE_RATIO && ratio_of(given->ratio, UINT32_MAX) < 0) {
        st = pst_failf(host, PST_ERR_CONFIG,
                       "ratio: \"%.100s\" is no number from 0 to 1, nor a list of such",
                       given->ratio);
    }
    if (st == PST_OK) {
        ((struct vpipe *)self)->config = given;
        ((struct vpipe *)self)->opt.fixed_rule = given->mode == MODE_RATIO;
        *ret_self = self;
    }
    return st;
}

PST_DESTROY_NOTHING
PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = mem_price, .plan = mem_plan)

MEM_PLUGIN(
    "vpipe", "1.0", MEM_WORDS("chain", "dag", "recompute", "offload"), MEM_WORDS("recompute"),
    .summary = "Swaps and recomputes whole layers, in proportion to cost per byte.",
    .reference = "Zhao et al., vPipe: A Virtualized Acceleration System for Achieving Efficient "
                 "and Scalable Pipeline Parallel DNN Training, IEEE TPDS 33(3), 2022",
    PST_PLUGIN_PARAMS(params, struct vpipe_config))
