/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of PST_W floats and what is built on them. Included by the one source file of an
 * instruction set, which sets PST_W, PST_SIMD (the table's symbol) and PST_NAME.
 */
#ifndef PST_DEVICE_CPU_SIMD_IMPL_H
#define PST_DEVICE_CPU_SIMD_IMPL_H

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "simd.h"

#define PST_LANES 16                  /* of every sum */
#define PST_PARTS (PST_LANES / PST_W) /* vectors that make them up */
#define INLINE    static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(PST_W * 4)));
typedef float vq __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(PST_W * 4)));
typedef uint32_t vu __attribute__((vector_size(PST_W * 4)));
typedef uint64_t vl __attribute__((vector_size(PST_W * 4)));

/* --- what C has no operator for --------------------------------------------------------------- */

#if defined(__x86_64__) && PST_W == 4
INLINE vf vmax(vf a, vf b)
{
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
}
INLINE vf vsqrt(vf a)
{
    return (vf)_mm_sqrt_ps((__m128)a);
}
/* Products of the even lanes, 64 bits wide. */
INLINE vl vmul_even(vu a, vu b)
{
    return (vl)_mm_mul_epu32((__m128i)a, (__m128i)b);
}
#elif defined(__x86_64__) && PST_W == 8
INLINE vf vmax(vf a, vf b)
{
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}
INLINE vf vsqrt(vf a)
{
    return (vf)_mm256_sqrt_ps((__m256)a);
}
INLINE vl vmul_even(vu a, vu b)
{
    return (vl)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#elif defined(__x86_64__) && PST_W == 16
INLINE vf vmax(vf a, vf b)
{
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}
INLINE vf vsqrt(vf a)
{
    return (vf)_mm512_sqrt_ps((__m512)a);
}
INLINE vl vmul_even(vu a, vu b)
{
    return (vl)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
#else
INLINE vf vmax(vf a, vf b)
{
    vi greater = a > b;

    return (vf)(((vi)a & greater) | ((vi)b & ~greater));
}
INLINE vf vsqrt(vf a)
{
    uint32_t lane;

    for (lane = 0; lane < PST_W; lane++) {
        a[lane] = sqrtf(a[lane]);
    }
    return a;
}
INLINE vl vmul_even(vu a, vu b)
{
    const vl low = (vl){0} + 0xFFFFFFFFu;

    return ((vl)a & low) * ((vl)b & low);
}
#endif

/* --- loads, stores, lanes --------------------------------------------------------------------- */

INLINE vf vset(float value)
{
    return (vf){0} + value;
}

INLINE vf vload(const float *p)
{
    vf v;

    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void vstore(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

/* The first n < PST_W lanes; the others are `fill`. */
INLINE vf vload_part(const float *p, uint64_t n, float fill)
{
    vf v = vset(fill);

    memcpy(&v, p, n * sizeof *p);
    return v;
}

INLINE void vstore_part(float *p, vf v, uint64_t n)
{
    memcpy(p, &v, n * sizeof *p);
}

INLINE vf vselect(vi mask, vf a, vf b)
{
    return (vf)(((vi)a & mask) | ((vi)b & ~mask));
}

/* The vector at p[at], of which `left` lanes are in use; the others are `fill`, and not stored. */
INLINE vf get_or(const float *p, uint64_t at, uint64_t left, float fill)
{
    return left == PST_W ? vload(p + at) : vload_part(p + at, left, fill);
}

INLINE vf get(const float *p, uint64_t at, uint64_t left)
{
    return get_or(p, at, left, 0);
}

INLINE void put(float *p, uint64_t at, uint64_t left, vf v)
{
    if (left == PST_W) {
        vstore(p + at, v);
    } else {
        vstore_part(p + at, v, left);
    }
}

/* Runs statement for each vector of n elements, at element `at` with `left` lanes in use. */
#define PST_EACH_VECTOR(n, statement)                                                              \
    do {                                                                                           \
        uint64_t at = 0, left = PST_W;                                                             \
                                                                                                   \
        for (; at + PST_W <= (n); at += PST_W) {                                                   \
            statement;                                                                             \
        }                                                                                          \
        left = (n)-at;                                                                             \
        if (left > 0) {                                                                            \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

/* 16 lanes. */
struct lanes {
    vf v[PST_PARTS];
};

INLINE struct lanes lanes_set(float value)
{
    struct lanes lanes;
    uint32_t part;

    for (part = 0; part < PST_PARTS; part++) {
        lanes.v[part] = vset(value);
    }
    return lanes;
}

/* How many of the left elements belong to part `part` of 16 lanes. */
INLINE uint64_t part_elems(uint64_t left, uint32_t part)
{
    const uint64_t first = (uint64_t)part * PST_W;

    return left <= first ? 0 : left - first < PST_W ? left - first : PST_W;
}

/* PST_EACH_VECTOR for sums over a row, 16 lanes at a time: `part` is the vector's place among the
   lanes; after the end `left` is 0. */
#define PST_EACH_PART(n, statement)                                                                \
    do {                                                                                           \
        uint64_t i_ = 0, left = PST_W;                                                             \
        uint32_t part;                                                                             \
                                                                                                   \
        for (; i_ + PST_LANES <= (n); i_ += PST_LANES) {                                           \
            for (part = 0; part < PST_PARTS; part++) {                                             \
                const uint64_t at = i_ + part * PST_W;                                             \
                                                                                                   \
                statement;                                                                         \
            }                                                                                      \
        }                                                                                          \
        for (part = 0; i_ < (n) && part < PST_PARTS; part++) {                                     \
            const uint64_t at = i_ + part * PST_W;                                                 \
                                                                                                   \
            left = part_elems((n)-i_, part);                                                       \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

/* Pairwise: lanes that are 8 apart, then 4, 2, 1. */
INLINE float lanes_sum(struct lanes lanes)
{
    vq four;
#if PST_W == 4
    four = (lanes.v[0] + lanes.v[2]) + (lanes.v[1] + lanes.v[3]);
#elif PST_W == 8
    const vf eight = lanes.v[0] + lanes.v[1];
    vq half[2];

    memcpy(half, &eight, sizeof half);
    four = half[0] + half[1];
#else
    vq quarter[4];

    memcpy(quarter, &lanes, sizeof quarter);
    four = (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
#endif
    return (four[0] + four[2]) + (four[1] + four[3]);
}

INLINE float lanes_max(struct lanes lanes)
{
    float value[PST_W], max;
    uint32_t i;

    for (i = 1; i < PST_PARTS; i++) {
        lanes.v[0] = vmax(lanes.v[0], lanes.v[i]);
    }
    vstore(value, lanes.v[0]);
    max = value[0];
    for (i = 1; i < PST_W; i++) {
        max = value[i] > max ? value[i] : max;
    }
    return max;
}

/* --- functions -------------------------------------------------------------------------------- */

/*
 * exp(x) = 2^n exp(r) with |r| <= log(2) / 2; the polynomial is the minimax one for the relative
 * error (3e-9, by the Remez algorithm). The addition of 1.5 * 2^23 rounds to an integer and leaves
 * it in the low bits. NaN stays NaN.
 */
INLINE vf vexp(vf x)
{
    const vf magic = vset(12582912.0f);
    const vi tiny = x < vset(-87.0f);
    const vf clamped = vselect(x > vset(88.0f), vset(88.0f), x);
    const vf shifted = clamped * vset(1.44269504088896341f) + magic;
    const vf n = shifted - magic;
    const vu power = ((vu)shifted << 23) + 0x3F800000u; /* wraps where n is negative */
    /* log(2) in two parts, of which the first has so few bits that n times it is exact */
    const vf r = (clamped - n * vset(0x1.62ep-1f)) - n * vset(0x1.0bfbe8p-15f);
    vf p = vset(0x1.6a2352p-10f);

    p = p * r + vset(0x1.123a6cp-7f);
    p = p * r + vset(0x1.5558f4p-5f);
    p = p * r + vset(0x1.5554ap-3f);
    p = p * r + vset(0x1.fffffcp-2f);
    p = (p * (r * r) + r) + vset(1.0f);
    return (vf)((vi)(p * (vf)power) & ~tiny);
}

/*
 * With u = sqrt(2/pi) (x + 0.044715 x^3), 0.5 (1 + tanh u) is the logistic function of 2u: returns
 * e = exp(-2u); the caller divides.
 */
INLINE vf gelu_exp(vf x, vf square)
{
    const vf a = vset(-1.59576912160573071f), b = vset(-0.0713548162726f);

    return vexp(x * (a + b * square));
}

#include "simd_map.h"
#include "simd_rows.h"
#include "simd_channels.h"
#include "simd_random.h"
#include "simd_step.h"

const struct pst_simd PST_SIMD = {
    .name = PST_NAME,
    .add = map_add,
    .scale = map_scale,
    .widen = map_widen,
    .narrow = map_narrow,
    .relu = map_relu,
    .gelu = map_gelu,
    .relu_back = map_relu_back,
    .gelu_back = map_gelu_back,
    .silu = map_silu,
    .silu_back = map_silu_back,
    .gelu_gate = map_gelu_gate,
    .silu_gate = map_silu_gate,
    .gelu_gate_back = map_gelu_gate_back,
    .silu_gate_back = map_silu_gate_back,
    .rotate = map_rotate,
    .turn = map_turn,
    .dropout = random_dropout,
    .bias = rows_bias,
    .bias_relu = rows_bias_relu,
    .bias_gelu = rows_bias_gelu,
    .column_sums = rows_column_sums,
    .norm = rows_norm,
    .norm_back = rows_norm_back,
    .rms = rows_rms,
    .rms_back = rows_rms_back,
    .column_squares = channels_squares,
    .channel_norm = channels_norm,
    .channel_sums = channels_sums,
    .channel_back = channels_back,
    .max_tap = channels_max_tap,
    .back_tap = channels_back_tap,
    .exp_row = rows_exp_row,
    .exp_sum = rows_exp_sum,
    .exp_known = rows_exp_known,
    .softmax_back = rows_softmax_back,
    .exp_scaled = rows_exp_scaled,
    .sum = rows_sum,
    .sgd = step_sgd,
    .momentum = step_momentum,
    .adam = step_adam,
    .square_sum = step_square_sum,
};

#endif
