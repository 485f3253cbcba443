/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time: lines of many ranks, or stacked areas of one rank; the peak with its value.
 */
#include <stdio.h>

#include "figures/figure_impl.h"

struct panel {
    struct pst_figure_page *page;
    const struct pst_figure_scale *scale;
    double top, bottom;
};

static double y_of(const struct panel *panel, double bytes)
{
    return panel->bottom - (panel->bottom - panel->top) * bytes / panel->scale->most;
}

static double x_of(const struct panel *panel, uint32_t column)
{
    double x = panel->page->left + column * pst_figure_column_width(panel->page->timeline);

    return x > panel->page->right ? panel->page->right : x;
}

double pst_figure_label_y(double point, double capacity, double top, double font)
{
    double above = point - 0.8 * font, least = top + 0.05 * font, beyond = capacity - 0.7 * font;

    if (above - capacity < 0.6 * font && capacity - above < 0.6 * font && beyond >= least) {
        return beyond; /* not across the dashed line */
    }
    return above < least ? point + 0.9 * font : above;
}

static void mark_peak(const struct panel *panel, uint32_t rank, uint32_t column, bool with_rank)
{
    const struct pst_figure_page *page = panel->page;
    uint64_t peak = page->timeline->ranks[rank].peak_bytes;
    double x = x_of(panel, column), y = y_of(panel, (double)peak), font = page->options.font_pt;
    char bytes[32], name[64], text[128];

    pst_figure_format_memory(page->timeline, peak, bytes, sizeof bytes);
    if (with_rank) {
        pst_figure_short_name(page->timeline, rank, name, sizeof name);
        snprintf(text, sizeof text, "%s, %s", bytes, name);
    } else {
        snprintf(text, sizeof text, "%s", bytes);
    }
    pst_figure_font(page->cr, 0.88 * font, false);
    pst_figure_source(page->cr, (struct pst_color){0.1, 0.1, 0.1});
    cairo_new_path(page->cr);
    cairo_arc(page->cr, x, y, 1.7, 0, 6.283185307179586);
    cairo_fill(page->cr);
    y = pst_figure_label_y(
        y, panel->scale->capacity_fits ? y_of(panel, (double)panel->scale->capacity) : -1e9,
        panel->top, font);
    if (x + 4 + pst_figure_text_width(page->cr, text) > page->right) {
        pst_figure_text(page->cr, x - 2, y, ALIGN_RIGHT, text);
    } else {
        pst_figure_text(page->cr, x + 2, y, ALIGN_LEFT, text);
    }
}

static uint32_t peak_column(const struct pst_figure_column *columns, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t c = 1; c < n; c++) {
        best = columns[c].bytes > columns[best].bytes ? c : best;
    }
    return best;
}

/* Wide columns are joined by slopes: their edges are nobody's events. */
static void draw_line(const struct panel *panel, const struct pst_figure_column *columns,
                      uint32_t n)
{
    bool steps = pst_figure_column_width(panel->page->timeline) < 1;
    cairo_t *cr = panel->page->cr;
    bool begun = false;

    for (uint32_t c = 0; c < n; c++) {
        if (columns[c].point == PST_NONE) {
            continue;
        }
        if (!begun) {
            cairo_move_to(cr, x_of(panel, c), y_of(panel, (double)columns[c].bytes));
            begun = true;
        } else if (columns[c].bytes != columns[c - 1].bytes) {
            if (steps || (c > 1 && columns[c - 1].bytes == columns[c - 2].bytes)) {
                cairo_line_to(cr, x_of(panel, c - !steps),
                              y_of(panel, (double)columns[c - 1].bytes));
            }
            cairo_line_to(cr, x_of(panel, c), y_of(panel, (double)columns[c].bytes));
        }
    }
    if (begun) {
        cairo_line_to(cr, panel->page->right, y_of(panel, (double)columns[n - 1].bytes));
        cairo_stroke(cr);
    }
}

