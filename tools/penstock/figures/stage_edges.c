/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines between stages. Within a line of the figure: curves in the gaps, straight where others have
 * boxes. From the end of a line to the beginning of the next: round the right, through the gap
 * between the lines, round the left, nested so that lines in the same order do not cross.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "figures/stage_impl.h"

#define ARROW  5.0
#define CORNER 4.0

static bool is_stage(const struct pst_stage_layout *l, uint32_t slot)
{
    return l->slots[slot].stage != PST_NONE;
}

/* Where the line leaves the column: a stage's right side, or where the place of an edge ends. */
static double right_of(const struct pst_stage_layout *l, uint32_t slot)
{
    return pst_stage_x(l, l->slots[slot].layer) + STAGE_BOX_W;
}

static void draw_arrow(struct pst_pen *pen, double x, double y)
{
    pst_pen_move(pen, x, y);
    pst_pen_line(pen, x - ARROW, y - ARROW / 2);
    pst_pen_line(pen, x - ARROW, y + ARROW / 2);
    pst_pen_close(pen);
    pst_pen_fill(pen, pst_faint);
}

/* Into a stage with an arrow, or straight through the column where another edge goes on. */
static void finish(const struct pst_stage_layout *l, struct pst_pen *pen, uint32_t to)
{
    double x = pst_stage_x(l, l->slots[to].layer), y = pst_stage_y(l, to);

    if (is_stage(l, to)) {
        pst_pen_line(pen, x - ARROW + 1, y);
        pst_pen_stroke(pen, pst_faint, 0.9, NULL);
        draw_arrow(pen, x, y);
    } else {
        pst_pen_line(pen, x + STAGE_BOX_W, y);
        pst_pen_stroke(pen, pst_faint, 0.9, NULL);
    }
}

static void draw_within(const struct pst_stage_layout *l, struct pst_pen *pen,
                        const struct pst_stage_link *link)
{
    double x0 = right_of(l, link->from), y0 = pst_stage_y(l, link->from);
    double x1 = pst_stage_x(l, l->slots[link->to].layer) - (is_stage(l, link->to) ? ARROW : 0);
    double y1 = pst_stage_y(l, link->to), middle = (x0 + x1) / 2;

    pst_pen_move(pen, x0, y0);
    pst_pen_curve(pen, middle, y0, middle, y1, x1, y1);
    finish(l, pen, link->to);
}

/* A line through points with rounded corners; the last is where the pen ends. */
static void round_path(struct pst_pen *pen, const double (*p)[2], uint32_t n)
{
    pst_pen_move(pen, p[0][0], p[0][1]);
    for (uint32_t i = 1; i + 1 < n; i++) {
        double dx0 = p[i - 1][0] > p[i][0] ? 1 : p[i - 1][0] < p[i][0] ? -1 : 0;
        double dy0 = p[i - 1][1] > p[i][1] ? 1 : p[i - 1][1] < p[i][1] ? -1 : 0;
        double dx1 = p[i + 1][0] > p[i][0] ? 1 : p[i + 1][0] < p[i][0] ? -1 : 0;
        double dy1 = p[i + 1][1] > p[i][1] ? 1 : p[i + 1][1] < p[i][1] ? -1 : 0;

        pst_pen_line(pen, p[i][0] + CORNER * dx0, p[i][1] + CORNER * dy0);
        pst_pen_curve(pen, p[i][0] + CORNER * dx0 / 2, p[i][1] + CORNER * dy0 / 2,
                      p[i][0] + CORNER * dx1 / 2, p[i][1] + CORNER * dy1 / 2,
                      p[i][0] + CORNER * dx1, p[i][1] + CORNER * dy1);
    }
    pst_pen_line(pen, p[n - 1][0], p[n - 1][1]);
}

/* lane 0: the uppermost of n in its line, which goes outside on the right and below in the gap. */
static void draw_turn(const struct pst_stage_layout *l, struct pst_pen *pen,
                      const struct pst_stage_link *link, uint32_t lane, uint32_t n, double gap_y)
{
    double y0 = pst_stage_y(l, link->from), y1 = pst_stage_y(l, link->to);
    double outside = l->left + l->columns * STAGE_COLUMN_W - (STAGE_COLUMN_W - STAGE_BOX_W) +
                     STAGE_LANE * (2 + n - 1 - lane);
    double inside = l->left - STAGE_LANE * (2 + lane) - ARROW;
    double y = gap_y + STAGE_LANE * (n - 1 - lane);
    const double points[][2] = {
        {right_of(l, link->from), y0},
        {outside, y0},
        {outside, y},
        {inside, y},
        {inside, y1},
        {pst_stage_x(l, l->slots[link->to].layer) - (is_stage(l, link->to) ? ARROW : 0), y1},
    };

    round_path(pen, points, sizeof points / sizeof points[0]);
    finish(l, pen, link->to);
}

/* Links that leave a line, from above; those of one place by where they go. */
static void sort_turns(const struct pst_stage_layout *l, struct pst_stage_link *links, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        struct pst_stage_link link = links[i];
        uint32_t at = i;

        while (at > 0) {
            double a = l->slots[links[at - 1].from].y, b = l->slots[link.from].y;

            if (a < b || (a == b && l->slots[links[at - 1].to].y <= l->slots[link.to].y)) {
                break;
            }
            links[at] = links[at - 1];
            at--;
        }
        links[at] = link;
    }
}

/* Below everything in the line that ends. */
static double gap_below(const struct pst_stage_layout *l, uint32_t line)
{
    uint32_t end = (line + 1) * l->columns < l->n_layers ? (line + 1) * l->columns : l->n_layers;
    double bottom = 0;

    for (uint32_t i = l->first[line * l->columns]; i < l->first[end]; i++) {
        double y = pst_stage_y(l, l->order[i]) + l->slots[l->order[i]].height / 2;

        bottom = y > bottom ? y : bottom;
    }
    return bottom + 11;
}

void pst_stage_draw_edges(const struct pst_stage_layout *layout, struct pst_pen *pen)
{
    struct pst_stage_link *turns = pst_alloc(layout->n_turns + (size_t)1, sizeof *turns);

    for (uint32_t layer = 0; layer + 1 < layout->n_layers; layer++) {
        bool turn = (layer + 1) % layout->columns == 0;
        uint32_t first = layout->first_link[layer], n = layout->first_link[layer + 1] - first;
        double gap_y = turn ? gap_below(layout, layer / layout->columns) : 0;

        for (uint32_t i = 0; i < n; i++) {
            if (turn) {
                turns[i] = layout->links[first + i];
            } else {
                draw_within(layout, pen, &layout->links[first + i]);
            }
        }
        if (turn) {
            sort_turns(layout, turns, n);
        }
        for (uint32_t i = 0; turn && i < n; i++) {
            draw_turn(layout, pen, &turns[i], i, n, gap_y);
        }
    }
    free(turns);
}
