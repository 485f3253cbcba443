/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector routines for any machine: 4 lanes, SSE2 on x86.
 */
#define PST_W    4
#define PST_SIMD pst_simd_base
#define PST_NAME "SSE2"
#if !defined(__x86_64__)
#undef PST_NAME
#define PST_NAME "128-bit vectors"
#endif

#include "simd_impl.h"
