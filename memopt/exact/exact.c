/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of least period that fits a stage, proven: what other memory optimizers are measured
 * against. Enumeration, branch and bound, or a dynamic programme for chains without a host link.
 */
#include <string.h>

#include "mem_plugin.h"
#include "optimizer.h"
#include "methods.h"
#include "search.h"

#define FEW 8 /* undecided nodes up to which enumeration is as good as anything */

enum { METHOD_AUTO, METHOD_ENUMERATE, METHOD_BRANCH, METHOD_CHAIN };

struct config {
    uint32_t method;
    const char *allow;
    int64_t max_nodes, max_steps, quanta;
};

struct exact {
    struct mem_opt opt; /* first */
    struct mem_costs costs;
    struct mem_search search; /* for a plan to begin with, and its tally */
    bool recompute, offload;  /* allowed */
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, method, PST_PARAM_ENUM, "auto", "auto|enumerate|branch|chain",
              "How to search: all plans; branch and bound; dynamic programming for chains whose "
              "nodes cannot be offloaded; auto: the method that suits the stage."),
    PST_PARAM(struct config, allow, PST_PARAM_STRING, "recompute,offload", NULL,
              "Allowed besides keeping a tensor: one or more of these words, comma-separated."),
    PST_PARAM(struct config, max_nodes, PST_PARAM_INT, "40", "1..1000",
              "Maximum number of nodes of a stage for a search of all plans or branches."),
    PST_PARAM(
        struct config, max_steps, PST_PARAM_INT, "20000000", "1..",
        "Maximum steps of a search, or the stage is refused; several million run in a second."),
    PST_PARAM(struct config, quanta, PST_PARAM_INT, "256", "1..1000000",
              "Units into which the dynamic programme divides the saved bytes of a stage."),
};

static void load(struct exact *self, const struct pst_stage_view *view)
{
    const struct mem_rules rules = {
        .recompute = self->recompute,
        .offload = self->offload,
        .link_target = 1,
        .staging = 1,
        .host_part = 1,
    };

    self->costs = (struct mem_costs){0};
    mem_costs_load(&self->costs, self->opt.host, view, &rules);
}

static uint32_t undecided(const struct mem_costs *c)
{
    uint32_t v, n = 0;

    for (v = 0; v < c->n; v++) {
        n += (c->may[v] & (c->may[v] - 1)) != 0;
    }
    return n;
}

static uint32_t method_for(const struct exact *self)
{
    const struct config *config = self->opt.config;
    uint32_t n = undecided(&self->costs);

    if (config->method != METHOD_AUTO) {
        return config->method;
    }
    if (n <= FEW) {
        return METHOD_ENUMERATE;
    }
    return n > config->max_nodes && oracle_is_chain(&self->costs) ? METHOD_CHAIN : METHOD_BRANCH;
}

/* Ends the call if the method does not support the stage. */
static void refuse(struct exact *self, const struct pst_stage_view *view, uint32_t method)
{
    const struct config *config = self->opt.config;
    uint32_t n = undecided(&self->costs);

    if (method == METHOD_CHAIN && !oracle_is_chain(&self->costs)) {
        call_end(pst_failf(self->opt.host, PST_ERR_UNSUPPORTED,
                           "stage %u is not a chain, may offload, or has nodes whose results "
                           "replays would hold: method = \"chain\" does not support it",
                           view->stage));
    }
    if (method != METHOD_CHAIN && n > config->max_nodes) {
        call_end(pst_failf(self->opt.host, PST_ERR_UNSUPPORTED,
                           "stage %u has %u nodes to decide about, more than max_nodes = %lld: "
                           "exact is for small stages (memopt \"dawnpiper\" has no such limit)",
                           view->stage, n, (long long)config->max_nodes));
    }
}

static void solve(struct exact *self, struct mem_oracle *oracle, uint32_t method)
{
    const struct config *config = self->opt.config;

    switch (method) {
    case METHOD_ENUMERATE:
        oracle_enumerate(oracle);
        break;
    case METHOD_BRANCH:
        mem_oracle_branch(oracle);
        break;
    default:
        oracle_chain(oracle, (uint32_t)config->quanta);
    }
}

/* A plan to begin with, for what ends branches by comparison; enumeration begins with nothing. */
static void begin(struct exact *self, struct mem_oracle *oracle, uint32_t method)
{
    const struct mem_effort effort = {.suffixes = 16, .segments = 16, .starts = 4, .window = 8};
    struct mem_search *search = &self->search;

    *search = (struct mem_search){0};
    if (method == METHOD_ENUMERATE) {
        mem_search_begin(search, &self->costs, &effort);
    } else {
        mem_search_run(search, &self->costs, &effort);
    }
    if (search->n_starts > 0) {
        mem_search_load(search, search->starts[0].actions);
        mem_oracle_note(oracle);
    }
    mem_search_load(search, self->costs.first);
}

static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct exact *self = (struct exact *)opt;
    const struct config *config = opt->config;
    struct mem_oracle oracle = {
        .costs = &self->costs,
        .tally = &self->search.tally,
        .score = {.period_ns = UINT64_MAX, .peak = UINT64_MAX},
        .lowest = {.peak = UINT64_MAX},
        .max_steps = (uint64_t)config->max_steps,
    };
    struct pst_stage_value value = mem_try(opt, view);
    uint32_t method;

    if (mem_fits(view, &value)) {
        return; /* nothing is shorter */
    }
    load(self, view);
    if (self->costs.absurd || view->n_nodes == 0) {
        return;
    }
    CALL_TAKE(oracle.best, view->n_nodes);
    CALL_TAKE(oracle.lowest_actions, view->n_nodes);
    method = method_for(self);
    refuse(self, view, method);
    begin(self, &oracle, method);
    solve(self, &oracle, method);
    if (oracle.stopped) {
        call_end(pst_failf(opt->host, PST_ERR_UNSUPPORTED,
                           "stage %u of %u nodes needs more than max_steps = %lld steps",
                           view->stage, view->n_nodes, (long long)config->max_steps));
    }
    if (oracle.score.period_ns != UINT64_MAX) {
        memcpy(opt->trial, oracle.best, view->n_nodes);
    } else if (oracle.lowest.peak != UINT64_MAX) {
        memcpy(opt->trial, oracle.lowest_actions, view->n_nodes);
    }
    mem_consider(opt, view);
}

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    pst_status status = mem_create(host, config, sizeof(struct exact), decide, ret_self);

    if (status == PST_OK) {
        struct exact *self = *ret_self;

        status = mem_allow(host, ((const struct config *)config)->allow, &self->recompute,
                           &self->offload);
    }
    return status;
}

/* The fractional bound: nothing is solved for it. */
static pst_status bound(void *self_, const struct pst_stage_view *view, uint64_t *ret_period_ns)
{
    struct exact *self = self_;

    load(self, view);
    *ret_period_ns = mem_costs_bound(&self->costs);
    return PST_OK;
}

CALL_FUNCTION(call_bound, bound, struct pst_stage_view, uint64_t)

PST_DESTROY_NOTHING
PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .bound = call_bound, .price = mem_price,
              .plan = mem_plan)

MEM_PLUGIN("exact", "1.0", MEM_WORDS("chain", "dag", "alike", "recompute", "offload", "exhaustive"),
           MEM_WORDS("recompute"),
           .summary = "The plan of least period that fits, proven; for small stages.",
           .reference = "none", PST_PLUGIN_PARAMS(params, struct config))
