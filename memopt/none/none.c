/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps everything that no earlier memory optimizer has decided about.
 */
#include <penstock/penstock.h>

struct none {
    const struct pst_host *host;
    const struct pst_eval *eval;
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct none *self = host->alloc(host, sizeof *self, _Alignof(struct none));

    (void)config;
    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->eval = host->get_extension(host, PST_EVAL);
    if (self->eval == NULL) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_EVAL);
    }
    *ret_self = self;
    return PST_OK;
}

PST_DESTROY_NOTHING

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    const struct none *self = self_;
    struct pst_stage_value value = {.size = sizeof value};
    pst_status st;

    st = self->eval->evaluate(self->host, view, NULL, &value);
    if (st != PST_OK) {
        return st;
    }
    ret_price->fits = value.legal && value.peak_bytes <= view->capacity_bytes;
    ret_price->period_ns = value.period_ns;
    ret_price->peak_bytes = value.peak_bytes;
    return PST_OK;
}

/* Whether it fits is the host's to say: there is nothing to decide here. */
static pst_status plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    (void)self;
    (void)view;
    (void)out;
    return PST_OK;
}

PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

static const char *const provides[] = {"chain", "dag", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("memopt", "none", "1.0"),
    .summary = "Keeps every saved tensor on the device.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_NO_PARAMS,
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