void pst_figure_draw_lines(struct pst_figure_page *page, const struct pst_figure_scale *scale)
{
    const struct pst_timeline *timeline = page->timeline;
    struct panel panel = {page, scale, page->memory_top, page->memory_bottom};
    uint32_t top_rank = 0, top_column = 0;

    pst_figure_draw_grid(page, panel.top, panel.bottom);
    pst_figure_draw_memory_axis(page, scale, panel.top, panel.bottom);
    for (uint32_t back = 0; back < timeline->n_ranks; back++) {
        uint32_t r = timeline->n_ranks - 1 - back, n; /* the fullest is often the first: on top */
        struct pst_figure_column *columns = pst_figure_columns(page, r, &n);
        pst_figure_source(page->cr, pst_figure_rank_color(r, timeline->n_ranks));
        cairo_set_line_width(page->cr, timeline->n_ranks > 16 ? 0.5 : 1.1);
        cairo_set_line_join(page->cr, CAIRO_LINE_JOIN_BEVEL);
        draw_line(&panel, columns, n);
        if (back == 0 || timeline->ranks[r].peak_bytes >= timeline->ranks[top_rank].peak_bytes) {
            top_rank = r;
            top_column = peak_column(columns, n);
        }
    }
    mark_peak(&panel, top_rank, top_column, true);
}

/* The area of one kind on top of those below it. */
static void draw_kind(const struct panel *panel, const struct pst_memory_point *points,
                      const struct pst_figure_column *columns, uint32_t n, uint32_t kind,
                      double *floors)
{
    cairo_t *cr = panel->page->cr;

    cairo_move_to(cr, x_of(panel, 0), y_of(panel, floors[0]));
    for (uint32_t c = 1; c < n; c++) {
        if (floors[c] != floors[c - 1]) {
            cairo_line_to(cr, x_of(panel, c), y_of(panel, floors[c - 1]));
            cairo_line_to(cr, x_of(panel, c), y_of(panel, floors[c]));
        }
    }
    cairo_line_to(cr, panel->page->right, y_of(panel, floors[n - 1]));
    for (uint32_t c = 0; c < n; c++) {
        floors[c] +=
            columns[c].point == PST_NONE ? 0 : (double)points[columns[c].point].bytes[kind];
    }
    cairo_line_to(cr, panel->page->right, y_of(panel, floors[n - 1]));
    for (uint32_t c = n - 1; c > 0; c--) {
        if (floors[c] != floors[c - 1]) {
            cairo_line_to(cr, x_of(panel, c), y_of(panel, floors[c]));
            cairo_line_to(cr, x_of(panel, c), y_of(panel, floors[c - 1]));
        }
    }
    cairo_line_to(cr, x_of(panel, 0), y_of(panel, floors[0]));
    cairo_close_path(cr);
    pst_figure_source(cr, pst_figure_memory_color(kind));
    cairo_fill(cr);
}

static void draw_strip(const struct panel *panel, uint32_t rank)
{
    struct pst_figure_page *page = panel->page;
    const struct pst_timeline_rank *row = &page->timeline->ranks[rank];
    uint32_t n;
    struct pst_figure_column *columns = pst_figure_columns(page, rank, &n);
    double *floors = pst_arena_array(&page->arena, n, sizeof *floors);
    char text[64];

    pst_figure_draw_grid(page, panel->top, panel->bottom);
    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        if (pst_figure_memory_occurs(page->timeline, k)) {
            draw_kind(panel, row->points, columns, n, k, floors);
        }
    }
    pst_figure_draw_memory_axis(page, panel->scale, panel->top, panel->bottom);
    if (row->n_points > 0) {
        mark_peak(panel, rank, peak_column(columns, n), false);
    }
    pst_figure_short_name(page->timeline, rank, text, sizeof text);
    pst_figure_source(page->cr, (struct pst_color){0.15, 0.15, 0.15});
    pst_figure_text(page->cr, page->right + 4, (panel->top + panel->bottom) / 2, ALIGN_LEFT, text);
}

void pst_figure_draw_strips(struct pst_figure_page *page, const struct pst_figure_scale *scale)
{
    uint32_t n = page->timeline->n_ranks;
    double high = (page->memory_bottom - page->memory_top) / n;

    for (uint32_t r = 0; r < n; r++) {
        double top = page->memory_top + r * high;
        struct panel panel = {page, scale, top, top + high - (r + 1 < n ? 6 : 0)};

        draw_strip(&panel, r);
    }
}
