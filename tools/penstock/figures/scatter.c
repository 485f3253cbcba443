/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/scatter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "figures/figure_impl.h"

#define MOST_SERIES 8 /* with a colour of their own; the rest is grey */
#define RADIUS      3.2

/* After Okabe and Ito, as in figure_color.c; the shapes tell them apart in grey. */
static const struct pst_color colors[MOST_SERIES + 1] = {
    {0.00, 0.45, 0.70, PST_AS_IS}, {0.84, 0.37, 0.00, PST_AS_IS}, {0.00, 0.62, 0.45, PST_AS_IS},
    {0.80, 0.47, 0.65, PST_AS_IS}, {0.90, 0.62, 0.00, PST_AS_IS}, {0.34, 0.71, 0.91, PST_AS_IS},
    {0.55, 0.45, 0.80, PST_AS_IS}, {0.60, 0.60, 0.20, PST_AS_IS}, {0.55, 0.55, 0.55, PST_AS_IS},
};

struct range {
    double low, high, tick, at_low, at_high; /* values, and where they are on the page */
};

struct plot {
    const struct pst_scatter *scatter;
    struct pst_pen *pen;
    double width, height;
    struct range x, y;
    double bytes_per_unit;
    const char *unit;
    const char *series[MOST_SERIES];
    uint32_t n_series;
    bool others;
    struct pst_text_box *taken; /* by labels */
    uint32_t *front, n_front;   /* points of it, ascending by memory */
    uint32_t n_taken;
};

bool pst_scatter_on_front(const struct pst_scatter *scatter, uint32_t point)
{
    const struct pst_scatter_point *p = &scatter->points[point];

    for (uint32_t i = 0; i < scatter->n; i++) {
        const struct pst_scatter_point *q = &scatter->points[i];

        if (q->rate >= p->rate && q->bytes <= p->bytes &&
            (q->rate > p->rate || q->bytes < p->bytes)) {
            return false;
        }
    }
    return true;
}

static uint32_t series_of(const struct plot *plot, const char *name)
{
    uint32_t i = 0;

    while (i < plot->n_series && strcmp(plot->series[i], name) != 0) {
        i++;
    }
    return i < plot->n_series ? i : MOST_SERIES;
}

static void collect_series(struct plot *plot)
{
    for (uint32_t i = 0; i < plot->scatter->n; i++) {
        const char *name = plot->scatter->points[i].series;

        if (series_of(plot, name) < MOST_SERIES) {
            continue;
        }
        if (plot->n_series < MOST_SERIES) {
            plot->series[plot->n_series++] = name;
        } else {
            plot->others = true;
        }
    }
}

/* --- scales ------------------------------------------------------------------------------------*/

static double place_value(const struct range *range, double value)
{
    return range->at_low +
           (value - range->low) / (range->high - range->low) * (range->at_high - range->at_low);
}

/* Round ends, with some air; from 0 where that costs little. */
static void round_range(struct range *range, double low, double high, uint32_t n_ticks)
{
    double air = high > low ? 0.07 * (high - low) : high > 0 ? 0.1 * high : 1;

    low = low < 0.4 * high ? 0 : fmax(0, low - air);
    high += air;
    range->tick = pst_figure_nice_step(high - low, n_ticks);
    range->low = range->tick * floor(low / range->tick + 1e-9);
    range->high = high;
}

static void choose_ranges(struct plot *plot)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    const struct pst_scatter *scatter = plot->scatter;
    double x0 = INFINITY, x1 = 0, y0 = INFINITY, y1 = 0, capacity = (double)scatter->capacity_bytes;
    int i = 0;

    for (uint32_t p = 0; p < scatter->n; p++) {
        x0 = fmin(x0, (double)scatter->points[p].bytes);
        x1 = fmax(x1, (double)scatter->points[p].bytes);
        y0 = fmin(y0, scatter->points[p].rate);
        y1 = fmax(y1, scatter->points[p].rate);
    }
    if (scatter->capacity_bytes != UINT64_MAX && capacity >= x1 && capacity < 1.6 * x1) {
        x1 = capacity;
    }
    for (plot->bytes_per_unit = 1; i < 4 && x1 / plot->bytes_per_unit >= 1024; i++) {
        plot->bytes_per_unit *= 1024;
    }
    plot->unit = units[i];
    round_range(&plot->x, fmin(x0, x1) / plot->bytes_per_unit, x1 / plot->bytes_per_unit,
                (uint32_t)fmax(2, plot->width / 70));
    round_range(&plot->y, fmin(y0, y1), y1, (uint32_t)fmax(2, plot->height / 45));
}

