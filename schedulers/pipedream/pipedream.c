/* SPDX-License-Identifier: Apache-2.0
 *
 * PipeDream: one forward, one backward without a flush, and an update of a stage after each of its
 * backwards. A micro-batch is passed backward with the weights that it was passed forward with, so
 * a stage stashes a version of them for each micro-batch that it has under way. The stages do not
 * agree on a version: that of stage s of L is L - 1 - s updates old (no vertical sync). Harlap et
 * al., "PipeDream: Fast and Efficient Pipeline Parallel DNN Training", 2018; Narayanan et al.,
 * "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019.
 */
#include "endless.h"

PST_INSTANCE(pipedream, void)

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    (void)self;
    endless_topology(PST_VERSION_STASHED, n_devices, ret_topology);
    return PST_OK;
}

/* A version for each micro-batch between its forward and its backward. */
static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    (void)self;
    ret_held->microbatches = endless_in_flight(place);
    ret_held->weight_versions = ret_held->microbatches;
    return PST_OK;
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct pipedream *self = self_;

    return endless_schedule(self->host, "pipedream", "", in, out);
}

SCHEDULER_INTERFACE(.topology = topology, .in_flight = in_flight)

SCHEDULER_PLUGIN(
    "pipedream", "1.0", SCHEDULER_WORDS("chain", "async", "weight-versions"),
    .summary = "1F1B that never flushes: an update after every micro-batch, weights stashed.",
    .reference = "Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, "
                 "SOSP 2019",
    PST_PLUGIN_NO_PARAMS)
