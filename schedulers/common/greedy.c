/* SPDX-License-Identifier: Apache-2.0
 *
 * Placing passes one by one.
 */
#include "greedy.h"

#include <string.h>

void greedy_begin(struct greedy *g, const struct greedy_times *times, uint32_t base)
{
    uint32_t d;

    g->times = times;
    g->base = base;
    g->failed = false;
    g->n_sequence = 0;
    g->max_load = 0;
    for (d = 0; d < g->p; d++) {
        int64_t cap = g->dev[d].cap;

        g->dev[d] = (struct greedy_device){.first = -1, .cap = cap};
    }
}

/* A device waits, or starts: what it will cost at least is more. */
static inline void delay(struct greedy *g, struct greedy_device *dev, uint32_t d, int64_t start)
{
    if (dev->first < 0) {
        dev->first = start;
        dev->load = g->base == GREEDY_IDLE ? 0 : g->times->work[d];
        dev->load += g->base == GREEDY_ABSOLUTE ? start : 0;
    } else {
        dev->idle += start - dev->clock;
        dev->load += start - dev->clock;
    }
    g->max_load = dev->load > g->max_load ? dev->load : g->max_load;
    if (g->times == &g->real &&
        (g->makespan ? dev->first : 0) + g->real.work[d] + dev->idle > g->above) {
        g->failed = true;
    }
}

static inline int64_t run_pass(struct greedy *g, struct greedy_device *dev, uint32_t d,
                               uint32_t code, int64_t arrival, int64_t length)
{
    int64_t start = arrival > dev->clock ? arrival : dev->clock;

    if (start > dev->clock || dev->first < 0) {
        delay(g, dev, d, start);
    }
    dev->clock = start + length;
    g->sequence[g->n_sequence++] = d << 3 | code;
    return dev->clock;
}

void greedy_f(struct greedy *g, uint32_t d, uint32_t chunk)
{
    struct greedy_device *dev = &g->dev[d];
    uint32_t s = greedy_stage(g, d, chunk);
    int64_t arrival = greedy_arrival_f(g, d, chunk);

    if (g->failed || arrival == INT64_MAX || dev->n_f[chunk] == g->m ||
        (chunk == 1 && dev->n_f[1] == dev->n_f[0] && d == g->p - 1) ||
        dev->live + g->saved[s] > dev->cap) {
        g->failed = true;
        return;
    }
    g->end_f[(size_t)s * g->m + dev->n_f[chunk]] =
        run_pass(g, dev, d, GREEDY_F << 1 | chunk, arrival, g->times->f[s]);
    dev->n_f[chunk]++;
    dev->live += g->saved[s];
    dev->peak = dev->live > dev->peak ? dev->live : dev->peak;
}

void greedy_b(struct greedy *g, uint32_t d, uint32_t chunk)
{
    struct greedy_device *dev = &g->dev[d];
    uint32_t s = greedy_stage(g, d, chunk);
    int64_t arrival = greedy_arrival_b(g, d, chunk);

    if (g->failed || arrival == INT64_MAX || dev->n_b[chunk] == dev->n_f[chunk] ||
        (g->v == 2 && chunk == 0 && dev->n_b[0] == dev->n_b[1] && d == g->p - 1)) {
        g->failed = true;
        return;
    }
    g->end_b[(size_t)s * g->m + dev->n_b[chunk]] =
        run_pass(g, dev, d, GREEDY_B << 1 | chunk, arrival, g->times->b[s]);
    dev->n_b[chunk]++;
    dev->live -= g->saved[s] - g->saved_weight[s];
    g->queue[(size_t)d * g->v * g->m + dev->tail++] = (uint8_t)chunk;
}

void greedy_w(struct greedy *g, uint32_t d)
{
    struct greedy_device *dev = &g->dev[d];
    uint32_t chunk, s;

    if (g->failed || dev->head == dev->tail) {
        g->failed = true;
        return;
    }
    chunk = g->queue[(size_t)d * g->v * g->m + dev->head++];
    s = greedy_stage(g, d, chunk);
    run_pass(g, dev, d, GREEDY_W << 1 | chunk, -1, g->times->w[s]);
    dev->n_w[chunk]++;
    dev->live -= g->saved_weight[s];
}

void greedy_make_room(struct greedy *g, uint32_t d, int64_t bytes)
{
    while (!g->failed && g->dev[d].live + bytes > g->dev[d].cap) {
        greedy_w(g, d);
    }
}

/* The order of the run under the real times; its costs are those of the state then. */
static void replay(struct greedy *g)
{
    uint32_t n = g->n_sequence, i;

    greedy_begin(g, &g->real, GREEDY_IDLE);
    for (i = 0; i < n && !g->failed; i++) {
        uint32_t code = g->sequence[i], d = code >> 3, chunk = code & 1;

        switch (code >> 1 & 3) {
        case GREEDY_F:
            greedy_f(g, d, chunk);
            break;
        case GREEDY_B:
            greedy_b(g, d, chunk);
            break;
        default:
            greedy_w(g, d);
        }
    }
}

bool greedy_end(struct greedy *g, bool ties)
{
    int64_t cost = 0, peak = 0;
    uint32_t d, *swap;

    g->placed += g->n_sequence;
    if (!g->failed && g->times != &g->real) {
        replay(g);
    }
    if (g->failed || g->n_sequence < g->n_passes) {
        return false;
    }
    for (d = 0; d < g->p; d++) {
        int64_t own = g->dev[d].clock - (g->makespan ? 0 : g->dev[d].first);

        cost = own > cost ? own : cost;
        peak = g->dev[d].peak > peak ? g->dev[d].peak : peak;
    }
    if (cost > g->best_cost || (cost == g->best_cost && !(ties && peak < g->best_peak))) {
        return false;
    }
    swap = g->best;
    g->best = g->sequence;
    g->sequence = swap;
    g->best_cost = cost;
    g->best_peak = peak;
    return true;
}

void greedy_order(const struct greedy *g, struct order *order)
{
    static const uint8_t passes[] = {PST_PASS_F, PST_PASS_B, PST_PASS_W};
    uint32_t *next = g->sequence, i; /* micro-batch per stage and pass; the run is over */

    memset(next, 0, (size_t)3 * g->n_stages * sizeof *next);
    for (i = 0; i < g->n_passes; i++) {
        uint32_t code = g->best[i], pass = code >> 1 & 3;
        uint32_t s = greedy_stage(g, code >> 3, code & 1);
        uint32_t device = pst_schedule_stage_at(g->in, s)->device;

        order_add(order, device, passes[pass], s, next[(size_t)3 * s + pass]++);
    }
}
