/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer that does what it is told: letters K (keep), R (recompute) and S (offload),
 * dealt out to the nodes of every stage in turn. Where a letter is not allowed the node is kept,
 * and what a replay needs and would have to replay first is offloaded or kept.
 */
#include <string.h>

#include "gallery.h"

enum { MOST = 4096 };

struct config {
    const char *letters;
};

struct letters {
    const struct pst_host *host;
    const struct pst_eval *eval;
    const struct config *config;
    uint8_t actions[MOST];
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, letters, PST_PARAM_STRING, "K", NULL, "K, R and S, in turn."),
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct letters *self = host->alloc(host, sizeof *self, _Alignof(struct letters));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    self->eval = host->get_extension(host, PST_EVAL);
    *ret_self = self;
    return self->eval != NULL && self->config->letters[0] != '\0' ? PST_OK : PST_ERR_UNSUPPORTED;
}

PST_DESTROY_NOTHING

static uint8_t allowed(const struct pst_stage_view *view, const struct pst_stage_node *node,
                       char letter)
{
    if (letter == 'R' && (node->flags & PST_NODE_NO_RECOMPUTE) == 0) {
        return PST_ACTION_RECOMPUTE;
    }
    if (letter == 'S' && (node->flags & PST_NODE_NO_OFFLOAD) == 0 && view->link_bytes_per_s > 0) {
        return PST_ACTION_OFFLOAD;
    }
    return PST_ACTION_KEEP;
}

/* A replay reads its own run and what is resident. */
static bool make_legal(struct letters *self, const struct pst_stage_view *view)
{
    uint32_t run = 0;

    for (uint32_t i = 0; i < view->n_nodes; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, i);

        run = i > 0 && self->actions[i - 1] == PST_ACTION_RECOMPUTE ? run : i;
        for (uint32_t p = 0; self->actions[i] == PST_ACTION_RECOMPUTE && p < node->n_producers;
             p++) {
            uint32_t u = view->producers[node->first_producer + p];

            if (u < run && self->actions[u] == PST_ACTION_RECOMPUTE) {
                self->actions[u] = allowed(view, pst_stage_node_at(view, u), 'S');
                return false;
            }
        }
    }
    return true;
}

static pst_status decide(struct letters *self, const struct pst_stage_view *view)
{
    const char *letters = self->config->letters;

    if (view->n_nodes > MOST) {
        return pst_failf(self->host, PST_ERR_UNSUPPORTED, "more than %d nodes", MOST);
    }
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        self->actions[i] = allowed(view, pst_stage_node_at(view, i), letters[i % strlen(letters)]);
    }
    while (!make_legal(self, view)) {
    }
    return PST_OK;
}

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    struct letters *self = self_;
    struct pst_stage_value value = {.size = sizeof value};
    pst_status st = decide(self, view);

    if (st == PST_OK) {
        st = self->eval->evaluate(self->host, view, self->actions, &value);
    }
    ret_price->fits = st == PST_OK && value.legal && value.peak_bytes <= view->capacity_bytes;
    ret_price->period_ns = value.period_ns;
    ret_price->peak_bytes = value.peak_bytes;
    return st;
}

static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct letters *self = self_;
    pst_status st = decide(self, view);

    for (uint32_t i = 0; st == PST_OK && i < view->n_nodes; i++) {
        if (self->actions[i] != PST_ACTION_KEEP) {
            st = out->set(out, i, self->actions[i]);
        }
    }
    return st;
}

PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

GALLERY_PLUGIN("memopt", "letters", "1.0", "Keeps, recomputes and offloads as told.",
               PST_PLUGIN_PARAMS(params, struct config), "chain", "dag", "recompute", "offload")
