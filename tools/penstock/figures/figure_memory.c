/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory panel. Few ranks with several kinds of bytes: a strip each, kinds stacked. Else one
 * line for each rank. Curves are drawn as the most that was live in each narrow column of the page,
 * so no peak is lost however many points there are.
 */
#include <stdio.h>

#include "figures/figure_impl.h"

struct scale {
    double most;           /* bytes at the top */
    double per_unit, tick; /* bytes of the unit; distance of ticks in it */
    const char *unit;      /* "GiB", or "" for a unit of the user's own */
    uint64_t capacity;     /* the smallest; UINT64_MAX: none */
    bool capacity_fits;    /* is it below the top? */
};

/* The curve of a rank in columns of the page: the most that was live in each; its point. */
struct column {
    uint64_t bytes;
    uint32_t point; /* PST_NONE: nothing known here */
};

bool pst_figure_memory_known(const struct pst_timeline *timeline)
{
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        if (timeline->ranks[r].n_points > 0 && timeline->ranks[r].peak_bytes > 0) {
            return true;
        }
    }
    return false;
}

static bool memory_occurs(const struct pst_timeline *timeline, uint32_t kind)
{
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        for (uint32_t i = 0; i < timeline->ranks[r].n_points; i++) {
            if (timeline->ranks[r].points[i].bytes[kind] > 0) {
                return true;
            }
        }
    }
    return false;
}

/* 0: lines. */
static uint32_t strips_of(const struct pst_figure_page *page)
{
    const struct pst_timeline *timeline = page->timeline;
    uint32_t n_kinds = 0;

    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        n_kinds += memory_occurs(timeline, k);
    }
    return timeline->n_ranks <= 4 && n_kinds > 1 && page->memory_peak == 0 ? timeline->n_ranks : 0;
}

double pst_figure_memory_height(const struct pst_figure_page *page)
{
    uint32_t strips = strips_of(page);

    return strips == 0 ? 110 : strips == 1 ? 70 : 46.0 * strips;
}

static uint64_t sum_of(const struct pst_memory_point *point)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        sum += point->bytes[k];
    }
    return sum;
}

static uint32_t column_of(const struct pst_figure_page *page, uint64_t ns, uint32_t n)
{
    double column = (pst_figure_x(page, ns) - page->left) / page->memory_column;

    return column >= n - 1 ? n - 1 : (uint32_t)column;
}

static struct column *columns_of(struct pst_figure_page *page, uint32_t rank, uint32_t *ret_n)
{
    const struct pst_timeline_rank *row = &page->timeline->ranks[rank];
    uint32_t n = (uint32_t)((page->right - page->left) / page->memory_column) + 1;
    struct column *columns = pst_arena_array(&page->arena, n, sizeof *columns);

    for (uint32_t c = 0; c < n; c++) {
        columns[c].point = PST_NONE;
    }
    for (uint32_t i = 0; i < row->n_points; i++) {
        uint32_t from = column_of(page, row->points[i].ns, n);
        uint32_t to = i + 1 < row->n_points ? column_of(page, row->points[i + 1].ns, n) : n - 1;
        uint64_t sum = sum_of(&row->points[i]);

        for (uint32_t c = from; c <= to; c++) {
            if (columns[c].point == PST_NONE || sum > columns[c].bytes) {
                columns[c] = (struct column){sum, i};
            }
        }
    }
    *ret_n = n;
    return columns;
}

static void choose_scale(const struct pst_figure_page *page, double height, struct scale *scale)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    const struct pst_timeline *timeline = page->timeline;
    uint64_t peak = page->memory_peak > 0 ? page->memory_peak : 1, capacity = UINT64_MAX;
    uint32_t ticks = (uint32_t)(height / (2.2 * FIGURE_FONT));
    int i = 0;

    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        const struct pst_timeline_rank *rank = &timeline->ranks[r];

        peak = rank->peak_bytes > peak ? rank->peak_bytes : peak;
        capacity = rank->capacity_bytes < capacity ? rank->capacity_bytes : capacity;
    }
    scale->capacity = capacity;
    scale->capacity_fits = (double)capacity <= 2.5 * (double)peak;
    scale->unit = "";
    scale->per_unit = timeline->bytes_per_unit;
    if (!(scale->per_unit > 0)) {
        for (scale->per_unit = 1; i < 4 && (double)peak / scale->per_unit >= 1024; i++) {
            scale->per_unit *= 1024;
        }
        scale->unit = units[i];
    }
    scale->most = (double)peak;
    if (scale->capacity_fits && (double)capacity > scale->most) {
        scale->most = (double)capacity;
    }
    scale->most *= height < 60 || page->memory_peak > 0 ? 1.3 : 1.08; /* room for a label */
    scale->tick = pst_figure_nice_step(scale->most / scale->per_unit, ticks < 2 ? 2 : ticks);
    if (scale->tick * scale->per_unit > 0.9 * scale->most) {
        scale->tick /= 2; /* a 0 alone is no scale */
    }
}

