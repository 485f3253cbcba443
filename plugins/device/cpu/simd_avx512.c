/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector routines for AVX-512 (F, BW, DQ, VL): 16 lanes.
 */
#if defined(__x86_64__)
#if !defined(__clang__) /* which gets options instead */
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif
#define PST_W    16
#define PST_SIMD pst_simd_avx512
#define PST_NAME "AVX-512"

#include "simd_impl.h"
#endif
