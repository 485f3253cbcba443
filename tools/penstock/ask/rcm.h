/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference cost model: the time and memory of a stage of a costed graph, in closed form. It
 * compares partitioners without a scheduler or memory optimizer (docs/partitioning.md). It adds
 * doubles node by node in ascending order, so equal questions get equal bits.
 */
#ifndef PST_ASK_RCM_H
#define PST_ASK_RCM_H

#include <penstock/scheduler.h>

#include "ask/problem_file.h"

/* A set of nodes as a stage. */
struct pst_rcm_stage {
    const uint32_t *nodes; /* ascending */
    uint32_t n_nodes;
    uint32_t n_ranks;         /* replicas; divides microbatch_size */
    uint32_t microbatch_size; /* samples over all replicas */
};

struct pst_rcm_cost {
    double pass_ns[3];  /* F, B, W of one micro-batch on one rank */
    double compute_ns;  /* per sample, as are the three below */
    double transfer_ns; /* 0 where the bandwidth is free, but whatever the communication model */
    double reduce_ns;
    double total_ns; /* by the communication model */
    double weight_bytes;
    double saved_bytes; /* of one sample */
    double workspace_bytes;
};

/* Scratch of one thread. Costs nothing but two numbers a node. */
struct pst_rcm {
    const struct pst_problem *problem;
    uint32_t *stamps; /* [n_nodes] the question that has the node */
    uint32_t stamp;
};

/* `problem` is kept; the scratch is in `arena`. */
void pst_rcm_init(struct pst_rcm *rcm, const struct pst_problem *problem, struct pst_arena *arena);

/* Time per sample: combines the three by the problem's communication model. */
double pst_rcm_total(const struct pst_problem *problem, double compute_ns, double transfer_ns,
                     double reduce_ns);
/* Takes time in proportion to the nodes and their edges. */
void pst_rcm_cost(struct pst_rcm *rcm, const struct pst_rcm_stage *stage,
                  struct pst_rcm_cost *ret_cost);

/* Bytes on one rank of a stage that holds so many samples over all replicas. */
double pst_rcm_memory(const struct pst_problem *problem, const struct pst_rcm_cost *cost,
                      uint32_t n_ranks, uint64_t in_flight_samples, uint32_t weight_versions);

/* Returns true if the bytes fit the capacity, apart from rounding. */
bool pst_rcm_fits(double capacity_bytes, double bytes);

/*
 * Samples that a stage holds under kFkB so that it never waits for want of room: the least number
 * that does, at any ratio of F to B, over all replicas. The successors' counts are in
 * place->successors; none: a sink. At most those of all its micro-batches.
 */
uint64_t pst_rcm_in_flight(const struct pst_place *place);

/* Nanoseconds to move bytes once, and to sum them over so many ranks in a ring; 0: free. */
double pst_rcm_transfer_ns(const struct pst_problem *problem, double bytes);
double pst_rcm_allreduce_ns(const struct pst_problem *problem, double bytes, uint32_t n_ranks);

#endif
