/* SPDX-License-Identifier: Apache-2.0
 *
 * The bands of the ranks with their names on the left and how busy each was on the right, and the
 * boxes in them, one path for each colour: neighbours of one colour leave no seam, and the file
 * stays small. No outlines, so that ten thousand boxes do not turn black; where a box is wide
 * enough a slit sets it off from the next.
 */
#include <stdio.h>

#include "figures/figure_impl.h"
#include "sim/usage.h"

static void draw_labels(struct pst_figure_page *page, uint32_t rank, double y)
{
    const struct pst_timeline *timeline = page->timeline;
    uint64_t length = timeline->end_ns - timeline->begin_ns;
    char text[sizeof timeline->ranks[0].name];

    pst_figure_name(timeline, rank, page->name_form, text, sizeof text);
    pst_figure_shorten(page->pen, text, sizeof text, page->left - page->margin - 6);
    pst_pen_text(page->pen, page->left - 6, y, ALIGN_RIGHT, pst_ink, text);
    if (length > 0) {
        snprintf(text, sizeof text, "%.0f %%",
                 timeline->drains
                     ? 100.0 * (double)timeline->step.usage[rank].busy_ns /
                           (double)timeline->step.ns
                     : 100.0 * (double)pst_timeline_usage(timeline, rank).busy_ns / (double)length);
        pst_pen_text(page->pen, page->options.width_pt - page->margin, y, ALIGN_RIGHT, pst_faint,
                     text);
    }
}

void pst_figure_draw_rows(struct pst_figure_page *page)
{
    double font = FIGURE_FONT, size = page->row_h * 0.95 < font ? page->row_h * 0.95 : font;
    uint32_t every = 1;

    for (uint32_t r = 0; r < page->timeline->n_ranks; r++) {
        pst_pen_rect(page->pen, page->left, page->rows_top + r * page->pitch,
                     page->right - page->left, page->row_h);
    }
    pst_pen_fill(page->pen, pst_band);
    pst_figure_draw_grid(page, page->rows_top - 2, page->rows_bottom);
    size = size < FIGURE_SMALLEST ? FIGURE_SMALLEST : size;
    while (every * page->pitch < 1.1 * size) {
        every *= 2;
    }
    pst_pen_font(page->pen, size, false);
    for (uint32_t r = 0; r < page->timeline->n_ranks; r += every) {
        draw_labels(page, r, page->rows_top + r * page->pitch + page->row_h / 2);
    }
}

#define BINS 64 /* of number sizes, a quarter of a point each */

struct boxes {
    struct pst_figure_page *page;
    uint32_t *order; /* spans by colour */
    uint32_t *first; /* of each colour in order; n_colors + 1 */
    uint32_t n_colors;
    double lane_top[PST_LANES]; /* within a rank */
    double digit_width;         /* at size 1 */
};

static bool is_thin(const struct pst_span *span)
{
    return span->lane != PST_LANE_COMPUTE && span->lane != PST_LANE_OPTIMIZER;
}

static bool is_drawn(const struct pst_figure_page *page, const struct pst_span *span)
{
    return is_thin(span) ? page->lane_shown[span->lane] : !page->dense;
}

/* Counting sort. */
static void sort_by_color(struct boxes *boxes)
{
    struct pst_figure_page *page = boxes->page;
    const struct pst_timeline *timeline = page->timeline;
    uint32_t *next;

    boxes->n_colors = FIGURE_KINDS * page->n_chunks;
    boxes->order = pst_arena_array(&page->arena, (size_t)timeline->n_spans + 1, sizeof *next);
    boxes->first = pst_arena_array(&page->arena, (size_t)boxes->n_colors + 1, sizeof *next);
    next = pst_arena_array(&page->arena, (size_t)boxes->n_colors + 1, sizeof *next);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        boxes->first[pst_figure_color_index(page, &timeline->spans[i]) + 1]++;
    }
    for (uint32_t c = 0; c < boxes->n_colors; c++) {
        boxes->first[c + 1] += boxes->first[c];
        next[c] = boxes->first[c];
    }
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        boxes->order[next[pst_figure_color_index(page, &timeline->spans[i])]++] = i;
    }
}

static void place_lanes(struct boxes *boxes)
{
    double y = boxes->page->row_h;

    for (uint32_t lane = 0; lane < PST_LANES; lane++) {
        if (boxes->page->lane_shown[lane]) {
            boxes->lane_top[lane] = y;
            y += boxes->page->lane_h;
        }
    }
}

static void add_box(const struct boxes *boxes, const struct pst_span *span)
{
    const struct pst_figure_page *page = boxes->page;
    double x0 = pst_figure_x(page, span->start_ns), x1 = pst_figure_x(page, span->end_ns);
    double y = page->rows_top + span->rank * page->pitch + boxes->lane_top[span->lane];
    double high = is_thin(span) ? page->lane_h * 0.85 : page->row_h;

    if (!is_thin(span) && x1 - x0 > 2.5) {
        x1 -= x1 - x0 > 6 ? 0.6 : 0.35;
    }
    pst_pen_rect(page->pen, x0, y, x1 - x0, high);
}