static void tick_text(char text[32], double value, double tick)
{
    int decimals = tick < 1 ? (int)ceil(-log10(tick) - 1e-9) : 0;

    snprintf(text, 32, "%.*f", decimals, value);
}

static double widest_tick(struct plot *plot)
{
    double widest = 0;
    char text[32];

    for (double v = plot->y.low; v <= plot->y.high; v += plot->y.tick) {
        tick_text(text, v, plot->y.tick);
        widest = fmax(widest, pst_pen_width(plot->pen, text));
    }
    return widest;
}

static void draw_axes(struct plot *plot)
{
    double bottom = plot->y.at_low, left = plot->x.at_low, font = FIGURE_FONT;
    char text[64];

    for (uint32_t i = 0; plot->y.low + i * plot->y.tick <= plot->y.high; i++) {
        double value = plot->y.low + i * plot->y.tick, y = place_value(&plot->y, value);

        pst_pen_move(plot->pen, left, y);
        pst_pen_line(plot->pen, plot->x.at_high, y);
        pst_pen_stroke(plot->pen, pst_rule, 0.5, NULL);
        tick_text(text, value, plot->y.tick);
        pst_pen_text(plot->pen, left - 5, y, ALIGN_RIGHT, pst_soft, text);
    }
    for (uint32_t i = 0; plot->x.low + i * plot->x.tick <= plot->x.high; i++) {
        double value = plot->x.low + i * plot->x.tick, x = place_value(&plot->x, value);

        pst_pen_move(plot->pen, x, plot->y.at_high);
        pst_pen_line(plot->pen, x, bottom);
        pst_pen_stroke(plot->pen, pst_rule, 0.5, NULL);
        tick_text(text, value, plot->x.tick);
        pst_pen_text(plot->pen, x, bottom + font, ALIGN_CENTER, pst_soft, text);
    }
    pst_pen_move(plot->pen, left, bottom);
    pst_pen_line(plot->pen, plot->x.at_high, bottom);
    pst_pen_stroke(plot->pen, pst_soft, 0.6, NULL);
    snprintf(text, sizeof text, "allocated by the fullest device (%s)", plot->unit);
    pst_pen_text(plot->pen, (left + plot->x.at_high) / 2, bottom + 2.4 * font, ALIGN_CENTER,
                 pst_soft, text);
}

/* --- points ------------------------------------------------------------------------------------*/

static void draw_shape(struct pst_pen *pen, uint32_t series, double x, double y)
{
    static const double shapes[][4][2] = {
        {{-0.88, -0.88}, {0.88, -0.88}, {0.88, 0.88}, {-0.88, 0.88}}, /* square */
        {{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}, {-1.1, 0.8}},            /* up */
        {{0, -1.3}, {1.2, 0}, {0, 1.3}, {-1.2, 0}},                   /* diamond */
        {{0, 1.2}, {1.1, -0.8}, {-1.1, -0.8}, {-1.1, -0.8}},          /* down */
        {{-1.2, -0.5}, {1.2, -0.5}, {1.2, 0.5}, {-1.2, 0.5}},         /* bar */
        {{-0.5, -1.2}, {0.5, -1.2}, {0.5, 1.2}, {-0.5, 1.2}},         /* post */
        {{1.2, 0}, {-0.8, -1.1}, {-0.8, 1.1}, {-0.8, 1.1}},           /* right */
    };

    if (series == 0 || series >= MOST_SERIES) {
        pst_pen_circle(pen, x, y, series == 0 ? RADIUS : 0.7 * RADIUS);
    } else {
        for (int i = 0; i < 4; i++) {
            (i == 0 ? pst_pen_move : pst_pen_line)(pen, x + RADIUS * shapes[series - 1][i][0],
                                                   y + RADIUS * shapes[series - 1][i][1]);
        }
        pst_pen_close(pen);
    }
    pst_pen_fill(pen, colors[series]);
}

static double point_x(const struct plot *plot, uint32_t i)
{
    return place_value(&plot->x, (double)plot->scatter->points[i].bytes / plot->bytes_per_unit);
}

static double point_y(const struct plot *plot, uint32_t i)
{
    return place_value(&plot->y, plot->scatter->points[i].rate);
}

/* Ascending by memory; two of the front with the same memory are equally fast. */
static void sort_by_memory(const struct pst_scatter *scatter, uint32_t *front, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        uint32_t point = front[i], at = i;

        for (; at > 0 && scatter->points[front[at - 1]].bytes > scatter->points[point].bytes;
             at--) {
            front[at] = front[at - 1];
        }
        front[at] = point;
    }
}

