/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions for plugins, made from numbers: graphs, stage graphs, stages. Everything that a plugin
 * sees of a question lies in one region, so that a plugin that writes into it is found out.
 */
#ifndef PST_CONFORMANCE_PROBLEM_H
#define PST_CONFORMANCE_PROBLEM_H

#include <penstock/penstock.h>

#include "host/region.h"

enum { PST_SHAPE_CHAIN = 0, PST_SHAPE_DIAMOND = 1, PST_SHAPE_RANDOM = 2, PST_SHAPES };
enum { PST_MEMORY_AMPLE = 0, PST_MEMORY_TIGHT = 1, PST_MEMORY_NONE = 2 };

/* A question in numbers; equal numbers make equal questions. */
struct pst_case {
    const char *name; /* of an edge case, or NULL */
    uint64_t seed;
    uint32_t shape, memory;
    uint32_t n_nodes, n_devices, n_microbatches;
    uint32_t extra; /* bytes by which elements of arrays are longer than this header knows */
    bool huge;      /* times and sizes near the limits of the formats */
};

/* The next number of a stream (splitmix64), and one from low to high. */
uint64_t pst_random(uint64_t *state);
uint64_t pst_random_between(uint64_t *state, uint64_t low, uint64_t high);

/* A graph, and what its nodes take for one sample (the view does not say). */
struct pst_graph_problem {
    struct pst_graph_view *view;
    struct pst_cluster_view *cluster;
    const struct pst_times *times; /* [n_nodes] */
    const struct pst_figures *figures;
    uint64_t total_bytes; /* parameters and saved bytes of one sample, all nodes */
};

bool pst_graph_problem_make(const struct pst_case *question, struct pst_region *region,
                            struct pst_graph_problem *ret_problem);

/*
 * Stages on logical devices: devices[s] is that of stage s, sizes[s] the samples of its
 * micro-batches; batch is a multiple of each size.
 */
bool pst_schedule_problem_make(const struct pst_case *question, uint32_t n_stages,
                               const uint32_t *devices, const uint32_t *sizes, uint32_t batch,
                               struct pst_region *region, struct pst_schedule_in **ret_in);

bool pst_stage_problem_make(const struct pst_case *question, bool earlier_actions,
                            struct pst_region *region, struct pst_stage_view **ret_view);

#endif
