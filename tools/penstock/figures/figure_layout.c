/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything goes: first what occurs, then the columns of the page, then its rows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "figures/figure_impl.h"
#include "reports/timeline_text.h"

#define NARROW 400.0 /* points: columns of a paper, rather than pages */

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* Copies come operator by operator; what follows without a gap is one piece to the eye. */
static bool goes_on(const struct pst_timeline *timeline, uint32_t i)
{
    const struct pst_span *span = &timeline->spans[i], *last = &timeline->spans[i > 0 ? i - 1 : 0];

    return i > 0 && (span->lane == PST_LANE_D2H || span->lane == PST_LANE_H2D) &&
           last->rank == span->rank && last->lane == span->lane && last->end_ns == span->start_ns;
}

/* Rows whose spans would be hairlines are noise: left out, and out of the legend. */
static void see_what_occurs(struct pst_figure_page *page)
{
    const struct pst_timeline *timeline = page->timeline;
    double total[PST_LANES] = {0};
    uint32_t n[PST_LANES] = {0};

    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        total[span->lane] += pst_figure_x(page, span->end_ns) - pst_figure_x(page, span->start_ns);
        n[span->lane] += !goes_on(timeline, i);
    }
    for (uint32_t lane = 0; lane < PST_LANES; lane++) {
        page->lane_shown[lane] = lane != PST_LANE_COMPUTE && lane != PST_LANE_OPTIMIZER &&
                                 n[lane] > 0 && total[lane] >= 1.5 * n[lane];
        page->n_lanes += page->lane_shown[lane];
    }
}

static void see_kinds(struct pst_figure_page *page)
{
    const struct pst_timeline *timeline = page->timeline;

    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        if (span->lane == PST_LANE_COMPUTE || span->lane == PST_LANE_OPTIMIZER ||
            page->lane_shown[span->lane]) {
            page->occurs[pst_figure_kind_of(span)] = true;
        }
    }
}

/* Durations of all passes in ascending order. */
static void sort_passes(struct pst_figure_page *page)
{
    const struct pst_timeline *timeline = page->timeline;
    uint64_t *times = pst_arena_array(&page->arena, (size_t)timeline->n_spans + 1, sizeof *times);
    uint32_t n = 0;

    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        if (timeline->spans[i].lane == PST_LANE_COMPUTE) {
            times[n++] = timeline->spans[i].end_ns - timeline->spans[i].start_ns;
        }
    }
    qsort(times, n, sizeof *times, pst_by_number);
    page->passes = times;
    page->n_passes = n;
}

/* Wider than usual where that gives the numbers of most passes room. */
static void choose_width(struct pst_figure_page *page)
{
    const uint64_t *times = page->passes;
    uint32_t n = page->n_passes;
    double font = FIGURE_FONT, usual = 90 * font, most = 145 * font, wanted;

    page->options.width_pt = usual;
    if (n > 0 && times[n / 20] > 0) {
        wanted =
            16 * font + 1.13 * font * (double)(page->to_ns - page->from_ns) / (double)times[n / 20];
        page->options.width_pt = wanted <= usual || wanted > most ? usual : ceil(wanted);
    }
}

/* Where the times lie: from 0, unless the clock began long before. */
static void choose_times(struct pst_figure_page *page)
{
    const struct pst_timeline *timeline = page->timeline;

    page->to_ns = timeline->end_ns;
    page->from_ns =
        timeline->begin_ns > (timeline->end_ns - timeline->begin_ns) / 2 ? timeline->begin_ns : 0;
    if (page->to_ns == page->from_ns) {
        page->to_ns = page->from_ns + 1;
    }
}