enum { NUMBER_ROOM = 24 };

/* "12"; "3.1": slice 1 of the sequences of micro-batch 3. Returns its length. */
static int number_text(const struct pst_timeline *timeline, const struct pst_span *span,
                       char text[NUMBER_ROOM])
{
    const uint32_t n = timeline->slices > 1 ? timeline->slices : 1;

    return n == 1
               ? snprintf(text, NUMBER_ROOM, "%u", span->microbatch)
               : snprintf(text, NUMBER_ROOM, "%u.%u", span->microbatch / n, span->microbatch % n);
}

/* Size at which the number of a pass would fill its box. */
static double number_size(const struct boxes *boxes, const struct pst_span *span)
{
    double width =
        pst_figure_x(boxes->page, span->end_ns) - pst_figure_x(boxes->page, span->start_ns) - 0.9;
    char text[NUMBER_ROOM];

    return width / (number_text(boxes->page->timeline, span, text) * boxes->digit_width);
}

static bool has_number(const struct pst_span *span)
{
    return span->lane == PST_LANE_COMPUTE && span->microbatch != PST_NONE;
}

/* One size for all numbers: what 19 of 20 boxes have room for; 0 where that is too small. */
static double choose_number_size(const struct boxes *boxes)
{
    const struct pst_timeline *timeline = boxes->page->timeline;
    uint32_t counts[BINS] = {0}, n = 0, below = 0;
    double most = boxes->page->row_h * 0.62, size = 0;

    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        if (has_number(&timeline->spans[i])) {
            double bin = number_size(boxes, &timeline->spans[i]) * 4;

            counts[bin < 0 ? 0 : bin > BINS - 1 ? BINS - 1 : (int)bin]++;
            n++;
        }
    }
    while (size < BINS - 1 && below + counts[(int)size] <= n / 20) {
        below += counts[(int)size];
        size++;
    }
    size /= 4;
    most = most > 1.1 * FIGURE_FONT ? 1.1 * FIGURE_FONT : most;
    size = size > most ? most : size;
    if (size < FIGURE_SMALLEST) {
        return 0;
    }
    return size;
}

static void draw_number(const struct boxes *boxes, const struct pst_span *span, double size,
                        struct pst_color color)
{
    const struct pst_figure_page *page = boxes->page;
    char text[NUMBER_ROOM];

    if (!has_number(span) || number_size(boxes, span) < size) {
        return;
    }
    number_text(page->timeline, span, text);
    pst_pen_text(page->pen,
                 (pst_figure_x(page, span->start_ns) + pst_figure_x(page, span->end_ns)) / 2 - 0.25,
                 page->rows_top + span->rank * page->pitch + page->row_h / 2, ALIGN_CENTER, color,
                 text);
}

static struct pst_color color_of(const struct boxes *boxes, uint32_t c)
{
    uint32_t n = boxes->page->n_chunks;

    return pst_figure_color(c / n, c % n, n);
}

static void draw_numbers(const struct boxes *boxes)
{
    const struct pst_figure_page *page = boxes->page;
    double size = page->dense ? 0 : choose_number_size(boxes);

    pst_pen_font(page->pen, size, false);
    pst_pen_group(page->pen, "numbers");
    for (uint32_t c = 0; size > 0 && c < boxes->n_colors; c++) {
        for (uint32_t i = boxes->first[c]; i < boxes->first[c + 1]; i++) {
            draw_number(boxes, &page->timeline->spans[boxes->order[i]], size,
                        pst_figure_ink(color_of(boxes, c)));
        }
    }
    pst_pen_end(page->pen, false);
}

void pst_figure_draw_boxes(struct pst_figure_page *page)
{
    struct boxes boxes = {.page = page};

    sort_by_color(&boxes);
    place_lanes(&boxes);
    pst_pen_font(page->pen, 100, false);
    boxes.digit_width = pst_pen_width(page->pen, "0") / 100;
    pst_pen_view(page->pen, page->left, page->rows_top, page->right - page->left,
                 page->rows_bottom - page->rows_top);
    for (uint32_t c = 0; c < boxes.n_colors; c++) {
        for (uint32_t i = boxes.first[c]; i < boxes.first[c + 1]; i++) {
            if (is_drawn(page, &page->timeline->spans[boxes.order[i]])) {
                add_box(&boxes, &page->timeline->spans[boxes.order[i]]);
            }
        }
        pst_pen_fill(page->pen, color_of(&boxes, c));
    }
    if (page->dense) {
        pst_figure_draw_dense(page);
    }
    pst_pen_end(page->pen, true);
    draw_numbers(&boxes);
}
