/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice for times that are not what was measured: orders are judged by a quantile of their
 * cost over sampled pass times and link latencies.
 */
#ifndef V_ADAPTIVE_ROBUST_H
#define V_ADAPTIVE_ROBUST_H

#include "improve.h"

enum { VA_SAMPLES = 31, VA_QUANTILE = 27 }; /* the 28th smallest of 31: about 0.9 */

struct va_robust {
    struct va_problem samples[VA_SAMPLES];
    struct va_work work;
    uint8_t *best;
    uint64_t least; /* quantile of best; UINT64_MAX where there is none */
};

/*
 * `noise` 0.1: passes take up to 10 % less or more, each link up to 10 % of the mean pass longer,
 * each pass and link drawn on its own for each sample, with a fixed seed.
 */
void va_robust_init(struct va_robust *robust, const struct va_problem *q, double noise);

/* Keeps the order when its quantile is the smallest so far and no cap is exceeded. */
void va_robust_offer(struct va_robust *robust, const uint8_t *order);

/* Mean time of a pass. */
uint64_t va_mean_cost(const struct va_problem *q);

#endif
