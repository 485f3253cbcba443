/* SPDX-License-Identifier: Apache-2.0
 *
 * The time axis: its unit, round ticks, and the grid lines that go through all panels.
 */
#include <math.h>
#include <stdio.h>

#include "figures/figure_impl.h"

double pst_figure_nice_step(double range, uint32_t n_ticks)
{
    double rough = range / (n_ticks == 0 ? 1 : n_ticks), power;

    if (!(rough > 0)) {
        return 1;
    }
    power = pow(10, floor(log10(rough)));
    return power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
}

void pst_figure_choose_ticks(struct pst_figure_page *page)
{
    static const char *const units[] = {"ns", "\xC2\xB5s", "ms", "s"};
    double range = (double)(page->to_ns - page->from_ns);
    int i = 0;

    page->unit = "";
    page->ns_per_unit = page->timeline->ns_per_unit;
    if (!(page->ns_per_unit > 0)) {
        for (page->ns_per_unit = 1; i < 3 && range / page->ns_per_unit >= 2000; i++) {
            page->ns_per_unit *= 1000;
        }
        page->unit = units[i];
    }
    page->tick = pst_figure_nice_step(range / page->ns_per_unit,
                                      (uint32_t)((page->right - page->left) / 55));
}

double pst_figure_x(const struct pst_figure_page *page, uint64_t ns)
{
    double part;

    if (ns < page->from_ns) {
        return page->left;
    }
    part = (double)(ns - page->from_ns) / (double)(page->to_ns - page->from_ns);
    return page->left + part * (page->right - page->left);
}

static uint32_t count_ticks(const struct pst_figure_page *page)
{
    double range = (double)(page->to_ns - page->from_ns) / page->ns_per_unit;

    return (uint32_t)floor(range / page->tick * (1 + 1e-9)) + 1;
}

static double tick_x(const struct pst_figure_page *page, uint32_t i)
{
    double range = (double)(page->to_ns - page->from_ns) / page->ns_per_unit;

    return page->left + (page->right - page->left) * (page->tick * i / range);
}

void pst_figure_draw_grid(const struct pst_figure_page *page, double top, double bottom)
{
    uint32_t n = count_ticks(page);

    pst_pen_group(page->pen, "grid");
    for (uint32_t i = 0; i < n; i++) {
        pst_pen_move(page->pen, tick_x(page, i), top);
        pst_pen_line(page->pen, tick_x(page, i), bottom);
    }
    pst_pen_stroke(page->pen, pst_rule, 0.5, NULL);
    pst_pen_end(page->pen, false);
}

void pst_figure_draw_time_axis(const struct pst_figure_page *page, double y)
{
    double font = FIGURE_FONT, decimals = page->tick < 1 ? ceil(-log10(page->tick)) : 0;
    uint32_t n = count_ticks(page);
    char text[64];

    pst_pen_group(page->pen, "axis");
    pst_pen_move(page->pen, page->left, y);
    pst_pen_line(page->pen, page->right, y);
    for (uint32_t i = 0; i < n; i++) {
        pst_pen_move(page->pen, tick_x(page, i), y);
        pst_pen_line(page->pen, tick_x(page, i), y + 3);
    }
    pst_pen_stroke(page->pen, pst_soft, 0.6, NULL);
    pst_pen_font(page->pen, font, false);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%.*f", (int)decimals, page->tick * i);
        pst_pen_text(page->pen, tick_x(page, i), y + 4 + font * 0.6, ALIGN_CENTER, pst_soft, text);
    }
    snprintf(text, sizeof text, page->unit[0] == '\0' ? "time" : "time (%s)", page->unit);
    pst_pen_text(page->pen, (page->left + page->right) / 2, y + 4 + font * 1.9, ALIGN_CENTER,
                 pst_soft, text);
    pst_pen_end(page->pen, false);
}
