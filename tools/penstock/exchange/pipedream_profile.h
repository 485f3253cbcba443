/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles of PipeDream's profiler (Narayanan et al., SOSP 2019) as costed graphs. Text, a node or
 * an edge on a line, in any order; times in milliseconds and bytes of the whole batch:
 *
 *   node4 -- Conv2d(64, 64, kernel_size=(3, 3)) -- forward_compute_time=46.201,
 *       backward_compute_time=113.330, activation_size=1644167168.000, parameter_size=147712.000
 *   <tab>node3 -- node4
 *
 * (the first on one line); activation_size may be a list "[a; b]", and " -- stage_id=2" may follow.
 */
#ifndef PST_EXCHANGE_PIPEDREAM_PROFILE_H
#define PST_EXCHANGE_PIPEDREAM_PROFILE_H

#include "models/costed/costed_file.h"

struct pst_pipedream_options {
    uint32_t batch;   /* samples that were profiled; the file does not say */
    bool drop_inputs; /* without the Input nodes, whose time is that of loading data */
    bool keep_empty;  /* nodes without time and parameters stay, even those with one consumer */
};

struct pst_pipedream_summary {
    uint32_t n_nodes, n_edges; /* of the file */
    uint32_t n_inputs;         /* Input nodes, dropped or not */
    uint32_t n_collapsed;      /* nodes that became part of their consumer */
    uint32_t n_staged;         /* nodes that named a stage, which is not read */
};

/*
 * The graph's notes tell what became of the file: half of the backward time of a node with
 * parameters is that of their gradients; every output is kept for the backward pass, once; a node
 * without time and parameters but with one consumer is part of it, outputs included. Errors
 * (PST_ERR_CONFIG): those of pst_file_read with input.path; input.limit, input.syntax with the
 * line; graph.* as pst_costed_read.
 */
pst_status pst_pipedream_read(const char *path, const struct pst_pipedream_options *options,
                              struct pst_costed **ret_graph,
                              struct pst_pipedream_summary *ret_summary, struct pst_error *err);

#endif
