/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: the question as numbers to search with. Linked into each plugin that wants it
 * (penstock_add_plugin(... LINK partitioner_common)); depends on the plugin headers alone.
 * After reading, const and free of host calls, so any thread may use it.
 */
#ifndef PARTITIONERS_COMMON_PROBLEM_H
#define PARTITIONERS_COMMON_PROBLEM_H

#include <penstock/ext/cost.h>
#include <penstock/ext/profile.h>
#include <penstock/ext/remark.h>
#include <penstock/penstock.h>

#include "plugin_call.h"

struct part_problem {
    const struct pst_host *host; /* NULL in tests that build one by hand */
    const struct pst_partition_in *in;
    struct pst_figures figures;
    uint32_t n, n_edges;                /* nodes 0..n-1 are in topological order */
    uint32_t *from, *to;                /* [n_edges] by (from, to) */
    uint32_t *first_out;                /* [n + 1]: edges of v are first_out[v] .. first_out[v+1] */
    uint32_t *first_in, *in_edges;      /* [n + 1]; [n_edges] edges by (to, from) */
    uint32_t n_devices, batch;          /* D, B */
    uint32_t n_sizes, *sizes;           /* candidate micro-batch sizes, ascending */
    uint32_t n_degrees, *degrees;       /* ascending, <= D; has 1 unless the user left it out */
    double *weight_bytes, *saved_bytes; /* [n]; parameters; per sample */
    double *workspace_bytes;            /* [n] larger of F and B */
    double *edge_bytes;                 /* [n_edges] per sample */
    /* Jobs: the time of a transfer besides its bytes, inside a node and between two; bytes per
       second of an all-reduce inside a node, 0: as between them. */
    double link_ns, node_link_ns, node_sync_bytes_per_s;
    double weight_multiplier; /* mu */
    double capacity_bytes;    /* INFINITY: no limit */
    bool in_row;              /* a stage holds what its place in the row of stages makes
                                 it hold, as under 1F1B, not its depth in their graph */
    /* Times on one device: row i is for samples[i] samples, all b / d that sizes and degrees give;
       backward is B + W. n_samples * n each. */
    uint32_t n_samples, *samples; /* ascending */
    double *forward_ns, *backward_ns;
};

/* Reads everything through `in` and pst.profile/1. host->fail has been told of any failure. */
void part_problem_read(const struct pst_host *host, const struct pst_partition_in *in,
                       struct part_problem *ret_problem);

/*
 * For problems that are judged by the reference model, where a multiple of a size that divides the
 * mini-batch is allowed; else does nothing. Adds to the sizes those that replicas make of them: of
 * whole micro-batches that they take in turn the least common multiples with degrees, of a
 * micro-batch on each the products. Times are read anew.
 */
void part_problem_enlarge(struct part_problem *problem);

/*
 * By hand: n_devices, batch, sizes, degrees, n, n_edges and figures (PST_COMM_*, bandwidths) of
 * *problem are set; the rest of its arrays is made here, zero, to be filled in: costs by the
 * caller, and the edges from `from` and `to`, then sorted by part_problem_index.
 */
void part_problem_init(struct part_problem *problem);
/* Sorts the edges (edge_bytes with them) and makes first_out, first_in and in_edges. */
void part_problem_index(struct part_problem *problem);

/* Indexes edges sorted by (from, to): first_out[n + 1]; first_in[n + 1] and in_edges[n_edges],
   which are edges by (to, from). */
void part_index_edges(uint32_t n, uint32_t n_edges, const uint32_t *from, const uint32_t *to,
                      uint32_t *first_out, uint32_t *first_in, uint32_t *in_edges);

/* Groups as nodes, group_of[v] < n_groups, none empty and numbered topologically: costs are sums,
   workspace is the largest. Not for questions to the host. */
void part_problem_merge(const struct part_problem *problem, const uint32_t *group_of,
                        uint32_t n_groups, struct part_problem *ret_merged);

/* The least common multiple; neither is 0. */
uint64_t part_common_multiple(uint32_t a, uint32_t b);
/* Row of `samples` for that many samples, UINT32_MAX: there is none. */
uint32_t part_samples_row(const struct part_problem *problem, uint32_t samples);
/* Name of a node for messages: "?" without a host. */
const char *part_node_name(const struct part_problem *problem, uint32_t v);
/* "30 bytes", "12.7 MiB (13317120 bytes)" */
const char *part_size_text(char text[64], uint64_t bytes);
/* PST_ERR_INFEASIBLE, explained. */
pst_status part_too_few_nodes(const struct pst_host *host, uint32_t wanted, uint32_t n);

/*
 * The cost of nodes and edges per sample at one micro-batch size b, on d replicas that share it, in
 * ticks: whole numbers, so that sums are exact in any order and a bisection on T ends. A tick is
 * chosen so that the total over all nodes and edges, times D, stays below 2^60.
 *
 *   comp[k][v]  (F + B + W of v for b / d samples) / b
 *   sync[k][v]  2 (d - 1) / d * parameters of v / (all-reduce bandwidth * B)
 *   p2p[k][e]   2 * bytes of e / (d * p2p bandwidth): charged at each end of a cut edge; 0 where
 *               comm_model is PST_COMM_NONE
 *
 * each rounded to the nearest tick; degrees[k] are those degrees of the problem that divide b.
 */
struct part_costs {
    uint32_t b, n_degrees;
    uint32_t *degrees;
    double ns_per_tick;
    int64_t **comp, **sync, **p2p;
    uint32_t comm_model; /* PST_COMM_* */
};

void part_costs_init(const struct part_problem *problem, uint32_t b, struct part_costs *ret_costs);

/* Ticks per sample of a stage with these sums: by the comm model. */
static inline int64_t part_tps(const struct part_costs *costs, int64_t comp, int64_t p2p,
                               int64_t sync)
{
    switch (costs->comm_model) {
    case PST_COMM_SUM:
        return comp + p2p + sync;
    case PST_COMM_MAX:
        return comp > p2p ? (comp > sync ? comp : sync) : (p2p > sync ? p2p : sync);
    default:
        return comp + sync;
    }
}

/* Bytes on one device of a stage with these sums: mu W + A min(B, i) / d + workspace. */
double part_memory(const struct part_problem *problem, double weight, double saved,
                   double workspace, uint32_t d, uint64_t in_flight_samples);
/* Bytes per second of an all-reduce over d replicas, which are in one node where they fit; 0: free.
 */
double part_sync_rate(const struct part_problem *problem, uint32_t d);
/* <= capacity, but for rounding. */
bool part_fits(const struct part_problem *problem, double bytes);

/* Returns true for a problem file, in which transfers do not delay each other. */
static inline bool part_is_problem(const struct part_problem *problem)
{
    return problem->figures.reference != 0 || problem->figures.problem != 0;
}

/* The function of pst_partitioner: `function` as a call, which has the same arguments. */
#define PART_PARTITIONER(function)                                                                 \
    CALL_FUNCTION(call_##function, function, struct pst_partition_in, struct pst_partition_out)    \
    PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = call_##function)

#endif
