/* SPDX-License-Identifier: Apache-2.0
 *
 * The least time of a chain of a few layers under a capacity, by a search over all schedules that
 * keep what they store until its backward: states are what is stored of each layer, cheapest first.
 * Another way to what rotor finds. Include cmocka and memopt_rig.h before.
 */
#ifndef PENSTOCK_TESTS_CHECKPOINT_SEARCH_H
#define PENSTOCK_TESTS_CHECKPOINT_SEARCH_H

#include <stdlib.h>

#include "memopt_rig.h"

/* What is stored of a layer: nothing, its result, all. */
enum { NOTHING, RESULT, ALL };
enum { MOST_LAYERS = 5, NOT_REACHED = 1 << 30, NO_RESULT = MOST_LAYERS + 1 };

/* `next`: layers whose backward is to come; `result`: the layer whose result is there beside what
   is stored, 0 the input; `swept`: the forward pass is over. */
struct schedule {
    uint8_t stored[MOST_LAYERS + 1]; /* [layer from 1 on] */
    uint32_t next, result;
    bool swept;
};

struct schedules {
    const struct stage *stage;
    uint32_t n;
    uint64_t bytes, kappa; /* for what is stored and made; of that the most that may be parked */
    uint32_t *cost;        /* [code] */
    bool *done;
};

static inline const struct pst_stage_node *layer(const struct schedules *w, uint32_t l)
{
    return &w->stage->nodes[l - 1];
}

static inline uint32_t code_of(const struct schedules *w, const struct schedule *at)
{
    uint32_t code = 0;

    for (uint32_t l = 1; l <= w->n; l++) {
        code = 3 * code + at->stored[l];
    }
    code = code * (MOST_LAYERS + 2) + at->result;
    code = code * (MOST_LAYERS + 1) + at->next;
    return 2 * code + at->swept;
}

static inline struct schedule schedule_of(const struct schedules *w, uint32_t code)
{
    struct schedule at = {.swept = code % 2};

    at.next = code / 2 % (MOST_LAYERS + 1);
    code = code / 2 / (MOST_LAYERS + 1);
    at.result = code % (MOST_LAYERS + 2);
    code /= MOST_LAYERS + 2;
    for (uint32_t l = w->n; l >= 1; l--, code /= 3) {
        at.stored[l] = code % 3;
    }
    return at;
}

static inline uint64_t stored_bytes(const struct schedules *w, const struct schedule *at)
{
    uint64_t bytes = 0;

    for (uint32_t l = 1; l <= w->n; l++) {
        bytes += at->stored[l] == ALL      ? layer(w, l)->saved_bytes
                 : at->stored[l] == RESULT ? layer(w, l)->output_bytes
                                           : 0;
    }
    return bytes;
}

static inline void reach(struct schedules *w, const struct schedule *to, uint64_t bytes,
                         uint32_t cost)
{
    uint32_t code = code_of(w, to);

    if (bytes <= w->bytes && (to->swept || stored_bytes(w, to) <= w->kappa) &&
        cost < w->cost[code]) {
        w->cost[code] = cost;
    }
}

/* The forward of l from what is stored or there: leaves its result alone, or all of it; before that
   the result of l - 1 may be stored. */
static inline void try_forward(struct schedules *w, const struct schedule *at, uint32_t l,
                               uint32_t cost)
{
    bool stored = l == 1 || at->stored[l - 1] != NOTHING;
    uint64_t waits = at->swept ? layer(w, at->next)->output_bytes : 0;
    uint64_t own = layer(w, l)->saved_bytes + layer(w, l)->forward_work_bytes;

    if ((!stored && at->result != l - 1) || at->stored[l] == ALL) {
        return;
    }
    cost += (uint32_t)layer(w, l)->forward_ns;
    for (int keep = 0; keep < 2; keep++) { /* the input */
        struct schedule to = *at;
        uint64_t in;

        if (keep == 1 && !stored) {
            to.stored[l - 1] = RESULT;
        }
        in = stored_bytes(w, &to) + (keep == 0 && !stored ? layer(w, l - 1)->output_bytes : 0);
        to.result = l;
        reach(w, &to, in + waits + own, cost);
        if (to.stored[l] == NOTHING && (stored || keep == 1)) {
            to.stored[l] = ALL;
            to.result = NO_RESULT;
            reach(w, &to, in + waits + own, cost);
        }
    }
}

/* The backward of the next layer frees all that is stored of it, and the result before it. */
static inline void try_backward(struct schedules *w, const struct schedule *at, uint32_t cost)
{
    uint32_t l = at->next;
    struct schedule to = *at;

    if (!at->swept || at->stored[l] != ALL || (l > 1 && at->stored[l - 1] == NOTHING)) {
        return;
    }
    to.stored[l] = NOTHING;
    if (l > 1 && to.stored[l - 1] == RESULT) {
        to.stored[l - 1] = NOTHING;
    }
    to.next--;
    to.result = NO_RESULT;
    reach(w, &to, stored_bytes(w, at) + layer(w, l)->backward_work_bytes,
          cost + (uint32_t)layer(w, l)->backward_ns);
}

/* Cheapest first; the cost of the end, or NOT_REACHED. */
static inline uint32_t cheapest(struct schedules *w, uint32_t n_codes)
{
    struct schedule at = {.next = w->n, .result = NO_RESULT};

    for (uint32_t i = 0; i < n_codes; i++) {
        w->cost[i] = NOT_REACHED;
        w->done[i] = false;
    }
    w->cost[code_of(w, &at)] = 0;
    for (uint32_t cost = 0; cost < 200; cost++) {
        bool again = true;

        while (again) { /* steps may take no time */
            again = false;
            for (uint32_t code = 0; code < n_codes; code++) {
                if (w->cost[code] != cost || w->done[code]) {
                    continue;
                }
                w->done[code] = again = true;
                at = schedule_of(w, code);
                if (at.next == 0) {
                    return cost;
                }
                for (uint32_t l = 1; l <= (at.swept ? at.next : w->n); l++) {
                    try_forward(w, &at, l, cost);
                }
                if (!at.swept && (at.result == w->n || at.stored[w->n] == ALL)) {
                    struct schedule to = at;

                    to.swept = true;
                    to.result = NO_RESULT;
                    reach(w, &to, 0, cost);
                }
                try_backward(w, &at, cost);
            }
        }
    }
    return NOT_REACHED;
}

/* Least time of one micro-batch, by all numbers of bytes that may be parked. */
static inline uint32_t search(const struct stage *s)
{
    struct schedules w = {.stage = s, .n = s->view.n_nodes};
    uint64_t k = s->view.in_flight, fixed = s->view.static_bytes + k * s->view.input_bytes;
    uint64_t all = 0;
    uint32_t n_codes = 2 * (MOST_LAYERS + 1) * (MOST_LAYERS + 2), best = NOT_REACHED;

    for (uint32_t l = 0; l < w.n; l++) {
        n_codes *= 3;
        all += s->nodes[l].saved_bytes;
    }
    w.cost = calloc(n_codes, sizeof *w.cost);
    w.done = calloc(n_codes, sizeof *w.done);
    for (w.kappa = k == 1 ? all : 0; w.kappa <= all; w.kappa++) {
        uint32_t cost;

        if (fixed + (k - 1) * w.kappa > s->view.capacity_bytes) {
            break;
        }
        w.bytes = s->view.capacity_bytes - fixed - (k - 1) * w.kappa;
        cost = cheapest(&w, n_codes);
        best = cost < best ? cost : best;
    }
    free(w.cost);
    free(w.done);
    return best;
}

#endif
