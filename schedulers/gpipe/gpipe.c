/* SPDX-License-Identifier: Apache-2.0
 *
 * GPipe: every device runs all forwards of the step, then all backwards. The simplest schedule
 * there is; each stage holds every micro-batch at its peak. Huang et al., "GPipe", NeurIPS 2019.
 */
#include "order.h"

struct config {
    bool reverse, split;
};

PST_INSTANCE(gpipe, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, reverse, PST_PARAM_BOOL, "false", NULL,
              "Run the backwards from the last micro-batch to the first."),
    PST_PARAM(struct config, split, PST_PARAM_BOOL, "false", NULL,
              "Send the input gradient before the weight gradient is computed."),
};

static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    (void)self;
    ret_held->microbatches = place->n_microbatches;
    ret_held->weight_versions = 1;
    return PST_OK;
}

static pst_status emit_backward(const struct gpipe *self, struct pst_schedule_out *out,
                                uint32_t device, uint32_t stage, uint32_t microbatch)
{
    pst_status st;

    if (!self->config->split) {
        return out->emit(out, device, PST_PASS_BW, stage, microbatch);
    }
    st = out->emit(out, device, PST_PASS_B, stage, microbatch);
    return st != PST_OK ? st : out->emit(out, device, PST_PASS_W, stage, microbatch);
}

/* Stage by stage, so that several stages on one device are legal as well. */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct gpipe *self = self_;
    pst_status st;
    uint32_t s, j;

    for (s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (j = 0; j < stage->n_microbatches; j++) {
            st = out->emit(out, stage->device, PST_PASS_F, s, j);
            if (st != PST_OK) {
                return st;
            }
        }
    }
    for (s = in->n_stages; s-- > 0;) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t m = stage->n_microbatches;

        for (j = 0; j < m; j++) {
            st = emit_backward(self, out, stage->device, s, self->config->reverse ? m - 1 - j : j);
            if (st != PST_OK) {
                return st;
            }
        }
    }
    return PST_OK;
}

PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = order_topology,
              .in_flight = in_flight, .schedule = schedule)

static const char *const provides[] = {"chain", "dag", "per-stage-microbatch", "split-backward",
                                       NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", "gpipe", "1.0"),
    .summary = "All forwards, then all backwards.",
    .reference = "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline "
                 "Parallelism, NeurIPS 2019",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
