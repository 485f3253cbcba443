/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory-aware partition node by node after DawnPiper: by halving, with few candidate cuts between
 * the compute-balanced and the memory-balanced position, each stage priced by the job's memory
 * optimizer.
 */
#include <stdlib.h>

#include "chain_plugin.h"
#include "dawnpiper.h"

#define EXACT_NODES 64 /* up to here the exact search costs nothing worth saving */

PST_INSTANCE(self, struct config)

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

/* Where nothing fits, halving would ask for thousands of prices before it knew. */
static pst_status look_for_any(struct pipe *pipe, bool *ret_any)
{
    struct found any = {.ns = NS_NEVER};
    pst_status st;

    any.cuts = calloc((size_t)pipe->n_stages + 1, sizeof *any.cuts);
    st = any.cuts == NULL ? PST_ERR_NOMEM : pipe_reach(pipe, 1, &any);
    if (st == PST_OK && any.ns == NS_NEVER) {
        st = pipe_reach(pipe, REACH_WIDE, &any);
    }
    *ret_any = any.ns != NS_NEVER;
    free(any.cuts);
    return st;
}

/* Halving first: its answer bounds the others. It may miss what fits, if prices are not monotone
   and intervals wide; then the others look for anything. */
static pst_status search_cuts(struct pipe *pipe, struct found *found, bool *ret_proven)
{
    uint32_t search = pipe->config->search;
    pst_status st = pipe_binary(pipe, found);
    bool small;

    if (st == PST_OK && (search == SEARCH_AUTO || search == SEARCH_THRESHOLD)) {
        st = pipe_threshold(pipe, found, ret_proven);
    }
    if (st == PST_OK && found->ns == NS_NEVER) {
        st = pipe_reach(pipe, REACH_WIDE, found);
    }
    small = pipe->n <= EXACT_NODES && (search == SEARCH_AUTO || found->ns == NS_NEVER);
    if (st == PST_OK && !*ret_proven &&
        (search == SEARCH_EXACT || search == SEARCH_THRESHOLD || small)) {
        st = pipe_exact(pipe, found);
        *ret_proven = st == PST_OK;
    }
    return st;
}

static pst_status run_search(struct pipe *pipe, struct found *found, bool *ret_proven)
{
    bool any = true;
    pst_status st = PST_OK;

    *ret_proven = false;
    if (pipe->n > EXACT_NODES && pipe->config->search == SEARCH_AUTO) {
        st = look_for_any(pipe, &any);
    }
    return st == PST_OK && any ? search_cuts(pipe, found, ret_proven) : st;
}

static pst_status score_of(struct pipe *pipe, const struct found *found, double *ret_score)
{
    double sum = 0;
    uint32_t s;

    for (s = 0; s < pipe->n_stages; s++) {
        uint64_t ns;
        pst_status st = pipe_price(pipe, s, found->cuts[s], found->cuts[s + 1], &ns);

        if (st != PST_OK) {
            return st;
        }
        sum += (double)ns;
    }
    *ret_score = part_chain_score(pipe->problem, pipe->size, (double)found->ns, sum);
    return PST_OK;
}

static pst_status explain(struct pipe *pipe, uint32_t *cuts)
{
    pst_status st = part_balance(pipe->time_ns, pipe->n, pipe->n_stages, cuts);

    return st == PST_OK ? part_asker_explain(&pipe->asker, cuts) : st;
}

static void remark(const struct pipe *pipe, const struct found *found, bool proven)
{
    const struct part_problem *problem = pipe->problem;

    part_remark_number(problem, "bottleneck_us_per_sample", (double)found->ns / pipe->size / 1000);
    part_remark_number(problem, "prices", (double)pipe->asker.prices.used);
    part_remark_number(problem, "groups", (double)pipe->n_groups);
    part_remark_flag(problem, "proven", proven);
}

static pst_status try_size(void *self_, const struct part_ranges *ranges, uint32_t n_stages,
                           uint32_t size, double best, double *ret_score, uint32_t *ret_cuts)
{
    const struct self *self = self_;
    struct pipe pipe;
    struct found found = {.ns = NS_NEVER, .cuts = ret_cuts};
    bool proven = false;
    pst_status st = pipe_init(&pipe, ranges->problem, self->config, ranges, n_stages, size);

    if (st == PST_OK) {
        st = run_search(&pipe, &found, &proven);
    }
    if (st == PST_OK) {
        st = found.ns == NS_NEVER ? explain(&pipe, ret_cuts) : score_of(&pipe, &found, ret_score);
    }
    if (st == PST_OK && *ret_score < best) {
        remark(&pipe, &found, proven);
    }
    pipe_finish(&pipe);
    return st;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    struct self *self = self_;

    return part_chain_run(self->host, in, try_size, self, out);
}

static const char *const words[] = {"chain", "rival=interval:paper", NULL};

PART_CHAIN_PLUGIN_WITH(
    words, struct config, "dawnpiper", "1.0",
    .summary = "Memory-aware cuts by halving, priced by the job's memory optimizer.",
    .reference = "after Peng et al., DawnPiper: A Memory-scalable Pipeline Parallel "
                 "Training Framework, arXiv:2505.05856, 2025")
