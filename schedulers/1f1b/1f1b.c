/* SPDX-License-Identifier: Apache-2.0
 *
 * 1F1B with a flush: as few warm-up forwards as keep the pipeline full, then one forward and one
 * backward in turn. The makespan is GPipe's, but stage s of p holds no more than p - s
 * micro-batches. Narayanan et al., "PipeDream-Flush" in "Memory-Efficient Pipeline-Parallel DNN
 * Training", ICML 2021; Fan et al., "DAPPLE", PPoPP 2021.
 */
#include "order.h"

struct config {
    bool split, eager;
};

PST_INSTANCE(one_f_one_b, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, split, PST_PARAM_BOOL, "false", NULL,
              "Send the input gradient before the weight gradient is computed."),
    PST_PARAM(struct config, eager, PST_PARAM_BOOL, "false", NULL,
              "Run twice as many forwards ahead: hides slow links, holds up to 2(p - s) - 1."),
};

/* Forwards that a stage runs before its first backward. */
static uint32_t warm_up(const struct one_f_one_b *self, uint32_t stage, uint32_t n_stages,
                        uint32_t n_microbatches)
{
    uint64_t behind = n_stages - 1 - stage;
    uint64_t w = self->config->eager ? 2 * behind : behind;

    return (uint32_t)(w < n_microbatches ? w : n_microbatches);
}

static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    uint32_t w = warm_up(self, place->stage, place->n_stages, place->n_microbatches);

    ret_held->microbatches = w < place->n_microbatches ? w + 1 : w;
    ret_held->weight_versions = 1;
    return PST_OK;
}

/*
 * The chain rule over the topological index of the stages, whatever their graph. In a chain F(s, j)
 * already waits for all F(q, j) with q < s, and a backward for those with q > s, so edges of any
 * graph add nothing that could close a cycle.
 */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct one_f_one_b *self = self_;
    struct order order;

    order_require_chain(self->host, "1f1b", in, 1);
    order_init(&order, in);
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const uint32_t m = pst_schedule_stage_at(in, s)->n_microbatches;

        order_one_f_one_b(&order, self->config->split, s, warm_up(self, s, in->n_stages, m), 1);
    }
    return order_emit(&order, out);
}

SCHEDULER_INTERFACE(.topology = order_topology, .in_flight = in_flight)

SCHEDULER_PLUGIN(
    "1f1b", "1.0", SCHEDULER_WORDS("chain", "dag", "split-backward"),
    .summary = "One forward, one backward: memory bounded by the depth of the pipeline.",
    .reference =
        "Fan et al., DAPPLE: A Pipelined Data Parallel Approach for Training Large Models, "
        "PPoPP 2021; Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, "
        "ICML 2021",
    PST_PLUGIN_PARAMS(params, struct config))
