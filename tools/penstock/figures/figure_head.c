/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws the head above the rows: title, key figures, legend. What does not fit into a line
 * continues in the next; the last key figures are left out first.
 */
#include <stdio.h>
#include <string.h>

#include "figures/figure_impl.h"
#include "reports/sim_report.h"

#define SHADES    6 /* of a pass in the legend, at most */
#define MOST_ROWS 3 /* lines of title and of figures, at most */

/* Pieces of text in lines from left to right; what has no room in most_rows is left out. */
struct flow {
    double left, right, y;
    double gap; /* between pieces, in units of the font */
    uint32_t most_rows;
    struct pst_color color;
};

static double put_flow(struct pst_pen *pen, const struct flow *flow, const char *const *parts,
                       uint32_t n, bool draw)
{
    double x = flow->left, y = flow->y, pitch = 1.35 * pen->size;
    uint32_t rows = 1;
    char text[256];

    for (uint32_t i = 0; i < n; i++) {
        double width;

        snprintf(text, sizeof text, "%s", parts[i]);
        pst_figure_shorten(pen, text, sizeof text, flow->right - flow->left);
        width = pst_pen_width(pen, text);
        if (x > flow->left && x + width > flow->right) {
            if (rows == flow->most_rows) {
                break;
            }
            rows++;
            x = flow->left;
            y += pitch;
        }
        if (draw) {
            pst_pen_text(pen, x, y + pitch / 2, ALIGN_LEFT, flow->color, text);
        }
        x += width + flow->gap * pen->size;
    }
    return y + pitch;
}

static double put_words(struct pst_pen *pen, const struct flow *flow, const char *text, bool draw)
{
    const char *words[64];
    char copy[512];
    uint32_t n = 0;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *at = strtok(copy, " "); at != NULL && n < 64; at = strtok(NULL, " ")) {
        words[n++] = at;
    }
    return put_flow(pen, flow, words, n, draw);
}

struct summary {
    char text[5][96];
    const char *parts[5];
};

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

/* A step in the steady state, or the makespan; what else the timeline shows of an asynchronous plan
   is named. Returns how many parts there are. */
static uint32_t summarize_time(const struct pst_figure_page *page, struct summary *summary)
{
    const struct pst_timeline *timeline = page->timeline;
    const bool steady = timeline->step.ns > 0;
    char text[48], idle[PST_IDLE_TEXT];
    uint32_t n = 0;

    pst_figure_format_time(
        timeline, timeline->drains ? timeline->step.ns : timeline->end_ns - timeline->begin_ns,
        text, sizeof text);
    snprintf(summary->text[n++], sizeof summary->text[0], "%s %s",
             timeline->drains ? "step" : "makespan", text);
    snprintf(
        summary->text[n++], sizeof summary->text[0], "idle: %s",
        pst_report_idle_text(steady ? timeline->step.idle : pst_timeline_idle(timeline), idle));
    if (timeline->drains) {
        pst_figure_format_time(timeline, timeline->end_ns - timeline->begin_ns, text, sizeof text);
        snprintf(summary->text[n++], sizeof summary->text[0], "shown: %u step%s, fill, drain: %s",
                 timeline->n_steps, plural(timeline->n_steps), text);
    }
    return n;
}

/* The most important first. Returns how many. */
static uint32_t summarize(const struct pst_figure_page *page, struct summary *summary)
{
    const struct pst_timeline *timeline = page->timeline;
    uint32_t n = summarize_time(page, summary);
    uint64_t peak = 0;
    char text[48];

    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        peak = timeline->ranks[r].peak_bytes > peak ? timeline->ranks[r].peak_bytes : peak;
    }
    if (peak > 0) {
        pst_figure_format_memory(timeline, peak, text, sizeof text);
        snprintf(summary->text[n++], sizeof summary->text[0], "peak %s %s",
                 timeline->bytes_per_unit > 0 ? "memory" : "live memory", text);
    }
    if (timeline->n_steps > 1 && !timeline->drains) {
        snprintf(summary->text[n++], sizeof summary->text[0], "%u steps", timeline->n_steps);
    }
    if (page->dense) {
        snprintf(summary->text[n++], sizeof summary->text[0], "rows show shares of time");
    }
    for (uint32_t i = 0; i < n; i++) {
        summary->parts[i] = summary->text[i];
    }
    return n;
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
            pst_pen_rect(page->pen, x + width * i / n, y - high / 2, width / n, high);
            pst_pen_fill(page->pen, pst_figure_color(kind, i, n));
        }
        pst_pen_text(page->pen, x + width + 0.4 * font, y, ALIGN_LEFT, pst_ink,
                     pst_figure_kind_name(kind));
    }
    return width + 0.4 * font + pst_pen_width(page->pen, pst_figure_kind_name(kind));
}

double pst_figure_draw_legend(const struct pst_figure_page *page, double y, bool draw)
{
    double font = FIGURE_FONT, x = page->head_left;

    pst_pen_font(page->pen, font, false);
    y += 0.8 * font;
    for (uint32_t kind = 0; kind < FIGURE_KINDS; kind++) {
        double width;

        if (!page->occurs[kind]) {
            continue;
        }
        width = entry(page, kind, x, y, false);
        if (x > page->head_left && x + width > page->options.width_pt - page->margin) {
            x = page->head_left;
            y += 1.5 * font;
        }
        entry(page, kind, x, y, draw);
        x += width + 1.5 * font;
    }
    return y + 0.8 * font;
}

static double draw_title(const struct pst_figure_page *page, double y, bool draw)
{
    struct flow flow = {page->head_left, page->options.width_pt - page->margin, y, 0.28, MOST_ROWS,
                        pst_ink};
    const char *title = page->timeline->title;

    if (!page->options.show_title || title == NULL || title[0] == '\0') {
        return y;
    }
    pst_pen_font(page->pen, 1.3 * FIGURE_FONT, true);
    return put_words(page->pen, &flow, title, draw) + 0.2 * FIGURE_FONT;
}

double pst_figure_draw_summary(const struct pst_figure_page *page, double y, bool draw)
{
    struct flow flow = {page->head_left, page->options.width_pt - page->margin, y, 0.9, MOST_ROWS,
                        pst_soft};
    struct summary summary;
    uint32_t n;

    if (page->name != NULL) {
        flow.color = pst_ink;
        pst_pen_font(page->pen, FIGURE_FONT, true);
        flow.y = put_flow(page->pen, &flow, &page->name, 1, draw);
        flow.color = pst_soft;
    }
    pst_pen_font(page->pen, FIGURE_FONT, false);
    if (page->timeline->summary != NULL) {
        flow.gap = 0.28;
        return put_words(page->pen, &flow, page->timeline->summary, draw);
    }
    n = summarize(page, &summary);
    return put_flow(page->pen, &flow, summary.parts, n, draw);
}

double pst_figure_draw_head(struct pst_figure_page *page, bool draw)
{
    double y = draw_title(page, page->margin, draw);

    y = pst_figure_draw_summary(page, y, draw);
    return pst_figure_draw_legend(page, y + 0.3 * FIGURE_FONT, draw) - page->margin;
}
