/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of passes too narrow to be seen one by one. Each narrow column of the page is a stacked bar:
 * which part of that time went to which kind of pass; what is left open is idle. So colours stay
 * those of the legend, where boxes below the resolution of a screen would blend to mud and moire.
 */
#include "figures/figure_impl.h"

struct dense {
    struct pst_figure_page *page;
    uint32_t n_columns, n_colors;
    double width;  /* of a column */
    double *share; /* [color][column], 0 to 1 */
    double *floors, *sums;
    bool *plain;    /* [column]: within a long stretch of one kind, or of none */
    uint32_t reach; /* shares are averages over 2 x reach + 1 columns */
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
        cairo_new_sub_path(page->cr);
        for (first = c; c < dense->n_columns && share[c] > 0; c++) {
            cairo_line_to(page->cr, page->left + c * dense->width,
                          top + page->row_h * dense->floors[c]);
            cairo_line_to(page->cr, page->left + (c + 1) * dense->width,
                          top + page->row_h * dense->floors[c]);
            dense->floors[c] += share[c];
        }
        for (last = c; last > first; last--) {
            cairo_line_to(page->cr, page->left + last * dense->width,
                          top + page->row_h * dense->floors[last - 1]);
            cairo_line_to(page->cr, page->left + (last - 1) * dense->width,
                          top + page->row_h * dense->floors[last - 1]);
        }
        cairo_close_path(page->cr);
    }
    pst_figure_source(
        page->cr, pst_figure_color(color / page->n_chunks, color % page->n_chunks, page->n_chunks));
    cairo_fill(page->cr);
}

/* The colour that fills a column, n_colors if it is idle, PST_NONE if it is a mixture. */
static uint32_t filling(const struct dense *dense, uint32_t column)
{
    double total = 0;

    for (uint32_t color = 0; color < dense->n_colors; color++) {
        double share = dense->share[(size_t)color * dense->n_columns + column];

        if (share > 0.999) {
            return color;
        }
        total += share;
    }
    return total < 0.001 ? dense->n_colors : PST_NONE;
}

/* Where nothing alternates nothing is averaged, so that its ends stay sharp. */
static void find_plain(struct dense *dense)
{
    uint32_t n = dense->n_columns, least = 2 * dense->reach + 2, next;

    for (uint32_t c = 0; c < n; c = next) {
        uint32_t color = filling(dense, c);

        for (next = c + 1; next < n && filling(dense, next) == color; next++) {
        }
        for (uint32_t i = c; i < next; i++) {
            dense->plain[i] = color != PST_NONE && next - c >= least;
        }
    }
}

/* A moving average, so that a steady state looks steady. */
static void smooth(struct dense *dense, double *share)
{
    uint32_t n = dense->n_columns, reach = dense->reach;

    dense->sums[0] = 0;
    for (uint32_t c = 0; c < n; c++) {
        dense->sums[c + 1] = dense->sums[c] + share[c];
    }
    for (uint32_t c = 0; c < n; c++) {
        uint32_t from = c, to = c + 1;

        while (from > 0 && c - from < reach && !dense->plain[from - 1]) {
            from--;
        }
        while (to < n && to - c <= reach && !dense->plain[to]) {
            to++;
        }
        if (!dense->plain[c]) {
            share[c] = (dense->sums[to] - dense->sums[from]) / (to - from);
        }
        share[c] = share[c] < 1e-6 ? 0 : share[c];
    }
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
    find_plain(dense);
    for (uint32_t color = 0; color < dense->n_colors; color++) {
        smooth(dense, dense->share + (size_t)color * dense->n_columns);
        draw_band(dense, color, page->rows_top + r * page->pitch);
    }
}

/* Averages are over about six passes. */
void pst_figure_draw_dense(struct pst_figure_page *page)
{
    double plot = page->right - page->left;
    struct dense dense = {.page = page, .n_colors = FIGURE_KINDS * page->n_chunks};

    dense.n_columns = (uint32_t)plot + 1;
    dense.width = plot / dense.n_columns;
    dense.reach = (uint32_t)(3 * page->typical_pass / dense.width);
    dense.share = pst_arena_array(&page->arena, (size_t)dense.n_colors * dense.n_columns,
                                  sizeof *dense.share);
    dense.floors = pst_arena_array(&page->arena, dense.n_columns, sizeof *dense.floors);
    dense.sums = pst_arena_array(&page->arena, (size_t)dense.n_columns + 1, sizeof *dense.sums);
    dense.plain = pst_arena_array(&page->arena, dense.n_columns, sizeof *dense.plain);
    for (uint32_t r = 0; r < page->timeline->n_ranks; r++) {
        draw_rank(&dense, r);
    }
}
