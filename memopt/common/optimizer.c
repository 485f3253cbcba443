/* SPDX-License-Identifier: Apache-2.0 */
#include "mem_plugin.h"
#include "optimizer.h"

#include <string.h>

pst_status mem_create(const struct pst_host *host, const void *config, size_t size,
                      mem_decide *decide, void **ret_self)
{
    struct mem_opt *opt = host->alloc(host, size, _Alignof(max_align_t));

    if (opt == NULL) {
        return PST_ERR_NOMEM;
    }
    opt->host = host;
    opt->config = config;
    opt->decide = decide;
    opt->eval = host->get_extension(host, PST_EVAL);
    if (opt->eval == NULL) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_EVAL);
    }
    *ret_self = opt;
    return PST_OK;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void read_stage(struct mem_opt *opt, const struct pst_stage_view *view)
{
    CALL_TAKE(opt->trial, view->n_nodes);
    CALL_TAKE(opt->actions, view->n_nodes);
    CALL_TAKE(opt->order, view->n_nodes);
    CALL_TAKE(opt->run, view->n_nodes);
    CALL_TAKE(opt->last, view->n_nodes);
    CALL_TAKE(opt->after_ns, view->n_nodes);
    CALL_TAKE(opt->scratch, view->n_nodes);
    opt->total_ns = 0;
    for (uint32_t v = view->n_nodes; v-- > 0;) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        opt->after_ns[v] = opt->total_ns;
        opt->total_ns = add(opt->total_ns, add(node->forward_ns, node->backward_ns));
    }
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        opt->last[v] = v;
        for (uint32_t i = 0; i < node->n_producers; i++) {
            opt->last[view->producers[node->first_producer + i]] = v; /* ascending */
        }
    }
}

void mem_reset(struct mem_opt *opt, const struct pst_stage_view *view)
{
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        opt->trial[v] = (uint8_t)pst_stage_node_at(view, v)->action;
    }
}

/* --- plans, better and worse -------------------------------------------------------------------*/

bool mem_fits(const struct pst_stage_view *view, const struct pst_stage_value *value)
{
    return value->legal && value->peak_bytes <= view->capacity_bytes;
}

/* Is it better than another one that is legal? */
static bool is_better(const struct pst_stage_view *view, const struct pst_stage_value *value,
                      const struct pst_stage_value *than)
{
    bool fits = mem_fits(view, value);

    if (!value->legal || fits != mem_fits(view, than)) {
        return fits;
    }
    if (fits && value->period_ns != than->period_ns) {
        return value->period_ns < than->period_ns;
    }
    return value->peak_bytes != than->peak_bytes ? value->peak_bytes < than->peak_bytes
                                                 : value->period_ns < than->period_ns;
}

struct pst_stage_value mem_try(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct pst_stage_value value = {.size = sizeof value};

    call_go_on(opt->host);
    call_check(opt->eval->evaluate(opt->host, view, opt->trial, &value));
    if (value.legal && (!opt->has_plan || is_better(view, &value, &opt->value))) {
        memcpy(opt->actions, opt->trial, view->n_nodes);
        opt->value = value;
        opt->has_plan = true;
    }
    return value;
}

void mem_consider(struct mem_opt *opt, const struct pst_stage_view *view)
{
    mem_try(opt, view);
}

bool mem_is_done(const struct mem_opt *opt, const struct pst_stage_view *view)
{
    return opt->has_plan && mem_fits(view, &opt->value);
}

/* --- the interface -----------------------------------------------------------------------------*/

static void run(struct mem_opt *opt, const struct pst_stage_view *view)
{
    opt->has_plan = false;
    read_stage(opt, view);
    mem_reset(opt, view);
    opt->decide(opt, view);
}

/* Where nothing is legal, which earlier decisions may bring about, nothing fits. */
static pst_status price(void *self, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    struct mem_opt *opt = self;

    run(opt, view);
    ret_price->fits = mem_is_done(opt, view);
    ret_price->period_ns = opt->has_plan ? opt->value.period_ns : opt->total_ns;
    ret_price->peak_bytes = opt->has_plan ? opt->value.peak_bytes : UINT64_MAX;
    return PST_OK;
}

static pst_status plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct mem_opt *opt = self;

    run(opt, view);
    if (!opt->has_plan) {
        return pst_failf(opt->host, PST_ERR_INFEASIBLE,
                         "stage %u: the decisions of earlier memory optimizers leave no legal plan",
                         view->stage);
    }
    if (!opt->fixed_rule && !mem_fits(view, &opt->value)) {
        return mem_refuse(opt->host, view, opt->value.peak_bytes);
    }
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        if (opt->actions[v] != pst_stage_node_at(view, v)->action) {
            call_check(out->set(out, v, opt->actions[v]));
        }
    }
    return PST_OK;
}

CALL_FUNCTION(call_price, price, struct pst_stage_view, struct pst_stage_price)
CALL_FUNCTION(call_plan, plan, struct pst_stage_view, struct pst_action_out)

pst_status mem_price(void *self, const struct pst_stage_view *view,
                     struct pst_stage_price *ret_price)
{
    return call_price(self, view, ret_price);
}

pst_status mem_plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    return call_plan(self, view, out);
}
