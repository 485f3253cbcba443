/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the figure share: the page with its scales, colours, text. All lengths are
 * points, y grows downwards. Private to figure*.c and stage_*.c.
 */
#ifndef PST_FIGURES_FIGURE_IMPL_H
#define PST_FIGURES_FIGURE_IMPL_H

#include <cairo.h>

#include "figures/figure.h"

#define FIGURE_FONT 8.0

struct pst_color {
    double r, g, b;
};

/* What a box stands for, in the order of the legend. */
enum pst_figure_kind {
    FIGURE_F,
    FIGURE_BW,
    FIGURE_B,
    FIGURE_W,
    FIGURE_R,
    FIGURE_STEP,
    FIGURE_ACT,
    FIGURE_GRAD,
    FIGURE_OUT,
    FIGURE_IN,
    FIGURE_EVICT,
    FIGURE_LOAD,
    FIGURE_REDUCE,
    FIGURE_HOST,
    FIGURE_KINDS
};

struct pst_figure_page {
    cairo_t *cr;
    const struct pst_timeline *timeline;
    struct pst_figure_options options; /* with nothing left to choose */
    struct pst_arena arena;
    double left, right;           /* of the plots */
    uint64_t from_ns, to_ns;      /* at left and right */
    double tick, ns_per_unit;     /* of the time axis, in its unit */
    const char *unit;             /* "ms", or "" for a unit of the user's own */
    uint32_t n_chunks, *chunk_of; /* most stages of a rank; per stage: its place there */
    bool occurs[FIGURE_KINDS];
    bool lane_shown[PST_LANES]; /* thin rows */
    double typical_pass;        /* median width of a box */
    bool dense;                 /* passes are too narrow to be drawn one by one */
    uint32_t n_lanes;
    double header_h, row_h, lane_h, pitch; /* of a rank: compute row, thin rows, with the gap */
    double rows_top, rows_bottom;
    double memory_top, memory_bottom; /* equal: no memory panel */
};

/* figure_canvas.c; for other figures, too */
struct pst_canvas {
    double width, height;
    void (*draw)(void *context, cairo_t *cr);
    void *context;
};
pst_status pst_canvas_render(const struct pst_canvas *canvas, enum pst_figure_format format,
                             unsigned char **ret_bytes, size_t *ret_length, struct pst_error *err);
/* A layout needs the widths of texts: calls it with a page that nobody sees. */
pst_status pst_canvas_measure(pst_status (*lay_out)(void *context, cairo_t *cr,
                                                    struct pst_error *err),
                              void *context, struct pst_error *err);

/* figure_color.c */
struct pst_color pst_figure_color(enum pst_figure_kind kind, uint32_t chunk, uint32_t n_chunks);
struct pst_color pst_figure_memory_color(uint32_t kind);
struct pst_color pst_figure_rank_color(uint32_t rank, uint32_t n_ranks);
struct pst_color pst_figure_ink(
    struct pst_color paper); /* black or white, whichever reads better */
const char *pst_figure_kind_name(enum pst_figure_kind kind);
enum pst_figure_kind pst_figure_kind_of(const struct pst_span *span);
bool pst_figure_is_pass(enum pst_figure_kind kind);
/* kind x n_chunks + chunk */
uint32_t pst_figure_color_index(const struct pst_figure_page *page, const struct pst_span *span);

/* figure_text.c */
enum pst_align { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };
void pst_figure_source(cairo_t *cr, struct pst_color color);
void pst_figure_font(cairo_t *cr, double size, bool bold);
double pst_figure_text_width(cairo_t *cr, const char *text);
/* y is the middle of the digits. */
void pst_figure_text(cairo_t *cr, double x, double y, enum pst_align align, const char *text);
/* The text, or its beginning and "…" where it is wider than that; text must hold `room` bytes. */
void pst_figure_shorten(cairo_t *cr, char *text, size_t room, double width);
/* "rank 2" of "rank 2 (stage 2, 6)". */
void pst_figure_short_name(const struct pst_timeline *timeline, uint32_t rank, char *text,
                           size_t room);
/* "12.5 ms"; "12.5" in a unit of the user's own. */
void pst_figure_format_time(const struct pst_timeline *timeline, uint64_t ns, char *text,
                            size_t room);
void pst_figure_format_memory(const struct pst_timeline *timeline, uint64_t bytes, char *text,
                              size_t room);

/* figure_axis.c */
double pst_figure_nice_step(double range, uint32_t n_ticks); /* 1, 2 or 5 times a power of ten */
void pst_figure_choose_ticks(struct pst_figure_page *page);
double pst_figure_x(const struct pst_figure_page *page, uint64_t ns);
void pst_figure_draw_grid(const struct pst_figure_page *page, double top, double bottom);
void pst_figure_draw_time_axis(const struct pst_figure_page *page, double y);

/* figure_layout.c */
pst_status pst_figure_layout(struct pst_figure_page *page, struct pst_error *err);

/* figure_head.c; with draw = false only measures. Returns the height. */
double pst_figure_draw_head(struct pst_figure_page *page, bool draw);

/* figure_rows.c, figure_memory.c, figure_dense.c */
void pst_figure_draw_rows(struct pst_figure_page *page);
void pst_figure_draw_boxes(struct pst_figure_page *page);
void pst_figure_draw_memory(struct pst_figure_page *page);
void pst_figure_draw_dense(struct pst_figure_page *page);
bool pst_figure_memory_known(const struct pst_timeline *timeline);
double pst_figure_memory_height(const struct pst_timeline *timeline);

/* Where the value of a peak at y = `point` stands: above it, but not across the capacity's line. */
double pst_figure_label_y(double point, double capacity, double top, double font);

#endif
