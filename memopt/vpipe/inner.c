/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that are dearest to recompute for their bytes are swapped, as many as the link hides; the
 * cheapest are recomputed, until the stage fits. Stages of few layers by enumeration.
 */
#include "inner.h"
#include "mem_plugin.h"

#define ROUNDS 32

/* --- layers ------------------------------------------------------------------------------------*/

static bool may_swap(const struct vpipe *self, const struct pst_stage_view *view, uint32_t v)
{
    const struct mem_link_rules rules = {.min_bytes = self->config->min_swap_bytes};

    return pst_stage_node_at(view, v)->saved_bytes > 0 &&
           mem_may_offload(&self->opt, view, &rules, v);
}

static void add_node(struct vpipe *self, const struct pst_stage_view *view, uint32_t v,
                     struct vpipe_layer *layer)
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
            self->layers[self->n_layers++] = (struct vpipe_layer){.first = v};
        }
        add_node(self, view, v, &self->layers[self->n_layers - 1]);
    }
}

/* Is a dearer than b? Without bytes nothing is gained: dearest of all. */
static bool is_dearer(const struct vpipe_layer *a, const struct vpipe_layer *b)
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
        const struct vpipe_layer *layer = &self->layers[i];

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
        const struct vpipe_layer *layer = &self->layers[i];
        bool swaps = layer->link_bytes > 0 && d->swapped > 0 && freed < lacking &&
                     layer->link_bytes <= d->budget - link;

        self->letters[i] = swaps ? PST_ACTION_OFFLOAD : PST_ACTION_KEEP;
        link += swaps ? layer->link_bytes : 0;
        freed += swaps ? d->swapped * (double)layer->link_bytes : 0;
    }
    for (uint32_t k = 0; k < self->n_layers && freed < lacking; k++) {
        uint32_t i = self->by_price[k];
        const struct vpipe_layer *layer = &self->layers[i];

        if (self->letters[i] == PST_ACTION_KEEP && layer->drops && layer->bytes > 0) {
            self->letters[i] = PST_ACTION_RECOMPUTE;
            freed += d->dropped * (double)layer->bytes;
            ns += layer->ns;
        }
    }
    for (uint32_t k = self->n_layers; k-- > 0;) {
        uint32_t i = self->by_price[k];
        const struct vpipe_layer *layer = &self->layers[i];

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
    const struct vpipe_layer *layer = &self->layers[i];

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

void vpipe_inner(struct vpipe *self, const struct pst_stage_view *view)
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
