/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as points: throughput against the memory of the fullest device, and the front of those that
 * no other plan beats in both. A series has a colour and a shape of its own.
 */
#ifndef PST_FIGURES_SCATTER_H
#define PST_FIGURES_SCATTER_H

#include "figures/figure.h"
#include "figures/pen.h"

struct pst_scatter_point {
    const char *series;
    const char *label; /* beside the point, where there is room */
    const char *note;  /* of a page, under the pointer; or NULL */
    double rate;       /* samples per second */
    uint64_t bytes;
};

struct pst_scatter {
    const struct pst_scatter_point *points;
    uint32_t n;
    uint64_t capacity_bytes; /* a line where it is near; UINT64_MAX: none */
    bool label_all;          /* rather than the front alone */
};

/* Returns true if no point is at least as good in speed and memory, and better in one. */
bool pst_scatter_on_front(const struct pst_scatter *scatter, uint32_t point);

/* Errors as of pst_figure_write. Sizes that are not given: 480 by 300, or as high as a narrow one
   asks for. */
pst_status pst_scatter_write(const struct pst_scatter *scatter, const char *path,
                             enum pst_figure_format format,
                             const struct pst_figure_options *options, struct pst_error *err);
void pst_scatter_draw(const struct pst_scatter *scatter, double width, double height,
                      struct pst_pen *pen);
/* Draws onto a canvas; the first argument is a struct pst_scatter_view. */
struct pst_scatter_view {
    const struct pst_scatter *scatter;
    double width, height;
};
void pst_scatter_draw_view(void *view, struct pst_pen *pen);

#endif
