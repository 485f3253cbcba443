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

/* Stage by stage, so that several stages on one device are legal as well. */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct gpipe *self = self_;
    struct order order;

    order_init(&order, in);
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (uint32_t j = 0; j < stage->n_microbatches; j++) {
            order_add(&order, stage->device, PST_PASS_F, s, j);
        }
    }
    for (uint32_t s = in->n_stages; s-- > 0;) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t m = stage->n_microbatches;

        for (uint32_t j = 0; j < m; j++) {
            order_add_backward(&order, self->config->split, stage->device, s,
                               self->config->reverse ? m - 1 - j : j);
        }
    }
    return order_emit(&order, out);
}

SCHEDULER_INTERFACE(.topology = order_topology, .in_flight = in_flight)

SCHEDULER_PLUGIN(
    "gpipe", "1.0", SCHEDULER_WORDS("chain", "dag", "per-stage-microbatch", "split-backward"),
    .summary = "All forwards, then all backwards.",
    .reference = "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline "
                 "Parallelism, NeurIPS 2019",
    PST_PLUGIN_PARAMS(params, struct config))
