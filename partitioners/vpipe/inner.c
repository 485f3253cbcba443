/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner problem: of a stage's blocks some are swapped to the host, some recomputed, so that it
 * fits and takes as little longer as possible. In proportion to cost per byte; stages of few blocks
 * by enumeration.
 */
#include <math.h>

#include "vpipe.h"

enum { KEEP = 0, SWAP = 1, RECOMPUTE = 2 };

#define ROUNDS 32

struct inner {
    const struct blocks *blocks;
    uint32_t first, n;
    double lacking;     /* bytes to free */
    double copies;      /* of a block's bytes that leaving it frees */
    double link;        /* bytes per ns; 0: none */
    double base_ns;     /* without recomputation */
    uint32_t *by_price; /* positions, cheapest to recompute per byte first */
    uint8_t *action;    /* by position: the best so far */
    double best_ns;     /* INFINITY: none yet */
};

static double saved_of(const struct inner *in, uint32_t i)
{
    return in->blocks->saved[in->first + i + 1] - in->blocks->saved[in->first + i];
}

static double forward_of(const struct inner *in, uint32_t i)
{
    return in->blocks->f_ns[in->first + i + 1] - in->blocks->f_ns[in->first + i];
}

/* Is a dearer than b? Without bytes nothing is gained: dearest of all. */
static bool is_dearer(const struct inner *in, uint32_t a, uint32_t b)
{
    double x = forward_of(in, a) * saved_of(in, b), y = forward_of(in, b) * saved_of(in, a);

    return x != y ? x > y : a > b;
}

static void sort_by_price(struct inner *in)
{
    uint32_t i, k;

    for (i = 0; i < in->n; i++) {
        for (k = i; k > 0 && is_dearer(in, in->by_price[k - 1], i); k--) {
            in->by_price[k] = in->by_price[k - 1];
        }
        in->by_price[k] = i;
    }
}

static bool frees_enough(const struct inner *in, double bytes)
{
    return in->copies * bytes >= in->lacking * (1 - 1e-12);
}

/* Swaps the dearest within the budget, recomputes the cheapest of the rest until it fits, then
   takes back what was not needed. Returns the period. */
static double fill(const struct inner *in, double budget, uint8_t *action, double *ret_swapped)
{
    double freed = 0, swapped = 0, ns = in->base_ns;
    uint32_t k;

    for (k = in->n; k-- > 0;) {
        uint32_t i = in->by_price[k];

        action[i] = KEEP;
        if (saved_of(in, i) > 0 && !frees_enough(in, freed) &&
            swapped + saved_of(in, i) <= budget * (1 + 1e-12)) {
            action[i] = SWAP;
            swapped += saved_of(in, i);
            freed += saved_of(in, i);
        }
    }
    for (k = 0; k < in->n && !frees_enough(in, freed); k++) {
        uint32_t i = in->by_price[k];

        if (action[i] == KEEP && saved_of(in, i) > 0) {
            action[i] = RECOMPUTE;
            freed += saved_of(in, i);
            ns += forward_of(in, i);
        }
    }
    for (k = in->n; k-- > 0;) {
        uint32_t i = in->by_price[k];

        if (action[i] == RECOMPUTE && frees_enough(in, freed - saved_of(in, i))) {
            action[i] = KEEP;
            freed -= saved_of(in, i);
            ns -= forward_of(in, i);
        }
    }
    *ret_swapped = swapped;
    return frees_enough(in, freed) ? ns : INFINITY;
}

static bool hides(const struct inner *in, double swapped, double ns)
{
    return swapped == 0 || swapped <= in->link * ns * (1 + 1e-12);
}

static void keep_best(struct inner *in, const uint8_t *action, double ns, double swapped)
{
    uint32_t i;

    if (ns >= in->best_ns || !hides(in, swapped, ns)) {
        return;
    }
    in->best_ns = ns;
    for (i = 0; i < in->n; i++) {
        in->action[i] = action[i];
    }
}

