/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to partitioners/common: the graph of a plan's stages.
 */
#ifndef PARTITIONERS_COMMON_STAGE_GRAPH_H
#define PARTITIONERS_COMMON_STAGE_GRAPH_H

#include "answer.h"

/* Sums over the nodes of a stage. */
struct stage_sums {
    double forward_ns, backward_ns; /* of one micro-batch on one replica */
    double weight, saved, workspace;
    double cut_bytes; /* per sample: every cut edge once */
};

struct stage_graph {
    uint32_t n;
    bool legal;                /* every node in one stage, and no cycle */
    uint32_t *stage_of;        /* [nodes of the problem] */
    uint32_t n_links;          /* edges between stages, each once */
    uint32_t *first_out, *out; /* [n + 1], [n_links] successors, ascending */
    uint32_t *first_in, *in;   /* [n + 1], [n_links] predecessors, ascending */
    uint32_t *order;     /* [n] topological: as in the plan, else least node first; legal only */
    uint32_t *depth;     /* [n] stages on the longest path to a sink; in a row: to its end */
    uint64_t *in_flight; /* [n] samples over all replicas, at most B */
    struct stage_sums *sums; /* [n] */
};

void stage_graph_init(struct stage_graph *graph, const struct part_plan *plan,
                      const struct part_problem *problem);

/* [n] by node: the depth of its stage. */
void stage_graph_depths(const struct stage_graph *graph, const struct part_problem *problem,
                        uint32_t *ret_depths);

/* Nanoseconds per sample, by the comm model. */
double stage_tps_ns(const struct part_problem *problem, const struct part_stage *stage,
                    const struct stage_sums *sums);
/* All-reduce of one stage after a mini-batch. */
double stage_sync_ns(const struct part_problem *problem, uint32_t d, double weight);

/* One mini-batch in kFkB order; INFINITY where the order cannot run to its end. */
void stage_graph_step(const struct stage_graph *graph, const struct part_plan *plan,
                      const struct part_problem *problem, double *ret_ns);

/* First ranks of stages as part_plan_answer gives them; the graph is legal and has no more replicas
   than devices. first_rank: [n]. */
void stage_graph_place(const struct stage_graph *graph, const struct part_plan *plan,
                       const struct part_problem *problem, uint32_t *first_rank);
/* Index of s -> t in graph->out; it exists. */
uint32_t stage_graph_link(const struct stage_graph *graph, uint32_t s, uint32_t t);
/* Problem files, and jobs on several nodes: *ret_delay[n_links], how much later than its end a pass
   is known to its neighbour, to be freed; *ret_least_ns: no step is shorter because of what leaves
   a node. Elsewhere NULL and 0. slowest_ns: per sample, of the slowest stage. */
void stage_graph_delays(const struct stage_graph *graph, const struct part_plan *plan,
                        const struct part_problem *problem, double slowest_ns, double **ret_delay,
                        double *ret_least_ns);

/* fits, worst, worst_bytes, peak_bytes and bottleneck_ns by pst.ask/1; in_flight becomes what the
   scheduler says. */
void stage_graph_ask(struct stage_graph *graph, const struct part_plan *plan,
                     const struct part_problem *problem, struct part_value *value);

#endif
