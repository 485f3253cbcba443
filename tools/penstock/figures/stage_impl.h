/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything stands on a figure of stages. Lengths are points. Private to stage_*.c.
 */
#ifndef PST_FIGURES_STAGE_IMPL_H
#define PST_FIGURES_STAGE_IMPL_H

#include "figures/figure_impl.h"
#include "figures/stage_figure.h"

#define STAGE_BOX_W    132.0
#define STAGE_BOX_H    60.0
#define STAGE_COLUMN_W 172.0 /* a box and the gap after it */
#define STAGE_LANE     5.0   /* between lines that run side by side */

/* A place in a column: a stage, or where an edge passes. */
struct pst_stage_slot {
    uint32_t stage; /* PST_NONE: an edge */
    uint32_t layer;
    double y;      /* of its middle, in its line */
    double height; /* that it needs */
};

/* From one column to the next. */
struct pst_stage_link {
    uint32_t from, to; /* slots */
};

struct pst_stage_layout {
    uint32_t n_layers, n_slots, n_links;
    struct pst_stage_slot *slots; /* the first are the stages; layer by layer in `order` */
    struct pst_stage_link *links; /* by layer */
    uint32_t *order, *first;      /* slots of a layer: order[first[l]] .. order[first[l + 1]] */
    uint32_t *first_link;         /* [n_layers + 1] by the layer of `from` */
    uint32_t columns, n_lines;    /* layers of a line; lines */
    uint32_t n_turns;             /* most links from the end of a line to the next */
    double *line_top;             /* [n_lines + 1] */
    double left, top, width, height;
};

pst_status pst_stage_lay_out(const struct pst_stage_graph *graph, struct pst_arena *arena,
                             struct pst_stage_layout *ret_layout, struct pst_error *err);
double pst_stage_x(const struct pst_stage_layout *layout,
                   uint32_t layer); /* left edge of a column */
double pst_stage_y(const struct pst_stage_layout *layout, uint32_t slot); /* middle, on the page */

/* stage_edges.c */
void pst_stage_draw_edges(const struct pst_stage_layout *layout, struct pst_pen *pen);

#endif
