/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines of several plans below each other, on one time axis and one scale of memory: a figure,
 * or the parts of a page.
 */
#ifndef PST_FIGURES_STACK_H
#define PST_FIGURES_STACK_H

#include "figures/figure.h"
#include "figures/pen.h"

#define PST_STACK_PASSES 20000u /* of a plan with more, shares of time are shown */

struct pst_stack_plan {
    const char *name;
    const struct pst_timeline *timeline;
};

/* Writes the figure, whole or not at all. Errors as of pst_figure_write; config.value: so many
   plans that no page holds them. */
pst_status pst_stack_write(const struct pst_stack_plan *plans, uint32_t n, const char *path,
                           enum pst_figure_format format, const struct pst_figure_options *options,
                           struct pst_error *err);

/* The figure in parts: a head with one legend for all plans, and a panel for each plan with its own
   time axis. The pen lays everything out, then draws, each part from y = 0 down. */
struct pst_stack;
struct pst_stack *pst_stack_open(const struct pst_stack_plan *plans, uint32_t n,
                                 const struct pst_figure_options *options, struct pst_pen *pen);
void pst_stack_close(struct pst_stack *stack);
double pst_stack_width(const struct pst_stack *stack);
double pst_stack_head_height(const struct pst_stack *stack);
void pst_stack_draw_head(struct pst_stack *stack, struct pst_pen *pen);
double pst_stack_panel_height(const struct pst_stack *stack, uint32_t plan);
void pst_stack_draw_panel(struct pst_stack *stack, struct pst_pen *pen, uint32_t plan);

/* Where the rows of a panel are, for who wants to know what is under a pointer. */
struct pst_stack_place {
    double left, right, rows_top, row_height, pitch, bottom;
    uint64_t from_ns, to_ns;
    double ns_per_unit;
    const char *unit;
    bool dense;
};
struct pst_stack_place pst_stack_place(const struct pst_stack *stack, uint32_t plan);
/* Returns the colour of a span's box. */
struct pst_color pst_stack_color(const struct pst_stack *stack, uint32_t plan,
                                 const struct pst_span *span);

#endif