/* Draws the best speed for each amount of memory: a staircase through the front. */
static void draw_front(struct plot *plot, const uint32_t *front, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double x = point_x(plot, front[i]), y = point_y(plot, front[i]);

        if (i == 0) {
            pst_pen_move(plot->pen, x, plot->y.at_low);
        } else {
            pst_pen_line(plot->pen, x, point_y(plot, front[i - 1]));
        }
        pst_pen_line(plot->pen, x, y);
    }
    if (n > 0) {
        pst_pen_line(plot->pen, plot->x.at_high, point_y(plot, front[n - 1]));
    }
    pst_pen_stroke(plot->pen, pst_faint, 0.9, NULL);
}

/* Returns how far a point is from a box. */
static double gap_to_point(const struct plot *plot, const struct pst_text_box *box, uint32_t i)
{
    double x = point_x(plot, i), y = point_y(plot, i);

    return hypot(fmax(fmax(box->x - x, x - box->x - box->width), 0),
                 fmax(fmax(box->y - y, y - box->y - box->height), 0));
}

/* The label of a point would lie over something, or nearer to another point. */
static bool hits_something(const struct plot *plot, const struct pst_text_box *box, uint32_t point)
{
    const double own = fmax(gap_to_point(plot, box, point), RADIUS);

    if (box->x < plot->x.at_low + 1 || box->x + box->width > plot->width - 2 ||
        box->y < plot->y.at_high || box->y + box->height > plot->y.at_low) {
        return true;
    }
    for (uint32_t i = 0; i < plot->n_taken; i++) {
        const struct pst_text_box *other = &plot->taken[i];

        if (box->x < other->x + other->width + 1 && other->x < box->x + box->width + 1 &&
            box->y < other->y + other->height && other->y < box->y + box->height) {
            return true;
        }
    }
    for (uint32_t i = 0; i < plot->scatter->n; i++) {
        if (i != point && gap_to_point(plot, box, i) < own) {
            return true;
        }
    }
    return false;
}

/* The stair of the front runs through the box. */
static bool is_crossed(const struct plot *plot, const struct pst_text_box *box)
{
    const double right = box->x + box->width, bottom = box->y + box->height;

    for (uint32_t f = 0; f < plot->n_front; f++) {
        const bool last = f + 1 == plot->n_front;
        const double x = point_x(plot, plot->front[f]), y = point_y(plot, plot->front[f]);
        const double next = last ? plot->x.at_high : point_x(plot, plot->front[f + 1]);
        const double foot = f == 0 ? plot->y.at_low : point_y(plot, plot->front[f - 1]);

        if ((box->y < y && y < bottom && x < right && box->x < next) ||
            (box->x < x && x < right && y < bottom && box->y < foot)) {
            return true;
        }
    }
    return false;
}

/* At the first of eight places round the point that is free; across the front's line if there is no
   other; else not at all. */
static void draw_label(struct plot *plot, uint32_t i)
{
    enum { PLACES = 8 };
    static const double places[PLACES][2] = {{1, -1}, {-1, -1}, {1, 1},  {-1, 1},
                                             {1, 0},  {-1, 0},  {0, -1}, {0, 1}};
    const char *label = plot->scatter->points[i].label;
    double width = pst_pen_width(plot->pen, label), height = 0.9 * plot->pen->size;
    double off = RADIUS + 1.5;

    for (size_t t = 0; t < 2 * PLACES; t++) {
        const size_t p = t % PLACES;
        double middle = point_y(plot, i) + places[p][1] * (off + height / 2);
        double x = point_x(plot, i) + places[p][0] * (places[p][1] == 0 ? off + 2 : off / 2);
        struct pst_text_box box = {.width = width, .height = height, .y = middle - height / 2};

        box.x = places[p][0] > 0 ? x : places[p][0] < 0 ? x - width : x - width / 2;
        if (!hits_something(plot, &box, i) && (t >= PLACES || !is_crossed(plot, &box))) {
            pst_pen_text(plot->pen, box.x, middle, ALIGN_LEFT, pst_ink, label);
            plot->taken[plot->n_taken++] = box;
            return;
        }
    }
}

