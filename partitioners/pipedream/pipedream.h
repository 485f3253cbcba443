/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to pipedream: parameters, the graph that is searched, and one search.
 */
#ifndef PIPEDREAM_PIPEDREAM_H
#define PIPEDREAM_PIPEDREAM_H

#include "levels.h"
#include "sequence.h"

enum { PD_LINEAR = 0, PD_ANTICHAIN = 1, PD_DOWNSETS = 2 };
enum { PD_DEVICE = 0, PD_NODE = 1 };
enum { PD_FIRST = 0, PD_KEEP = 1 };

struct pd_config {
    uint32_t states, objective, memory, levels, inputs, order;
    bool use_fewer_machines, prune;
    int64_t max_states, places;
    uint64_t inside_bandwidth, between_bandwidth;
};

/* The problem's graph without inputs and idle sinks. */
struct pd_graph {
    struct part_dag dag;
    uint32_t *node, *edge; /* [dag.n], [dag.n_edges] what they are in the problem */
    uint32_t *own;         /* [problem->n] node of the dag, or PST_NONE */
    uint32_t *arrays;      /* of the dag */
};

/*
 * `inputs` PD_FIRST: sources whose operator is an input ("input", "Input0") and sinks that take no
 * time and have no parameters are left out, unless nothing would remain.
 */
void pd_graph_init(struct pd_graph *graph, const struct part_problem *problem, uint32_t inputs);

/* stage_of[problem->n] of a sequence of stages; what was left out: inputs to the first stage, sinks
   to the last stage that they read from. ret_degrees[n_stages]. */
void pd_graph_assign(const struct pd_graph *graph, const struct part_problem *problem,
                     const struct part_downsets *sets, const struct pd_answer *answer,
                     uint32_t *ret_stage_of, uint32_t *ret_degrees);

/* Everything that all searches of a job have in common. */
struct pd_run {
    const struct part_problem *problem;
    const struct pd_config *config;
    struct pd_graph graph;
    struct part_downsets sets;
    struct part_links links;
    double *weight, *saved, *out; /* [n_sets] of one sample */
    uint32_t n_wanted;            /* stages, each on one device; 0: as many as turn out best */
    bool all_sets;                /* every set closed under predecessors is a state */
};

/* Explained to the host. */
pst_status pd_run_init(struct pd_run *run, const struct part_problem *problem,
                       const struct pd_config *config);

/* The best stages within these limits; bottleneck in nanoseconds per sample. */
pst_status pd_run_solve(const struct pd_run *run, const struct part_limits *limits, bool corrected,
                        bool fewer, struct pd_answer *ret_answer);

#endif
