/* SPDX-License-Identifier: Apache-2.0
 *
 * One search per stage, by one of two policies, until no copy to host memory comes too late.
 * "two-ended" looks for the plan of least period (common/search.h), "capuchin" takes actions in
 * Capuchin's order.
 */
#include <string.h>

#include "mem_plugin.h"
#include "optimizer.h"
#include "tensors.h"

#define SMALL 16 /* nodes up to which a price is as thorough as a plan */

struct tensors {
    struct mem_opt opt; /* first */
    struct mem_costs costs;
    struct mem_search search;
    bool thorough;
    bool recompute, offload;           /* allowed */
    const struct pst_stage_view *view; /* that is decided about */
};

/* staging: at least so many micro-batches of offloaded tensors have room on the device. */
static void load(struct tensors *self, const struct pst_stage_view *view, uint32_t staging)
{
    const struct tensors_config *config = self->opt.config;
    const struct mem_rules rules = {
        .recompute = self->recompute,
        .offload = self->offload,
        .slot_filter = config->slot_filter,
        .link_target = config->link_target,
        .staging = staging,
        .min_bytes = config->min_swap_bytes,
        .host_part = config->host_memory,
    };

    mem_costs_load(&self->costs, self->opt.host, view, &rules);
}

/* The effort is small for prices, asked thousands of times; a plan is made once per stage. */
static struct mem_effort effort_of(const struct tensors *self, bool thorough)
{
    uint32_t n = self->costs.n;

    if (n <= SMALL) {
        return (struct mem_effort){.suffixes = n,
                                   .segments = n + 1,
                                   .starts = 4,
                                   .window = n,
                                   .steps = 20000,
                                   .blind = 20000};
    }
    if (!thorough) {
        return (struct mem_effort){.suffixes = 8,
                                   .segments = 8,
                                   .starts = 1,
                                   .window = 0,
                                   .rounds = 10,
                                   .steps = 400,
                                   .blind = 40};
    }
    if (n <= 64) {
        return (struct mem_effort){.suffixes = n,
                                   .segments = n + 1,
                                   .starts = 4,
                                   .window = n,
                                   .steps = 50000,
                                   .blind = 50000};
    }
    return (struct mem_effort){
        .suffixes = 32, .segments = 32, .starts = 4, .window = 16, .steps = 5000, .blind = 5000};
}

static void propose(struct tensors *self, const struct pst_stage_view *view)
{
    if (self->search.n_starts > 0) {
        memcpy(self->opt.trial, self->search.starts[0].actions, view->n_nodes);
    }
    mem_consider(&self->opt, view);
}

/* Replays read what is offloaded before its own readers do. Is anything that may stay on the device
   then in its place for too long? forbid: it may not be offloaded any more. */
static bool is_late(struct tensors *self, const uint8_t *actions, bool forbid)
{
    const struct tensors_config *config = self->opt.config;
    const struct mem_link_rules rules = {.target = config->link_target};
    const struct pst_stage_view *view = self->view;
    bool late = false;

    if (!config->slot_filter || !self->costs.any_offload ||
        memchr(actions, PST_ACTION_OFFLOAD, view->n_nodes) == NULL) {
        return false;
    }
    mem_occupy(&self->opt, view, actions);
    for (uint32_t v = 0; v < view->n_nodes && (forbid || !late); v++) {
        if (actions[v] == PST_ACTION_OFFLOAD && (self->costs.may[v] & MEM_MAY_KEEP) != 0 &&
            !mem_slot_fits(&self->opt, view, &rules, v)) {
            self->costs.may[v] &= forbid ? (uint8_t)~MEM_MAY_OFFLOAD : UINT8_MAX;
            late = true;
        }
    }
    return late;
}

static bool is_in_time(void *self, const uint8_t *actions)
{
    return !is_late(self, actions, false);
}

/* By a policy, as often as it takes until no copy is late: every time fewer nodes may go. What was
   forbidden for one plan binds no other search, and the bound is of all plans. Of a small stage
   every plan that is met is looked at, so that nothing has to be forbidden. */
static void search_by(struct tensors *self, const struct pst_stage_view *view,
                      const struct mem_effort *effort, bool capuchin)
{
    const struct tensors_config *config = self->opt.config;
    uint64_t bound = UINT64_MAX;
    bool late, restricted = false;

    self->search.accepts = capuchin || view->n_nodes > SMALL ? NULL : is_in_time;
    self->search.context = self;
    do {
        if (capuchin) {
            mem_search_begin(&self->search, &self->costs, effort);
            capuchin_run(&self->search);
        } else {
            mem_search_run(&self->search, &self->costs, effort);
        }
        bound = self->search.bound < bound ? self->search.bound : bound;
        late = self->search.n_starts > 0 && is_late(self, self->search.starts[0].actions, true);
        restricted = restricted || late;
    } while (late);
    if (restricted) {
        self->search.bound = bound;
        load(self, view, (uint32_t)config->staging);
    }
    propose(self, view);
}

