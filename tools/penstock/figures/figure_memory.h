/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two forms of the memory panel share. Private to report/figure_memory*.c.
 */
#ifndef PST_FIGURES_FIGURE_MEMORY_H
#define PST_FIGURES_FIGURE_MEMORY_H

#include "figures/figure_impl.h"

struct pst_figure_scale {
    double most;           /* bytes at the top */
    double per_unit, tick; /* bytes of the unit; distance of ticks in it */
    const char *unit;      /* "GiB", or "" for a unit of the user's own */
    uint64_t capacity;     /* the smallest; UINT64_MAX: none */
    bool capacity_fits;    /* is it below the top? */
};

void pst_figure_draw_memory_axis(const struct pst_figure_page *page,
                                 const struct pst_figure_scale *scale, double top, double bottom);
bool pst_figure_memory_occurs(const struct pst_timeline *timeline, uint32_t kind);

/* figure_memory_curves.c */
/* Where the value of a peak at y = `point` stands: above it, but not across the capacity's line. */
double pst_figure_label_y(double point, double capacity, double top, double font);
void pst_figure_draw_strips(struct pst_figure_page *page, const struct pst_figure_scale *scale);
void pst_figure_draw_lines(struct pst_figure_page *page, const struct pst_figure_scale *scale);

#endif
