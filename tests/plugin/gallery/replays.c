/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer that lists replays at random: long and short ones, within each other, useless
 * ones too; the first node may be offloaded besides. Whatever it says, a stage computes the same.
 */

#include "gallery.h"

enum { MOST = 4096 };

struct config {
    int64_t seed;
    uint32_t offload;
};

struct replays {
    const struct pst_host *host;
    const struct pst_eval *eval;
    const struct config *config;
    struct pst_stage_node nodes[MOST]; /* of a view, as planned */
    struct pst_replay at[MOST];
    uint32_t n;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, seed, PST_PARAM_INT, "1", "1..", "Other lists."),
    PST_PARAM(struct config, offload, PST_PARAM_BOOL, "false", NULL, "The first node, too."),
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    const struct pst_eval *eval = host->get_extension(host, PST_EVAL);
    struct replays *self;

    if (eval == NULL || !PST_CAN(eval, evaluate_replays)) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "this host evaluates no listed replays");
    }
    self = host->alloc(host, sizeof *self, _Alignof(struct replays));
    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    self->eval = eval;
    *ret_self = self;
    return PST_OK;
}

PST_DESTROY_NOTHING

static uint32_t draw(uint64_t *random, uint32_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % below;
}

static void list(struct replays *self, const struct pst_stage_view *view)
{
    uint64_t random = (uint64_t)self->config->seed * 1000003u + view->stage;

    self->n = 0;
    for (uint32_t v = view->n_nodes; v-- > 0;) {
        while (self->n < view->n_nodes && self->n < MOST && draw(&random, 3) == 0) {
            uint32_t short_of = draw(&random, 3), last = v > short_of ? v - short_of : v;
            uint32_t first = draw(&random, last + 1);

            self->at[self->n++] = (struct pst_replay){v, first, last};
        }
    }
}

/* Does the first node go? Then the view has it so. */
static bool offload(struct replays *self, struct pst_stage_view *view)
{
    bool goes = self->config->offload && self->n > 0 && view->n_nodes <= MOST &&
                view->link_bytes_per_s > 0 &&
                pst_stage_node_at(view, 0)->action == PST_ACTION_KEEP &&
                (pst_stage_node_at(view, 0)->flags & PST_NODE_NO_OFFLOAD) == 0;

    for (uint32_t i = 0; goes && i < view->n_nodes; i++) {
        self->nodes[i] = *pst_stage_node_at(view, i);
    }
    if (goes) {
        self->nodes[0].action = PST_ACTION_OFFLOAD;
        view->nodes = self->nodes;
        view->node_size = sizeof *self->nodes;
    }
    return goes;
}

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    struct replays *self = self_;
    struct pst_stage_value value = {.size = sizeof value};
    struct pst_stage_view planned = *view;
    pst_status st;

    list(self, view);
    offload(self, &planned);
    st = self->n > 0 ? self->eval->evaluate_replays(self->host, &planned, self->at, self->n, &value)
                     : self->eval->evaluate(self->host, view, NULL, &value);
    ret_price->fits = st == PST_OK && value.legal && value.peak_bytes <= view->capacity_bytes;
    ret_price->period_ns = value.period_ns;
    ret_price->peak_bytes = value.peak_bytes;
    return st;
}

static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct replays *self = self_;
    struct pst_stage_view planned = *view;
    pst_status st = PST_OK;

    list(self, view);
    if (offload(self, &planned)) {
        st = out->set(out, 0, PST_ACTION_OFFLOAD);
    }
    return st == PST_OK && self->n > 0 ? out->sequence(out, self->at, self->n) : st;
}

PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

GALLERY_PLUGIN("memopt", "replays", "1.0", "Replays at random.",
               PST_PLUGIN_PARAMS(params, struct config), "chain", "dag", "recompute", "nested",
               "offload")
