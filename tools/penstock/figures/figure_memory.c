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

static const struct pst_color dark = {0.15, 0.15, 0.15};

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
static uint32_t strips_of(const struct pst_timeline *timeline)
{
    uint32_t n_kinds = 0;

    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        n_kinds += memory_occurs(timeline, k);
    }
    return timeline->n_ranks <= 4 && n_kinds > 1 ? timeline->n_ranks : 0;
}

double pst_figure_memory_height(const struct pst_timeline *timeline)
{
    uint32_t strips = strips_of(timeline);

    return strips == 0 ? 110 : strips == 1 ? 70 : 46.0 * strips;
}

/* Many curves with all their teeth would be a grey area. */
static double column_width(const struct pst_timeline *timeline)
{
    return timeline->n_ranks > 16 ? 2 : 0.3;
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
    double column = (pst_figure_x(page, ns) - page->left) / column_width(page->timeline);

    return column >= n - 1 ? n - 1 : (uint32_t)column;
}

static struct column *columns_of(struct pst_figure_page *page, uint32_t rank, uint32_t *ret_n)
{
    const struct pst_timeline_rank *row = &page->timeline->ranks[rank];
    uint32_t n = (uint32_t)((page->right - page->left) / column_width(page->timeline)) + 1;
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
    uint64_t peak = 1, capacity = UINT64_MAX;
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
    scale->most *= height < 60 ? 1.3 : 1.08; /* room for a label */
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

    pst_figure_font(page->cr, 0.88 * font, false);
    cairo_set_line_width(page->cr, 0.5);
    for (uint32_t i = 0; i * scale->tick * scale->per_unit <= scale->most; i++) {
        double y = bottom - high * (i * scale->tick * scale->per_unit) / scale->most;

        pst_figure_source(page->cr, (struct pst_color){0.88, 0.88, 0.88});
        cairo_move_to(page->cr, page->left, y);
        cairo_line_to(page->cr, page->right, y);
        cairo_stroke(page->cr);
        if (below - y < 0.85 * font) {
            continue; /* a low strip has no room for this number */
        }
        below = y;
        snprintf(text, sizeof text, "%.*f", (int)decimals, i * scale->tick);
        pst_figure_source(page->cr, (struct pst_color){0.35, 0.35, 0.35});
        pst_figure_text(page->cr, page->left - 5, y, ALIGN_RIGHT, text);
    }
    if (scale->capacity_fits) {
        double y = bottom - high * (double)scale->capacity / scale->most;

        pst_figure_source(page->cr, (struct pst_color){0.72, 0.11, 0.11});
        cairo_set_line_width(page->cr, 0.8);
        cairo_set_dash(page->cr, dash, 2, 0);
        cairo_move_to(page->cr, page->left, y);
        cairo_line_to(page->cr, page->right, y);
        cairo_stroke(page->cr);
        cairo_set_dash(page->cr, NULL, 0, 0);
    }
}

/* What stands above the panel: where it goes on, how large it is, or only how wide it would be. */
struct heading {
    const struct pst_figure_page *page;
    double x, y, font;
    bool draw;
};

static void word(struct heading *h, struct pst_color color, const char *text, double space)
{
    if (h->draw) {
        pst_figure_source(h->page->cr, color);
        pst_figure_text(h->page->cr, h->x, h->y, ALIGN_LEFT, text);
    }
    h->x += pst_figure_text_width(h->page->cr, text) + space * h->font;
}

static void box(const struct heading *h, struct pst_color color, double x, double width)
{
    if (h->draw) {
        pst_figure_source(h->page->cr, color);
        cairo_rectangle(h->page->cr, x, h->y - 0.35 * h->font, width, 0.7 * h->font);
        cairo_fill(h->page->cr);
    }
}

static void swatch(struct heading *h, struct pst_color color, const char *text)
{
    box(h, color, h->x, 0.9 * h->font);
    h->x += 1.25 * h->font;
    word(h, dark, text, 1.05);
}

