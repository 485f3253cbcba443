/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners that cut a model into a sequence of stages by a search of their own: the graph
 * as that search sees it, the size of its micro-batches, and a plan made from its stages.
 */
#ifndef PARTITIONERS_COMMON_SEQUENCE_H
#define PARTITIONERS_COMMON_SEQUENCE_H

#include "answer.h"
#include "downsets.h"

/* The edges of a problem as they are; lives as long as the problem. */
struct part_dag part_sequence_dag(const struct part_problem *problem);

/*
 * Nanoseconds of all passes for `samples` samples on one device, by node; not in part_problem for
 * sizes that no candidate and degree give.
 */
void part_sequence_times(const struct part_problem *problem, uint32_t samples, double *ret_ns);

/*
 * The micro-batch size of a plan that was found with whole micro-batches of b samples taken in turn
 * by the replicas of a stage: b where all degrees divide it, else the smallest multiple of b that
 * they divide; 0 where that does not divide the mini-batch or is no size the host would take (in
 * planning runs: none of the candidates).
 */
uint32_t part_sequence_size(const struct part_problem *problem, uint32_t b, const uint32_t *degrees,
                            uint32_t n_degrees);

/* A sequence of stages: stage_of[v] < n_stages in order, degrees[s]. */
struct part_sequence {
    uint32_t n_stages;    /* 0: there is none */
    uint32_t *stage_of;   /* [problem->n] */
    uint32_t *degrees;    /* [n_stages] */
    double bottleneck_ns; /* per sample, by the search's own objective */
    double bytes;         /* that the fullest stage takes by the search's own rules; 0: not said */
    void *extra;          /* whatever else the search wants back; freed */
};

/* The limits of one search. */
struct part_limits {
    uint32_t b;       /* samples of a micro-batch */
    bool whole;       /* only degrees that divide b */
    double capacity;  /* bytes that a stage may take by the search's own rules */
    uint32_t attempt; /* 0, 1, ...: how often a plan was found that does not fit */
};

struct part_best;

struct part_searcher {
    void *self;
    /* Before all else: reads what it needs of the problem, may set fields below. Explained to the
       host. */
    pst_status (*init)(struct part_searcher *searcher, const struct part_problem *problem);
    /* Finds the best sequence within these limits; n_stages 0: none. */
    pst_status (*find)(void *self, const struct part_limits *limits, struct part_sequence *ret);
    /* Gives the best plan to the host, with remarks. */
    pst_status (*answer)(void *self, const struct part_best *best, struct pst_partition_out *out);
    bool own_objective;     /* plans are compared by bottleneck_ns; else by the problem's value */
    bool own_memory;        /* ... and fit if find says so */
    uint32_t free_attempts; /* that get the same capacity again */
};

/* The best plan so far. */
struct part_best {
    bool found;
    struct part_plan plan;
    struct part_value value; /* set where plans had to be judged */
    double bottleneck_ns, bytes;
    void *extra;
};

/*
 * A whole partition(): reads the problem and searches with every size of micro-batches. Where a
 * plan does not fit by the memory of the problem (in planning runs: of the job's scheduler and
 * memory optimizer), once more with less capacity, a few times; in planning runs with more where
 * the search itself finds nothing that fits. Replicas take whole micro-batches in turn, so plans
 * get the size that part_sequence_size says; where there is none, degrees are held to those that
 * divide b. Of several sizes: in planning runs, and without an objective of their own, the fastest
 * step, else the least bottleneck, of equals the largest size. PST_ERR_INFEASIBLE, explained, where
 * nothing fits.
 */
pst_status part_sequence_partition(const struct pst_host *host, const struct pst_partition_in *in,
                                   struct part_searcher *searcher, struct pst_partition_out *out);

/*
 * A plan of stages with their own degrees: stage_of[v] < n_stages in order of the sequence, which
 * may be changed. n_wanted stages (0: any number): the slowest stages are halved until there are as
 * many. PST_ERR_INFEASIBLE, explained: fewer nodes than stages wanted.
 */
void part_sequence_plan(const struct part_problem *problem, uint32_t *stage_of, uint32_t n_stages,
                        const uint32_t *degrees, uint32_t b, uint32_t n_wanted,
                        struct part_plan *ret_plan);

/* Bytes per nanosecond between two devices of a node and of two nodes; 0: free. The options, where
   not 0, say so; else pst.cost/1 in planning runs, else the figures of the problem. */
struct part_links {
    double inside, between;           /* from device to device */
    double sync_inside, sync_between; /* of an all-reduce */
};
void part_sequence_links(const struct part_problem *problem, uint64_t inside_bytes_per_s,
                         uint64_t between_bytes_per_s, struct part_links *ret_links);

/* PST_ERR_INFEASIBLE: too many downsets, with their number and what to do. */
pst_status part_sequence_too_many(const struct part_problem *problem, uint64_t count, bool exact,
                                  int64_t max_states, const char *hint);

#endif