/* Horizontal lines with their numbers at the left, and the capacity as a dashed line. */
static void draw_memory_axis(const struct pst_figure_page *page, const struct scale *scale,
                             double top, double bottom)
{
    double high = bottom - top, font = FIGURE_FONT, below = bottom + high + font;
    uint32_t decimals = scale->tick < 1 ? scale->tick < 0.1 ? 2 : 1 : 0;
    const double dash[] = {4, 2.5};
    char text[48];

    pst_pen_font(page->pen, 0.88 * font, false);
    for (uint32_t i = 0; i * scale->tick * scale->per_unit <= scale->most; i++) {
        double y = bottom - high * (i * scale->tick * scale->per_unit) / scale->most;

        pst_pen_move(page->pen, page->left, y);
        pst_pen_line(page->pen, page->right, y);
        pst_pen_stroke(page->pen, pst_rule, 0.5, NULL);
        if (below - y < 0.85 * font) {
            continue; /* a low strip has no room for this number */
        }
        below = y;
        snprintf(text, sizeof text, "%.*f", (int)decimals, i * scale->tick);
        pst_pen_text(page->pen, page->left - 5, y, ALIGN_RIGHT, pst_soft, text);
    }
    if (scale->capacity_fits) {
        double y = bottom - high * (double)scale->capacity / scale->most;

        pst_pen_move(page->pen, page->left, y);
        pst_pen_line(page->pen, page->right, y);
        pst_pen_stroke(page->pen, pst_alarm, 0.8, dash);
    }
}

/* The heading above the panel, in as many lines as needed. draw false: it is only measured. */
struct heading {
    const struct pst_figure_page *page;
    double x, y, font;
    bool draw;
};

/* Room for a piece of that width, here or in a further line. */
static void make_room(struct heading *h, double width)
{
    if (h->x > h->page->head_left && h->x + width > h->page->options.width_pt - h->page->margin) {
        h->x = h->page->head_left;
        h->y += 1.4 * h->font;
    }
}

static void word(struct heading *h, struct pst_color color, const char *text, double space)
{
    if (h->draw) {
        pst_pen_text(h->page->pen, h->x, h->y, ALIGN_LEFT, color, text);
    }
    h->x += pst_pen_width(h->page->pen, text) + space * h->font;
}

static void box(const struct heading *h, struct pst_color color, double x, double width)
{
    if (h->draw) {
        pst_pen_rect(h->page->pen, x, h->y - 0.35 * h->font, width, 0.7 * h->font);
        pst_pen_fill(h->page->pen, color);
    }
}

static void swatch(struct heading *h, struct pst_color color, const char *text)
{
    make_room(h, 1.25 * h->font + pst_pen_width(h->page->pen, text));
    box(h, color, h->x, 0.9 * h->font);
    h->x += 1.25 * h->font;
    word(h, pst_ink, text, 1.05);
}

/* Few lines have a swatch each, many share a ramp. */
static void rank_legend(struct heading *h)
{
    uint32_t n = h->page->n_rank_colors;
    double wide = 7 * h->font;
    char text[64], last[16];

    if (n <= 8) {
        for (uint32_t r = 0; r < n; r++) {
            pst_figure_name(h->page->timeline, r, n > 3 && r > 0 ? 2 : PST_NAME_SHORT, text,
                            sizeof text);
            swatch(h, pst_figure_rank_color(r, n), text);
        }
        return;
    }
    pst_figure_name(h->page->timeline, 0, PST_NAME_SHORT, text, sizeof text);
    snprintf(last, sizeof last, "%u", n - 1);
    make_room(h, pst_pen_width(h->page->pen, text) + wide + h->font +
                     pst_pen_width(h->page->pen, last));
    word(h, pst_ink, text, 0.5);
    for (uint32_t i = 0; i < 32; i++) {
        box(h, pst_figure_rank_color(i, 32), h->x + wide * i / 32, wide / 32);
    }
    h->x += wide + 0.5 * h->font;
    word(h, pst_ink, last, 1);
}

