/* SPDX-License-Identifier: Apache-2.0
 *
 * vPipe-like: swap, recomputation and partition in turn. A reconstruction from the paper's
 * abstract and summaries of it, not the authors' code.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chain_plugin.h"
#include "vpipe.h"

PST_INSTANCE(self, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, unit, PST_PARAM_ENUM, "layer", "layer|node",
              "Unit that moves between stages; nodes if there are fewer layers than stages."),
    PST_PARAM(struct config, versions, PST_PARAM_ENUM, "one", "one|two|stash",
              "Weight versions of a stage, for a problem file: one (synchronous), two (2BW), or "
              "one per micro-batch in flight (PipeDream)."),
    PST_PARAM(struct config, exact_blocks, PST_PARAM_INT, "8", "0..12",
              "Stages of at most so many blocks get their best swaps and recomputations by "
              "enumeration."),
    PST_PARAM(struct config, swap_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second to host memory, each way, for a problem file; 0: no swap."),
};

static pst_status refuse(struct vpipe *pipe, const uint32_t *cuts)
{
    const struct part_problem *problem = pipe->problem;
    uint32_t s, worst = 0;
    double most = -1;

    for (s = 0; s < pipe->n_stages; s++) {
        struct stage_cost cost;

        vpipe_cost(pipe, s, cuts[s], cuts[s + 1], &cost);
        if (cost.missing > most) {
            most = cost.missing;
            worst = s;
        }
    }
    return pst_failf(problem->host, PST_ERR_INFEASIBLE,
                     "no cut into %u stages was found to fit at micro-batch size %u: stage %u, "
                     "from node \"%s\" to \"%s\", lacks %.0f of %.0f bytes, whatever is recomputed",
                     pipe->n_stages, pipe->size, worst,
                     part_node_name(problem, pipe->blocks.first[cuts[worst]]),
                     part_node_name(problem, pipe->blocks.first[cuts[worst + 1]] - 1), most,
                     problem->capacity_bytes);
}

static void append(char *text, size_t room, const char *format, double value)
{
    size_t used = strlen(text);

    if (used + 1 < room) {
        snprintf(text + used, room - used, used == 0 ? "" : ",");
        used = strlen(text);
        snprintf(text + used, room - used, format, value);
    }
}

/* Says what the answer rests on. */
static void remark(struct vpipe *pipe, const uint32_t *cuts, const struct worth *worth)
{
    const struct part_problem *problem = pipe->problem;
    char blocks[2048] = "", ratios[2048] = "", swapped[2048] = "";
    double *bytes = call_alloc((size_t)pipe->n_stages + 1, sizeof *bytes), sum = 0, worst = 0;
    bool own = pipe->config->versions != VERSIONS_ONE; /* does it hold what the host cannot know? */
    uint32_t s;

    for (s = 0; s < pipe->n_stages; s++) {
        struct stage_cost cost;

        vpipe_cost(pipe, s, cuts[s], cuts[s + 1], &cost);
        append(blocks, sizeof blocks, "%.0f", cuts[s + 1] - cuts[s]);
        append(ratios, sizeof ratios, "%.4g", cost.recompute);
        append(swapped, sizeof swapped, "%.0f", cost.swapped);
        bytes[s] = cost.bytes;
        worst = fmax(worst, cost.bytes);
        own = own || cost.recompute > 0 || cost.swapped > 0;
        sum += cost.swapped;
    }
    part_remark_number(problem, "bottleneck_us_per_sample", worth->longest / pipe->size / 1000);
    part_remark_text(problem, "blocks", blocks);
    part_remark_number(problem, "moves", pipe->n_moves);
    if (problem->figures.reference != 0) {
        /* in a job the memory optimizer decides that */
        if (own) {
            part_remark_stage_bytes(problem, bytes, pipe->n_stages);
        } else {
            part_remark_number(problem, "worst_stage_bytes", worst);
        }
        part_remark_text(problem, "recompute_ratios", ratios);
        part_remark_text(problem, "swapped_bytes_per_stage", swapped);
        part_remark_number(problem, "swapped_bytes", sum);
    }
}

static pst_status try_size(void *self_, const struct part_ranges *ranges, uint32_t n_stages,
                           uint32_t size, double best, double *ret_score, uint32_t *ret_cuts)
{
    const struct self *self = self_;
    struct vpipe pipe;
    struct worth worth = {0, 0, 0};
    uint32_t s;
    pst_status status = vpipe_init(&pipe, ranges->problem, self->config, ranges, n_stages, size);

    if (status == PST_OK) {
        vpipe_search(&pipe, ret_cuts, &worth);
    }
    if (status == PST_OK && worth.missing > 0) {
        status = refuse(&pipe, ret_cuts);
    }
    if (status == PST_OK) {
        *ret_score = part_chain_score(ranges->problem, size, worth.longest, worth.sum);
        if (*ret_score < best) {
            remark(&pipe, ret_cuts, &worth);
        }
    }
    for (s = 0; status == PST_OK && s <= n_stages; s++) {
        ret_cuts[s] = pipe.blocks.first[ret_cuts[s]];
    }
    return status;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    struct self *self = self_;

    return part_chain_run(self->host, in, try_size, self, out);
}

PART_CHAIN_PLUGIN(
    struct config, "vpipe", "1.0",
    .summary = "Improves swap, recomputation and partition in turn, from compute-balanced cuts.",
    .reference = "after Zhao et al., vPipe: A Virtualized Acceleration System for Achieving "
                 "Efficient and Scalable Pipeline Parallel DNN Training, TPDS 33(3), 2022")
