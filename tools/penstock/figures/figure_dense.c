/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of passes too narrow to be seen one by one. Each narrow column of the page is a stacked bar:
 * which part of that time went to which kind of pass; what is left open is idle. So colours stay
 * those of the legend, where boxes below the resolution of a screen would blend to mud and moire.
 */
#include <math.h>

#include "figures/figure_impl.h"

struct dense {
    struct pst_figure_page *page;
    uint32_t n_columns, n_colors;
    double width;  /* of a column */
    double *share; /* [color][column], 0 to 1 */
    double *floors;
};

static void add_span(struct dense *dense, const struct pst_span *span)
{
    const struct pst_figure_page *page = dense->page;
    double x0 = (pst_figure_x(page, span->start_ns) - page->left) / dense->width;
    double x1 = (pst_figure_x(page, span->end_ns) - page->left) / dense->width;
    double *share = dense->share + (size_t)pst_figure_color_index(page, span) * dense->n_columns;

    for (uint32_t c = (uint32_t)x0; c < dense->n_columns && c < x1; c++) {
        double from = x0 > c ? x0 : c, to = x1 < c + 1 ? x1 : c + 1;

        share[c] += to - from;
    }
}

/* A band from the floors to the floors with the shares on top, where there is any. */
static void draw_band(struct dense *dense, uint32_t color, double top)
{
    const struct pst_figure_page *page = dense->page;
    const double *share = dense->share + (size_t)color * dense->n_columns;
    uint32_t c = 0;

    while (c < dense->n_columns) {
        uint32_t first, last;

        while (c < dense->n_columns && share[c] <= 0) {
            c++;
        }
        if (c == dense->n_columns) {
            break;
        }
        for (first = c; c < dense->n_columns && share[c] > 0; c++) {
            (c == first ? pst_pen_move : pst_pen_line)(page->pen, page->left + c * dense->width,
                                                       top + page->row_h * dense->floors[c]);
            pst_pen_line(page->pen, page->left + (c + 1) * dense->width,
                         top + page->row_h * dense->floors[c]);
            dense->floors[c] += share[c];
        }
        for (last = c; last > first; last--) {
            pst_pen_line(page->pen, page->left + last * dense->width,
                         top + page->row_h * dense->floors[last - 1]);
            pst_pen_line(page->pen, page->left + (last - 1) * dense->width,
                         top + page->row_h * dense->floors[last - 1]);
        }
        pst_pen_close(page->pen);
    }
    pst_pen_fill(page->pen,
                 pst_figure_color(color / page->n_chunks, color % page->n_chunks, page->n_chunks));
}

static void draw_rank(struct dense *dense, uint32_t r)
{
    const struct pst_figure_page *page = dense->page;
    const struct pst_timeline_rank *rank = &page->timeline->ranks[r];

    for (size_t i = 0; i < (size_t)dense->n_colors * dense->n_columns; i++) {
        dense->share[i] = 0;
    }
    for (uint32_t c = 0; c < dense->n_columns; c++) {
        dense->floors[c] = 0;
    }
    for (uint32_t i = rank->first; i < rank->first + rank->n_spans; i++) {
        const struct pst_span *span = &page->timeline->spans[i];

        if (span->lane == PST_LANE_COMPUTE || span->lane == PST_LANE_OPTIMIZER) {
            add_span(dense, span);
        }
    }
    for (uint32_t color = 0; color < dense->n_colors; color++) {
        draw_band(dense, color, page->rows_top + r * page->pitch);
    }
}

/* Columns as wide as three passes, so that a steady state looks steady. */
void pst_figure_draw_dense(struct pst_figure_page *page)
{
    double plot = page->right - page->left;
    struct dense dense = {.page = page, .n_colors = FIGURE_KINDS * page->n_chunks};

    dense.n_columns = (uint32_t)(plot / fmax(page->dense_column, 3 * page->typical_pass)) + 1;
    dense.width = plot / dense.n_columns;
    dense.share = pst_arena_array(&page->arena, (size_t)dense.n_colors * dense.n_columns,
                                  sizeof *dense.share);
    dense.floors = pst_arena_array(&page->arena, dense.n_columns, sizeof *dense.floors);
    for (uint32_t r = 0; r < page->timeline->n_ranks; r++) {
        draw_rank(&dense, r);
    }
}
