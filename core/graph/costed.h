/* SPDX-License-Identifier: Apache-2.0
 *
 * A costed graph: the shape of a model and what its operators cost, without the model. What a
 * penstock-graph file holds (docs/formats.md).
 */
#ifndef PST_GRAPH_COSTED_H
#define PST_GRAPH_COSTED_H

#include <penstock/model.h>

#include "base/arena.h"
#include "base/error.h"

/* Times at one profiled size. */
struct pst_costed_times {
    uint32_t samples;
    double ns[3];     /* F, B, W */
    double growth[3]; /* ns above are the mean over slices of sequences; by how much F and B grow
                         from the first slice to the last, by what they compute; by how much B of
                         the last is shorter than that */
};

/* One of Piper's ways to run a node (pst_node_config), for the graph's batch. */
struct pst_costed_config {
    const char *name;
    uint32_t tensor_degree;
    double ns, param_bytes, in_flight_bytes, fixed_bytes;
};

struct pst_costed_node {
    const char *name, *op;
    const char
        *module;      /* path of the PyTorch module that it runs in; NULL: the whole, or unknown */
    double ns[3];     /* F, B, W for the graph's batch; in proportion to samples */
    double fixed_ns;  /* once per micro-batch */
    uint32_t n_times; /* > 0: a table, ascending by samples, in place of the two above */
    const struct pst_costed_times *times;
    double param_bytes, saved_bytes, output_bytes;    /* of the graph's batch, but for parameters */
    double workspace_bytes, backward_workspace_bytes; /* as they are, whatever the size */
    uint32_t n_configs;                               /* mostly 0 */
    const struct pst_costed_config *configs;
};

struct pst_costed_edge {
    uint32_t from, to;
    double bytes; /* of the graph's batch */
};

struct pst_costed {
    struct pst_arena arena;
    const char *name, *notes; /* notes: NULL or what the file says of itself */
    uint32_t batch;
    double update_bytes_per_second; /* parameters whose update takes a second; 0: not known */
    /* Host time of a step, in ns of one core: fixed, and per sample. It delays a plan with at least
       host_devices devices, which leave no core idle; host_devices 0: not known. */
    double host_step_ns, host_sample_ns;
    uint32_t host_devices;
    uint32_t n_nodes, n_edges;
    struct pst_costed_node *nodes; /* in topological order; ties as in the file */
    struct pst_costed_edge *edges; /* by (from, to); parallel edges are one, bytes added */
    struct pst_graph_view view;    /* bytes per sample rounded up; view.batch = batch */
    double *saved_bytes;           /* [n_nodes] per sample, not rounded */
    double *edge_bytes;            /* [n_edges] per sample */
    uint64_t digest;               /* XXH3 of everything but the notes */
};

void pst_costed_destroy(struct pst_costed *graph);

/* Nanoseconds of F, B, W. From a table: between its sizes on the line, beyond the largest by the
   last slope (0 where more samples took less time), below the smallest by the first slope, or in
   proportion where that line would begin below 0; one row alone: in proportion. Otherwise fixed
   time is spread over the passes in proportion to their own times (all of it to F where these are
   0). samples >= 1. Pure. */
void pst_costed_node_ns(const struct pst_costed *graph, uint32_t node, uint32_t samples,
                        double ret_ns[3]);
/* Like pst_costed_node_ns, for pst_costed_times.growth: how slices of a sequence differ. */
void pst_costed_node_growth(const struct pst_costed *graph, uint32_t node, uint32_t samples,
                            double ret_ns[3]);

#endif
