/* SPDX-License-Identifier: Apache-2.0
 *
 * The searches for one micro-batch size, one after the other: each bounds the next.
 */

#include "dawnpiper.h"

#define EXACT_NODES 64 /* up to here the exact search costs nothing worth saving */

/* Where nothing fits, halving would ask for thousands of prices before it knew. */
static void look_for_any(struct pipe *pipe, bool *ret_any)
{
    struct found any = {.ns = NS_NEVER};

    CALL_TAKE(any.cuts, (size_t)pipe->n_stages + 1);
    pipe_reach(pipe, 1, &any);
    if (any.ns == NS_NEVER) {
        pipe_reach(pipe, REACH_WIDE, &any);
    }
    *ret_any = any.ns != NS_NEVER;
}

/* Halving first: its answer bounds the others. It may miss what fits, if prices are not monotone
   and intervals wide; then the others look for anything. */
static void search_cuts(struct pipe *pipe, struct found *found, bool *ret_proven)
{
    uint32_t search = pipe->config->search;
    bool small;

    pipe_binary(pipe, found);
    if ((search == SEARCH_AUTO || search == SEARCH_THRESHOLD)) {
        pipe_threshold(pipe, found, ret_proven);
    }
    if (found->ns == NS_NEVER) {
        pipe_reach(pipe, REACH_WIDE, found);
    }
    small = pipe->n <= EXACT_NODES && (search == SEARCH_AUTO || found->ns == NS_NEVER);
    if (!*ret_proven && (search == SEARCH_EXACT || search == SEARCH_THRESHOLD || small)) {
        pipe_exact(pipe, found);
        *ret_proven = true;
    }
}

static void run_search(struct pipe *pipe, struct found *found, bool *ret_proven)
{
    bool any = true;

    *ret_proven = false;
    if (pipe->n > EXACT_NODES && pipe->config->search == SEARCH_AUTO) {
        look_for_any(pipe, &any);
    }
    if (any) {
        search_cuts(pipe, found, ret_proven);
    }
}

static void score_of(struct pipe *pipe, const struct found *found, double *ret_score)
{
    double sum = 0;
    uint32_t s;

    for (s = 0; s < pipe->n_stages; s++) {
        uint64_t ns;

        pipe_price(pipe, s, found->cuts[s], found->cuts[s + 1], &ns);
        sum += (double)ns;
    }
    *ret_score = part_chain_score(pipe->problem, pipe->size, (double)found->ns, sum);
}

static pst_status explain(struct pipe *pipe, uint32_t *cuts)
{
    part_balance(pipe->time_ns, pipe->n, pipe->n_stages, cuts);
    return part_asker_explain(&pipe->asker, cuts);
}

static void remark(const struct pipe *pipe, const struct found *found, bool proven)
{
    const struct part_problem *problem = pipe->problem;

    part_remark_number(problem, "bottleneck_us_per_sample", (double)found->ns / pipe->size / 1000);
    part_remark_number(problem, "prices", (double)pipe->asker.prices.used);
    part_remark_number(problem, "groups", (double)pipe->n_groups);
    part_remark_flag(problem, "proven", proven);
}

static pst_status try_size(void *config_, const struct part_ranges *ranges, uint32_t n_stages,
                           uint32_t size, double best, double *ret_score, uint32_t *ret_cuts)
{
    const struct config *config = config_;
    struct pipe pipe;
    struct found found = {.ns = NS_NEVER, .cuts = ret_cuts};
    bool proven = false;
    pst_status status = pipe_init(&pipe, ranges->problem, config, ranges, n_stages, size);

    if (status == PST_OK) {
        run_search(&pipe, &found, &proven);
    }
    if (status == PST_OK) {
        if (found.ns == NS_NEVER) {
            status = explain(&pipe, ret_cuts);
        } else {
            score_of(&pipe, &found, ret_score);
        }
    }
    if (status == PST_OK && config->steps && *ret_score < best) {
        pipe_shorten(&pipe, ret_cuts);
    }
    if (status == PST_OK && *ret_score < best) {
        remark(&pipe, &found, proven);
    }
    return status;
}

pst_status pipe_partition(const struct pst_host *host, const struct config *config,
                          const struct pst_partition_in *in, struct pst_partition_out *out)
{
    struct config asked = *config;

    return part_chain_run(host, in, try_size, &asked, out);
}