static double widest_name(const struct pst_figure_page *page, uint32_t form)
{
    char text[sizeof page->timeline->ranks[0].name];
    double widest = 0;

    for (uint32_t r = 0; r < page->timeline->n_ranks; r++) {
        double width;

        pst_figure_name(page->timeline, r, form, text, sizeof text);
        width = pst_pen_width(page->pen, text);
        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Names of ranks in the longest form that a fifth of the page has room for. */
void pst_figure_choose_columns(struct pst_figure_page *page)
{
    double font = FIGURE_FONT, width = page->options.width_pt, widest;

    page->narrow = width < NARROW;
    page->margin = page->narrow ? 4 : 8;
    pst_pen_font(page->pen, font, false);
    widest = widest_name(page, page->name_form = 0);
    while (widest > 0.2 * width && page->name_form + 1 < PST_NAME_FORMS) {
        widest = widest_name(page, ++page->name_form);
    }
    page->left = page->margin + clamp(widest, 2.5 * font, 0.3 * width) + 6;
    page->right = width - page->margin - pst_pen_width(page->pen, "100 %") - 5;
    page->head_left = page->narrow ? page->margin : page->left;
}

/* Rows as high as the number of ranks asks for; in `height` if that is given (0: not). */
static void size_rows(struct pst_figure_page *page, double height)
{
    double n = page->timeline->n_ranks == 0 ? 1 : page->timeline->n_ranks;
    double gap, share;

    page->row_h = clamp((page->narrow ? 280 : 480) / n, n > 256 ? 1.5 : 4.5,
                        (page->narrow ? 1.9 : 2.75) * FIGURE_FONT);
    page->lane_h = clamp(page->row_h * 0.2, 1.5, 4);
    gap = clamp(page->row_h * 0.22, 0.5, 4);
    page->pitch = page->row_h + page->lane_h * page->n_lanes + gap;
    if (height > 0) {
        share = height / (n * page->pitch);
        if (share < 0.8 || n > 64) {
            page->n_lanes = 0; /* thin rows would be lines */
            memset(page->lane_shown, 0, sizeof page->lane_shown);
            page->pitch = page->row_h + gap;
            share = height / (n * page->pitch);
        }
        page->row_h *= share;
        page->lane_h *= share;
        page->pitch *= share;
    }
}

/* Above, between and below the rows and the memory panel. */
static void stack_panels(struct pst_figure_page *page, bool memory)
{
    double font = FIGURE_FONT, axis = 4 + 2.6 * font, n = page->timeline->n_ranks;
    double curves = memory ? pst_figure_memory_height(page) : 0;
    double between = memory ? pst_figure_memory_heading(page, 0, false) + 1.2 * font : 0, rest = 0;
    double fixed = 1.5 * page->margin + page->header_h + 0.6 * font + axis + between;

    if (page->options.height_pt > 0) {
        rest = page->options.height_pt - fixed;
        curves = memory ? clamp(0.28 * rest, 20, 260) : 0;
        rest -= curves;
        rest = rest < 1 ? 1 : rest;
    }
    size_rows(page, rest);
    page->rows_top = page->margin + page->header_h + 0.6 * font;
    page->rows_bottom = page->rows_top + n * page->pitch;
    page->memory_top = page->rows_bottom + between;
    page->memory_bottom = page->memory_top + curves;
    if (!memory) {
        page->memory_top = page->memory_bottom = page->rows_bottom;
    }
    if (!(page->options.height_pt > 0)) {
        page->options.height_pt = ceil(page->memory_bottom + axis + page->margin / 2);
    }
}

static pst_status check_room(const struct pst_figure_page *page, struct pst_error *err)
{
    if (page->row_h < 0.5) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "the figure is too low for %u ranks: %g points", page->timeline->n_ranks,
                        page->options.height_pt);
    }
    if (page->options.height_pt > 14000) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value", "%u ranks are too many for one figure",
                        page->timeline->n_ranks);
    }
    return PST_OK;
}

void pst_figure_choose_content(struct pst_figure_page *page)
{
    double per_ns = (page->right - page->left) / (double)(page->to_ns - page->from_ns);
    uint32_t n = page->n_passes;

    page->typical_pass = n == 0 ? 0 : (double)page->passes[n / 2] * per_ns;
    page->dense = n > 0 && page->typical_pass < 1.2;
    page->dense_column = 1;
    page->memory_column = page->timeline->n_ranks > 16 ? 2 : 0.3;
    pst_figure_choose_ticks(page);
    see_what_occurs(page);
    see_kinds(page);
}

void pst_figure_prepare(struct pst_figure_page *page)
{
    page->chunk_of =
        pst_arena_array(&page->arena, (size_t)page->timeline->n_stages + 1, sizeof *page->chunk_of);
    page->n_chunks = pst_report_chunks(page->timeline, page->chunk_of);
    page->n_rank_colors = page->timeline->n_ranks;
    sort_passes(page);
    choose_times(page);
    if (page->options.width_pt == 0) {
        choose_width(page);
    }
}

pst_status pst_figure_layout(struct pst_figure_page *page, struct pst_error *err)
{
    pst_figure_prepare(page);
    pst_figure_choose_columns(page);
    pst_figure_choose_content(page);
    page->header_h = pst_figure_draw_head(page, false);
    stack_panels(page, page->options.show_memory && pst_figure_memory_known(page->timeline));
    return check_room(page, err);
}
