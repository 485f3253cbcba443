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

static bool reserve(struct mem_opt *opt, uint32_t n)
{
    uint32_t room = 2 * opt->room > n ? 2 * opt->room : n;
    bool there = true;

    if (n > opt->room) {
        MEM_TAKE(opt->host, opt->trial, room, &there);
        MEM_TAKE(opt->host, opt->actions, room, &there);
        MEM_TAKE(opt->host, opt->order, room, &there);
        MEM_TAKE(opt->host, opt->run, room, &there);
        MEM_TAKE(opt->host, opt->last, room, &there);
        MEM_TAKE(opt->host, opt->after_ns, room, &there);
        MEM_TAKE(opt->host, opt->scratch, room, &there);
        opt->room = there ? room : 0;
    }
    return there;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void read_stage(struct mem_opt *opt, const struct pst_stage_view *view)
{
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

/* Room for this stage, what is known of it, trial as mem_decide finds it. mem_price and mem_plan
   call it before they decide. */
static pst_status begin(struct mem_opt *opt, const struct pst_stage_view *view)
{
    if (!reserve(opt, view->n_nodes)) {
        return view->n_nodes == 0 ? PST_OK : PST_ERR_NOMEM;
    }
    opt->has_plan = false;
    read_stage(opt, view);
    mem_reset(opt, view);
    return PST_OK;
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

pst_status mem_try(struct mem_opt *opt, const struct pst_stage_view *view,
                   struct pst_stage_value *ret_value)
{
    struct pst_stage_value value = {.size = sizeof value};
    pst_status st;

    if (mem_stopped(opt->host)) {
        return PST_ERR_CANCELLED;
    }
    st = opt->eval->evaluate(opt->host, view, opt->trial, &value);
    if (st != PST_OK) {
        return st;
    }
    if (value.legal && (!opt->has_plan || is_better(view, &value, &opt->value))) {
        if (view->n_nodes > 0) {
            memcpy(opt->actions, opt->trial, view->n_nodes);
        }
        opt->value = value;
        opt->has_plan = true;
    }
    *ret_value = value;
    return PST_OK;
}

pst_status mem_consider(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct pst_stage_value unused;

    return mem_try(opt, view, &unused);
}

/* --- the interface -----------------------------------------------------------------------------*/

static pst_status run(struct mem_opt *opt, const struct pst_stage_view *view)
{
    pst_status st = begin(opt, view);

    return st == PST_OK ? opt->decide(opt, view) : st;
}

/* Where nothing is legal, which earlier decisions may bring about, nothing fits. */
pst_status mem_price(void *self, const struct pst_stage_view *view,
                     struct pst_stage_price *ret_price)
{
    struct mem_opt *opt = self;
    pst_status st = run(opt, view);

    if (st != PST_OK) {
        return st;
    }
    ret_price->fits = opt->has_plan && mem_fits(view, &opt->value);
    ret_price->period_ns = opt->has_plan ? opt->value.period_ns : opt->total_ns;
    ret_price->peak_bytes = opt->has_plan ? opt->value.peak_bytes : UINT64_MAX;
    return PST_OK;
}

pst_status mem_plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct mem_opt *opt = self;
    pst_status st = run(opt, view);

    if (st == PST_OK && !opt->has_plan) {
        return pst_failf(opt->host, PST_ERR_INFEASIBLE,
                         "stage %u: what earlier memory optimizers decided leaves no legal plan",
                         view->stage);
    }
    if (st == PST_OK && !opt->fixed_rule && !mem_fits(view, &opt->value)) {
        return mem_refuse(opt->host, view, opt->value.peak_bytes);
    }
    for (uint32_t v = 0; st == PST_OK && v < view->n_nodes; v++) {
        if (opt->actions[v] != pst_stage_node_at(view, v)->action) {
            st = out->set(out, v, opt->actions[v]);
        }
    }
    return st;
}
