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
#include "optimizer.h"

struct config {
    uint32_t mode;
    const char *ratio;
    double link_target;
    uint64_t min_swap_bytes;
    int64_t exact_layers;
};

struct layer {
    uint32_t first, end; /* positions */
    bool drops;          /* has it a node that may be dropped? */
    uint64_t bytes, ns;  /* of those: saved, forward */
    uint64_t link_bytes; /* saved, of those that may be swapped */
};

struct vpipe {
    struct mem_opt opt;
    const struct config *config;
    uint32_t n_layers;
    struct layer *layers; /* of the call, as what follows */
    uint32_t *by_price;   /* layers, cheapest to recompute per byte first */
    uint8_t *letters;     /* PST_ACTION_* of a layer */
};

enum { MODE_SEARCH = 0, MODE_RATIO = 1 };

static const struct pst_param params[] = {
    PST_PARAM(struct config, mode, PST_PARAM_ENUM, "search", "search|ratio",
              "Search what to swap and recompute, or recompute a given part of each stage."),
    PST_PARAM(
        struct config, ratio, PST_PARAM_STRING, "0", NULL,
        "For mode = \"ratio\": the part of a stage's nodes, counted from its end; one number, or "
        "one per stage, separated by commas (the last applies to all further stages)."),
    PST_PARAM(struct config, link_target, PST_PARAM_FLOAT, "1", "0..1",
              "Fraction of the host link's time that swaps may use."),
    PST_PARAM(struct config, min_swap_bytes, PST_PARAM_BYTES, "65536", NULL,
              "Tensors with fewer bytes stay on the device when their layer is swapped."),
    PST_PARAM(struct config, exact_layers, PST_PARAM_INT, "6", "0..12",
              "Stages with at most this many layers are solved by enumeration."),
};

/*
 * Layers that are dearest to recompute for their bytes are swapped, as many as the link hides; the
 * cheapest are recomputed, until the stage fits. Stages of few layers by enumeration.
 */
#define ROUNDS 32

/* --- layers ------------------------------------------------------------------------------------*/

static bool may_swap(const struct vpipe *self, const struct pst_stage_view *view, uint32_t v)
{
    const struct mem_link_rules rules = {.min_bytes = self->config->min_swap_bytes};

    return pst_stage_node_at(view, v)->saved_bytes > 0 &&
           mem_may_offload(&self->opt, view, &rules, v);
}

static void add_node(struct vpipe *self, const struct pst_stage_view *view, uint32_t v,
                     struct layer *layer)
{
    const struct pst_stage_node *node = pst_stage_node_at(view, v);

    layer->end = v + 1;
    if (mem_may_recompute(node)) {
        layer->bytes += node->saved_bytes;
        layer->ns += node->forward_ns;
        layer->drops = true;
    }
    layer->link_bytes += may_swap(self, view, v) ? node->saved_bytes : 0;
}

static void find_layers(struct vpipe *self, const struct pst_stage_view *view)
{
    CALL_TAKE(self->layers, view->n_nodes);
    CALL_TAKE(self->by_price, view->n_nodes);
    CALL_TAKE(self->letters, view->n_nodes);
    self->n_layers = 0;
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        if (v == 0 || pst_stage_node_at(view, v)->layer != pst_stage_node_at(view, v - 1)->layer) {
            self->layers[self->n_layers++] = (struct layer){.first = v};
        }
        add_node(self, view, v, &self->layers[self->n_layers - 1]);
    }
}

/* Is a dearer than b? Without bytes nothing is gained: dearest of all. */
static bool is_dearer(const struct layer *a, const struct layer *b)
{
    return (double)a->ns * (double)b->bytes > (double)b->ns * (double)a->bytes;
}

static void rank_layers(struct vpipe *self)
{
    for (uint32_t i = 0; i < self->n_layers; i++) {
        uint32_t k = i;

        for (; k > 0 && is_dearer(&self->layers[self->by_price[k - 1]], &self->layers[i]); k--) {
            self->by_price[k] = self->by_price[k - 1];
        }
        self->by_price[k] = i;
    }
}

