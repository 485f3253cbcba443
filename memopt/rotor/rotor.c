/* SPDX-License-Identifier: Apache-2.0
 *
 * Nested checkpointing: replays within replays, optimal for a chain of layers. The stage's layers
 * are what lies between nodes whose result alone leads on (blocks.c); how they are replayed is a
 * dynamic programme over ranges of layers and bytes (tables.c, sweep.c). What comes of it is
 * charged by the host's evaluator, which has the last word about what fits.
 * Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous
 * chains: how to train deep neural networks with limited memory", 2019.
 */
#include "mem_plugin.h"
#include "chain.h"
#include "optimizer.h"

#define PRICE_LAYERS 12 /* of a price: there are thousands of them, of plans as many as stages */
#define PRICE_SLOTS  150

struct config {
    int64_t slots, layers;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, slots, PST_PARAM_INT, "500", "8..4000",
              "Parts that the memory is divided into; sizes are rounded up to these."),
    PST_PARAM(struct config, layers, PST_PARAM_INT, "32", "2..64",
              "Maximum number of layers that a stage is divided into; smaller ones are merged."),
};

struct rotor {
    const struct pst_host *host;
    const struct pst_eval *eval;
    const struct config *config;
    struct rotor_chain chain;
    struct rotor_plan trial, best; /* best: without replays everything is as it is in the view */
    struct pst_stage_value value;  /* of best */
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    const struct pst_eval *eval = host->get_extension(host, PST_EVAL);
    struct rotor *self;

    if (eval == NULL || !PST_CAN(eval, evaluate_replays)) {
        return pst_failf(host, PST_ERR_UNSUPPORTED,
                         "this host does not evaluate replays within replays (pst.eval/1 of 1.4)");
    }
    self = host->alloc(host, sizeof *self, sizeof(void *));
    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->eval = eval;
    self->config = config;
    *ret_self = self;
    return PST_OK;
}

/* --- plans -------------------------------------------------------------------------------------*/

static bool fits(const struct pst_stage_view *view, const struct pst_stage_value *value)
{
    return value->legal && value->peak_bytes <= view->capacity_bytes;
}

/* The trial becomes the best if it is better: what fits first, of that the shorter period, of what
   does not the smaller peak. */
static void consider(struct rotor *self, const struct pst_stage_view *view)
{
    struct pst_stage_value value = {.size = sizeof value};
    const struct pst_stage_value *best = &self->value;
    bool better;

    call_check(
        self->eval->evaluate_replays(self->host, view, self->trial.at, self->trial.n, &value));
    if (!value.legal) {
        return;
    }
    better = value.period_ns < best->period_ns ||
             (value.period_ns == best->period_ns && value.peak_bytes < best->peak_bytes);
    if (!fits(view, &value)) {
        better = !best->legal || value.peak_bytes < best->peak_bytes;
    }
    if (fits(view, &value) != fits(view, best) ? fits(view, &value) : better) {
        self->best = self->trial;
        self->value = value;
    }
}

/* The optimum of a chain of so many layers, in so many slots. */
static void try_chain(struct rotor *self, const struct pst_stage_view *view, uint32_t layers,
                      uint32_t slots)
{
    uint64_t *last = call_alloc(view->n_nodes, sizeof *last);

    if (!rotor_chain_load(&self->chain, view, layers, last)) {
        return;
    }
    if (rotor_chain_solve(&self->chain, slots, self->host, &self->trial) < ROTOR_NEVER) {
        consider(self, view);
    }
    if (!fits(view, &self->value)) { /* sizes were rounded; to the byte it may fit */
        rotor_chain_least(&self->chain, self->host, &self->trial);
        consider(self, view);
    }
}

/* Where an earlier optimizer recomputes, there is nothing to add. */
static bool is_decided(const struct pst_stage_view *view)
{
    bool decided = view->n_nodes == 0;

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);
        uint32_t action = (node->flags & PST_NODE_PRESET) != 0 ? PST_ACTION_KEEP : node->action;

        decided |= action != PST_ACTION_KEEP && action != PST_ACTION_OFFLOAD;
    }
    return decided;
}

/* Best and its value. A plan tries all that its price does. */
static void decide(struct rotor *self, const struct pst_stage_view *view, bool thorough)
{
    uint32_t layers = (uint32_t)self->config->layers, slots = (uint32_t)self->config->slots;
    uint32_t few = layers < PRICE_LAYERS ? layers : PRICE_LAYERS;
    uint32_t coarse = slots < PRICE_SLOTS ? slots : PRICE_SLOTS;

    self->best.n = 0;
    self->value = (struct pst_stage_value){.size = sizeof self->value};
    call_check(self->eval->evaluate(self->host, view, NULL, &self->value));
    if (fits(view, &self->value) || is_decided(view)) {
        return;
    }
    try_chain(self, view, few, coarse);
    if (thorough && (layers > few || slots > coarse)) {
        try_chain(self, view, layers, slots);
    }
}

/* --- the interface -----------------------------------------------------------------------------*/

/* Replays only add to the time of one micro-batch. */
static pst_status bound(void *self, const struct pst_stage_view *view, uint64_t *ret_period_ns)
{
    uint64_t sum = 0;

    (void)self;
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        if (__builtin_add_overflow(sum, node->forward_ns, &sum) ||
            __builtin_add_overflow(sum, node->backward_ns, &sum)) {
            sum = UINT64_MAX;
            break;
        }
    }
    *ret_period_ns = sum;
    return PST_OK;
}

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    struct rotor *self = self_;

    decide(self, view, false);
    ret_price->fits = fits(view, &self->value);
    ret_price->period_ns = self->value.period_ns;
    ret_price->peak_bytes = self->value.legal ? self->value.peak_bytes : UINT64_MAX;
    if (ret_price->fits && self->best.n > 0) { /* a plan may be quicker and larger */
        ret_price->peak_bytes = view->capacity_bytes;
    }
    return PST_OK;
}

static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct rotor *self = self_;

    decide(self, view, true);
    if (!self->value.legal) {
        return pst_failf(self->host, PST_ERR_INFEASIBLE,
                         "stage %u: the decisions of earlier memory optimizers leave no legal plan",
                         view->stage);
    }
    if (!fits(view, &self->value)) {
        return mem_refuse(self->host, view, self->value.peak_bytes);
    }
    if (self->best.n == 0) {
        return PST_OK;
    }
    if (!PST_CAN(out, sequence)) {
        return pst_failf(self->host, PST_ERR_UNSUPPORTED,
                         "this host does not support replays within replays");
    }
    return out->sequence(out, self->best.at, self->best.n);
}

CALL_FUNCTION(call_price, price, struct pst_stage_view, struct pst_stage_price)
CALL_FUNCTION(call_plan, plan, struct pst_stage_view, struct pst_action_out)
PST_DESTROY_NOTHING
PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .bound = bound, .price = call_price, .plan = call_plan)

MEM_PLUGIN(
    "rotor", "1.0", MEM_WORDS("chain", "dag", "alike", "recompute", "nested"),
    MEM_WORDS("recompute", "nested"),
    .summary = "Replays within replays: the least recomputation of a chain of layers that fits.",
    .reference = "Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, Optimal checkpointing for "
                 "heterogeneous chains: how to train deep neural networks with limited memory, "
                 "2019",
    PST_PLUGIN_PARAMS(params, struct config))
