/* SPDX-License-Identifier: Apache-2.0
 *
 * Order in columns by the mean place of neighbours, column by column to and fro, the order with the
 * fewest crossings kept (K. Sugiyama, S. Tagawa, M. Toda: "Methods for visual understanding of
 * hierarchical system structures", IEEE Trans. SMC 11(2), 1981). Then heights: as near to the mean
 * of neighbours as the distances allow, by least squares (pool adjacent violators).
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "figures/stage_impl.h"

#define SWEEPS   12
#define DISTANCE 12.0

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
static void gather(const struct pst_stage_layout *l, uint32_t layer, bool from_left,
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

static void sort_layer(struct pst_stage_layout *l, uint32_t layer)
{
    /* Insertion: stable, and columns are short. */
    for (uint32_t i = l->first[layer] + 1; i < l->first[layer + 1]; i++) {
        uint32_t slot = l->order[i], at = i;

        while (at > l->first[layer] && l->slots[l->order[at - 1]].key > l->slots[slot].key) {
            l->order[at] = l->order[at - 1];
            at--;
        }
        l->order[at] = slot;
    }
}

static void number_layer(const struct pst_stage_layout *l, uint32_t layer, double *place)
{
    for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
        place[l->order[i]] = i - l->first[layer];
    }
}

static uint64_t count_crossings(const struct pst_stage_layout *l, const double *place)
{
    uint64_t n = 0;

    for (uint32_t layer = 0; layer + 1 < l->n_layers; layer++) {
        uint32_t end = l->first_link[layer + 1];

        for (uint32_t i = l->first_link[layer]; i < end; i++) {
            for (uint32_t j = i + 1; j < end; j++) {
                double a = place[l->links[i].from] - place[l->links[j].from];
                double b = place[l->links[i].to] - place[l->links[j].to];

                n += a * b < 0;
            }
        }
    }
    return n;
}

static void sweep(struct pst_stage_layout *l, bool from_left, double *place, struct means *means)
{
    for (uint32_t k = 1; k < l->n_layers; k++) {
        uint32_t layer = from_left ? k : l->n_layers - 1 - k;

        gather(l, layer, from_left, place, means);
        for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
            uint32_t slot = l->order[i];

            l->slots[slot].key =
                means->count[slot] > 0 ? means->sum[slot] / means->count[slot] : place[slot];
        }
        sort_layer(l, layer);
        number_layer(l, layer, place);
    }
}

static void order_slots(struct pst_stage_layout *l, double *place, struct means *means,
                        uint32_t *best)
{
    uint64_t fewest = UINT64_MAX;

    for (uint32_t layer = 0; layer < l->n_layers; layer++) {
        number_layer(l, layer, place);
    }
    for (uint32_t i = 0; i <= SWEEPS && fewest > 0; i++) {
        uint64_t crossings;

        if (i > 0) {
            sweep(l, i % 2 == 1, place, means);
        }
        crossings = count_crossings(l, place);
        if (crossings < fewest) {
            fewest = crossings;
            memcpy(best, l->order, l->n_slots * sizeof *best);
        }
    }
    memcpy(l->order, best, l->n_slots * sizeof *best);
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

static void place_slots(struct pst_stage_layout *l, double *y, struct means *means, double *block,
                        uint32_t *size)
{
    for (uint32_t layer = 0; layer < l->n_layers; layer++) {
        for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
            y[l->order[i]] = 0;
        }
        settle_layer(l, layer, y, block, size);
    }
    for (uint32_t i = 0; i < 2 * SWEEPS; i++) {
        for (uint32_t k = 1; k < l->n_layers; k++) {
            uint32_t layer = i % 2 == 0 ? k : l->n_layers - 1 - k;

            gather(l, layer, i % 2 == 0, y, means);
            for (uint32_t at = l->first[layer]; at < l->first[layer + 1]; at++) {
                uint32_t slot = l->order[at];

                if (means->count[slot] > 0) {
                    y[slot] = means->sum[slot] / means->count[slot];
                }
            }
            settle_layer(l, layer, y, block, size);
        }
    }
    for (uint32_t i = 0; i < l->n_slots; i++) {
        l->slots[i].y = y[i];
    }
}

void pst_stage_order(struct pst_stage_layout *layout)
{
    size_t n = layout->n_slots;
    double *numbers = pst_alloc(3 * n, sizeof *numbers);
    uint32_t *counts = pst_alloc(3 * n, sizeof *counts);
    struct means means = {.sum = numbers, .count = counts};

    order_slots(layout, numbers + n, &means, counts + n);
    place_slots(layout, numbers + n, &means, numbers + 2 * n, counts + 2 * n);
    free(numbers);
    free(counts);
}
