/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of the general operators of a graph (graph.h): the functions of a map, the kind of a
 * reduction, shapes and offsets. Their inputs are tensors: separate operators make a tensor of a
 * parameter or a constant.
 */
#ifndef PST_GRAPH_GENERAL_H
#define PST_GRAPH_GENERAL_H

#include <penstock/ops.h>

#define PST_MAPS        (PST_MAP_SELECT + 1)
#define PST_MAP_READS_Y 8u

struct pst_map_row {
    const char *name;
    uint32_t n_in;
    uint32_t slope_reads[3]; /* d y / d x[i]: bits of the inputs it reads, PST_MAP_READS_Y */
    double flops[2];         /* an element: the map, its slopes; roughly */
};

/* NULL: there is no such map. */
const struct pst_map_row *pst_map_row(uint32_t map);

#define PST_REDUCES   (PST_REDUCE_MAX + 1)
#define PST_FORM_RANK PST_MAX_RANK

/* A shape per sample, and what goes there. What does not apply is 0. */
struct pst_form {
    uint32_t rank;
    uint64_t dims[PST_FORM_RANK];
    /* strided: element i of axis a is that of axis from[a] of x0 at start[a] + i step[a], `fill`
       where that is none of its places; each axis of x0 comes once */
    uint32_t from[PST_FORM_RANK];
    int64_t start[PST_FORM_RANK], step[PST_FORM_RANK];
    float fill;
    uint32_t dtype;   /* constant: PST_F32 or PST_I32, */
    const void *data; /* as many as dims say; pst_graph_add copies them */
};

#endif
