/* SPDX-License-Identifier: Apache-2.0
 *
 * One way for each item, within a budget of memory, in the least time: a multiple-choice knapsack.
 */
#ifndef PIPER_KNAPSACK_H
#define PIPER_KNAPSACK_H

#include <stdbool.h>
#include <stdint.h>

#include "plugin_call.h"

struct knapsack_option {
    double time, bytes; /* >= 0 */
};

enum { KNAPSACK_EXACT_ITEMS = 64, KNAPSACK_MOST_POINTS = 10000 };

/*
 * Item i has options first[i] .. first[i + 1], at least one. Exact where at most
 * KNAPSACK_EXACT_ITEMS items have a choice, by dynamic programming over Pareto points; those that a
 * Lagrange bound proves useless are left out, and should more than KNAPSACK_MOST_POINTS remain
 * (times and bytes that fit no grid), or the items be more, it is greedy: from the fastest options
 * on, the least extra time per byte saved first. *ret_time: INFINITY where nothing fits.
 * ret_choice[n] (may be NULL): options, as indices into `options`.
 */
void knapsack_solve(uint32_t n, const uint32_t *first, const struct knapsack_option *options,
                    double budget, double *ret_time, uint32_t *ret_choice, bool *ret_exact);

#endif