/* --- one plan ----------------------------------------------------------------------------------*/

/* letters as actions of nodes: all nodes of a layer alike, as far as they may be. */
static struct pst_stage_value consider(struct vpipe *self, const struct pst_stage_view *view)
{
    uint8_t *trial = self->opt.trial;

    mem_reset(&self->opt, view);
    for (uint32_t i = 0; i < self->n_layers; i++) {
        const struct layer *layer = &self->layers[i];

        for (uint32_t v = layer->first; v < layer->end; v++) {
            const struct pst_stage_node *node = pst_stage_node_at(view, v);

            if (self->letters[i] == PST_ACTION_RECOMPUTE && mem_may_recompute(node)) {
                trial[v] = PST_ACTION_RECOMPUTE;
            } else if (self->letters[i] == PST_ACTION_OFFLOAD && may_swap(self, view, v)) {
                trial[v] = PST_ACTION_OFFLOAD;
            }
        }
    }
    mem_make_legal(view, trial, self->opt.run);
    return mem_try(&self->opt, view);
}

/* --- in proportion -----------------------------------------------------------------------------*/

/* Bytes that it takes to free, and copies of a layer's bytes that leaving it frees. */
struct demand {
    uint64_t lacking, budget;
    double dropped, swapped;
};

/* Swaps the dearest within the budget, recomputes the cheapest of the rest until that is enough,
   then takes back what was not needed. Returns the time of replays. */
static uint64_t fill(struct vpipe *self, const struct demand *d)
{
    double freed = 0, lacking = (double)d->lacking;
    uint64_t link = 0, ns = 0;

    for (uint32_t k = self->n_layers; k-- > 0;) {
        uint32_t i = self->by_price[k];
        const struct layer *layer = &self->layers[i];
        bool swaps = layer->link_bytes > 0 && d->swapped > 0 && freed < lacking &&
                     layer->link_bytes <= d->budget - link;

        self->letters[i] = swaps ? PST_ACTION_OFFLOAD : PST_ACTION_KEEP;
        link += swaps ? layer->link_bytes : 0;
        freed += swaps ? d->swapped * (double)layer->link_bytes : 0;
    }
    for (uint32_t k = 0; k < self->n_layers && freed < lacking; k++) {
        uint32_t i = self->by_price[k];
        const struct layer *layer = &self->layers[i];

        if (self->letters[i] == PST_ACTION_KEEP && layer->drops && layer->bytes > 0) {
            self->letters[i] = PST_ACTION_RECOMPUTE;
            freed += d->dropped * (double)layer->bytes;
            ns += layer->ns;
        }
    }
    for (uint32_t k = self->n_layers; k-- > 0;) {
        uint32_t i = self->by_price[k];
        const struct layer *layer = &self->layers[i];

        if (self->letters[i] == PST_ACTION_RECOMPUTE &&
            freed - d->dropped * (double)layer->bytes >= lacking) {
            self->letters[i] = PST_ACTION_KEEP;
            freed -= d->dropped * (double)layer->bytes;
            ns -= layer->ns;
        }
    }
    return ns;
}

/* A longer period hides more of the link; and what a plan lacks in fact is asked for as well. */
static void fill_until_it_fits(struct vpipe *self, const struct pst_stage_view *view,
                               struct demand demand)
{
    uint64_t replay = 0, before = UINT64_MAX;

    for (int round = 0; round < ROUNDS; round++) {
        struct pst_stage_value value;

        demand.budget = demand.swapped > 0 ? mem_link_budget(view, self->opt.total_ns + replay,
                                                             self->config->link_target)
                                           : 0;
        replay = fill(self, &demand);
        value = consider(self, view);
        if (!value.legal || (mem_fits(view, &value) && replay == before)) {
            break;
        }
        before = replay;
        if (!mem_fits(view, &value)) {
            demand.lacking += value.peak_bytes - view->capacity_bytes;
        }
    }
}

