/* SPDX-License-Identifier: Apache-2.0
 *
 * Costed graphs (graph/costed.h) read from penstock-graph files (docs/formats.md), built by hand
 * and written.
 */
#ifndef PST_MODELS_COSTED_FILE_H
#define PST_MODELS_COSTED_FILE_H

#include "config/codec.h"
#include "graph/costed.h"

/*
 * Reads a file. Errors (PST_ERR_CONFIG): those of pst_json_load (config/json_fields.h);
 * input.syntax: another format or version; input.limit; config.key, config.value naming the place
 * ("nodes[3].forward_us"); graph.empty; graph.edge (unknown end, self-loop); graph.duplicate (a
 * name stands twice); graph.cycle (names the nodes of one).
 *
 * Optional: name ("graph"), batch (1), edges; of a node all but its name (op: "op";
 * times and bytes: 0; backward_workspace_bytes: workspace_bytes; of a config param_bytes: those of
 * the node); of an edge bytes (output_bytes of its start); inside another object format and
 * version.
 */
pst_status pst_costed_read(const char *path, struct pst_costed **ret_graph, struct pst_error *err);
/* Both directions: the top, or an object inside another file, which it names in messages. */
void pst_costed_code(struct pst_codec *c, const char *key, struct pst_costed **graph);

/* Building one by hand: arrays of *draft (name, notes, batch, nodes, edges; any order) are copied,
   sorted, checked as above. */
pst_status pst_costed_create(const struct pst_costed *draft, struct pst_costed **ret_graph,
                             struct pst_error *err);

/* As a penstock-graph file: reading it gives the same digest. free() it. */
char *pst_costed_write(const struct pst_costed *graph, size_t *ret_length);

/* [n_nodes] Layers by name, ascending from 0: nodes side by side whose names are the same up to and
   with their first number are of one. */
void pst_costed_layers(const struct pst_costed *graph, uint32_t *ret_layers);

#endif
