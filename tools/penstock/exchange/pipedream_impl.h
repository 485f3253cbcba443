/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reader of PipeDream's profiles: lines (pipedream_lines.c), then the graph
 * (pipedream_graph.c).
 */
#ifndef PST_EXCHANGE_PIPEDREAM_IMPL_H
#define PST_EXCHANGE_PIPEDREAM_IMPL_H

#include "graph/costed_impl.h"
#include "exchange/pipedream_profile.h"

/* The file as it stands. */
struct pst_pipedream_file {
    const char *path;
    struct pst_arena arena; /* of names */
    struct pst_costed_node *nodes;
    uint32_t *node_lines;
    size_t n_nodes, node_room, node_line_room;
    struct pst_pipedream_edge {
        const char *from, *to;
        uint32_t line;
    } * edges;
    size_t n_edges, edge_room;
    uint32_t n_staged;
};

/* Finish it in any case. */
pst_status pst_pipedream_read_lines(const char *path, struct pst_pipedream_file *ret_file,
                                    struct pst_error *err);
void pst_pipedream_file_finish(struct pst_pipedream_file *file);

#endif