/* The last resort: every layer recomputed. */
static void drop_all(struct vpipe *self, const struct pst_stage_view *view)
{
    for (uint32_t i = 0; i < self->n_layers; i++) {
        self->letters[i] = self->layers[i].drops ? PST_ACTION_RECOMPUTE : PST_ACTION_KEEP;
    }
    consider(self, view);
}

/* --- all there are -----------------------------------------------------------------------------*/

static void enumerate(struct vpipe *self, const struct pst_stage_view *view, uint32_t i,
                      uint64_t replay, uint64_t link)
{
    const struct mem_opt *opt = &self->opt;
    const struct layer *layer = &self->layers[i];

    if (mem_is_done(opt, view) && opt->total_ns + replay >= opt->value.period_ns) {
        return;
    }
    if (i == self->n_layers) {
        if (link <= mem_link_budget(view, opt->total_ns + replay, self->config->link_target)) {
            consider(self, view);
        }
        return;
    }
    self->letters[i] = PST_ACTION_KEEP;
    enumerate(self, view, i + 1, replay, link);
    if (layer->drops) {
        self->letters[i] = PST_ACTION_RECOMPUTE;
        enumerate(self, view, i + 1, replay + layer->ns, link);
    }
    if (layer->link_bytes > 0) {
        self->letters[i] = PST_ACTION_OFFLOAD;
        enumerate(self, view, i + 1, replay, link + layer->link_bytes);
    }
}

static void search_layers(struct vpipe *self, const struct pst_stage_view *view)
{
    uint64_t k = view->in_flight > 0 ? view->in_flight : 1;
    uint64_t staged = view->staging_copies < k ? view->staging_copies : k;
    struct demand demand = {.lacking = 1, .dropped = (double)(k - 1)};

    mem_consider(&self->opt, view);
    if (mem_is_done(&self->opt, view)) {
        return;
    }
    if (self->opt.has_plan) {
        demand.lacking = self->opt.value.peak_bytes - view->capacity_bytes;
    }
    find_layers(self, view);
    rank_layers(self);
    for (int swap = 1; swap >= 0; swap--) {
        demand.swapped = swap == 1 ? (double)(k - staged) : 0;
        fill_until_it_fits(self, view, demand);
    }
    drop_all(self, view);
    if (self->n_layers <= (uint64_t)self->config->exact_layers) {
        enumerate(self, view, 0, 0, 0);
    }
}

/* --- a given part ------------------------------------------------------------------------------*/

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
        search_layers(self, view);
    }
}

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    const struct config *given = config;
    void *self = NULL;
    pst_status status = mem_create(host, config, sizeof(struct vpipe), decide, &self);

    if (status == PST_OK && given->mode == MODE_RATIO && ratio_of(given->ratio, UINT32_MAX) < 0) {
        status = pst_failf(host, PST_ERR_CONFIG,
                           "ratio: \"%.100s\" is neither a number from 0 to 1 nor a list of them",
                           given->ratio);
    }
    if (status == PST_OK) {
        ((struct vpipe *)self)->config = given;
        ((struct vpipe *)self)->opt.fixed_rule = given->mode == MODE_RATIO;
        *ret_self = self;
    }
    return status;
}

PST_DESTROY_NOTHING
PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = mem_price, .plan = mem_plan)

MEM_PLUGIN("vpipe", "1.0", MEM_WORDS("chain", "dag", "alike", "recompute", "offload"),
           MEM_WORDS("recompute"),
           .summary = "Swaps and recomputes whole layers, in proportion to cost per byte.",
           .reference =
               "Zhao et al., vPipe: A Virtualized Acceleration System for Achieving Efficient "
               "and Scalable Pipeline Parallel DNN Training, IEEE TPDS 33(3), 2022",
           PST_PLUGIN_PARAMS(params, struct config))
