/* SPDX-License-Identifier: Apache-2.0
 *
 * vPipe-like: swap, recomputation and partition in turn. A reconstruction from the paper's
 * abstract and summaries of it, not the authors' code.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpipe.h"

struct self {
    const struct pst_host *host;
    const struct config *config;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, unit, PST_PARAM_ENUM, "layer", "layer|node",
              "What moves between stages; of fewer layers than stages, nodes do."),
    PST_PARAM(struct config, versions, PST_PARAM_ENUM, "one", "one|two|stash",
              "Weight versions of a stage on a problem of its own: one (synchronous), two (2BW), "
              "or one per micro-batch in flight (PipeDream)."),
    PST_PARAM(struct config, exact_blocks, PST_PARAM_INT, "8", "0..12",
              "Stages of at most so many blocks get their best swaps and recomputations by "
              "enumeration."),
    PST_PARAM(struct config, swap_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second to host memory, each way, on a problem of its own; 0: no swap."),
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct self *self = host->alloc(host, sizeof *self, _Alignof(struct self));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    *ret_self = self;
    return PST_OK;
}

static void destroy(void *self)
{
    (void)self; /* lives in the instance's memory */
}

/* The best over all sizes that were tried. */
struct best {
    double score; /* what sizes are compared by */
    uint32_t size;
    uint32_t *cuts; /* [n_stages + 1] in nodes */
};

