/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory-aware partition node by node after DawnPiper: by halving, with few candidate cuts between
 * the compute-balanced and the memory-balanced position, each stage priced by the job's memory
 * optimizer.
 */
#include <stdlib.h>
#include <string.h>

#include "dawnpiper.h"

#define EXACT_NODES 64 /* up to here the exact search costs nothing worth saving */

struct self {
    const struct pst_host *host;
    const struct config *config;
};

static const struct pst_param params[] = {
    PST_PARAM(
        struct config, interval, PST_PARAM_ENUM, "pivot3", "paper|pivot3",
        "Candidate cuts lie between the compute-balanced and the memory-balanced one; pivot3: "
        "and the one that balances memory no optimizer removes."),
    PST_PARAM(struct config, margin, PST_PARAM_INT, "1", "0..1000000",
              "Nodes by which that interval is wider on both sides."),
    PST_PARAM(struct config, volume_factor, PST_PARAM_FLOAT, "0", "0..1e9",
              "Leaves out cuts of more than this times the bytes of the cheapest; 0: none."),
    PST_PARAM(struct config, max_boundary_tensors, PST_PARAM_INT, "0", "0..1000000",
              "Most tensors that may cross a cut; 0: any number."),
    PST_PARAM(struct config, search, PST_PARAM_ENUM, "auto", "auto|binary|exact|threshold",
              "Halving; all cuts; all cuts by bisection where prices are monotone; auto: all cuts "
              "up to 64 nodes, halving beyond."),
    PST_PARAM(struct config, shared_link, PST_PARAM_BOOL, "false", NULL,
              "Activations and gradients of a cut share one direction's bandwidth."),
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

/* The best cut over all sizes that were tried. */
struct best {
    double score; /* what sizes are compared by */
    uint32_t size;
    uint64_t ns;
    bool proven;
    uint32_t *cuts;
    uint64_t n_prices, n_groups;
};

/* Halving first: its answer bounds the others. It may miss what fits, if prices are not monotone
   and intervals wide; then the others look for anything. */
static pst_status run_search(struct pipe *pipe, struct found *found, bool *ret_proven)
{
    uint32_t search = pipe->config->search;
    pst_status st = pipe_binary(pipe, found);

    *ret_proven = false;
    if (st == PST_OK && (search == SEARCH_AUTO || search == SEARCH_THRESHOLD)) {
        st = pipe_threshold(pipe, found, ret_proven);
    }
    if (st == PST_OK && (found->ns == NS_NEVER || search == SEARCH_EXACT ||
                         (!*ret_proven && (search == SEARCH_THRESHOLD ||
                                           (search == SEARCH_AUTO && pipe->n <= EXACT_NODES))))) {
        st = pipe_exact(pipe, found);
        *ret_proven = st == PST_OK;
    }
    return st;
}

/* Alone: nanoseconds per sample. In a job: a step, all stages once and the slowest m - 1 times. */
static pst_status score_of(struct pipe *pipe, const struct found *found, double *ret_score)
{
    double sum = 0;
    uint32_t s, m = pipe->problem->batch / pipe->size;

    if (pipe->problem->figures.reference != 0) {
        *ret_score = (double)found->ns / pipe->size;
        return PST_OK;
    }
    for (s = 0; s < pipe->n_stages; s++) {
        uint64_t ns;
        pst_status st = pipe_price(pipe, s, found->cuts[s], found->cuts[s + 1], &ns);

        if (st != PST_OK) {
            return st;
        }
        sum += (double)ns;
    }
    *ret_score = sum + (double)(m - 1) * (double)found->ns;
    return PST_OK;
}

static pst_status explain(struct pipe *pipe, uint32_t *cuts)
{
    pst_status st = part_balance(pipe->time_ns, pipe->n, pipe->n_stages, cuts);

    return st == PST_OK ? part_asker_explain(&pipe->asker, cuts) : st;
}

static pst_status try_size(const struct self *self, const struct part_ranges *ranges,
                           uint32_t n_stages, uint32_t size, struct best *best)
{
    struct pipe pipe;
    struct found found = {.ns = NS_NEVER};
    bool proven = false;
    double score = 0;
    pst_status st = pipe_init(&pipe, ranges->problem, self->config, ranges, n_stages, size);

    found.cuts = calloc((size_t)n_stages + 1, sizeof *found.cuts);
    if (st == PST_OK && found.cuts == NULL) {
        st = PST_ERR_NOMEM;
    }
    if (st == PST_OK) {
        st = run_search(&pipe, &found, &proven);
    }
    if (st == PST_OK) {
        st = found.ns == NS_NEVER ? explain(&pipe, found.cuts) : score_of(&pipe, &found, &score);
    }
    if (st == PST_OK && (best->size == 0 || score < best->score)) {
        best->score = score;
        best->size = size;
        best->ns = found.ns;
        best->proven = proven;
        memcpy(best->cuts, found.cuts, ((size_t)n_stages + 1) * sizeof *best->cuts);
    }
    best->n_prices += pipe.asker.memo_used;
    best->n_groups += pipe.n_groups;
    free(found.cuts);
    pipe_finish(&pipe);
    return st;
}

static void remark(const struct part_problem *problem, const struct best *best)
{
    part_remark_number(problem, "bottleneck_us_per_sample", (double)best->ns / best->size / 1000);
    part_remark_number(problem, "prices", (double)best->n_prices);
    part_remark_number(problem, "groups", (double)best->n_groups);
    part_remark_flag(problem, "proven", best->proven);
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

        remark(problem, &best);
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
    .id = "dawnpiper",
    .version = "1.0",
    .summary = "Memory-aware cuts by halving, priced by the job's memory optimizer.",
    .reference = "after Peng et al., DawnPiper: A Memory-scalable Pipeline Parallel Training "
                 "Framework, arXiv:2505.05856, 2025",
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
