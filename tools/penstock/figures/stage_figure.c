/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/stage_figure.h"

#include <math.h>
#include <stdio.h>

#include "figures/stage_impl.h"
#include "reports/partition_words.h"

#define FONT    7.5
#define PADDING 6.0
#define INNER   (STAGE_BOX_W - 2 * PADDING)
#define BAR_H   4.0
#define ROUND   3.0

static const struct pst_color pale = {0.97, 0.97, 0.98, PST_AS_IS};
static const struct pst_color full = {0.96, 0.66, 0.27, PST_AS_IS};
static const struct pst_color ink = {0.10, 0.11, 0.13, PST_AS_IS}; /* on those */
static const struct pst_color frame = {0.55, 0.58, 0.63, PST_AS_IS};
static const struct pst_color track = {0.86, 0.87, 0.89, PST_AS_IS};
static const struct pst_color used = {0.25, 0.33, 0.46, PST_AS_IS};
static const struct pst_color over = {0.78, 0.15, 0.12, PST_AS_IS};

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

static struct pst_color shade(double part)
{
    return (struct pst_color){pale.r + (full.r - pale.r) * part, pale.g + (full.g - pale.g) * part,
                              pale.b + (full.b - pale.b) * part, PST_AS_IS};
}

/* A text on the left and one on the right, which has the right of way. */
static void draw_pair(struct pst_pen *pen, double x, double y, const char *left, const char *right)
{
    char text[256];
    double right_w = right[0] == '\0' ? 0 : pst_pen_width(pen, right) + 5;

    snprintf(text, sizeof text, "%s", left);
    pst_figure_shorten(pen, text, sizeof text, INNER - right_w);
    pst_pen_text(pen, x, y, ALIGN_LEFT, ink, text);
    pst_pen_text(pen, x + INNER, y, ALIGN_RIGHT, ink, right);
}

static void draw_memory_bar(const struct page *page, struct pst_pen *pen,
                            const struct pst_stage_box *box, double x, double y)
{
    double limit = page->limit_bytes - box->lacks_bytes;
    double part = limit > 0 ? box->memory_bytes / limit : 0;
    bool too_much = box->memory_bytes > page->graph->limit_bytes - box->lacks_bytes;

    pst_pen_rect(pen, x, y, INNER, BAR_H);
    pst_pen_fill(pen, track);
    pst_pen_rect(pen, x, y, INNER * fmin(part, 1), BAR_H);
    pst_pen_fill(pen, too_much ? over : used);
}

/* "conv1 – fc"; where that is too wide, beginnings of both. */
static void draw_label(struct pst_pen *pen, const struct pst_stage_box *box, double x, double y,
                       double width)
{
    static const char between[] = " \xE2\x80\x93 ";
    char first[256], last[256], text[sizeof first + sizeof last + sizeof between];
    double gap, first_w, last_w;

    snprintf(first, sizeof first, "%s", box->first == NULL ? "" : box->first);
    snprintf(last, sizeof last, "%s", box->last == NULL ? "" : box->last);
    if (box->n_nodes < 2 || last[0] == '\0') {
        pst_figure_shorten(pen, first, sizeof first, width);
        pst_pen_text(pen, x, y, ALIGN_LEFT, ink, first);
        return;
    }
    gap = pst_pen_width(pen, between);
    pst_figure_shorten(pen, first, sizeof first, width); /* makes them proper UTF-8 as well */
    pst_figure_shorten(pen, last, sizeof last, width);
    first_w = pst_pen_width(pen, first);
    last_w = pst_pen_width(pen, last);
    if (first_w + gap + last_w > width) {
        double half = (width - gap) / 2;

        pst_figure_shorten(pen, first, sizeof first, last_w < half ? width - gap - last_w : half);
        first_w = pst_pen_width(pen, first);
        pst_figure_shorten(pen, last, sizeof last, width - gap - first_w);
    }
    snprintf(text, sizeof text, "%s%s%s", first, between, last);
    pst_pen_text(pen, x, y, ALIGN_LEFT, ink, text);
}

static void draw_words(struct pst_pen *pen, const struct pst_stage_box *box, uint32_t stage,
                       double x, double y)
{
    char left[256], devices[224], right[64], number[32];
    double width;

    snprintf(number, sizeof number, "%u", stage);
    pst_pen_font(pen, FONT, true);
    pst_pen_text(pen, x, y + 9, ALIGN_LEFT, ink, number);
    width = pst_pen_width(pen, number) + 5;
    pst_pen_font(pen, FONT, false);
    draw_label(pen, box, x + width, y + 9, INNER - width);

    snprintf(left, sizeof left, "device%s %s", box->n_devices > 1 ? "s" : "",
             pst_report_ranks(box->devices, box->n_devices, ", ", devices, sizeof devices));
    snprintf(right, sizeof right, "%u op%s", box->n_nodes, box->n_nodes == 1 ? "" : "s");
    draw_pair(pen, x, y + 20, left, right);

    snprintf(left, sizeof left, "b %u, holds %u", box->microbatch_size, box->in_flight_samples);
    time_text(box->time_ns, right, sizeof right);
    draw_pair(pen, x, y + 31, left, right);
}