/* A longer period swaps more, which shortens it: until it settles. */
static void solve_in_proportion(struct inner *in, uint8_t *scratch)
{
    double ns = in->base_ns, swapped;
    int round;

    keep_best(in, scratch, fill(in, 0, scratch, &swapped), 0);
    for (round = 0; in->link > 0 && round < ROUNDS; round++) {
        double next = fill(in, in->link * ns, scratch, &swapped);

        if (isinf(next)) {
            break;
        }
        keep_best(in, scratch, next, swapped);
        if (next == ns) {
            break;
        }
        ns = next;
    }
}

static void enumerate(struct inner *in, uint32_t i, uint8_t *action, double freed, double swapped,
                      double ns)
{
    if (ns >= in->best_ns) {
        return;
    }
    /* A choice that swaps too much may go on: a longer period hides more. */
    if (i == in->n || (frees_enough(in, freed) && hides(in, swapped, ns))) {
        for (; i < in->n; i++) {
            action[i] = KEEP;
        }
        if (frees_enough(in, freed)) {
            keep_best(in, action, ns, swapped);
        }
        return;
    }
    action[i] = KEEP;
    enumerate(in, i + 1, action, freed, swapped, ns);
    action[i] = RECOMPUTE;
    enumerate(in, i + 1, action, freed + saved_of(in, i), swapped, ns + forward_of(in, i));
    if (in->link > 0) {
        action[i] = SWAP;
        enumerate(in, i + 1, action, freed + saved_of(in, i), swapped + saved_of(in, i), ns);
    }
}

static void sum_up(const struct inner *in, double need, struct stage_cost *ret_cost)
{
    double freed = 0, swapped = 0;
    uint32_t i, recomputed = 0;

    for (i = 0; i < in->n; i++) {
        freed += in->action[i] == KEEP ? 0 : saved_of(in, i);
        swapped += in->action[i] == SWAP ? saved_of(in, i) : 0;
        recomputed += in->action[i] == RECOMPUTE;
    }
    *ret_cost = (struct stage_cost){
        .ns = in->best_ns,
        .bytes = need - in->copies * freed,
        .swapped = swapped,
        .recompute = (double)recomputed / in->n,
    };
}

void vpipe_inner(struct vpipe *pipe, uint32_t stage, uint32_t first, uint32_t end,
                 struct stage_cost *ret_cost)
{
    const struct blocks *b = &pipe->blocks;
    const struct part_problem *problem = pipe->problem;
    double held = vpipe_held(pipe, stage), saved = b->saved[end] - b->saved[first];
    double copies = problem->weight_multiplier + vpipe_versions(pipe, stage) - 1;
    double need = (b->weight[end] - b->weight[first]) * copies + held * saved;
    struct inner in = {
        .blocks = b,
        .first = first,
        .n = end - first,
        .lacking = part_fits(problem, need) ? 0 : need - problem->capacity_bytes,
        .copies = held - 1,
        .link = (double)pipe->config->swap_bandwidth / 1e9,
        .base_ns = b->ns[end] - b->ns[first],
        .by_price = pipe->by_price,
        .action = pipe->action,
        .best_ns = INFINITY,
    };

    if (in.lacking > 0 && !frees_enough(&in, saved)) {
        *ret_cost = (struct stage_cost){.ns = in.base_ns + b->f_ns[end] - b->f_ns[first],
                                        .missing = in.lacking - in.copies * saved,
                                        .bytes = need - in.copies * saved,
                                        .recompute = 1};
        return;
    }
    sort_by_price(&in);
    solve_in_proportion(&in, pipe->action + b->n);
    if (in.n <= (uint32_t)pipe->config->exact_blocks && in.best_ns > in.base_ns) {
        enumerate(&in, 0, pipe->action + b->n, 0, 0, in.base_ns);
    }
    sum_up(&in, need, ret_cost);
}
