/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to dawnpiper and tideline: one search for one micro-batch size, and the end of the
 * plugin. Times are whole nanoseconds.
 */
#ifndef DAWNPIPER_H
#define DAWNPIPER_H

#include "answer.h"
#include "chain_plugin.h"
#include "ranges.h"

enum { INTERVAL_PAPER = 0, INTERVAL_PIVOT3 = 1 };
enum { SEARCH_AUTO = 0, SEARCH_BINARY = 1, SEARCH_EXACT = 2, SEARCH_THRESHOLD = 3 };

struct config {
    uint32_t interval, search;
    int64_t margin, max_boundary_tensors;
    double volume_factor;
    bool shared_link, steps;
};

/* Rows of both plugins, which differ in these defaults. */
#define DAWNPIPER_PARAMS(interval_default, margin_default, search_default)                         \
    PST_PARAM(struct config, interval, PST_PARAM_ENUM, interval_default, "paper|pivot3",           \
              "Candidate cuts are between the compute-balanced and the memory-balanced one; "      \
              "pivot3: and the one that balances memory no optimizer removes."),                   \
        PST_PARAM(struct config, margin, PST_PARAM_INT, margin_default, "0..1000000",              \
                  "Nodes by which that interval is widened on both sides."),                       \
        PST_PARAM(struct config, volume_factor, PST_PARAM_FLOAT, "0", "0..1e9",                    \
                  "Leave out cuts with more than this times the bytes of the cheapest; 0: none."), \
        PST_PARAM(struct config, max_boundary_tensors, PST_PARAM_INT, "0", "0..1000000",           \
                  "Maximum number of tensors that may cross a cut; 0: any number."),               \
        PST_PARAM(struct config, search, PST_PARAM_ENUM, search_default,                           \
                  "auto|binary|exact|threshold",                                                   \
                  "Halving; all cuts; all cuts by bisection where prices are monotone; auto: all " \
                  "cuts up to 64 nodes, halving beyond."),                                         \
        PST_PARAM(struct config, shared_link, PST_PARAM_BOOL, "false", NULL,                       \
                  "Activations and gradients of a cut share one direction's bandwidth.")

/* `params` stands before it; then fields: summary, reference. */
#define DAWNPIPER_PLUGIN(plugin_id, plugin_version, ...)                                           \
    PST_INSTANCE(self, struct config)                                                              \
    static pst_status partition(void *self_, const struct pst_partition_in *in,                    \
                                struct pst_partition_out *out)                                     \
    {                                                                                              \
        const struct self *self = self_;                                                           \
                                                                                                   \
        return pipe_partition(self->host, self->config, in, out);                                  \
    }                                                                                              \
    PART_CHAIN_PLUGIN(struct config, plugin_id, plugin_version, __VA_ARGS__)

pst_status pipe_partition(const struct pst_host *host, const struct config *config,
                          const struct pst_partition_in *in, struct pst_partition_out *out);

#define NS_NEVER UINT64_MAX       /* does not fit */
#define NS_ABOVE (UINT64_MAX - 1) /* not below the limit; whether it fits is not known */

/* Stages i..j on nodes [a, b) and what is known of them. */
struct solved {
    uint64_t ns; /* bottleneck, NS_NEVER, or NS_ABOVE: none below `limit` */
    uint64_t limit;
    uint32_t cut;
};

struct pipe {
    const struct part_problem *problem;
    const struct config *config;
    const struct part_ranges *ranges;
    const struct pst_cost *cost;
    struct part_asker asker;
    uint32_t n, n_stages, size;
    double *time_ns;               /* [n + 1] F + B + W of the nodes before a position */
    uint64_t *sum_ns;              /* [n + 1] the same, rounded down: no price is below */
    double *sum_held, *sum_copies; /* [n_stages + 1] in-flight counts; copies of parameters */
    double **most_saved;           /* of part_most: saved bytes of nodes */
    uint32_t interval, margin;     /* of the pass that runs */
    struct part_map memo;          /* struct solved; of that pass */
    uint64_t n_groups;             /* groups of stages looked at */
};

pst_status pipe_init(struct pipe *pipe, const struct part_problem *problem,
                     const struct config *config, const struct part_ranges *ranges,
                     uint32_t n_stages, uint32_t size);

static inline uint64_t pipe_compute(const struct pipe *pipe, uint32_t a, uint32_t b)
{
    return pipe->sum_ns[b] - pipe->sum_ns[a];
}

/* May a stage begin at c? 0 < c < n. */
bool pipe_admits(const struct pipe *pipe, uint32_t c);
/* One way across cut c between stages `boundary` and boundary + 1. */
uint64_t pipe_comm(const struct pipe *pipe, uint32_t boundary, uint32_t c);
/* Period of a stage, or NS_NEVER. */
void pipe_price(struct pipe *pipe, uint32_t stage, uint32_t a, uint32_t b, uint64_t *ret_ns);

/* Where the optimum lies if a group of stages i..j on [a, b) is cut between mid and mid + 1: the
   cuts that balance compute, memory, and memory that no optimizer removes. False: no cut at all. */
struct pivots {
    uint32_t compute, memory, irreducible;
};
bool pipe_pivots(const struct pipe *pipe, uint32_t i, uint32_t j, uint32_t a, uint32_t b,
                 struct pivots *ret_pivots);

struct found {
    uint64_t ns;    /* bottleneck; NS_NEVER: nothing */
    uint32_t *cuts; /* [n_stages + 1] of the caller */
};

/* Each looks for something below found->ns and writes it there. */
void pipe_binary(struct pipe *pipe, struct found *found);
void pipe_exact(struct pipe *pipe, struct found *found);
/* *ret_proven: periods were monotone as far as asked, so the result is the optimum. */
void pipe_threshold(struct pipe *pipe, struct found *found, bool *ret_proven);

/* Positions at which a stage may begin that are kept in view at most. */
#define REACH_WIDE 8
/* Looks for any plan that fits, `wide` positions at a time, 1..REACH_WIDE. Leaves *found alone
   where it sees none. */
void pipe_reach(struct pipe *pipe, uint32_t wide, struct found *found);

/* Moves cuts as long as the host, where it can simulate, says that the step gets shorter. */
void pipe_shorten(struct pipe *pipe, uint32_t *cuts);

#endif
