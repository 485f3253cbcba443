/* SPDX-License-Identifier: Apache-2.0
 *
 * Zero-bubble orders on a V, in rounds: the construction of v-zb.
 */
#include "vrounds.h"

/*
 * One order: forwards until every device has as many as the first gradient leaves time for, then
 * rounds of one backward and at most one forward per device, with weight gradients in the gaps.
 */
#define MOST_REPEATS 50

enum { DOWN = 0, UP = 1 };

struct ways {
    bool gap_f, gap_b; /* weight gradients before a late forward on the way up / backward */
    bool known;        /* [d] of the device's `last_load` is from the run before */
    int64_t most;      /* its largest */
    const int64_t *last_load;
};

/* Weight gradients until `arrival`, and one more if `may` and the rest of the gap is longer than
   the device can afford: than the one that has idled longest, now or in the run before. */
static void fill_gap(struct greedy *g, const struct ways *ways, uint32_t d, int64_t arrival,
                     bool may)
{
    const struct greedy_device *dev = &g->dev[d];
    int64_t slack, before;

    if (arrival < 0 || arrival == INT64_MAX) {
        return;
    }
    while (greedy_waiting(g, d) > 0 && !g->failed && arrival >= dev->clock + greedy_next_w(g, d)) {
        greedy_w(g, d);
    }
    if (!may || greedy_waiting(g, d) == 0) {
        return;
    }
    slack = g->max_load - dev->load;
    before = ways->known ? ways->most - ways->last_load[d] - dev->idle : -dev->idle;
    if (arrival - dev->clock > (slack > before ? slack : before)) {
        greedy_w(g, d);
    }
}

/* Room for a forward on each way, on devices 0 to d, and all that come before the turn. */
static bool room_for_more(const struct greedy *g, uint32_t d)
{
    uint32_t e;

    for (e = d + 1; e-- > 0;) {
        int64_t both = g->saved[e] + g->saved[g->n_stages - 1 - e];

        if (g->dev[e].n_f[DOWN] == g->m ||
            g->dev[e].live + both * (int64_t)(1 + e) > g->dev[e].cap) {
            return false;
        }
        if (!g->mixed) {
            break; /* those before have as many, and ask for less */
        }
    }
    return true;
}

/* The first micro-batch down and up; others follow it down while they delay nothing. */
static void first_way(struct greedy *g)
{
    uint32_t d, e;

    for (d = 0; d < g->p; d++) {
        greedy_f(g, d, DOWN);
    }
    for (d = g->p; d-- > 0 && !g->failed;) {
        int64_t arrival = greedy_arrival_f(g, d, UP);

        while (d < g->p - 1 && !g->failed && g->dev[d].clock + g->times->f[d] <= arrival &&
               room_for_more(g, d)) {
            for (e = 0; e <= d; e++) {
                greedy_f(g, e, DOWN);
            }
        }
        greedy_f(g, d, UP);
    }
}

static bool lags(const struct greedy *g, uint32_t d)
{
    const struct greedy_device *here = &g->dev[d], *above = &g->dev[d - 1];

    return here->n_f[DOWN] + here->n_f[UP] < above->n_f[DOWN] + above->n_f[UP] ||
           (here->n_f[UP] <= above->n_f[UP] && above->n_f[UP] < g->m);
}

/* Devices further down catch up, down and up in turn; where stages differ, one may be as far as
   that above it. */
static void catch_up(struct greedy *g)
{
    uint32_t chunk = DOWN, d, e;

    for (d = 1; d < g->p; d++) {
        while (!g->failed && lags(g, d)) {
            uint32_t before = g->n_sequence;

            for (e = g->p; e-- > d;) {
                if (g->dev[e].n_f[chunk] < g->m && greedy_arrival_f(g, e, chunk) != INT64_MAX) {
                    greedy_f(g, e, chunk);
                }
            }
            if (g->n_sequence == before && chunk == UP) {
                return;
            }
            chunk = 1 - chunk;
        }
    }
}

