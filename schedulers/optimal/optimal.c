/* SPDX-License-Identifier: Apache-2.0
 *
 * The best order there is, for instances small enough to search through, and for others the best
 * found with a proven bound beside it. B and W apart; per-stage times, per-link latency and
 * per-device memory as they are.
 */
#include <stdio.h>

#include "exact.h"
#include "fixed.h"

struct config {
    uint32_t placement; /* FIXED_* */
    uint32_t objective;
    int64_t chunks, max_nodes;
};

PST_INSTANCE(optimal, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, placement, PST_PARAM_ENUM, "sequential", "sequential|looped|vshape",
              "How stages are placed on devices: one each, in a loop, or in a V."),
    PST_PARAM(struct config, chunks, PST_PARAM_INT, "2", "1..16",
              "Stages of a device in the looped placement."),
    PST_PARAM(struct config, objective, PST_PARAM_ENUM, "makespan", "makespan|span",
              "What is minimised: the end of the last pass, or the longest time from a device's "
              "first pass to its last."),
    PST_PARAM(struct config, max_nodes, PST_PARAM_INT, "10000000", "0..",
              "Maximum steps of the search; it makes several million in a second."),
};

static uint32_t chunks_of(const struct optimal *self)
{
    return self->config->placement == FIXED_SEQUENTIAL ? 1
           : self->config->placement == FIXED_VSHAPE   ? 2
                                                       : (uint32_t)self->config->chunks;
}

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    uint32_t chunks = chunks_of(self);
    pst_status status = order_topology(self, n_devices, ret_topology);

    ret_topology->n_stages = chunks > 1 ? chunks * n_devices : 0;
    return status;
}

static uint32_t device_of(void *self_, uint32_t n_devices, uint32_t n_stages, uint32_t stage)
{
    const struct optimal *self = self_;

    (void)n_stages;
    return fixed_place(self->config->placement, n_devices, stage);
}

static void claim(const struct optimal *self, uint64_t cost, uint64_t bound)
{
    const struct pst_claim *claims = self->host->get_extension(self->host, PST_CLAIM);
    bool span = self->config->objective == EXACT_SPAN;
    char text[160];

    if (cost == bound) {
        snprintf(text, sizeof text, "optimal: no order has less than %llu ns of %s",
                 (unsigned long long)bound, span ? "span" : "makespan");
    } else {
        snprintf(text, sizeof text,
                 "best found: %llu ns of %s, at most %.1f %% above the optimum; a larger max_nodes "
                 "searches further",
                 (unsigned long long)cost, span ? "span" : "makespan",
                 100.0 * (double)(cost - bound) / (double)(bound > 0 ? bound : 1));
    }
    self->host->log(self->host, PST_LOG_INFO, text);
    if (claims != NULL && PST_CAN(claims, claim)) {
        const struct pst_claimed claimed = {
            .size = sizeof claimed,
            .minimised = span ? 2 : 1,
            .makespan_ns = span ? 0 : cost,
            .span_ns = span ? cost : 0,
            .lower_bound_ns = bound,
        };

        claims->claim(self->host, &claimed);
    }
}

/* The least memory: one micro-batch, which every stage of a device holds at once. */
static void require_room(const struct optimal *self, const struct instance *inst)
{
    for (uint32_t d = 0; d < inst->n_devices; d++) {
        uint64_t least = 0;

        for (uint32_t i = 0; i < inst->n_on[d]; i++) {
            least += (uint64_t)inst->held[KIND_F][inst->on[d][i]];
        }
        if (least > inst->room[d]) {
            call_end(pst_failf(self->host, PST_ERR_INFEASIBLE,
                               "device %u has room for %llu bytes of activations; one micro-batch "
                               "needs %llu, which is the least that works",
                               d, (unsigned long long)inst->room[d], (unsigned long long)least));
        }
    }
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct optimal *self = self_;
    uint32_t m = order_require_chain(self->host, "optimal", in, chunks_of(self));
    struct instance inst;
    struct exact_answer answer;

    instance_init(&inst, in, m, self->config->objective);
    require_room(self, &inst);
    answer.bound = instance_bound(&inst);
    greedy_best(&inst, &answer.order, &answer.cost);
    if (exact_can_search(&inst)) {
        exact_narrow(&inst, self->host, (uint64_t)self->config->max_nodes, &answer);
    }
    claim(self, answer.cost, answer.bound < answer.cost ? answer.bound : answer.cost);
    return order_emit(&answer.order, out);
}

SCHEDULER_INTERFACE(.topology = topology, .device_of = device_of)

SCHEDULER_PLUGIN(
    "optimal", "1.0",
    SCHEDULER_WORDS("chain", "split-backward", "chunks", "placement", "within-memory", "exhaustive",
                    "haste=max_nodes:100000"),
    .summary = "Exact search on small instances; else the best found and a proven bound.",
    .reference = "Giffler and Thompson, Algorithms for Solving Production-Scheduling Problems, "
                 "Operations Research 8, 1960",
    PST_PLUGIN_PARAMS(params, struct config))
