/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice for times that are not what was measured: candidates are judged by a quantile of their
 * cost over sampled pass times and link latencies.
 */
#ifndef V_ADAPTIVE_ROBUST_H
#define V_ADAPTIVE_ROBUST_H

#include "pool.h"

enum { VA_SAMPLES = 31, VA_QUANTILE = 27 }; /* the 28th smallest of 31: about 0.9 */

/*
 * Puts the candidate of all rungs with the smallest 0.9 quantile on the last one. `noise` 0.1:
 * passes take up to 10 % less or more, each link up to 10 % of the mean pass longer, each pass and
 * link drawn on its own for each sample, with a fixed seed.
 */
pst_status va_robust_choose(struct va_pool *pool, double noise);

#endif
