/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation functions and their slopes, for .cu files.
 */
#ifndef PST_DEVICE_CUDA_ACT_H
#define PST_DEVICE_CUDA_ACT_H

#include "device/cuda/launch.h"

/* Tanh form of GELU (Hendrycks and Gimpel, 2016): 0.5 (1 + tanh(v)) is sigmoid(2 v), which loses
   nothing near 0. exp(-2 v), v = sqrt(2 / pi) (h + 0.044715 h^3). */
__device__ static inline float gelu_decay(float h)
{
    return exp2f(h * __fmaf_rn(-0.102943240f, h * h, -2.30220820f));
}

__device__ static inline float gelu(float h)
{
    return h * __fdividef(1, 1 + gelu_decay(h));
}

__device__ static inline float gelu_slope(float h)
{
    const float decay = gelu_decay(h), part = __fdividef(1, 1 + decay);
    const float rest = h > 0 ? decay * part : 1 - part; /* 1 - part, where that loses nothing */

    return __fmaf_rn(h * part * rest, __fmaf_rn(0.214064449f, h * h, 1.59576912f), part);
}

/* x sigmoid(x) */
__device__ static inline float silu_decay(float h)
{
    return exp2f(h * -1.44269504f);
}

__device__ static inline float silu(float h)
{
    return h * __fdividef(1, 1 + silu_decay(h));
}

__device__ static inline float silu_slope(float h)
{
    const float decay = silu_decay(h), part = __fdividef(1, 1 + decay);
    const float rest = h > 0 ? decay * part : 1 - part; /* 1 - part, where that loses nothing */

    return __fmaf_rn(h * part, rest, part);
}

__device__ static inline float act_of(uint32_t act, float h)
{
    switch (act) {
    case PST_ACT_RELU:
        return h <= 0 ? 0 : h; /* NaN stays NaN */
    case PST_ACT_GELU:
        return gelu(h);
    case PST_ACT_SILU:
        return silu(h);
    default:
        return h;
    }
}

/* The slope of SiLU or GELU at the input h. */
__device__ static inline float act_slope(uint32_t act, float h)
{
    return act == PST_ACT_SILU ? silu_slope(h) : gelu_slope(h);
}

#endif
