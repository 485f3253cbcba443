/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/stage_figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figures/stage_impl.h"
#include "reports/partition_words.h"

#define FONT    7.5
#define PADDING 6.0
#define INNER   (STAGE_BOX_W - 2 * PADDING)
#define BAR_H   4.0
#define ROUND   3.0

static const struct pst_color ink = {0.10, 0.11, 0.13}, faint = {0.40, 0.43, 0.48};
static const struct pst_color pale = {0.97, 0.97, 0.98}, full = {0.96, 0.66, 0.27};
static const struct pst_color frame = {0.55, 0.58, 0.63}, track = {0.86, 0.87, 0.89};
static const struct pst_color used = {0.25, 0.33, 0.46}, over = {0.78, 0.15, 0.12};

struct page {
    const struct pst_stage_graph *graph;
    struct pst_stage_layout layout;
    double slowest_ns;  /* per sample */
    double limit_bytes; /* of the bars: the limit, or the most where there is none */
};

static double per_sample_ns(const struct pst_stage_box *box)
{
    return box->microbatch_size > 0 ? box->time_ns / box->microbatch_size : box->time_ns;
}

static uint64_t whole(double value)
{
    return value >= 1.8e19 ? UINT64_MAX : (uint64_t)(value + 0.5);
}

/* In units of the file, as the timeline's figure writes them. */
static void time_text(double ns, char *text, size_t room)
{
    static const struct pst_timeline plain;

    pst_figure_format_time(&plain, whole(ns), text, room);
}

static void memory_text(double bytes, char *text, size_t room)
{
    static const struct pst_timeline plain;

    pst_figure_format_memory(&plain, whole(bytes), text, room);
}

static void rounded(cairo_t *cr, double x, double y, double w, double h, double r)
{
    cairo_new_sub_path(cr);
    cairo_arc(cr, x + w - r, y + r, r, -M_PI / 2, 0);
    cairo_arc(cr, x + w - r, y + h - r, r, 0, M_PI / 2);
    cairo_arc(cr, x + r, y + h - r, r, M_PI / 2, M_PI);
    cairo_arc(cr, x + r, y + r, r, M_PI, 3 * M_PI / 2);
    cairo_close_path(cr);
}

static struct pst_color shade(double part)
{
    return (struct pst_color){pale.r + (full.r - pale.r) * part, pale.g + (full.g - pale.g) * part,
                              pale.b + (full.b - pale.b) * part};
}

/* A text on the left and one on the right, which has the right of way. */
static void draw_pair(cairo_t *cr, double x, double y, const char *left, const char *right)
{
    char text[256];
    double right_w = right[0] == '\0' ? 0 : pst_figure_text_width(cr, right) + 5;

    snprintf(text, sizeof text, "%s", left);
    pst_figure_shorten(cr, text, sizeof text, INNER - right_w);
    pst_figure_text(cr, x, y, ALIGN_LEFT, text);
    pst_figure_text(cr, x + INNER, y, ALIGN_RIGHT, right);
}

static void draw_memory_bar(const struct page *page, cairo_t *cr, const struct pst_stage_box *box,
                            double x, double y)
{
    double part = page->limit_bytes > 0 ? box->memory_bytes / page->limit_bytes : 0;
    bool too_much = box->memory_bytes > page->graph->limit_bytes;

    pst_figure_source(cr, track);
    cairo_rectangle(cr, x, y, INNER, BAR_H);
    cairo_fill(cr);
    pst_figure_source(cr, too_much ? over : used);
    cairo_rectangle(cr, x, y, INNER * fmin(part, 1), BAR_H);
    cairo_fill(cr);
}

