/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the stages and their edges stand. Column by column, to and fro, each place goes as near to
 * the mean of its neighbours as the distances in its column allow, by least squares (pool adjacent
 * violators), in the order of these means: the barycentres of K. Sugiyama, S. Tagawa, M. Toda
 * ("Methods for visual understanding of hierarchical system structures", IEEE Trans. SMC 11(2),
 * 1981), of heights instead of numbers. Then lines of columns, in the shape of a screen.
 */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "figures/stage_impl.h"

#define SWEEPS   24
#define DISTANCE 12.0

/* --- order and heights -------------------------------------------------------------------------*/

/* Neighbours on one side: means by slot. */
struct means {
    double *sum;
    uint32_t *count;
};

static uint32_t n_of(const struct pst_stage_layout *l, uint32_t layer)
{
    return l->first[layer + 1] - l->first[layer];
}

/* Sums what the other ends of the links that begin (down) or end in a layer have. */
static void sum_neighbours(const struct pst_stage_layout *l, uint32_t layer, bool from_left,
                           const double *value, struct means *means)
{
    uint32_t gap = from_left ? layer - 1 : layer;

    for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
        means->sum[l->order[i]] = 0;
        means->count[l->order[i]] = 0;
    }
    for (uint32_t i = l->first_link[gap]; i < l->first_link[gap + 1]; i++) {
        uint32_t own = from_left ? l->links[i].to : l->links[i].from;
        uint32_t other = from_left ? l->links[i].from : l->links[i].to;

        means->sum[own] += value[other];
        means->count[own]++;
    }
}

static void sort_layer(struct pst_stage_layout *l, uint32_t layer, const double *y)
{
    /* Insertion: stable, and columns are short. */
    for (uint32_t i = l->first[layer] + 1; i < l->first[layer + 1]; i++) {
        uint32_t slot = l->order[i], at = i;

        while (at > l->first[layer] && y[l->order[at - 1]] > y[slot]) {
            l->order[at] = l->order[at - 1];
            at--;
        }
        l->order[at] = slot;
    }
}

/* Distance of the middles of neighbours in a column. */
static double distance(const struct pst_stage_layout *l, uint32_t above, uint32_t below)
{
    return (l->slots[above].height + l->slots[below].height) / 2 + DISTANCE;
}

/*
 * y_i as near to wanted_i as y_(i+1) >= y_i + d_i allows: with offsets taken off, means of the
 * largest blocks that would otherwise overlap.
 */
static void settle_layer(struct pst_stage_layout *l, uint32_t layer, double *wanted, double *block,
                         uint32_t *size)
{
    const uint32_t *order = l->order + l->first[layer];
    uint32_t n = n_of(l, layer), n_blocks = 0, i = 0;
    double offset = 0;

    for (uint32_t k = 0; k < n; k++) {
        offset += k == 0 ? 0 : distance(l, order[k - 1], order[k]);
        block[n_blocks] = wanted[order[k]] - offset;
        size[n_blocks++] = 1;
        while (n_blocks > 1 && block[n_blocks - 2] > block[n_blocks - 1]) {
            double a = block[n_blocks - 2] * size[n_blocks - 2];
            double b = block[n_blocks - 1] * size[n_blocks - 1];

            n_blocks--;
            size[n_blocks - 1] += size[n_blocks];
            block[n_blocks - 1] = (a + b) / size[n_blocks - 1];
        }
    }
    offset = 0;
    for (uint32_t b = 0; b < n_blocks; b++) {
        for (uint32_t k = 0; k < size[b]; k++, i++) {
            offset += i == 0 ? 0 : distance(l, order[i - 1], order[i]);
            wanted[order[i]] = block[b] + offset;
        }
    }
}

/* To and fro. What nothing on that side pulls stays where it is. */
static void order_layout(struct pst_stage_layout *l)
{
    size_t n = l->n_slots;
    double *numbers = pst_alloc(3 * n, sizeof *numbers), *y = numbers + n;
    uint32_t *counts = pst_alloc(2 * n, sizeof *counts);
    struct means means = {.sum = numbers, .count = counts};

    for (uint32_t layer = 0; layer < l->n_layers; layer++) {
        settle_layer(l, layer, y, numbers + 2 * n, counts + n);
    }
    for (uint32_t i = 0; i < SWEEPS; i++) {
        for (uint32_t k = 1; k < l->n_layers; k++) {
            uint32_t layer = i % 2 == 0 ? k : l->n_layers - 1 - k;

            sum_neighbours(l, layer, i % 2 == 0, y, &means);
            for (uint32_t at = l->first[layer]; at < l->first[layer + 1]; at++) {
                uint32_t slot = l->order[at];

                if (means.count[slot] > 0) {
                    y[slot] = means.sum[slot] / means.count[slot];
                }
            }
            sort_layer(l, layer, y);
            settle_layer(l, layer, y, numbers + 2 * n, counts + n);
        }
    }
    for (uint32_t i = 0; i < l->n_slots; i++) {
        l->slots[i].y = y[i];
    }
    free(numbers);
    free(counts);
}

