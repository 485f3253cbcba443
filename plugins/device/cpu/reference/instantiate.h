/* SPDX-License-Identifier: Apache-2.0
 *
 * Includes all kernels once per type. There STORE is what activations and matrices are stored
 * as, REAL what is computed with and what everything else is stored as, vectors of parameters
 * included; NAME(f) names the instance of f, MATH(sqrt) is the function of <math.h>. No include
 * guard: reference.c is the only includer.
 */
#include "base/bf16.h"
#include "kernel.h"

#define REAL     float
#define STORE    float
#define NAME(f)  f##_f32
#define MATH(m)  m##f
#define LOAD(s)  (s)
#define ROUND(r) (r)
#include "kernels.inc"
#undef STORE
#undef NAME
#undef LOAD
#undef ROUND

#define STORE    uint16_t
#define NAME(f)  f##_bf16
#define LOAD(s)  pst_bf16_load(s)
#define ROUND(r) pst_bf16_round(r)
#include "kernels.inc"
#undef REAL
#undef STORE
#undef NAME
#undef MATH
#undef LOAD
#undef ROUND

#define REAL     double
#define STORE    double
#define NAME(f)  f##_f64
#define MATH(m)  m
#define LOAD(s)  (s)
#define ROUND(r) (r)
#include "kernels.inc"
#undef REAL
#undef STORE
#undef NAME
#undef MATH
#undef LOAD
#undef ROUND
