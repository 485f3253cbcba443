/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer that lists replays at random: long and short ones, within each other, useless
 * ones too. Whatever the list, a stage computes the same.
 */
#include <string.h>

#include <penstock/penstock.h>

enum { MOST = 4096 };

struct config {
    int64_t seed;
};

struct replays {
    const struct pst_host *host;
    const struct pst_eval *eval;
    const struct config *config;
    struct pst_replay at[MOST];
    uint32_t n;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, seed, PST_PARAM_INT, "1", "1..", "Other lists."),
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct replays *self = host->alloc(host, sizeof *self, _Alignof(struct replays));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    self->eval = host->get_extension(host, PST_EVAL);
    *ret_self = self;
    return self->eval != NULL && PST_CAN(self->eval, evaluate_replays) ? PST_OK
                                                                       : PST_ERR_UNSUPPORTED;
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

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    struct replays *self = self_;
    struct pst_stage_value value = {.size = sizeof value};
    pst_status st;

    list(self, view);
    st = self->n > 0 ? self->eval->evaluate_replays(self->host, view, self->at, self->n, &value)
                     : self->eval->evaluate(self->host, view, NULL, &value);
    ret_price->fits = st == PST_OK && value.legal && value.peak_bytes <= view->capacity_bytes;
    ret_price->period_ns = value.period_ns;
    ret_price->peak_bytes = value.peak_bytes;
    return st;
}

static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct replays *self = self_;

    list(self, view);
    return self->n > 0 ? out->sequence(out, self->at, self->n) : PST_OK;
}

PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

static const char *const provides[] = {"chain", "dag", "recompute", "nested", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("memopt", "replays", "1.0"),
    .summary = "Replays at random.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
