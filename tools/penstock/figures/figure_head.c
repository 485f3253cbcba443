/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands above the rows: title, the figures that everybody asks for, the legend.
 */
#include <stdio.h>

#include "figures/figure_impl.h"
#include "reports/sim_report.h"

#define SHADES 6 /* of a pass in the legend, at most */

static void summarize(const struct pst_figure_page *page, char *text, size_t room)
{
    const struct pst_timeline *timeline = page->timeline;
    uint64_t length = timeline->end_ns - timeline->begin_ns, peak = 0;
    char time[48], memory[48] = "", steps[48] = "", idle[PST_IDLE_TEXT];

    if (timeline->summary != NULL) {
        snprintf(text, room, "%s", timeline->summary);
        return;
    }
    pst_figure_format_time(timeline, length, time, sizeof time);
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        peak = timeline->ranks[r].peak_bytes > peak ? timeline->ranks[r].peak_bytes : peak;
    }
    if (peak > 0) {
        char bytes[32];

        pst_figure_format_memory(timeline, peak, bytes, sizeof bytes);
        snprintf(memory, sizeof memory, "   peak memory %s", bytes);
    }
    if (timeline->n_steps > 1) {
        snprintf(steps, sizeof steps, "   %u steps", timeline->n_steps);
    }
    snprintf(text, room, "makespan %s%s   idle: %s%s%s", time, steps,
             pst_report_idle_text(pst_timeline_idle(timeline), idle), memory,
             page->dense ? "   rows show shares of time" : "");
}

/* One entry of the legend; a pass shows a shade for each chunk. Returns its width. */
static double entry(const struct pst_figure_page *page, enum pst_figure_kind kind, double x,
                    double y, bool draw)
{
    double font = FIGURE_FONT, swatch = 1.1 * font, high = 0.8 * font;
    uint32_t n = !pst_figure_is_pass(kind) ? 1 : page->n_chunks > SHADES ? SHADES : page->n_chunks;
    double width = n == 1 ? swatch : 0.8 * font * n;

    if (draw) {
        for (uint32_t i = 0; i < n; i++) {
            pst_figure_source(page->cr, pst_figure_color(kind, i, n));
            cairo_rectangle(page->cr, x + width * i / n, y - high / 2, width / n, high);
            cairo_fill(page->cr);
        }
        pst_figure_source(page->cr, (struct pst_color){0.15, 0.15, 0.15});
        pst_figure_text(page->cr, x + width + 0.4 * font, y, ALIGN_LEFT,
                        pst_figure_kind_name(kind));
    }
    return width + 1.9 * font + pst_figure_text_width(page->cr, pst_figure_kind_name(kind));
}

/* In lines as wide as the plot. Returns the y behind it. */
static double legend(const struct pst_figure_page *page, double y, bool draw)
{
    double font = FIGURE_FONT, x = page->left;

    pst_figure_font(page->cr, font, false);
    y += 0.8 * font;
    for (uint32_t kind = 0; kind < FIGURE_KINDS; kind++) {
        double width;

        if (!page->occurs[kind]) {
            continue;
        }
        width = entry(page, kind, x, y, false);
        if (x > page->left && x + width > page->options.width_pt) {
            x = page->left;
            y += 1.5 * font;
        }
        entry(page, kind, x, y, draw);
        x += width;
    }
    return y + 0.8 * font;
}

double pst_figure_draw_head(struct pst_figure_page *page, bool draw)
{
    double font = FIGURE_FONT, y = 8;
    const char *title = page->timeline->title;
    char text[256];

    if (page->options.show_title && title != NULL && title[0] != '\0') {
        snprintf(text, sizeof text, "%s", title);
        pst_figure_font(page->cr, 1.35 * font, true);
        pst_figure_shorten(page->cr, text, sizeof text, page->options.width_pt - page->left - 8);
        if (draw) {
            pst_figure_source(page->cr, (struct pst_color){0.08, 0.08, 0.08});
            pst_figure_text(page->cr, page->left, y + 0.8 * font, ALIGN_LEFT, text);
        }
        y += 2.0 * font;
    }
    pst_figure_font(page->cr, font, false);
    if (draw) {
        summarize(page, text, sizeof text);
        pst_figure_source(page->cr, (struct pst_color){0.35, 0.35, 0.35});
        pst_figure_text(page->cr, page->left, y + 0.7 * font, ALIGN_LEFT, text);
    }
    return legend(page, y + 1.6 * font, draw) - 8;
}
