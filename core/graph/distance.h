/* SPDX-License-Identifier: Apache-2.0
 *
 * Relative positions of Raffel et al. ("Exploring the limits of transfer learning with a unified
 * text-to-text transformer", JMLR 2020, section 2.1): keys fall into buckets by their distance from
 * the query, one per distance at first, then growing with the logarithm.
 */
#ifndef PST_GRAPH_DISTANCE_H
#define PST_GRAPH_DISTANCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Bucket of a key `offset` places after the query (negative: before it). Where one_way, keys
 * after it share the bucket of distance 0; else each direction has half of the buckets, those
 * after the query the second. n_buckets: at least 2, both ways 4 and even; max_distance above a
 * half of the buckets of a direction; all beyond it fall into the last.
 */
static inline uint32_t pst_distance_bucket(int64_t offset, uint32_t n_buckets,
                                           uint32_t max_distance, bool one_way)
{
    const uint32_t n = one_way ? n_buckets : n_buckets / 2;
    const uint32_t first = !one_way && offset > 0 ? n : 0;
    const uint32_t exact = n / 2; /* distances with a bucket of their own */
    const uint64_t distance =
        one_way ? (offset < 0 ? (uint64_t)-offset : 0) : (uint64_t)(offset < 0 ? -offset : offset);
    double grown;

    if (distance < exact) {
        return first + (uint32_t)distance;
    }
    /* The small addend keeps exact powers on their own side of the border. */
    grown = log((double)distance / exact) / log((double)max_distance / exact) * (n - exact) + 1e-9;
    return first + (grown >= n - exact ? n - 1 : exact + (uint32_t)grown);
}

#endif