static pst_status refuse(struct vpipe *pipe, const uint32_t *cuts)
{
    const struct part_problem *problem = pipe->problem;
    uint32_t s, worst = 0;
    double most = -1;

    for (s = 0; s < pipe->n_stages; s++) {
        struct stage_cost cost;
        pst_status st = vpipe_cost(pipe, s, cuts[s], cuts[s + 1], &cost);

        if (st != PST_OK) {
            return st;
        }
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
static pst_status remark(struct vpipe *pipe, const uint32_t *cuts, const struct worth *worth)
{
    const struct part_problem *problem = pipe->problem;
    char blocks[2048] = "", ratios[2048] = "", swapped[2048] = "";
    double most = 0, sum = 0;
    uint32_t s;

    for (s = 0; s < pipe->n_stages; s++) {
        struct stage_cost cost;
        pst_status st = vpipe_cost(pipe, s, cuts[s], cuts[s + 1], &cost);

        if (st != PST_OK) {
            return st;
        }
        append(blocks, sizeof blocks, "%.0f", cuts[s + 1] - cuts[s]);
        append(ratios, sizeof ratios, "%.4g", cost.recompute);
        append(swapped, sizeof swapped, "%.0f", cost.swapped);
        most = fmax(most, cost.bytes);
        sum += cost.swapped;
    }
    part_remark_number(problem, "bottleneck_us_per_sample", worth->longest / pipe->size / 1000);
    part_remark_text(problem, "blocks", blocks);
    part_remark_number(problem, "moves", pipe->n_moves);
    if (problem->figures.reference != 0) { /* in a job the memory optimizer decides that */
        part_remark_number(problem, "worst_stage_bytes", most);
        part_remark_text(problem, "recompute_ratios", ratios);
        part_remark_text(problem, "swapped_bytes_per_stage", swapped);
        part_remark_number(problem, "swapped_bytes", sum);
    }
    return PST_OK;
}

/* Alone: nanoseconds per sample. In a job: a step, all stages once and the slowest m - 1 times. */
static double score_of(const struct vpipe *pipe, const struct worth *worth)
{
    uint32_t m = pipe->problem->batch / pipe->size;

    return pipe->problem->figures.reference != 0 ? worth->longest / pipe->size
                                                 : worth->sum + (m - 1) * worth->longest;
}

static pst_status try_size(const struct self *self, const struct part_ranges *ranges,
                           uint32_t n_stages, uint32_t size, struct best *best)
{
    struct vpipe pipe;
    struct worth worth = {0, 0, 0};
    uint32_t *cuts = calloc((size_t)n_stages + 1, sizeof *cuts), s;
    pst_status st = vpipe_init(&pipe, ranges->problem, self->config, ranges, n_stages, size);

    if (st == PST_OK) {
        st = cuts == NULL ? PST_ERR_NOMEM : vpipe_search(&pipe, cuts, &worth);
    }
    if (st == PST_OK && worth.missing > 0) {
        st = refuse(&pipe, cuts);
    }
    if (st == PST_OK && (best->size == 0 || score_of(&pipe, &worth) < best->score)) {
        best->score = score_of(&pipe, &worth);
        best->size = size;
        for (s = 0; s <= n_stages; s++) {
            best->cuts[s] = pipe.blocks.first[cuts[s]];
        }
        st = remark(&pipe, cuts, &worth); /* of a key the last word counts */
    }
    free(cuts);
    vpipe_finish(&pipe);
    return st;
}

/* PST_ERR_INFEASIBLE of some sizes is forgiven if another fits. */
static pst_status run(const struct self *self, const struct part_problem *problem,
                      uint32_t n_stages, struct pst_partition_out *out)
{
    const struct pst_partition_in *in = problem->in;
    struct part_ranges ranges;
    struct best best = {.size = 0};
    uint32_t i;
    pst_status st = part_ranges_init(problem, &ranges), failed = PST_OK;

    best.cuts = calloc((size_t)n_stages + 1, sizeof *best.cuts);
    if (st == PST_OK && best.cuts == NULL) {
        st = PST_ERR_NOMEM;
    }
    for (i = 0; st == PST_OK && i < in->n_micro_batches; i++) {
        st = try_size(self, &ranges, n_stages, in->micro_batches[i], &best);
        if (st == PST_ERR_INFEASIBLE) {
            failed = st;
            st = PST_OK;
        }
    }
    if (st == PST_OK && best.size == 0) {
        st = failed;
    }
    if (st == PST_OK) {
        struct part_chain_shape shape = {n_stages, best.size, 1, false};

        st = part_chain_answer(problem, &shape, best.cuts, out);
    }
    free(best.cuts);
    part_ranges_finish(&ranges);
    return st;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct self *self = self_;
    struct part_problem problem;
    uint32_t n_stages = in->n_stages;
    pst_status st = part_problem_read(self->host, in, &problem);

    if (st != PST_OK) {
        return st;
    }
    if (n_stages == 0) {
        n_stages = in->n_devices < problem.n ? in->n_devices : problem.n;
    }
    if (n_stages > problem.n) {
        st = pst_failf(self->host, PST_ERR_INFEASIBLE,
                       "%u stages are wanted but the graph has only %u nodes; use fewer devices, "
                       "fewer stages on each, or a deeper model",
                       n_stages, problem.n);
    } else {
        st = run(self, &problem, n_stages, out);
    }
    part_problem_finish(&problem);
    return st;
}

static const struct pst_partitioner partitioner = {
    .size = sizeof partitioner,
    .partition = partition,
};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_PARTITIONER) == 0 ? &partitioner : NULL;
}

static const char *const provides[] = {"chain", NULL};
static const char *const needs[] = {"chain", NULL};

static const struct pst_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = PST_ABI_MAJOR,
    .abi_minor = PST_ABI_MINOR,
    .kind = "partitioner",
    .id = "vpipe",
    .version = "1.0",
    .summary = "Swap, recomputation and partition in turn, from compute-balanced cuts on.",
    .reference = "after Zhao et al., vPipe: A Virtualized Acceleration System for Achieving "
                 "Efficient and Scalable Pipeline Parallel DNN Training, TPDS 33(3), 2022",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    .params = params,
    .n_params = sizeof params / sizeof params[0],
    .param_size = sizeof params[0],
    .config_size = sizeof(struct config),
    .create = create,
    .destroy = destroy,
    .get_interface = get_interface,
};

PST_PLUGIN(plugin)