static void draw_points(struct plot *plot)
{
    const struct pst_scatter *scatter = plot->scatter;
    uint32_t n = 0;

    plot->front = pst_alloc((size_t)scatter->n + 1, sizeof *plot->front);
    for (uint32_t i = 0; i < scatter->n; i++) {
        if (pst_scatter_on_front(scatter, i)) {
            plot->front[n++] = i;
        }
    }
    plot->n_front = n;
    sort_by_memory(scatter, plot->front, n);
    draw_front(plot, plot->front, n);
    for (uint32_t i = 0; i < scatter->n; i++) {
        if (scatter->points[i].note != NULL) {
            pst_pen_group(plot->pen, "point");
            pst_pen_note(plot->pen, scatter->points[i].note);
        }
        draw_shape(plot->pen, series_of(plot, scatter->points[i].series), point_x(plot, i),
                   point_y(plot, i));
        if (scatter->points[i].note != NULL) {
            pst_pen_end(plot->pen, false);
        }
    }
    pst_pen_font(plot->pen, 0.88 * FIGURE_FONT, false);
    plot->taken = pst_alloc((size_t)n + scatter->n + 1, sizeof *plot->taken);
    for (uint32_t i = 0; i < n; i++) {
        draw_label(plot, plot->front[i]);
    }
    for (uint32_t i = 0; scatter->label_all && i < scatter->n; i++) {
        if (!pst_scatter_on_front(scatter, i)) {
            draw_label(plot, i);
        }
    }
    free(plot->taken);
    free(plot->front);
}

static void draw_capacity(struct plot *plot)
{
    static const double dash[] = {4, 2.5};
    double value = (double)plot->scatter->capacity_bytes / plot->bytes_per_unit;

    if (plot->scatter->capacity_bytes == UINT64_MAX || value > plot->x.high) {
        return;
    }
    pst_pen_move(plot->pen, place_value(&plot->x, value), plot->y.at_high);
    pst_pen_line(plot->pen, place_value(&plot->x, value), plot->y.at_low);
    pst_pen_stroke(plot->pen, pst_alarm, 0.8, dash);
}

/* --- legend ------------------------------------------------------------------------------------*/

/* Draws the unit of the y axis, then shape and name of every series. Returns the y below. */
static double draw_legend(struct plot *plot)
{
    double font = FIGURE_FONT, x = 4, y = 4 + 0.7 * font;
    uint32_t n = plot->n_series + plot->others;
    char text[64];

    pst_pen_text(plot->pen, x, y, ALIGN_LEFT, pst_soft, "samples/s");
    x += pst_pen_width(plot->pen, "samples/s") + 1.6 * font;
    for (uint32_t i = 0; n > 1 && i < n; i++) {
        double width;

        snprintf(text, sizeof text, "%s", i < plot->n_series ? plot->series[i] : "others");
        pst_figure_shorten(plot->pen, text, sizeof text, plot->width - 8 - 2 * RADIUS - font);
        width = 2 * RADIUS + 0.5 * font + pst_pen_width(plot->pen, text);
        if (x > 4 && x + width > plot->width - 4) {
            x = 4;
            y += 1.5 * font;
        }
        draw_shape(plot->pen, i < plot->n_series ? i : MOST_SERIES, x + RADIUS, y);
        pst_pen_text(plot->pen, x + 2 * RADIUS + 0.5 * font, y, ALIGN_LEFT, pst_ink, text);
        x += width + 1.2 * font;
    }
    return y + font;
}

void pst_scatter_draw(const struct pst_scatter *scatter, double width, double height,
                      struct pst_pen *pen)
{
    struct plot plot = {.scatter = scatter, .pen = pen, .width = width, .height = height};

    pst_pen_font(pen, FIGURE_FONT, false);
    collect_series(&plot);
    choose_ranges(&plot);
    plot.x.at_low = 4 + widest_tick(&plot) + 6;
    plot.x.at_high = width - 10;
    plot.y.at_high = draw_legend(&plot) + 0.5 * FIGURE_FONT;
    plot.y.at_low = height - 4 - 3 * FIGURE_FONT;
    draw_axes(&plot);
    draw_capacity(&plot);
    draw_points(&plot);
}

void pst_scatter_draw_view(void *view, struct pst_pen *pen)
{
    const struct pst_scatter_view *what = view;

    pst_scatter_draw(what->scatter, what->width, what->height, pen);
}

pst_status pst_scatter_write(const struct pst_scatter *scatter, const char *path,
                             enum pst_figure_format format,
                             const struct pst_figure_options *options, struct pst_error *err)
{
    struct pst_scatter_view view = {scatter, options->width_pt > 0 ? options->width_pt : 480, 0};
    struct pst_canvas canvas = {.draw = pst_scatter_draw_view, .context = &view};
    pst_status status = pst_figure_check_size(options, err);

    view.height = options->height_pt > 0 ? options->height_pt : fmin(0.62 * view.width, 400) + 30;
    canvas.width = view.width;
    canvas.height = view.height;
    return status == PST_OK ? pst_canvas_write(&canvas, format, path, err) : status;
}