/* Few lines have a swatch each, many share a ramp. */
static void rank_legend(struct heading *h)
{
    uint32_t n = h->page->timeline->n_ranks;
    double wide = 7 * h->font;
    char text[64];

    if (n <= 8) {
        for (uint32_t r = 0; r < n; r++) {
            pst_figure_short_name(h->page->timeline, r, text, sizeof text);
            swatch(h, pst_figure_rank_color(r, n), text);
        }
        return;
    }
    pst_figure_short_name(h->page->timeline, 0, text, sizeof text);
    word(h, dark, text, 0.5);
    for (uint32_t i = 0; i < 32; i++) {
        box(h, pst_figure_rank_color(i, 32), h->x + wide * i / 32, wide / 32);
    }
    h->x += wide + 0.5 * h->font;
    snprintf(text, sizeof text, "%u", n - 1);
    word(h, dark, text, 1);
}

static void put_heading(struct heading *h, const struct scale *scale, bool strips)
{
    static const char *const names[PST_MEM_KINDS] = {"parameters",  "gradients", "optimizer state",
                                                     "activations", "buffers",   "workspace",
                                                     "guests"};
    char text[64], bytes[32];

    snprintf(text, sizeof text, scale->unit[0] == '\0' ? "memory" : "memory (%s)", scale->unit);
    pst_figure_font(h->page->cr, h->font, true);
    word(h, dark, text, 1.5);
    pst_figure_font(h->page->cr, h->font, false);
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
        word(h, (struct pst_color){0.72, 0.11, 0.11}, text, 0);
    }
}

/* One line, in letters as small as it takes. */
static void draw_heading(const struct pst_figure_page *page, const struct scale *scale, bool strips)
{
    double font = FIGURE_FONT, room = page->options.width_pt - page->left - 4;
    struct heading h = {page, page->left, page->memory_top - 1.0 * font, font, false};

    put_heading(&h, scale, strips);
    if (h.x - page->left > room) {
        font *= room / (h.x - page->left);
    }
    h = (struct heading){page, page->left, h.y, font, true};
    put_heading(&h, scale, strips);
}

/* --- curves: lines of many ranks, or stacked areas of one rank; the peak with its value
 * ----------*/

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
    double x = panel->page->left + column * column_width(panel->page->timeline);

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

static uint32_t peak_column(const struct column *columns, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t c = 1; c < n; c++) {
        best = columns[c].bytes > columns[best].bytes ? c : best;
    }
    return best;
}

/* Wide columns are joined by slopes: their edges are nobody's events. */
static void draw_line(const struct panel *panel, const struct column *columns, uint32_t n)
{
    bool steps = column_width(panel->page->timeline) < 1;
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

static void draw_lines(struct pst_figure_page *page, const struct scale *scale)
{
    const struct pst_timeline *timeline = page->timeline;
    struct panel panel = {page, scale, page->memory_top, page->memory_bottom};
    uint32_t top_rank = 0, top_column = 0;

    pst_figure_draw_grid(page, panel.top, panel.bottom);
    draw_memory_axis(page, scale, panel.top, panel.bottom);
    for (uint32_t back = 0; back < timeline->n_ranks; back++) {
        uint32_t r = timeline->n_ranks - 1 - back, n; /* the fullest is often the first: on top */
        struct column *columns = columns_of(page, r, &n);
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
                      const struct column *columns, uint32_t n, uint32_t kind, double *floors)
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
    struct column *columns = columns_of(page, rank, &n);
    double *floors = pst_arena_array(&page->arena, n, sizeof *floors);
    char text[64];

    pst_figure_draw_grid(page, panel->top, panel->bottom);
    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        if (memory_occurs(page->timeline, k)) {
            draw_kind(panel, row->points, columns, n, k, floors);
        }
    }
    draw_memory_axis(page, panel->scale, panel->top, panel->bottom);
    if (row->n_points > 0) {
        mark_peak(panel, rank, peak_column(columns, n), false);
    }
    pst_figure_short_name(page->timeline, rank, text, sizeof text);
    pst_figure_source(page->cr, (struct pst_color){0.15, 0.15, 0.15});
    pst_figure_text(page->cr, page->right + 4, (panel->top + panel->bottom) / 2, ALIGN_LEFT, text);
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
    uint32_t strips = strips_of(page->timeline);
    double high = page->memory_bottom - page->memory_top;
    struct scale scale;

    if (!(high > 0)) {
        return;
    }
    choose_scale(page, strips == 0 ? high : high / strips, &scale);
    draw_heading(page, &scale, strips > 0);
    if (strips > 0) {
        draw_strips(page, &scale);
    } else {
        draw_lines(page, &scale);
    }
}
