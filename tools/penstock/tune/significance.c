/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/significance.h"

#include <math.h>
#include <stdlib.h>

#define PIECES 120    /* of an integral, by Simpson's rule */
#define TAIL   8.0    /* standard deviations beyond which nothing is left */
#define LEVEL  (0.05) /* 1 - 95 % */

static double simpson_weight(uint32_t i)
{
    return i == 0 || i == PIECES ? 1 : i % 2 == 1 ? 4 : 2;
}

/* Chance that the range of k standard normal values exceeds w: by where the largest is. */
static double normal_range_tail(double w, uint32_t k)
{
    const double step = 2 * TAIL / PIECES;
    double sum = 0;

    for (uint32_t i = 0; i <= PIECES; i++) {
        double z = -TAIL + i * step, below = erfc(-z / M_SQRT2) / 2;
        double others = below - erfc(-(z - w) / M_SQRT2) / 2; /* within w below it */

        /* of all k together: what is left where one of the others is farther away */
        sum += simpson_weight(i) * exp(-z * z / 2) *
               (pow(below, k - 1) - pow(others > 0 ? others : 0, k - 1));
    }
    return k * sum * step / 3 / sqrt(2 * M_PI);
}

double pst_range_tail(double q, uint32_t k, uint32_t df)
{
    /* over the estimate s of the standard deviation, which is 1 */
    const double spread = TAIL / sqrt(2.0 * df), beyond = (2 * TAIL + 4) / (q > 0 ? q : 1e-300);
    const double low = spread < 1 ? 1 - spread : 0, high = fmin(1 + spread, beyond);
    const double scale = M_LN2 + df / 2.0 * log(df / 2.0) - lgamma(df / 2.0);
    const double step = (high - low) / PIECES;
    double sum = 0;

    if (!(q > 0)) {
        return 1;
    }
    for (uint32_t i = 0; low < high && i <= PIECES; i++) {
        double s = low + i * step;
        double density = s > 0    ? exp(scale + (df - 1.0) * log(s) - df * s * s / 2)
                         : df > 1 ? 0
                                  : exp(scale);

        sum += simpson_weight(i) * density * normal_range_tail(q * s, k);
    }
    return fmin(1, fmax(0, sum * step / 3));
}

double pst_range_point(double tail, uint32_t k, uint32_t df)
{
    double low = 0, high = 1;

    while (pst_range_tail(high, k, df) > tail) {
        high *= 2;
    }
    for (uint32_t i = 0; i < 30; i++) {
        double middle = (low + high) / 2;

        *(pst_range_tail(middle, k, df) > tail ? &low : &high) = middle;
    }
    return high;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double pst_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static double mean_of(const double *values, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += values[i];
    }
    return sum / n;
}

double pst_interval_half(const double *values, uint32_t n)
{
    double mean = mean_of(values, n), squares = 0;

    for (uint32_t i = 0; i < n; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    /* the range of two is Student's t, but for a factor */
    return pst_range_point(LEVEL, 2, n - 1) / M_SQRT2 * sqrt(squares / (n - 1) / n);
}

void pst_blocks_init(const double *values, uint32_t n_methods, uint32_t n_rounds,
                     struct pst_blocks *ret_blocks)
{
    const uint32_t df = (n_methods - 1) * (n_rounds - 1);
    double all = mean_of(values, n_methods * n_rounds), squares = 0;

    for (uint32_t r = 0; r < n_rounds; r++) {
        double round = 0;

        for (uint32_t m = 0; m < n_methods; m++) {
            round += values[m * n_rounds + r] / n_methods;
        }
        for (uint32_t m = 0; m < n_methods; m++) {
            double rest =
                values[m * n_rounds + r] - round - mean_of(values + m * n_rounds, n_rounds) + all;

            squares += rest * rest;
        }
    }
    *ret_blocks = (struct pst_blocks){n_methods, n_rounds, values, squares / df,
                                      pst_range_point(LEVEL, n_methods, df)};
}

struct pst_difference pst_blocks_compare(const struct pst_blocks *blocks, uint32_t a, uint32_t b)
{
    const uint32_t n = blocks->n_rounds;
    const double *x = blocks->values + a * n, *y = blocks->values + b * n;
    double mean = mean_of(x, n) - mean_of(y, n), squares = 0, error;

    for (uint32_t r = 0; r < n; r++) {
        squares += (x[r] - y[r] - mean) * (x[r] - y[r] - mean);
    }
    error = sqrt(fmax(blocks->variance, squares / (n - 1) / 2) / n);
    return (struct pst_difference){
        .mean = mean,
        .half = blocks->point * error,
        .p = mean == 0   ? 1
             : error > 0 ? pst_range_tail(fabs(mean) / error, blocks->n_methods,
                                          (blocks->n_methods - 1) * (n - 1))
                         : 0,
    };
}
