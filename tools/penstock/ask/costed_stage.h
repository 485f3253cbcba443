/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of nodes of a costed graph as memory optimizers see a stage.
 */
#ifndef PST_ASK_COSTED_STAGE_H
#define PST_ASK_COSTED_STAGE_H

#include <penstock/memopt.h>

#include "ask/problem_file.h"

/* Room for one view at a time. */
struct pst_costed_stage {
    const struct pst_problem *problem;
    struct pst_stage_node *nodes; /* [n_nodes] */
    uint32_t *producers;          /* [n_edges] */
    uint32_t *position;           /* [n_nodes] in the stage */
    uint32_t *layers;             /* [n_nodes] by the beginnings of names */
    const char **kinds;           /* [n_nodes] op; where the file names none, from the name */
    uint32_t *stamps;             /* [n_nodes] the view that has the node, or reads it */
    double *read;                 /* [n_nodes] bytes of a sample that the view reads of it */
    uint32_t stamp;
};

/* Keeps `problem`; allocates from `arena`. */
void pst_costed_stage_init(struct pst_costed_stage *stage, const struct pst_problem *problem,
                           struct pst_arena *arena);

/*
 * The stage with these nodes (ascending) for one micro-batch of so many samples on one device, one
 * micro-batch in flight, no limit: the caller sets stage, n_stages, in_flight, capacity_bytes.
 * Where it has a node without predecessors, its input has the problem's input_bytes as well (for
 * micro_batches[0] samples; in proportion).
 * Consecutive nodes whose names are the same up to their first number ("h.3.attn", "h.3.mlp") are a
 * layer. A node's kind is its op; where the file states none, the last part of its name without
 * the number at its end: "scores" of "h.3.scores_1".
 * Bytes and nanoseconds are rounded up. Valid until the next one is built; its nodes, which are
 * returned, may be given actions.
 */
struct pst_stage_node *pst_costed_stage_build(struct pst_costed_stage *stage, const uint32_t *nodes,
                                              uint32_t n_nodes, uint32_t samples, uint32_t versions,
                                              struct pst_stage_view *ret_view);

#endif