/* "conv1 – fc"; where that is too wide, beginnings of both. */
static void draw_label(cairo_t *cr, const struct pst_stage_box *box, double x, double y,
                       double width)
{
    static const char between[] = " \xE2\x80\x93 ";
    char first[256], last[256], text[sizeof first + sizeof last + sizeof between];
    double gap, first_w, last_w;

    snprintf(first, sizeof first, "%s", box->first == NULL ? "" : box->first);
    snprintf(last, sizeof last, "%s", box->last == NULL ? "" : box->last);
    if (box->n_nodes < 2 || last[0] == '\0') {
        pst_figure_shorten(cr, first, sizeof first, width);
        pst_figure_text(cr, x, y, ALIGN_LEFT, first);
        return;
    }
    gap = pst_figure_text_width(cr, between);
    pst_figure_shorten(cr, first, sizeof first, width); /* makes them proper UTF-8 as well */
    pst_figure_shorten(cr, last, sizeof last, width);
    first_w = pst_figure_text_width(cr, first);
    last_w = pst_figure_text_width(cr, last);
    if (first_w + gap + last_w > width) {
        double half = (width - gap) / 2;

        pst_figure_shorten(cr, first, sizeof first, last_w < half ? width - gap - last_w : half);
        first_w = pst_figure_text_width(cr, first);
        pst_figure_shorten(cr, last, sizeof last, width - gap - first_w);
    }
    snprintf(text, sizeof text, "%s%s%s", first, between, last);
    pst_figure_text(cr, x, y, ALIGN_LEFT, text);
}

static void draw_words(cairo_t *cr, const struct pst_stage_box *box, uint32_t stage, double x,
                       double y)
{
    char left[256], devices[224], right[64], number[32];
    double width;

    snprintf(number, sizeof number, "%u", stage);
    pst_figure_font(cr, FONT, true);
    pst_figure_source(cr, ink);
    pst_figure_text(cr, x, y + 9, ALIGN_LEFT, number);
    width = pst_figure_text_width(cr, number) + 5;
    pst_figure_font(cr, FONT, false);
    draw_label(cr, box, x + width, y + 9, INNER - width);

    snprintf(left, sizeof left, "device%s %s", box->n_devices > 1 ? "s" : "",
             pst_report_ranks(box->devices, box->n_devices, ", ", devices, sizeof devices));
    snprintf(right, sizeof right, "%u op%s", box->n_nodes, box->n_nodes == 1 ? "" : "s");
    draw_pair(cr, x, y + 20, left, right);

    snprintf(left, sizeof left, "b %u, holds %u", box->microbatch_size, box->in_flight_samples);
    time_text(box->time_ns, right, sizeof right);
    draw_pair(cr, x, y + 31, left, right);
}

static void draw_box(const struct page *page, cairo_t *cr, uint32_t stage)
{
    const struct pst_stage_box *box = &page->graph->stages[stage];
    double x = pst_stage_x(&page->layout, page->layout.slots[stage].layer);
    double y = pst_stage_y(&page->layout, stage) - STAGE_BOX_H / 2;
    char memory[64], part[32] = "";

    rounded(cr, x, y, STAGE_BOX_W, STAGE_BOX_H, ROUND);
    pst_figure_source(cr, shade(page->slowest_ns > 0 ? per_sample_ns(box) / page->slowest_ns : 0));
    cairo_fill_preserve(cr);
    pst_figure_source(cr, frame);
    cairo_set_line_width(cr, 0.8);
    cairo_stroke(cr);
    draw_words(cr, box, stage, x + PADDING, y);
    draw_memory_bar(page, cr, box, x + PADDING, y + 38);
    memory_text(box->memory_bytes, memory, sizeof memory);
    if (isfinite(page->graph->limit_bytes) && page->graph->limit_bytes > 0) {
        snprintf(part, sizeof part, "%.0f %%", 100 * box->memory_bytes / page->graph->limit_bytes);
    }
    pst_figure_source(cr, ink);
    draw_pair(cr, x + PADDING, y + 51, memory, part);
}

