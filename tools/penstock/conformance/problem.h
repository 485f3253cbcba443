/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions for plugins, made from numbers: graphs, stage graphs, stages.
 */
#ifndef PST_CONFORMANCE_PROBLEM_H
#define PST_CONFORMANCE_PROBLEM_H

#include <penstock/penstock.h>

#include "ask/problem_file.h"
#include "planner/order_question.h"

enum { PST_SHAPE_CHAIN = 0, PST_SHAPE_DIAMOND = 1, PST_SHAPE_RANDOM = 2, PST_SHAPES };
enum { PST_MEMORY_AMPLE = 0, PST_MEMORY_TIGHT = 1, PST_MEMORY_NONE = 2 };

/* A question in numbers; equal numbers make equal questions. */
struct pst_case {
    const char *name; /* of an edge case, or NULL */
    uint64_t seed;
    uint32_t shape, memory;
    uint32_t n_nodes, n_devices, n_microbatches;
    bool huge; /* times and sizes near the limits of the formats */
};

/* The next number of a stream (splitmix64), and one from low to high. */
uint64_t pst_random(uint64_t *state);
uint64_t pst_random_between(uint64_t *state, uint64_t low, uint64_t high);

/* A graph and the devices for it, with two sizes of micro-batches and two degrees to choose from:
   the second size alone where not `several`, the first degree alone without `replicas`. */
void pst_graph_problem_make(const struct pst_case *question, bool several, bool replicas,
                            struct pst_problem *ret_problem);
void pst_graph_problem_finish(struct pst_problem *problem);

/*
 * Stages on logical devices: devices[s] is that of stage s, sizes[s] the samples of its
 * micro-batches; batch is a multiple of each size. *ret_asked was all zero.
 */
void pst_schedule_problem_make(const struct pst_case *question, uint32_t n_stages, uint32_t copies,
                               const uint32_t *devices, const uint32_t *sizes, uint32_t batch,
                               struct pst_order_question *ret_asked);

/* A stage of as many nodes as the graph has, which are returned; they live in the arena. */
struct pst_stage_node *pst_stage_problem_make(const struct pst_case *question, bool earlier_actions,
                                              struct pst_arena *arena,
                                              struct pst_stage_view *ret_view);

#endif
