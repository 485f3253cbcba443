/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector routines for AVX2: 8 lanes.
 */
#if defined(__x86_64__)
#if !defined(__clang__) /* which gets options instead */
#pragma GCC target("avx2")
#endif
#define PST_W    8
#define PST_SIMD pst_simd_avx2
#define PST_NAME "AVX2"

#include "simd_impl.h"
#endif
