/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of the figure share: the page with its scales, colours, text. All
 * lengths are points, y grows downwards. Private to figure*.c and stage_*.c.
 */
#ifndef PST_FIGURES_FIGURE_IMPL_H
#define PST_FIGURES_FIGURE_IMPL_H

#include "figures/figure.h"
#include "figures/pen.h"

#define FIGURE_FONT     8.0
#define FIGURE_SMALLEST 6.0 /* of any text */

/* The kinds of boxes, in the order of the legend. */
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
    struct pst_pen *pen;
    const struct pst_timeline *timeline;
    struct pst_figure_options options; /* with nothing left to choose */
    struct pst_arena arena;
    bool narrow; /* a column of a paper rather than a page */
    double margin;
    double left, right;           /* of the plots */
    double head_left;             /* of what stands above them */
    uint32_t name_form;           /* how much of the name of a rank there is room for */
    uint64_t from_ns, to_ns;      /* at left and right */
    double tick, ns_per_unit;     /* of the time axis, in its unit */
    const char *unit;             /* "ms", or "" for a unit of the user's own */
    uint32_t n_chunks, *chunk_of; /* most stages of a rank; per stage: its place there */
    bool occurs[FIGURE_KINDS];
    bool lane_shown[PST_LANES]; /* thin rows */
    const char *name;           /* of the plan, before its figures; NULL: none */
    const uint64_t *passes;     /* durations of all, ascending */
    uint32_t n_passes;
    double typical_pass; /* median width of a box */
    bool dense;          /* passes are too narrow to be drawn one by one */
    uint32_t n_lanes;
    double header_h, row_h, lane_h, pitch; /* of a rank: compute row, thin rows, with the gap */
    double rows_top, rows_bottom;
    double memory_top, memory_bottom; /* equal: no memory panel */
    double dense_column;              /* least width of one that shows shares of time */
    double memory_column;             /* width of a column of its curves */
    uint64_t memory_peak;   /* of all timelines that are shown; 0: this one alone, which may have
                               strips then */
    uint32_t n_rank_colors; /* ranks of the timeline that has the most */
};

/* figure_canvas.c; for other figures, too */
struct pst_canvas {
    double width, height;
    void (*draw)(void *context, struct pst_pen *pen);
    void *context;
    struct pst_texts *texts; /* takes notes; or NULL */
};
pst_status pst_canvas_render(const struct pst_canvas *canvas, enum pst_figure_format format,
                             unsigned char **ret_bytes, size_t *ret_length, struct pst_error *err);
/* Renders into a file, whole or not at all. */
pst_status pst_canvas_write(const struct pst_canvas *canvas, enum pst_figure_format format,
                            const char *path, struct pst_error *err);
/* A layout needs the widths of texts: calls it with a page that nobody sees. */
pst_status pst_canvas_measure(pst_status (*lay_out)(void *context, struct pst_pen *pen,
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
/* The text, or its beginning and "…" where it is wider than that; text must hold `room` bytes. */
void pst_figure_shorten(struct pst_pen *pen, char *text, size_t room, double width);
/* Writes the name of a rank: "rank 2 (stage 2, 6)" in form 0, "rank 2" in 1, "2" in 2. */
enum { PST_NAME_FORMS = 3, PST_NAME_SHORT = 1 };
void pst_figure_name(const struct pst_timeline *timeline, uint32_t rank, uint32_t form, char *text,
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

/* figure_layout.c: all of it, or in parts for what is shown beside others. */
pst_status pst_figure_layout(struct pst_figure_page *page, struct pst_error *err);
/* Computes times and chunks from the timeline, and the width if none is given. */
void pst_figure_prepare(struct pst_figure_page *page);
/* Margins and columns of the page. */
void pst_figure_choose_columns(struct pst_figure_page *page);
/* Chooses what is shown, by the scale of times. */
void pst_figure_choose_content(struct pst_figure_page *page);

/* figure.c: laid out for that canvas; close the page in any case. */
pst_status pst_figure_open(const struct pst_timeline *timeline,
                           const struct pst_figure_options *options, struct pst_figure_page *page,
                           struct pst_canvas *ret_canvas, struct pst_error *err);
void pst_figure_close(struct pst_figure_page *page);

/* figure_head.c. What draws at y returns the y below; with draw = false it only measures. */

double pst_figure_draw_summary(const struct pst_figure_page *page, double y, bool draw);
double pst_figure_draw_legend(const struct pst_figure_page *page, double y, bool draw);
/* All three; returns their height. */
double pst_figure_draw_head(struct pst_figure_page *page, bool draw);

/* figure_rows.c, figure_memory.c, figure_dense.c */
void pst_figure_draw_rows(struct pst_figure_page *page);
void pst_figure_draw_boxes(struct pst_figure_page *page);
void pst_figure_draw_memory(struct pst_figure_page *page);
void pst_figure_draw_dense(struct pst_figure_page *page);
bool pst_figure_memory_known(const struct pst_timeline *timeline);
double pst_figure_memory_height(const struct pst_figure_page *page);
/* The lines above the panel; as in figure_head.c. */
double pst_figure_memory_heading(const struct pst_figure_page *page, double y, bool draw);

/* stack.c: laid out for that canvas; close the stack in any case. */
struct pst_stack;
struct pst_stack_plan;
pst_status pst_stack_canvas(const struct pst_stack_plan *plans, uint32_t n,
                            const struct pst_figure_options *options, struct pst_stack **ret_stack,
                            struct pst_canvas *ret_canvas, struct pst_error *err);

/* Where the value of a peak at y = `point` stands: above it, but not across the capacity's line. */
double pst_figure_label_y(double point, double capacity, double top, double font);

#endif