static uint32_t choose_backward(const struct greedy *g, uint32_t d)
{
    const struct greedy_device *dev = &g->dev[d];

    if (dev->n_b[DOWN] >= dev->n_b[UP]) {
        return UP;
    }
    if (d == g->p - 1 || g->dev[d + 1].n_b[DOWN] > dev->n_b[DOWN] || dev->n_b[UP] >= g->m) {
        return DOWN;
    }
    return UP;
}

static void backward(struct greedy *g, const struct ways *ways, uint32_t d, uint32_t chunk)
{
    fill_gap(g, ways, d, greedy_arrival_b(g, d, chunk), chunk == DOWN || ways->gap_b);
    greedy_b(g, d, chunk);
}

static void backwards(struct greedy *g, const struct ways *ways)
{
    uint32_t *chunk = g->counts, d;

    for (d = 0; d < g->p; d++) {
        chunk[d] = choose_backward(g, d);
    }
    for (d = g->p; d-- > 0;) {
        if (chunk[d] == DOWN) {
            backward(g, ways, d, DOWN);
        }
    }
    for (d = 0; d < g->p; d++) {
        if (chunk[d] == UP) {
            backward(g, ways, d, UP);
        }
    }
}

static void forwards(struct greedy *g, const struct ways *ways)
{
    uint32_t d;

    for (d = 0; d < g->p && !g->failed; d++) {
        struct greedy_device *dev = &g->dev[d];
        uint32_t chunk = UP;

        if (dev->n_f[UP] >= g->m) {
            continue;
        }
        if (dev->n_f[UP] >= dev->n_f[DOWN]) {
            chunk = DOWN;
        } else if (d < g->p - 1 && g->dev[d + 1].n_f[UP] <= dev->n_f[UP]) {
            if (dev->n_f[DOWN] == g->m || (d > 0 && g->dev[d - 1].n_f[DOWN] <= dev->n_f[DOWN])) {
                continue;
            }
            chunk = DOWN;
        }
        greedy_make_room(g, d, g->saved[greedy_stage(g, d, chunk)]);
        fill_gap(g, ways, d, greedy_arrival_f(g, d, chunk), ways->gap_f);
        greedy_f(g, d, chunk);
    }
}

static void run(struct greedy *g, const struct ways *ways)
{
    uint32_t i, d;

    first_way(g);
    catch_up(g);
    for (i = 0; i < 2 * g->m && !g->failed; i++) {
        backwards(g, ways);
        forwards(g, ways);
    }
    for (d = 0; d < g->p; d++) {
        while (greedy_waiting(g, d) > 0 && !g->failed) {
            greedy_w(g, d);
        }
    }
}

/* Loads of the devices, for the next run; returns the largest. */
static int64_t keep_loads(const struct greedy *g, int64_t *loads)
{
    int64_t most = 0;
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        loads[d] = g->dev[d].load;
        most = loads[d] > most ? loads[d] : most;
    }
    return most;
}

static void repeat(struct greedy *g, const struct greedy_attempt *attempt, struct ways ways)
{
    int64_t *loads = g->loads;
    uint32_t i;

    ways.last_load = loads;
    for (i = 0; i < MOST_REPEATS; i++) {
        int64_t most;

        g->above = attempt->first ? INT64_MAX : g->best_cost;
        greedy_begin(g, attempt->times, attempt->base);
        run(g, &ways);
        most = g->failed ? INT64_MAX : g->max_load;
        if (most == INT64_MAX || (ways.known && most >= ways.most)) {
            greedy_end(g, attempt->ties);
            return;
        }
        ways.most = keep_loads(g, loads);
        ways.known = true;
        if (greedy_end(g, attempt->ties) && greedy_done(g)) {
            return;
        }
    }
}

/* Four ways to decide, each repeated as long as knowing where the last run idled helps. */
void vrounds_runs(struct greedy *g, const struct greedy_attempt *attempt)
{
    uint32_t code;

    for (code = 0; code < 4 && (code == 0 || !greedy_done(g)); code++) {
        repeat(g, attempt, (struct ways){.gap_f = (code & 1) == 0, .gap_b = (code & 2) == 0});
    }
}
