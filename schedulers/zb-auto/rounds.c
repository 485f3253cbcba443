/* SPDX-License-Identifier: Apache-2.0
 *
 * One order: a warm-up that fills the time until the first gradient arrives, then rounds of at most
 * one forward and exactly one backward per device, with weight gradients in the gaps.
 */
#include "rounds.h"

struct ways {
    bool gap;    /* wait for the first gradient rather than delay it by a forward */
    bool skip;   /* a device may leave out a forward for a round */
    bool greedy; /* weight gradients also into gaps that would do no harm */
};

/* Returns how much longer device d may wait before it is the one that has waited longest. */
static int64_t slack(const struct greedy *g, uint32_t d)
{
    return g->max_load - g->dev[d].load;
}

/* Forwards of each device before its first backward, beyond the first forward. */
static void count_warm_up(const struct greedy *g, struct ways ways, uint32_t *extra)
{
    const struct greedy_times *t = g->times;
    uint32_t p = g->p, d;
    int64_t arrival = g->dev[p - 1].clock + t->b[p - 1]; /* of the gradient of micro-batch 0 */

    extra[p - 1] = 0;
    for (d = p - 1; d-- > 0;) {
        int64_t clock = g->dev[d].clock, held = g->dev[d].live;
        uint32_t x = 0;

        arrival += t->link[d];
        while (1 + x < g->m && held + g->saved[d] <= g->dev[d].cap &&
               (ways.gap ? clock + t->f[d] <= arrival : clock < arrival)) {
            x++;
            clock += t->f[d];
            held += g->saved[d];
        }
        extra[d] = x;
        arrival = (clock > arrival ? clock : arrival) + t->b[d];
    }
    for (d = 1; d < p; d++) {
        while (extra[d] > 0 && extra[d] >= extra[d - 1] && 1 + extra[d] < g->m) {
            extra[d]--;
        }
    }
}

static void warm_up(struct greedy *g, struct ways ways, uint32_t *extra)
{
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        greedy_f(g, d, 0);
    }
    count_warm_up(g, ways, extra);
    for (d = 0; d < g->p; d++) {
        while (extra[d] > 0 && !g->failed) {
            greedy_f(g, d, 0);
            extra[d]--;
        }
    }
    for (d = g->p; d-- > 0;) {
        greedy_b(g, d, 0);
    }
}

/* Time of the weight gradients that have to run before another forward fits. */
static int64_t time_of_room(const struct greedy *g, uint32_t d)
{
    const struct greedy_device *dev = &g->dev[d];
    int64_t over = dev->live + g->saved[d] - dev->cap;
    int64_t each = g->saved_weight[d];

    if (over <= 0) {
        return 0;
    }
    return each > 0 ? (over + each - 1) / each * g->times->w[d] : 0;
}

/* Returns true if device d runs a forward now, not in a later round: it waits if the next device
   has enough to do and a forward would delay the gradient from there. */
static bool wants_forward(const struct greedy *g, struct ways ways, uint32_t d)
{
    const struct greedy_device *dev = &g->dev[d];
    const struct greedy_times *t = g->times;
    int64_t answer;

    if (dev->n_f[0] == g->m) {
        return false;
    }
    if (!ways.skip || d == g->p - 1 || dev->n_f[0] < g->dev[d + 1].n_f[0] + 2) {
        return true;
    }
    answer = g->dev[d + 1].clock + t->f[d + 1] + t->b[d + 1] + t->link[d];
    if (dev->clock >= answer) {
        return false;
    }
    if (dev->clock + time_of_room(g, d) + t->f[d] <= answer) {
        return true;
    }
    return answer - dev->clock > slack(g, d);
}

/* Weight gradients until `arrival`; what is left of the gap takes another one if it is costly. */
static void fill_gap(struct greedy *g, struct ways ways, uint32_t d, int64_t arrival)
{
    struct greedy_device *dev = &g->dev[d];

    if (arrival == INT64_MAX) {
        return; /* the pass that follows fails the run */
    }
    while (!g->failed && greedy_waiting(g, d) > 0 && dev->clock + g->times->w[d] <= arrival) {
        greedy_w(g, d);
    }
    if (greedy_waiting(g, d) > 0 && dev->clock < arrival &&
        (ways.greedy || arrival - dev->clock > slack(g, d))) {
        greedy_w(g, d);
    }
}