#define MAX_SLOTS   60000
#define MAX_POINTS  14000.0
#define HEAD_H      58.0
#define MARGIN      18.0
#define LINE_GAP    22.0
#define EDGE_H      4.0
#define ASPECT      1.7 /* of a page that is looked at on a screen */
#define ONE_LINE    1700.0
#define MIN_COLUMNS 4

/* --- the page ----------------------------------------------------------------------------------*/

double pst_stage_x(const struct pst_stage_layout *layout, uint32_t layer)
{
    return layout->left + layer % layout->columns * STAGE_COLUMN_W;
}

double pst_stage_y(const struct pst_stage_layout *layout, uint32_t slot)
{
    return layout->line_top[layout->slots[slot].layer / layout->columns] + layout->slots[slot].y;
}

/* Column of every stage, and how many slots and links that makes. */
static pst_status make_layers(const struct pst_stage_graph *graph, uint32_t *layer,
                              struct pst_stage_layout *l, struct pst_error *err)
{
    uint32_t deepest = 0;
    uint64_t n_slots = graph->n_stages, n_links = 0;

    for (uint32_t s = graph->n_stages; s-- > 0;) {
        const struct pst_stage_box *box = &graph->stages[s];

        layer[s] = 0; /* stages after it */
        for (uint32_t i = 0; i < box->n_successors; i++) {
            uint32_t next = box->successors[i];

            PST_ASSERT(next > s && next < graph->n_stages);
            layer[s] = layer[next] + 1 > layer[s] ? layer[next] + 1 : layer[s];
        }
        deepest = layer[s] > deepest ? layer[s] : deepest;
    }
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        layer[s] = deepest - layer[s];
    }
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        for (uint32_t i = 0; i < graph->stages[s].n_successors; i++) {
            uint32_t length = layer[graph->stages[s].successors[i]] - layer[s];

            n_links += length;
            n_slots += length - 1;
        }
    }
    if (n_slots > MAX_SLOTS || n_links > MAX_SLOTS) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "the stages have too many edges for a figure");
    }
    l->n_layers = deepest + 1;
    l->n_slots = (uint32_t)n_slots;
    l->n_links = (uint32_t)n_links;
    return PST_OK;
}

/* Counting sort of slots by layer; of links by the layer in which they begin. */
static void sort_by_layer(struct pst_stage_layout *l, const struct pst_stage_link *unsorted)
{
    for (uint32_t i = 0; i < l->n_slots; i++) {
        l->first[l->slots[i].layer + 1]++;
    }
    for (uint32_t i = 0; i < l->n_links; i++) {
        l->first_link[l->slots[unsorted[i].from].layer + 1]++;
    }
    for (uint32_t k = 0; k < l->n_layers; k++) {
        l->first[k + 1] += l->first[k];
        l->first_link[k + 1] += l->first_link[k];
    }
    for (uint32_t i = 0; i < l->n_slots; i++) {
        l->order[l->first[l->slots[i].layer]++] = i;
    }
    for (uint32_t i = 0; i < l->n_links; i++) {
        l->links[l->first_link[l->slots[unsorted[i].from].layer]++] = unsorted[i];
    }
    for (uint32_t k = l->n_layers; k > 0; k--) {
        l->first[k] = l->first[k - 1];
        l->first_link[k] = l->first_link[k - 1];
    }
    l->first[0] = l->first_link[0] = 0;
}

static void make_slots(const struct pst_stage_graph *graph, const uint32_t *layer,
                       struct pst_stage_layout *l, struct pst_stage_link *links)
{
    uint32_t n = graph->n_stages, n_links = 0;

    for (uint32_t s = 0; s < graph->n_stages; s++) {
        l->slots[s] = (struct pst_stage_slot){.stage = s, .layer = layer[s], .height = STAGE_BOX_H};
    }
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        for (uint32_t i = 0; i < graph->stages[s].n_successors; i++) {
            uint32_t next = graph->stages[s].successors[i], from = s;

            for (uint32_t k = layer[s] + 1; k < layer[next]; k++) {
                l->slots[n] =
                    (struct pst_stage_slot){.stage = PST_NONE, .layer = k, .height = EDGE_H};
                links[n_links++] = (struct pst_stage_link){from, n};
                from = n++;
            }
            links[n_links++] = (struct pst_stage_link){from, next};
        }
    }
    sort_by_layer(l, links);
}

