/* SPDX-License-Identifier: Apache-2.0
 *
 * PipeDream-2BW: one forward, one backward without a flush. The pipeline is filled once; after that
 * every stage closes batch after batch while micro-batches of the next are in flight already. Batch
 * t reads the weights after max(t - 1, 0) updates, so two versions of them are enough. Narayanan et
 * al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021.
 */
#include "order.h"

struct config {
    bool relaxed_m;
};

PST_INSTANCE(two_bw, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, relaxed_m, PST_PARAM_BOOL, "false", NULL,
              "Accept fewer micro-batches than devices: legal, but the pipeline is never full."),
};

static pst_status topology(void *self_, uint32_t n_devices, struct pst_topology *ret_topology)
{
    const struct two_bw *self = self_;

    ret_topology->n_stages = 0;
    ret_topology->version_rule = PST_VERSION_DELAYED;
    ret_topology->min_microbatches = self->config->relaxed_m ? 1 : n_devices;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

/*
 * Forwards that a stage runs ahead of its backwards. With no more than m the first forward of batch
 * t + 2 comes after the last backward of batch t on every stage, so its weights are there.
 */
static uint32_t warm_up(uint32_t stage, uint32_t n_stages, uint32_t n_microbatches)
{
    uint32_t behind = n_stages - 1 - stage;

    return behind < n_microbatches ? behind : n_microbatches;
}

static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    (void)self;
    ret_held->microbatches = warm_up(place->stage, place->n_stages, place->n_microbatches) + 1;
    ret_held->weight_versions = 2;
    return PST_OK;
}

/* m pairs of a forward and a backward; in the drain without the forwards of the next batch. */
static pst_status emit_pairs(struct pst_schedule_out *out, uint32_t device, uint32_t stage,
                             uint32_t w, uint32_t m, bool last)
{
    pst_status st = PST_OK;
    uint32_t i;

    for (i = 0; st == PST_OK && i < m; i++) {
        if (!last || w + i < m) {
            st = out->emit(out, device, PST_PASS_F, stage, w + i);
        }
        if (st == PST_OK) {
            st = out->emit(out, device, PST_PASS_BW, stage, i);
        }
    }
    return st;
}

static pst_status emit_part(const struct pst_schedule_in *in, struct pst_schedule_out *out,
                            uint32_t part)
{
    pst_status st = out->part(out, part);
    uint32_t s, i;

    for (s = 0; st == PST_OK && s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t m = stage->n_microbatches, w = warm_up(s, in->n_stages, m);

        if (part != PST_PART_FILL) {
            st = emit_pairs(out, stage->device, s, w, m, part == PST_PART_DRAIN);
            continue;
        }
        for (i = 0; st == PST_OK && i < w; i++) {
            st = out->emit(out, stage->device, PST_PASS_F, s, i);
        }
    }
    return st;
}

static pst_status check_shape(const struct two_bw *self, const struct pst_schedule_in *in)
{
    uint32_t m;
    pst_status st = order_require_chain(self->host, "2bw", in, 1, &m);

    if (st != PST_OK) {
        return st;
    }
    if (m < in->n_stages && !self->config->relaxed_m) {
        return pst_failf(self->host, PST_ERR_INFEASIBLE,
                         "2bw keeps the pipeline full with at least %u micro-batches, one per "
                         "stage, not %u; take smaller micro-batches or a larger batch, or set "
                         "relaxed_m = true",
                         in->n_stages, m);
    }
    return PST_OK;
}

/* Edges that skip stages add nothing that could close a cycle: in a chain F(s, j) already waits for
   all F(q, j) with q < s, and a backward for those with q > s. */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct two_bw *self = self_;
    pst_status st = check_shape(self, in);
    uint32_t part;

    for (part = PST_PART_FILL; st == PST_OK && part <= PST_PART_DRAIN; part++) {
        st = emit_part(in, out, part);
    }
    return st;
}

PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = topology, .in_flight = in_flight,
              .schedule = schedule)

static const char *const provides[] = {"chain", "async", "weight-versions=2", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", "2bw", "1.0"),
    .summary = "1F1B that never flushes: two weight versions, gradients one update old.",
    .reference = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
