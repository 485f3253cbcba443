/* SPDX-License-Identifier: Apache-2.0
 *
 * PipeDream-2BW: one forward, one backward without a flush. The pipeline is filled once; after that
 * every stage closes batch after batch while micro-batches of the next are in flight already. Batch
 * t reads the weights after max(t - 1, 0) updates, so two versions of them are enough. Narayanan et
 * al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021.
 */
#include "endless.h"

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

    endless_topology(PST_VERSION_DELAYED, self->config->relaxed_m ? 1 : n_devices, ret_topology);
    return PST_OK;
}

/* With no more forwards ahead than m the first forward of batch t + 2 comes after the last backward
   of batch t on every stage, so its weights are there. */
static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    (void)self;
    ret_held->microbatches = endless_in_flight(place);
    ret_held->weight_versions = 2;
    return PST_OK;
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct two_bw *self = self_;

    return endless_schedule(self->host, "2bw",
                            self->config->relaxed_m ? NULL : ", or set relaxed_m = true", in, out);
}

SCHEDULER_INTERFACE(.topology = topology, .in_flight = in_flight)

SCHEDULER_PLUGIN(
    "2bw", "1.0", SCHEDULER_WORDS("chain", "async", "weight-versions=2"),
    .summary = "1F1B that never flushes: two weight versions, gradients one update old.",
    .reference = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
    PST_PLUGIN_PARAMS(params, struct config))
