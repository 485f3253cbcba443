/* SPDX-License-Identifier: Apache-2.0
 *
 * Offloading alone: tensors that have time for a trip to the host and back go there, as many bytes
 * as the host link moves beside the computation, until the stage fits. Nothing is recomputed.
 * After the selective offload of Wan, Qi, Huang, Lin, Li, "PipeOffload", ICML 2025.
 */
#include "mem_plugin.h"
#include "optimizer.h"

#define STEPS 4096 /* of the link's budget, to which bytes are rounded up */

struct config {
    double min_windows, link_target;
    bool slot_filter;
    uint64_t min_swap_bytes;
    uint32_t when;
};

enum { WHEN_NEEDED = 0, WHEN_ALWAYS = 1 };

struct offload {
    struct mem_opt opt;
    uint32_t last[STEPS + 1]; /* the earliest node with which a sum is reached; PST_NONE: none */
    uint64_t unit;            /* bytes of a step */
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, min_windows, PST_PARAM_FLOAT, "1", "0..1000",
              "Minimum free time that remains after a tensor's copies, in round trips."),
    PST_PARAM(struct config, link_target, PST_PARAM_FLOAT, "0.9", "0..1",
              "Fraction of the host link's time that may be used."),
    PST_PARAM(struct config, slot_filter, PST_PARAM_BOOL, "true", NULL,
              "Leave out tensors whose place on the device is not free again within a period."),
    PST_PARAM(struct config, min_swap_bytes, PST_PARAM_BYTES, "65536", NULL,
              "Tensors with fewer bytes stay on the device."),
    PST_PARAM(struct config, when, PST_PARAM_ENUM, "needed", "needed|always",
              "Offload until the stage fits, or offload all tensors that cost no time."),
};

/* --- which -------------------------------------------------------------------------------------*/

/* Positions that may go, earliest first, into opt->order; their number. */
static uint32_t find_eligible(struct offload *self, const struct pst_stage_view *view)
{
    const struct config *config = self->opt.config;
    const struct mem_link_rules rules = {.windows = config->min_windows,
                                         .target = config->link_target,
                                         .slot_filter = config->slot_filter,
                                         .min_bytes = config->min_swap_bytes};
    uint32_t n = 0;

    mem_occupy(&self->opt, view, self->opt.trial);
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        if (pst_stage_node_at(view, v)->saved_bytes > 0 &&
            mem_may_offload(&self->opt, view, &rules, v) &&
            (!rules.slot_filter || mem_slot_fits(&self->opt, view, &rules, v))) {
            self->opt.order[n++] = v;
        }
    }
    return n;
}

/* The bytes that earlier optimizers leave of the link. */
static uint64_t find_budget(const struct offload *self, const struct pst_stage_view *view)
{
    const struct config *config = self->opt.config;
    uint64_t bytes = mem_link_budget(view, self->opt.total_ns, config->link_target);

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        if (node->action == PST_ACTION_OFFLOAD) {
            bytes -= node->saved_bytes < bytes ? node->saved_bytes : bytes;
        }
    }
    if (view->host_capacity_bytes > 0 && view->host_capacity_bytes != UINT64_MAX) {
        uint64_t host = view->host_capacity_bytes / (view->in_flight > 0 ? view->in_flight : 1);

        bytes = host < bytes ? host : bytes;
    }
    return bytes;
}

/* --- how many bytes ----------------------------------------------------------------------------*/

static uint32_t steps_of(const struct offload *self, uint64_t bytes)
{
    uint64_t steps = bytes / self->unit + (bytes % self->unit != 0);

    return steps > STEPS ? STEPS + 1 : (uint32_t)steps;
}

/* All sums of bytes up to the budget, each by the earliest nodes that make it. */
static void find_sums(struct offload *self, const struct pst_stage_view *view, uint32_t n,
                      uint64_t budget)
{
    uint32_t most = 0;

    self->unit = budget / STEPS + (budget % STEPS != 0);
    self->unit = self->unit > 0 ? self->unit : 1;
    most = (uint32_t)(budget / self->unit);
    for (uint32_t s = 0; s <= STEPS; s++) {
        self->last[s] = PST_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = self->opt.order[i];
        uint32_t steps = steps_of(self, pst_stage_node_at(view, v)->saved_bytes);

        if ((i & 0x3f) == 0) {
            call_go_on(self->opt.host);
        }
        for (uint32_t s = most; steps <= most && s >= steps && s > 0; s--) {
            bool there = s == steps || self->last[s - steps] != PST_NONE;

            if (self->last[s] == PST_NONE && there) {
                self->last[s] = v;
            }
        }
    }
}

/* Sends away the nodes of the sum; does that fit? */
static bool send(struct offload *self, const struct pst_stage_view *view, uint32_t sum)
{
    struct pst_stage_value value;

    mem_reset(&self->opt, view);
    while (sum > 0) {
        uint32_t v = self->last[sum];

        self->opt.trial[v] = PST_ACTION_OFFLOAD;
        sum -= steps_of(self, pst_stage_node_at(view, v)->saved_bytes);
    }
    value = mem_try(&self->opt, view);
    return mem_fits(view, &value);
}

/*
 * The least sum that is enough, by halving: peaks fall as sums grow. Where the largest is not
 * enough it stays the answer, as the plan of least peak.
 */
static void send_enough(struct offload *self, const struct pst_stage_view *view)
{
    const struct config *config = self->opt.config;
    uint32_t sums[STEPS], n = 0, low = 0, high;

    for (uint32_t s = 1; s <= STEPS; s++) {
        if (self->last[s] != PST_NONE) {
            sums[n++] = s;
        }
    }
    if (n == 0) {
        return;
    }
    high = n - 1;
    if (!send(self, view, sums[high]) || config->when == WHEN_ALWAYS) {
        return;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (send(self, view, sums[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    self->opt.has_plan = false; /* larger sums have smaller peaks, but the least is wanted */
    send(self, view, sums[high]);
}

static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct offload *self = (struct offload *)opt;
    const struct config *config = opt->config;
    uint32_t n;

    mem_consider(opt, view); /* everything else kept */
    if (config->when == WHEN_NEEDED && mem_is_done(opt, view)) {
        return;
    }
    n = find_eligible(self, view);
    find_sums(self, view, n, find_budget(self, view));
    send_enough(self, view);
}

MEM_OPTIMIZER(struct offload, decide, false)

MEM_PLUGIN("offload", "1.0", MEM_WORDS("chain", "dag", "offload"), MEM_WORDS("offload"),
           .summary = "Moves saved tensors to host memory and back, as many as the link hides.",
           .reference = "Wan, Qi, Huang, Lin, Li, PipeOffload: Improving Scalability of Pipeline "
                        "Parallelism with Memory Optimization, ICML 2025",
           PST_PLUGIN_PARAMS(params, struct config))