/* What shade and bar mean; no wider than the least page. */
static void draw_legend(const struct page *page, cairo_t *cr, double x, double y)
{
    char text[128], limit[64];
    cairo_pattern_t *ramp = cairo_pattern_create_linear(x, 0, x + 40, 0);

    cairo_pattern_add_color_stop_rgb(ramp, 0, pale.r, pale.g, pale.b);
    cairo_pattern_add_color_stop_rgb(ramp, 1, full.r, full.g, full.b);
    cairo_set_source(cr, ramp);
    cairo_rectangle(cr, x, y - 3.5, 40, 7);
    cairo_fill_preserve(cr);
    cairo_pattern_destroy(ramp);
    pst_figure_source(cr, frame);
    cairo_set_line_width(cr, 0.5);
    cairo_stroke(cr);
    pst_figure_font(cr, FONT, false);
    pst_figure_source(cr, faint);
    time_text(page->slowest_ns, limit, sizeof limit);
    snprintf(text, sizeof text, "time per sample, 0 to %s", limit);
    pst_figure_text(cr, x + 46, y, ALIGN_LEFT, text);
    x += 46 + pst_figure_text_width(cr, text) + 18;
    pst_figure_source(cr, track);
    cairo_rectangle(cr, x, y - BAR_H / 2, 40, BAR_H);
    cairo_fill(cr);
    pst_figure_source(cr, used);
    cairo_rectangle(cr, x, y - BAR_H / 2, 24, BAR_H);
    cairo_fill(cr);
    pst_figure_source(cr, faint);
    memory_text(page->limit_bytes, limit, sizeof limit);
    snprintf(text, sizeof text, "memory of %s%s", limit,
             isfinite(page->graph->limit_bytes) ? "" : ", the most");
    pst_figure_text(cr, x + 46, y, ALIGN_LEFT, text);
}

static void draw_head(const struct page *page, cairo_t *cr)
{
    const struct pst_stage_graph *graph = page->graph;
    double x = page->layout.left, y = page->layout.top + 5, room = page->layout.width - 2 * x;
    char text[256];

    room = room < 300 ? page->layout.width - x - page->layout.top : room;
    pst_figure_font(cr, 11, true);
    pst_figure_source(cr, ink);
    snprintf(text, sizeof text, "%s", graph->title == NULL ? "" : graph->title);
    pst_figure_shorten(cr, text, sizeof text, room);
    pst_figure_text(cr, x, y, ALIGN_LEFT, text);
    pst_figure_font(cr, 8, false);
    pst_figure_source(cr, faint);
    snprintf(text, sizeof text, "%s", graph->subtitle == NULL ? "" : graph->subtitle);
    pst_figure_shorten(cr, text, sizeof text, room);
    pst_figure_text(cr, x, y + 15, ALIGN_LEFT, text);
    draw_legend(page, cr, x, y + 31);
}

static void draw(void *context, cairo_t *cr)
{
    const struct page *page = context;

    pst_stage_draw_edges(&page->layout, cr);
    draw_head(page, cr);
    for (uint32_t s = 0; s < page->graph->n_stages; s++) {
        draw_box(page, cr, s);
    }
}

pst_status pst_stage_figure_render(const struct pst_stage_graph *graph,
                                   enum pst_figure_format format, unsigned char **ret_bytes,
                                   size_t *ret_length, struct pst_error *err)
{
    struct pst_arena arena = {NULL, 0, 0};
    struct page page = {.graph = graph, .limit_bytes = graph->limit_bytes};
    struct pst_canvas canvas = {.draw = draw, .context = &page};
    double most = 0;
    pst_status st;

    if (graph->n_stages < 1 || graph->n_stages > PST_STAGE_FIGURE_MOST) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value", "%u stages; a figure shows 1 to %d",
                        graph->n_stages, PST_STAGE_FIGURE_MOST);
    }
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        page.slowest_ns = fmax(page.slowest_ns, per_sample_ns(&graph->stages[s]));
        most = fmax(most, graph->stages[s].memory_bytes);
    }
    page.limit_bytes = isfinite(graph->limit_bytes) ? graph->limit_bytes : most;
    st = pst_stage_lay_out(graph, &arena, &page.layout, err);
    if (st == PST_OK) {
        canvas.width = page.layout.width;
        canvas.height = page.layout.height;
        st = pst_canvas_render(&canvas, format, ret_bytes, ret_length, err);
    }
    pst_arena_finish(&arena);
    return st;
}
