/* SPDX-License-Identifier: Apache-2.0
 *
 * The bands of the ranks with their names on the left and how busy each was on the right.
 */
#include <stdio.h>
#include <string.h>

#include "figures/figure_impl.h"
#include "sim/usage.h"

static void draw_labels(struct pst_figure_page *page, uint32_t rank, double y)
{
    const struct pst_timeline *timeline = page->timeline;
    uint64_t length = timeline->end_ns - timeline->begin_ns;
    char text[sizeof timeline->ranks[0].name];

    if (timeline->ranks[rank].name[0] == '\0') {
        snprintf(text, sizeof text, "rank %u", rank);
    } else {
        memcpy(text, timeline->ranks[rank].name, sizeof text);
        text[sizeof text - 1] = '\0';
    }
    pst_figure_shorten(page->cr, text, sizeof text, page->left - 14);
    pst_figure_source(page->cr, (struct pst_color){0.15, 0.15, 0.15});
    pst_figure_text(page->cr, page->left - 6, y, ALIGN_RIGHT, text);
    if (length > 0) {
        snprintf(text, sizeof text, "%.0f %%",
                 100.0 * (double)pst_timeline_usage(timeline, rank).busy_ns / (double)length);
        pst_figure_source(page->cr, (struct pst_color){0.55, 0.55, 0.55});
        pst_figure_text(page->cr, page->options.width_pt - 8, y, ALIGN_RIGHT, text);
    }
}

void pst_figure_draw_rows(struct pst_figure_page *page)
{
    double font = page->options.font_pt,
           size = page->row_h * 0.95 < font ? page->row_h * 0.95 : font;
    uint32_t every = 1;

    pst_figure_source(page->cr, (struct pst_color){0.955, 0.955, 0.955});
    for (uint32_t r = 0; r < page->timeline->n_ranks; r++) {
        cairo_rectangle(page->cr, page->left, page->rows_top + r * page->pitch,
                        page->right - page->left, page->row_h);
    }
    cairo_fill(page->cr);
    pst_figure_draw_grid(page, page->rows_top - 2, page->rows_bottom);
    size = size < 0.7 * font ? 0.7 * font : size;
    while (every * page->pitch < 1.05 * size) {
        every *= 2;
    }
    pst_figure_font(page->cr, size, false);
    for (uint32_t r = 0; r < page->timeline->n_ranks; r += every) {
        draw_labels(page, r, page->rows_top + r * page->pitch + page->row_h / 2);
    }
}