static void forwards(struct greedy *g, struct ways ways, uint32_t *wants)
{
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        wants[d] = wants_forward(g, ways, d);
    }
    for (d = g->p - 1; d-- > 0;) {
        wants[d] = wants[d] < wants[d + 1] ? wants[d] : wants[d + 1];
    }
    for (d = 0; d < g->p && !g->failed; d++) {
        if (wants[d] != 0) {
            greedy_make_room(g, d, g->saved[d]);
            if (d > 0) {
                fill_gap(g, ways, d, greedy_arrival_f(g, d, 0));
            }
            greedy_f(g, d, 0);
        }
    }
}

static void weights_that_wait(struct greedy *g, uint32_t d)
{
    while (greedy_waiting(g, d) > 0 && !g->failed) {
        greedy_w(g, d);
    }
}

static void backwards(struct greedy *g, struct ways ways)
{
    uint32_t d;

    for (d = g->p; d-- > 0 && !g->failed;) {
        if (d < g->p - 1) {
            fill_gap(g, ways, d, greedy_arrival_b(g, d, 0));
        }
        if (d == 0 && g->dev[0].n_f[0] == g->m) {
            weights_that_wait(g, 0);
        }
        greedy_b(g, d, 0);
    }
}

static void run(struct greedy *g, struct ways ways, uint32_t *scratch)
{
    uint32_t i, d;

    warm_up(g, ways, scratch);
    for (i = 1; i < g->m && !g->failed; i++) {
        forwards(g, ways, scratch);
        backwards(g, ways);
    }
    for (d = 0; d < g->p; d++) {
        weights_that_wait(g, d);
    }
}

/* ZB-H1 (ahead = 1) and ZB-H2 (2): so many times p - 1 - d forwards first, then one forward and one
   backward in turn, a weight gradient once enough of them have been put off. */
static void hand_made_step(struct greedy *g, uint32_t ahead, uint32_t d)
{
    struct greedy_device *dev = &g->dev[d];
    uint64_t w = (uint64_t)ahead * (g->p - 1 - d);
    uint32_t j = dev->n_b[0];

    w = w < g->m ? w : g->m;
    if (dev->n_f[0] < g->m && dev->n_f[0] < w + j + 1) {
        if (greedy_arrival_f(g, d, 0) != INT64_MAX) {
            greedy_f(g, d, 0);
        }
    } else if (j < g->m) {
        if (greedy_arrival_b(g, d, 0) != INT64_MAX) {
            greedy_b(g, d, 0);
            if (w + j >= (uint64_t)ahead * (g->p - 1)) {
                greedy_w(g, d);
            }
        }
    } else {
        weights_that_wait(g, d);
    }
}

static void hand_made(struct greedy *g, uint32_t ahead)
{
    uint32_t before, d;

    do {
        before = g->n_sequence;
        for (d = 0; d < g->p; d++) {
            hand_made_step(g, ahead, d);
        }
    } while (g->n_sequence > before && !g->failed);
}

void zb_auto_runs(struct greedy *g, const struct greedy_attempt *attempt)
{
    uint32_t code;

    for (code = 0; code < 8 && (code == 0 || !greedy_done(g)); code++) {
        struct ways ways = {(code & 1) == 0, (code & 2) == 0, (code & 4) == 0};

        g->above = g->best_cost;
        greedy_begin(g, attempt->times, attempt->base);
        run(g, ways, g->counts);
        greedy_end(g, attempt->ties);
    }
    if ((g->makespan || g->mixed) && attempt->base == GREEDY_IDLE && attempt->times == &g->real) {
        for (code = 1; code <= 2; code++) {
            greedy_begin(g, attempt->times, attempt->base);
            hand_made(g, code);
            greedy_end(g, attempt->ties);
        }
    }
}
