/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the costed graph: names by hash, order, limits, units.
 */
#ifndef PST_MODELS_COSTED_IMPL_H
#define PST_MODELS_COSTED_IMPL_H

#include "config/json_fields.h"
#include "models/costed/costed_file.h"

#define PST_COSTED_FILE_BYTES ((size_t)256 << 20)
#define PST_COSTED_NODES      1000000u
#define PST_COSTED_EDGES      4000000u
#define PST_COSTED_TIMES      65536u
#define PST_COSTED_CONFIGS    65536u
#define PST_COSTED_SAMPLES    1000000000u
#define PST_COSTED_US         1e12                /* eleven days */
#define PST_COSTED_BYTES      72057594037927936.0 /* 2^56 */

/*
 * order[k]: the k-th node in topological order, the first in `nodes` where there is a choice.
 * graph.cycle names the nodes of one cycle.
 */
pst_status pst_costed_sort(const struct pst_costed *draft, const char *path, uint32_t *order,
                           struct pst_error *err);

/* Copies edges with new ends, sorts them by (from, to) and adds up parallel ones; stable. */
pst_status pst_costed_merge_edges(const struct pst_costed *draft, const uint32_t *position,
                                  struct pst_costed *graph, struct pst_error *err);

/* graph->view, saved_bytes, edge_bytes from the rest. */
void pst_costed_make_view(struct pst_costed *graph);

uint64_t pst_costed_digest(const struct pst_costed *graph);

/* Microseconds that, times 1000, give exactly ret_ns, which is `ns` or a neighbour: what a file
   holds is read back as the same number. */
double pst_costed_us(double ns, double *ret_ns);

/* graph.empty and graph.duplicate, in the words of the reader and of the builder. */
void pst_costed_fail_empty(struct pst_fields *fields);
void pst_costed_fail_twice(struct pst_fields *fields, uint32_t node, const char *name,
                           uint32_t other);

/* pst_costed_create with places for messages: "graph" before "nodes[3].name". */
pst_status pst_costed_build(const struct pst_costed *draft, const char *path, const char *where,
                            struct pst_costed **ret_graph, struct pst_error *err);

#endif
