/* SPDX-License-Identifier: Apache-2.0
 *
 * The outer problem: which blocks on which stage. From the compute-balanced partition on, the
 * slowest stage gives one block away along the chain to whichever other stage helps most.
 */
#include <math.h>
#include <string.h>

#include "vpipe.h"

#define LESS (1 - 1e-12)

static bool is_better(const struct worth *a, const struct worth *b)
{
    if (a->missing != b->missing) {
        return a->missing < b->missing * LESS;
    }
    if (a->longest < b->longest * LESS || b->longest < a->longest * LESS) {
        return a->longest < b->longest;
    }
    return a->sum < b->sum * LESS;
}

/* ret_slowest: the stage that lacks most, or else takes longest. */
static void value(struct vpipe *pipe, const uint32_t *cuts, struct worth *ret_worth,
                  uint32_t *ret_slowest)
{
    struct worth worth = {0, 0, 0};
    double most_missing = 0;
    uint32_t s, slowest = 0;

    for (s = 0; s < pipe->n_stages; s++) {
        struct stage_cost cost;

        vpipe_cost(pipe, s, cuts[s], cuts[s + 1], &cost);
        if (cost.missing > most_missing || (most_missing == 0 && cost.ns > worth.longest)) {
            slowest = s;
        }
        most_missing = fmax(most_missing, cost.missing);
        worth.missing += cost.missing;
        worth.longest = fmax(worth.longest, cost.ns);
        worth.sum += cost.ns;
    }
    *ret_worth = worth;
    *ret_slowest = slowest;
}

/* One block across each cut between z and y: z loses one, y gains one. By -1 it is undone. */
static void shift(uint32_t *cuts, uint32_t z, uint32_t y, int by)
{
    uint32_t c;

    for (c = (z < y ? z : y) + 1; c <= (z < y ? y : z); c++) {
        cuts[c] = (uint32_t)((int64_t)cuts[c] + (z < y ? -by : by));
    }
}

/* The best chain move from stage z on; ret_to: z if none is better than *worth. */
static void best_move(struct vpipe *pipe, uint32_t *cuts, uint32_t z, struct worth *worth,
                      uint32_t *ret_to)
{
    uint32_t y, ignored;

    *ret_to = z;
    for (y = 0; cuts[z + 1] - cuts[z] > 1 && y < pipe->n_stages; y++) {
        struct worth moved;

        if (y == z) {
            continue;
        }
        shift(cuts, z, y, 1);
        value(pipe, cuts, &moved, &ignored);
        shift(cuts, z, y, -1);
        if (is_better(&moved, worth)) {
            *worth = moved;
            *ret_to = y;
        }
    }
}

static void descend(struct vpipe *pipe, uint32_t *cuts, struct worth *ret_worth)
{
    uint32_t slowest, to;

    value(pipe, cuts, ret_worth, &slowest);
    while (true) {
        struct worth ignored;

        call_go_on(pipe->problem->host);
        best_move(pipe, cuts, slowest, ret_worth, &to);
        if (to == slowest) {
            break;
        }
        shift(cuts, slowest, to, 1);
        pipe->n_moves++;
        value(pipe, cuts, &ignored, &slowest);
    }
}

/* Balances the bytes of blocks on a stage of middle depth: used if balanced times do not fit. */
static void balance_memory(struct vpipe *pipe, uint32_t *ret_cuts)
{
    const struct blocks *b = &pipe->blocks;
    double *bytes = call_alloc((size_t)b->n + 1, sizeof *bytes);
    double held = (pipe->n_stages + 1) / 2.0;
    uint32_t i;

    for (i = 0; i <= b->n; i++) {
        bytes[i] = b->weight[i] * pipe->problem->weight_multiplier + b->saved[i] * held;
    }
    part_balance(bytes, b->n, pipe->n_stages, ret_cuts);
}

void vpipe_search(struct vpipe *pipe, uint32_t *ret_cuts, struct worth *ret_worth)
{
    size_t n_cuts = (size_t)pipe->n_stages + 1;
    uint32_t *other = NULL;
    struct worth worth;

    part_balance(pipe->blocks.ns, pipe->blocks.n, pipe->n_stages, ret_cuts);
    descend(pipe, ret_cuts, ret_worth);
    if (ret_worth->missing == 0) {
        return;
    }
    CALL_TAKE(other, n_cuts);
    balance_memory(pipe, other);
    descend(pipe, other, &worth);
    if (is_better(&worth, ret_worth)) {
        memcpy(ret_cuts, other, n_cuts * sizeof *ret_cuts);
        *ret_worth = worth;
    }
}
