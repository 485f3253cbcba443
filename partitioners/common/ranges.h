/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: consecutive nodes of the graph's own order as stages. Sums before a position,
 * what crosses a cut, and (asker) what the job's scheduler and memory optimizer say of a range.
 */
#ifndef PARTITIONERS_COMMON_RANGES_H
#define PARTITIONERS_COMMON_RANGES_H

#include "map.h"
#include "problem.h"

/* Positions 0..n; a range [first, end) has the nodes first .. end - 1. Bytes are per sample, but
   for weights. */
struct part_ranges {
    const struct part_problem *problem;
    uint32_t n;
    double *weight, *saved; /* [n + 1] sums before a position */
    double *cut_bytes;      /* [n + 1] of the distinct tensors that cross, each once */
    uint32_t *cut_tensors;  /* [n + 1] their number */
    double *message;        /* [n] bytes of a node's output as a message; 0: nobody reads it */
    uint32_t *last;         /* [n] its last reader; the node itself if there is none */
};

void part_ranges_init(const struct part_problem *problem, struct part_ranges *ret_ranges);

/* ret_sum_ns[n + 1]: nanoseconds of F + B + W of all nodes before a position, for `samples` on one
   device; ret_forward_ns[n + 1]: of F alone; may be NULL. */
void part_ranges_times(const struct part_problem *problem, uint32_t samples, double *ret_sum_ns,
                       double *ret_forward_ns);

/* ret_cuts[n_stages + 1]: the cut into that many stages, none empty, of the least longest stage by
   sum_ns[n + 1]; among those the most even (least sum of squares), then the earliest cuts. */
void part_balance(const double *sum_ns, uint32_t n, uint32_t n_stages, uint32_t *ret_cuts);

/* The largest of values i .. j - 1. Of n values; the caller fills level 0 between the first two. */
double **part_most_create(uint32_t n);
void part_most_fill(double **table, uint32_t n);
double part_most(double *const *table, uint32_t i, uint32_t j);

/*
 * A chain of n nodes as stages of an answer: stage s has nodes cuts[s] .. cuts[s + 1] - 1 and
 * `replicas` ranks, replica p on s * replicas + p, or on p * n_stages + s where pipelines are
 * neighbours (pipeline_major). size: samples of a micro-batch over all replicas.
 */
struct part_chain_shape {
    uint32_t n_stages, size, replicas;
    bool pipeline_major;
};
uint32_t part_chain_rank(const struct part_chain_shape *shape, uint32_t stage, uint32_t replica);
struct pst_stage_decl *part_chain_decls(uint32_t n, const struct part_chain_shape *shape,
                                        const uint32_t *cuts);
/* Gives them to the host. */
void part_chain_answer(const struct part_problem *problem, const struct part_chain_shape *shape,
                       const uint32_t *cuts, struct pst_partition_out *out);

/* Sizes are compared by this, less is better. On its own: nanoseconds of the longest stage per
   sample; in a job: of a step, all stages once and the longest one for every other micro-batch. */
double part_chain_score(const struct part_problem *problem, uint32_t size, double longest_ns,
                        double sum_ns);

/* The best cut for one size, in ret_cuts[n_stages + 1]; what is remarked only if its score is below
   `best`. PST_ERR_INFEASIBLE, explained to the host: forgiven if another size fits. */
typedef pst_status part_size_fn(void *impl, const struct part_ranges *ranges, uint32_t n_stages,
                                uint32_t size, double best, double *ret_score, uint32_t *ret_cuts);
/* Partitions with one rank per stage: as many stages as are wanted, else as there are devices (or
   nodes, where these are fewer); every size is tried in the order given. PST_ERR_UNSUPPORTED where
   1 is no degree. */
pst_status part_chain_run(const struct pst_host *host, const struct pst_partition_in *in,
                          part_size_fn *try, void *impl, struct pst_partition_out *out);

/* A range that grows to the left, with what comes in and goes out of it as a stage: every tensor
   once per stage that reads it. */
struct part_span {
    const struct part_ranges *ranges;
    uint32_t first, end;
    double in_bytes, out_bytes;
    uint32_t *stamps; /* [n] span that last counted a node as a source */
    uint32_t stamp;
};

void part_span_init(const struct part_ranges *ranges, struct part_span *ret_span);
void part_span_begin(struct part_span *span, uint32_t end); /* the empty range at `end` */
void part_span_grow(struct part_span *span);                /* takes in node first - 1 */

/*
 * The job's other strategies about ranges as stages of one shape of pipeline: in-flight counts are
 * asked for once, prices are remembered.
 */
struct part_asker {
    const struct part_problem *problem;
    const struct pst_ask *ask;
    uint32_t n_stages, size, replicas; /* size: samples of a micro-batch over all replicas */
    uint32_t *nodes;                   /* [n] 0, 1, 2, ... */
    uint32_t *in_flight, *versions;    /* [n_stages] micro-batches; weight versions */
    bool placed;                       /* stage s is asked about as one on device s */
    uint32_t *class_of;                /* [n_stages] first stage of the same prices */
    struct part_map prices;            /* used: how many were asked for */
};

/* PST_ERR_UNSUPPORTED where the host has no pst.ask/1. */
pst_status part_asker_init(const struct part_problem *problem, uint32_t n_stages, uint32_t size,
                           uint32_t replicas, struct part_asker *ret_asker);

/* Bytes that a device has for one stage. */
uint64_t part_capacity(const struct pst_partition_in *in, uint32_t device);
/* Stages of which a few ranges are priced alike share all prices from now on, which saves most of
   the questions; the first and the last stage are their own. */
void part_asker_share(struct part_asker *asker);
/* Nodes [first, end), not empty, as that stage. */
void part_asker_price(struct part_asker *asker, uint32_t stage, uint32_t first, uint32_t end,
                      struct pst_stage_price *ret_price);

/*
 * Explains that an answer does not fit: names the first stage of `cuts` (may be NULL) that does
 * not, or else the node that needs most alone. Returns PST_ERR_INFEASIBLE, or what the host fails
 * with.
 */
pst_status part_asker_explain(struct part_asker *asker, const uint32_t *cuts);

#endif
