/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of methods that were run side by side, a few rounds each. A round is the unit: a step
 * is much like the one before it, so many steps of one round count as one observation, their
 * median. Rounds are blocks: each has every method once, and a slow round slows all methods. All
 * values are logarithms, so differences are ratios.
 *
 * Differences are judged by Tukey's studentized range for all pairs of methods together: the
 * fastest is among them, whichever it turns out to be, and methods that are all equal give a false
 * alarm in 5 % of comparisons, not of pairs.
 */
#ifndef PST_TUNE_SIGNIFICANCE_H
#define PST_TUNE_SIGNIFICANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Chance that the range of k normal values exceeds q of their standard deviation, which is itself
   estimated with df degrees of freedom. k >= 2, df >= 1. */
double pst_range_tail(double q, uint32_t k, uint32_t df);
/* The q of which pst_range_tail is `tail`. */
double pst_range_point(double tail, uint32_t k, uint32_t df);

/* Sorts n values and returns their median: for even n the mean of the two in the middle. */
double pst_median(double *values, uint32_t n);

/* Half of the width of the 95 % interval of what n values are about: Student's t. n >= 2. */
double pst_interval_half(const double *values, uint32_t n);

/* Methods and rounds, all of each; two at least. */
struct pst_blocks {
    uint32_t n_methods, n_rounds;
    const double *values; /* [n_methods][n_rounds] */
    double variance;      /* of a value, but for what its method and its round explain */
    double point;         /* of the range, for intervals of 95 % */
};

void pst_blocks_init(const double *values, uint32_t n_methods, uint32_t n_rounds,
                     struct pst_blocks *ret_blocks);

struct pst_difference {
    double mean, half; /* with its 95 % interval, for all pairs together */
    double p;
};
/* Method a less method b. Its error is that of all methods, or what the rounds of these two show
   if that is more: some methods are less steady than others. */
struct pst_difference pst_blocks_compare(const struct pst_blocks *blocks, uint32_t a, uint32_t b);

#endif