static void put_heading(struct heading *h, const struct scale *scale, bool strips)
{
    static const char *const names[PST_MEM_KINDS] = {"parameters",  "gradients", "optimizer state",
                                                     "activations", "buffers",   "workspace",
                                                     "guests"};
    char text[64], bytes[32];

    snprintf(text, sizeof text, scale->unit[0] == '\0' ? "memory" : "live memory (%s)",
             scale->unit);
    pst_pen_font(h->page->pen, h->font, true);
    word(h, pst_ink, text, 1.5);
    pst_pen_font(h->page->pen, h->font, false);
    for (uint32_t k = 0; strips && k < PST_MEM_KINDS; k++) {
        if (memory_occurs(h->page->timeline, k)) {
            swatch(h, pst_figure_memory_color(k), names[k]);
        }
    }
    if (!strips) {
        rank_legend(h);
    }
    if (scale->capacity != UINT64_MAX) {
        pst_figure_format_memory(h->page->timeline, scale->capacity, bytes, sizeof bytes);
        snprintf(text, sizeof text, "%scapacity %s", scale->capacity_fits ? "- - " : "", bytes);
        make_room(h, pst_pen_width(h->page->pen, text));
        word(h, pst_alarm, text, 0);
    }
}

double pst_figure_memory_heading(const struct pst_figure_page *page, double y, bool draw)
{
    struct heading h = {page, page->head_left, y + 0.5 * FIGURE_FONT, FIGURE_FONT, draw};
    struct scale scale;

    choose_scale(page, pst_figure_memory_height(page), &scale);
    put_heading(&h, &scale, strips_of(page) > 0);
    return h.y + 0.8 * h.font;
}

/* --- curves: lines of many ranks, or stacked areas of one rank; the peak with its value --------*/

struct panel {
    struct pst_figure_page *page;
    const struct scale *scale;
    double top, bottom;
};

static double y_of(const struct panel *panel, double bytes)
{
    return panel->bottom - (panel->bottom - panel->top) * bytes / panel->scale->most;
}

static double x_of(const struct panel *panel, uint32_t column)
{
    double x = panel->page->left + column * panel->page->memory_column;

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
    double x = x_of(panel, column), y = y_of(panel, (double)peak), font = FIGURE_FONT;
    char bytes[32], name[64], text[128];

    pst_figure_format_memory(page->timeline, peak, bytes, sizeof bytes);
    snprintf(text, sizeof text, "%s", bytes);
    pst_pen_font(page->pen, 0.88 * font, false);
    if (with_rank) {
        pst_figure_name(page->timeline, rank, PST_NAME_SHORT, name, sizeof name);
        snprintf(text, sizeof text, "%s, %s", bytes, name);
        pst_figure_shorten(page->pen, text, sizeof text, page->right - page->left - 4);
    }
    pst_pen_circle(page->pen, x, y, 1.7);
    pst_pen_fill(page->pen, pst_ink);
    y = pst_figure_label_y(
        y, panel->scale->capacity_fits ? y_of(panel, (double)panel->scale->capacity) : -1e9,
        panel->top, font);
    if (x + 4 + pst_pen_width(page->pen, text) <= page->right) {
        pst_pen_text(page->pen, x + 2, y, ALIGN_LEFT, pst_ink, text);
    } else if (x - 2 - pst_pen_width(page->pen, text) >= page->left) {
        pst_pen_text(page->pen, x - 2, y, ALIGN_RIGHT, pst_ink, text);
    } else {
        pst_pen_text(page->pen, page->left + 2, y, ALIGN_LEFT, pst_ink, text);
    }
}

static uint32_t peak_column(const struct column *columns, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t c = 1; c < n; c++) {
        best = columns[c].bytes > columns[best].bytes ? c : best;
    }
    return best;
}

/* Wide columns are joined by slopes: their edges are nobody's events. */
static void draw_line(const struct panel *panel, const struct column *columns, uint32_t n,
                      struct pst_color color)
{
    bool steps = panel->page->timeline->n_ranks <= 16;
    struct pst_pen *pen = panel->page->pen;
    bool begun = false;

    for (uint32_t c = 0; c < n; c++) {
        if (columns[c].point == PST_NONE) {
            continue;
        }
        if (!begun) {
            pst_pen_move(pen, x_of(panel, c), y_of(panel, (double)columns[c].bytes));
            begun = true;
        } else if (columns[c].bytes != columns[c - 1].bytes) {
            if (steps || (c > 1 && columns[c - 1].bytes == columns[c - 2].bytes)) {
                pst_pen_line(pen, x_of(panel, c - !steps),
                             y_of(panel, (double)columns[c - 1].bytes));
            }
            pst_pen_line(pen, x_of(panel, c), y_of(panel, (double)columns[c].bytes));
        }
    }
    if (begun) {
        pst_pen_line(pen, panel->page->right, y_of(panel, (double)columns[n - 1].bytes));
    }
    pst_pen_stroke(pen, color, panel->page->timeline->n_ranks > 16 ? 0.5 : 1.1, NULL);
}