static void draw_box(const struct page *page, struct pst_pen *pen, uint32_t stage)
{
    const struct pst_stage_box *box = &page->graph->stages[stage];
    double x = pst_stage_x(&page->layout, page->layout.slots[stage].layer);
    double y = pst_stage_y(&page->layout, stage) - STAGE_BOX_H / 2;
    char memory[64], part[32] = "";

    pst_pen_round_rect(pen, x, y, STAGE_BOX_W, STAGE_BOX_H, ROUND);
    pst_pen_fill(pen, frame);
    pst_pen_round_rect(pen, x + 0.8, y + 0.8, STAGE_BOX_W - 1.6, STAGE_BOX_H - 1.6, ROUND - 0.8);
    pst_pen_fill(pen, shade(page->slowest_ns > 0 ? per_sample_ns(box) / page->slowest_ns : 0));
    draw_words(pen, box, stage, x + PADDING, y);
    draw_memory_bar(page, pen, box, x + PADDING, y + 38);
    memory_text(box->memory_bytes, memory, sizeof memory);
    if (isfinite(page->graph->limit_bytes) && page->graph->limit_bytes > 0) {
        snprintf(part, sizeof part, "%.0f %%",
                 100 * box->memory_bytes / (page->graph->limit_bytes - box->lacks_bytes));
    }
    draw_pair(pen, x + PADDING, y + 51, memory, part);
}

/* Draws the meaning of shade and bar, no wider than the least page. */
static void draw_legend(const struct page *page, struct pst_pen *pen, double x, double y)
{
    char text[128], limit[64];

    for (int i = 0; i < 20; i++) {
        pst_pen_rect(pen, x + 2 * i, y - 3.5, 2, 7);
        pst_pen_fill(pen, shade((i + 0.5) / 20));
    }
    pst_pen_font(pen, FONT, false);
    time_text(page->slowest_ns, limit, sizeof limit);
    snprintf(text, sizeof text, "time per sample, 0 to %s", limit);
    pst_pen_text(pen, x + 46, y, ALIGN_LEFT, pst_soft, text);
    x += 46 + pst_pen_width(pen, text) + 18;
    pst_pen_rect(pen, x, y - BAR_H / 2, 40, BAR_H);
    pst_pen_fill(pen, track);
    pst_pen_rect(pen, x, y - BAR_H / 2, 24, BAR_H);
    pst_pen_fill(pen, used);
    memory_text(page->limit_bytes, limit, sizeof limit);
    snprintf(text, sizeof text, "memory of %s%s", limit,
             isfinite(page->graph->limit_bytes) ? "" : ", the most");
    pst_pen_text(pen, x + 46, y, ALIGN_LEFT, pst_soft, text);
}

static void draw_head(const struct page *page, struct pst_pen *pen)
{
    const struct pst_stage_graph *graph = page->graph;
    double x = page->layout.left, y = page->layout.top + 5, room = page->layout.width - 2 * x;
    char text[256];

    room = room < 300 ? page->layout.width - x - page->layout.top : room;
    pst_pen_font(pen, 11, true);
    snprintf(text, sizeof text, "%s", graph->title == NULL ? "" : graph->title);
    pst_figure_shorten(pen, text, sizeof text, room);
    pst_pen_text(pen, x, y, ALIGN_LEFT, pst_ink, text);
    pst_pen_font(pen, 8, false);
    snprintf(text, sizeof text, "%s", graph->subtitle == NULL ? "" : graph->subtitle);
    pst_figure_shorten(pen, text, sizeof text, room);
    pst_pen_text(pen, x, y + 15, ALIGN_LEFT, pst_soft, text);
    draw_legend(page, pen, x, y + 31);
}

static void draw(void *context, struct pst_pen *pen)
{
    const struct page *page = context;

    pst_stage_draw_edges(&page->layout, pen);
    draw_head(page, pen);
    for (uint32_t s = 0; s < page->graph->n_stages; s++) {
        draw_box(page, pen, s);
    }
}

static pst_status lay_out(const struct pst_stage_graph *graph, struct pst_arena *arena,
                          struct page *page, struct pst_error *err)
{
    double most = 0;

    *page = (struct page){.graph = graph};
    if (graph->n_stages < 1 || graph->n_stages > PST_STAGE_FIGURE_MOST) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value", "%u stages; a figure shows 1 to %d",
                        graph->n_stages, PST_STAGE_FIGURE_MOST);
    }
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        page->slowest_ns = fmax(page->slowest_ns, per_sample_ns(&graph->stages[s]));
        most = fmax(most, graph->stages[s].memory_bytes);
    }
    page->limit_bytes = isfinite(graph->limit_bytes) ? graph->limit_bytes : most;
    return pst_stage_lay_out(graph, arena, &page->layout, err);
}

pst_status pst_stage_figure_render(const struct pst_stage_graph *graph,
                                   enum pst_figure_format format, unsigned char **ret_bytes,
                                   size_t *ret_length, struct pst_error *err)
{
    struct pst_arena arena = {NULL, 0, 0};
    struct page page;
    pst_status status = lay_out(graph, &arena, &page, err);

    if (status == PST_OK) {
        struct pst_canvas canvas = {page.layout.width, page.layout.height, draw, &page, NULL};

        status = pst_canvas_render(&canvas, format, ret_bytes, ret_length, err);
    }
    pst_arena_finish(&arena);
    return status;
}

bool pst_stage_figure_draw(const struct pst_stage_graph *graph, struct pst_pen *pen,
                           double *ret_width, double *ret_height)
{
    struct pst_arena arena = {NULL, 0, 0};
    struct page page;
    bool fits = lay_out(graph, &arena, &page, NULL) == PST_OK;

    if (fits && pen->page != NULL) {
        draw(&page, pen);
    }
    *ret_width = fits ? page.layout.width : 0;
    *ret_height = fits ? page.layout.height : 0;
    pst_arena_finish(&arena);
    return fits;
}