/* Finds the top and the bottom of the layers from..to-1. */
static void find_extent(const struct pst_stage_layout *l, uint32_t from, uint32_t to,
                        double *ret_top, double *ret_bottom)
{
    *ret_top = INFINITY;
    *ret_bottom = -INFINITY;
    for (uint32_t i = l->first[from]; i < l->first[to]; i++) {
        const struct pst_stage_slot *slot = &l->slots[l->order[i]];

        *ret_top = fmin(*ret_top, slot->y - slot->height / 2);
        *ret_bottom = fmax(*ret_bottom, slot->y + slot->height / 2);
    }
}

/* Sizes of the page for so many columns a line. */
static void measure(struct pst_stage_layout *l, uint32_t columns)
{
    double y = MARGIN + HEAD_H;

    l->columns = columns;
    l->n_lines = (l->n_layers + columns - 1) / columns;
    l->n_turns = 0;
    for (uint32_t line = 1; line < l->n_lines; line++) {
        uint32_t gap = line * columns - 1, n = l->first_link[gap + 1] - l->first_link[gap];

        l->n_turns = n > l->n_turns ? n : l->n_turns;
    }
    for (uint32_t line = 0; line < l->n_lines; line++) {
        uint32_t end = (line + 1) * columns;
        double top, bottom;

        find_extent(l, line * columns, end < l->n_layers ? end : l->n_layers, &top, &bottom);
        l->line_top[line] = y - top;
        y += bottom - top;
        y += line + 1 < l->n_lines ? LINE_GAP + STAGE_LANE * l->n_turns : 0;
    }
    l->left = MARGIN + (l->n_turns > 0 ? STAGE_LANE * (l->n_turns + 2) : 0);
    l->width = l->left + columns * STAGE_COLUMN_W - (STAGE_COLUMN_W - STAGE_BOX_W) +
               (l->left - MARGIN) + MARGIN;
    l->width = fmax(l->width, 420); /* the head */
    l->height = y + MARGIN;
}

/* Two places of the same number are at the same height from line to line, so the best shape is a
   matter of the page alone. */
static void choose_columns(struct pst_stage_layout *l)
{
    uint32_t best = l->n_layers;
    double least = INFINITY;

    for (uint32_t columns = l->n_layers; columns >= 1; columns--) {
        uint32_t n_lines = (l->n_layers + columns - 1) / columns;
        double unlike;

        if ((columns < MIN_COLUMNS && columns < l->n_layers) ||
            (columns < l->n_layers && (l->n_layers + n_lines - 1) / n_lines != columns)) {
            continue; /* lines as full as can be */
        }
        measure(l, columns);
        unlike = fabs(log(l->width / l->height / ASPECT));
        if (unlike < least - 1e-9) {
            least = unlike;
            best = columns;
        }
        if (columns == l->n_layers && l->width < ONE_LINE) {
            break; /* one line is short enough to be read */
        }
    }
    measure(l, best);
}

pst_status pst_stage_lay_out(const struct pst_stage_graph *graph, struct pst_arena *arena,
                             struct pst_stage_layout *ret_layout, struct pst_error *err)
{
    struct pst_stage_layout l = {.n_layers = 0};
    struct pst_stage_link *links;
    uint32_t *layer = pst_arena_array(arena, graph->n_stages, sizeof *layer);
    pst_status status = make_layers(graph, layer, &l, err);

    if (status != PST_OK) {
        return status;
    }
    l.slots = pst_arena_array(arena, l.n_slots, sizeof *l.slots);
    l.links = pst_arena_array(arena, l.n_links, sizeof *l.links);
    links = pst_arena_array(arena, l.n_links, sizeof *links);
    l.order = pst_arena_array(arena, l.n_slots, sizeof *l.order);
    l.first = pst_arena_array(arena, l.n_layers + (size_t)1, sizeof *l.first);
    l.first_link = pst_arena_array(arena, l.n_layers + (size_t)1, sizeof *l.first_link);
    l.line_top = pst_arena_array(arena, l.n_layers + (size_t)1, sizeof *l.line_top);
    make_slots(graph, layer, &l, links);
    order_layout(&l);
    choose_columns(&l);
    l.top = MARGIN;
    if (l.width > MAX_POINTS || l.height > MAX_POINTS) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "a figure of these stages would be %.0f by %.0f points; at most %.0f are "
                        "drawn",
                        l.width, l.height, MAX_POINTS);
    }
    *ret_layout = l;
    return PST_OK;
}
