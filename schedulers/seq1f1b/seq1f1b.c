/* SPDX-License-Identifier: Apache-2.0
 *
 * 1F1B over slices of sequences: a pass is of one slice, so the pipeline fills and empties in
 * passes that are as much shorter, and holds as much less. Backward passes of a sequence go from
 * its last slice to its first. Sun et al., "Seq1F1B: Efficient Sequence-Level Pipeline Parallelism
 * for Large Language Model Training", 2024.
 */
#include "order.h"

struct config {
    int64_t slices;
    bool split;
};

PST_INSTANCE(seq_one_f_one_b, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, slices, PST_PARAM_INT, "4", "1..1024",
              "Slices of each sequence, equally long; 1: the order of 1f1b."),
    PST_PARAM(struct config, split, PST_PARAM_BOOL, "false", NULL,
              "Send the input gradient before the weight gradient is computed."),
};

static uint32_t slices_of(const struct seq_one_f_one_b *self)
{
    return (uint32_t)self->config->slices;
}

/* Forwards that a stage runs before it alternates: all slices of the first sequences but one on the
   last stage, one more for each stage before it. */
static uint32_t warm_up(const struct seq_one_f_one_b *self, uint32_t stage, uint32_t n_stages,
                        uint32_t n_passes)
{
    const uint32_t w = n_stages - 1 - stage + slices_of(self) - 1;

    return w < n_passes ? w : n_passes;
}

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    pst_status status = order_topology(self, n_devices, ret_topology);

    ret_topology->slices = slices_of(self);
    ret_topology->min_microbatches = ret_topology->slices;
    ret_topology->microbatch_multiple = ret_topology->slices;
    return status;
}

static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    uint32_t w = warm_up(self, place->stage, place->n_stages, place->n_microbatches);

    ret_held->microbatches = w < place->n_microbatches ? w + 1 : w;
    ret_held->weight_versions = 1;
    return PST_OK;
}

/* As with 1f1b, edges of any graph of stages add nothing to those of the chain. */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct seq_one_f_one_b *self = self_;
    struct order order;

    order_require_chain(self->host, "seq1f1b", in, 1);
    order_init(&order, in);
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const uint32_t m = pst_schedule_stage_at(in, s)->n_microbatches;

        order_one_f_one_b(&order, self->config->split, s, warm_up(self, s, in->n_stages, m),
                          slices_of(self));
    }
    return order_emit(&order, out);
}

SCHEDULER_INTERFACE(.topology = topology, .in_flight = in_flight)

SCHEDULER_PLUGIN(
    "seq1f1b", "1.0", SCHEDULER_WORDS("chain", "dag", "split-backward", "sequence-slices"),
    .summary = "1F1B over slices of sequences: shorter ramps, less memory for activations.",
    .reference = "Sun et al., Seq1F1B: Efficient Sequence-Level Pipeline Parallelism for Large "
                 "Language Model Training, 2024",
    PST_PLUGIN_PARAMS(params, struct config))
