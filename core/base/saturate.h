/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and products of bytes and times that stop at UINT64_MAX, which then means: too much.
 */
#ifndef PST_BASE_SATURATE_H
#define PST_BASE_SATURATE_H

#include <math.h>
#include <stdint.h>

static inline uint64_t pst_sat_add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Adds times. UINT64_MAX means "not known", so the sum is at most one less. */
static inline uint64_t pst_sat_add_ns(uint64_t a, uint64_t b)
{
    uint64_t sum = pst_sat_add(a, b);

    return sum < UINT64_MAX ? sum : UINT64_MAX - 1;
}

static inline uint64_t pst_sat_mul(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Rounds up to a whole number, at most 9e18. */
static inline uint64_t pst_sat_up(double number)
{
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)ceil(number);
}

/* The bytes left below a limit after so many are used; limit UINT64_MAX: no limit. */
static inline uint64_t pst_sat_left(uint64_t limit, uint64_t bytes)
{
    return limit == UINT64_MAX ? limit : limit > bytes ? limit - bytes : 0;
}

#endif