static void draw_lines(struct pst_figure_page *page, const struct scale *scale)
{
    const struct pst_timeline *timeline = page->timeline;
    struct panel panel = {page, scale, page->memory_top, page->memory_bottom};
    uint32_t top_rank = 0, top_column = 0;

    pst_figure_draw_grid(page, panel.top, panel.bottom);
    draw_memory_axis(page, scale, panel.top, panel.bottom);
    pst_pen_group(page->pen, "curves");
    pst_pen_view(page->pen, page->left, panel.top, page->right - page->left,
                 panel.bottom - panel.top);
    for (uint32_t back = 0; back < timeline->n_ranks; back++) {
        uint32_t r = timeline->n_ranks - 1 - back, n; /* the fullest is often the first: on top */
        struct column *columns = columns_of(page, r, &n);

        draw_line(&panel, columns, n, pst_figure_rank_color(r, page->n_rank_colors));
        if (back == 0 || timeline->ranks[r].peak_bytes >= timeline->ranks[top_rank].peak_bytes) {
            top_rank = r;
            top_column = peak_column(columns, n);
        }
    }
    pst_pen_end(page->pen, true);
    pst_pen_end(page->pen, false);
    pst_pen_group(page->pen, "peak");
    mark_peak(&panel, top_rank, top_column, true);
    pst_pen_end(page->pen, false);
}

/* The area of one kind on top of those below it. */
static void draw_kind(const struct panel *panel, const struct pst_memory_point *points,
                      const struct column *columns, uint32_t n, uint32_t kind, double *floors)
{
    struct pst_pen *pen = panel->page->pen;

    pst_pen_move(pen, x_of(panel, 0), y_of(panel, floors[0]));
    for (uint32_t c = 1; c < n; c++) {
        if (floors[c] != floors[c - 1]) {
            pst_pen_line(pen, x_of(panel, c), y_of(panel, floors[c - 1]));
            pst_pen_line(pen, x_of(panel, c), y_of(panel, floors[c]));
        }
    }
    pst_pen_line(pen, panel->page->right, y_of(panel, floors[n - 1]));
    for (uint32_t c = 0; c < n; c++) {
        floors[c] +=
            columns[c].point == PST_NONE ? 0 : (double)points[columns[c].point].bytes[kind];
    }
    pst_pen_line(pen, panel->page->right, y_of(panel, floors[n - 1]));
    for (uint32_t c = n - 1; c > 0; c--) {
        if (floors[c] != floors[c - 1]) {
            pst_pen_line(pen, x_of(panel, c), y_of(panel, floors[c]));
            pst_pen_line(pen, x_of(panel, c), y_of(panel, floors[c - 1]));
        }
    }
    pst_pen_line(pen, x_of(panel, 0), y_of(panel, floors[0]));
    pst_pen_close(pen);
    pst_pen_fill(pen, pst_figure_memory_color(kind));
}

static void draw_strip(const struct panel *panel, uint32_t rank)
{
    struct pst_figure_page *page = panel->page;
    const struct pst_timeline_rank *row = &page->timeline->ranks[rank];
    uint32_t n;
    struct column *columns = columns_of(page, rank, &n);
    double *floors = pst_arena_array(&page->arena, n, sizeof *floors);
    char text[64];

    pst_figure_draw_grid(page, panel->top, panel->bottom);
    pst_pen_view(page->pen, page->left, panel->top, page->right - page->left,
                 panel->bottom - panel->top);
    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        if (memory_occurs(page->timeline, k)) {
            draw_kind(panel, row->points, columns, n, k, floors);
        }
    }
    pst_pen_end(page->pen, true);
    draw_memory_axis(page, panel->scale, panel->top, panel->bottom);
    pst_pen_group(page->pen, "peak");
    if (row->n_points > 0) {
        mark_peak(panel, rank, peak_column(columns, n), false);
    }
    pst_pen_end(page->pen, false);
    pst_figure_name(page->timeline, rank, PST_NAME_SHORT, text, sizeof text);
    pst_figure_shorten(page->pen, text, sizeof text,
                       page->options.width_pt - page->margin - page->right - 4);
    pst_pen_text(page->pen, page->right + 4, (panel->top + panel->bottom) / 2, ALIGN_LEFT, pst_ink,
                 text);
}

static void draw_strips(struct pst_figure_page *page, const struct scale *scale)
{
    uint32_t n = page->timeline->n_ranks;
    double high = (page->memory_bottom - page->memory_top) / n;

    for (uint32_t r = 0; r < n; r++) {
        double top = page->memory_top + r * high;
        struct panel panel = {page, scale, top, top + high - (r + 1 < n ? 6 : 0)};

        draw_strip(&panel, r);
    }
}

void pst_figure_draw_memory(struct pst_figure_page *page)
{
    uint32_t strips = strips_of(page);
    double high = page->memory_bottom - page->memory_top;
    struct scale scale;

    if (!(high > 0)) {
        return;
    }
    choose_scale(page, strips == 0 ? high : high / strips, &scale);
    if (strips > 0) {
        draw_strips(page, &scale);
    } else {
        draw_lines(page, &scale);
    }
}