static void in_capuchins_order(struct tensors *self, const struct pst_stage_view *view)
{
    struct mem_effort effort = effort_of(self, false);

    effort.starts = 1;
    search_by(self, view, &effort, true);
}

/* Is there, within the capacity, no shorter plan than the best so far? */
static bool is_shortest(const struct tensors *self, const struct pst_stage_view *view)
{
    return mem_is_done(&self->opt, view) && self->opt.value.period_ns <= self->search.bound;
}

/* Finds a plan and proposes it. Capuchin's is no worse than ours only by chance, but it costs
   little to be sure. */
static void search(struct tensors *self, const struct pst_stage_view *view, bool thorough)
{
    const struct tensors_config *config = self->opt.config;
    struct mem_effort effort = effort_of(self, thorough);

    if (config->policy == POLICY_CAPUCHIN) {
        in_capuchins_order(self, view);
        return;
    }
    search_by(self, view, &effort, false);
    if (!thorough && !is_shortest(self, view) && self->search.bound != UINT64_MAX) {
        in_capuchins_order(self, view);
    }
}

/* Nothing fits, and the plan of least peak was found by improvement alone. Of a small stage a
   search proves that none is below it, or finds one. */
static void find_least(struct tensors *self, const struct pst_stage_view *view)
{
    const struct tensors_config *config = self->opt.config;
    const struct mem_effort effort = effort_of(self, false);
    struct pst_stage_view below = *view;

    while (self->opt.value.peak_bytes > 0) {
        below.capacity_bytes = self->opt.value.peak_bytes - 1;
        load(self, &below, (uint32_t)config->staging);
        if (mem_costs_bound(&self->costs) == UINT64_MAX) {
            break;
        }
        search_by(self, &below, &effort, false);
        if (!mem_fits(&below, &self->opt.value)) {
            break;
        }
    }
    self->search.bound = UINT64_MAX;
}

/* A plan begins with the search for its price, so that it is never worse. */
static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct tensors *self = (struct tensors *)opt;
    const struct tensors_config *config = opt->config;
    struct pst_stage_value value = mem_try(opt, view);

    self->view = view;
    self->costs = (struct mem_costs){0};
    self->search = (struct mem_search){.bound = UINT64_MAX};
    if (mem_fits(view, &value)) {
        return; /* nothing is shorter */
    }
    load(self, view, (uint32_t)config->staging);
    if (self->costs.absurd || view->n_nodes == 0) {
        return; /* what cannot be added up is not searched */
    }
    search(self, view, false);
    if (config->policy != POLICY_TWO_ENDED || !opt->has_plan) {
        return;
    }
    if (view->n_nodes <= SMALL && !mem_fits(view, &opt->value)) {
        find_least(self, view);
    } else if (self->thorough && view->n_nodes > SMALL &&
               opt->value.period_ns > self->search.bound) {
        search(self, view, true);
    }
}

pst_status tensors_create(const struct pst_host *host, const void *config, void **ret_self)
{
    pst_status status = mem_create(host, config, sizeof(struct tensors), decide, ret_self);

    if (status == PST_OK) {
        struct tensors *self = *ret_self;

        status = mem_allow(host, ((const struct tensors_config *)config)->allow, &self->recompute,
                           &self->offload);
    }
    return status;
}

/* The plan may be another one, as good or better in period, that needs more of the capacity. */
static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    struct tensors *self = self_;
    struct pst_stage_price price = {.size = sizeof price};
    pst_status status;

    self->thorough = false;
    status = mem_price(self, view, &price);
    if (status != PST_OK) {
        return status;
    }
    ret_price->fits = price.fits;
    ret_price->period_ns = price.period_ns;
    ret_price->peak_bytes = price.peak_bytes;
    if (price.fits && view->n_nodes > SMALL && price.period_ns > self->search.bound) {
        ret_price->peak_bytes = view->capacity_bytes;
    }
    return PST_OK;
}

static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct tensors *self = self_;

    self->thorough = true;
    return mem_plan(self, view, out);
}

static pst_status bound(void *self_, const struct pst_stage_view *view, uint64_t *ret_period_ns)
{
    struct tensors *self = self_;

    self->costs = (struct mem_costs){0};
    load(self, view, 1); /* what fits by the host's own rule counts */
    *ret_period_ns = mem_costs_bound(&self->costs);
    return PST_OK;
}

CALL_FUNCTION(call_bound, bound, struct pst_stage_view, uint64_t)

void tensors_destroy(void *self)
{
    (void)self;
}

const void *tensors_get_interface(const char *id)
{
    static const struct pst_memopt memopt = {
        .size = sizeof memopt, .bound = call_bound, .price = price, .plan = plan};

    return strcmp(id, PST_MEMOPT) == 0 ? &memopt : NULL;
}
