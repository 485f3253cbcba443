/* SPDX-License-Identifier: Apache-2.0
 *
 * One matrix product, c = op(a) op(b), row-major, c in f32 and overwritten. f32 operands go through
 * dnnl_sgemm, which beats the primitives on plain layouts; bf16 operands through a matmul
 * primitive. For AVX-512 dnnl_sgemm is slower with a transposed b than with one that was turned
 * before, some rows at a time, if that serves many rows of a.
 */
#ifndef PST_DEVICE_CPU_DNNL_GEMM_H
#define PST_DEVICE_CPU_DNNL_GEMM_H

#include "cpu.h"

struct pst_gemm_shape {
    uint32_t dtype;        /* of a and b: f32 or bf16 */
    bool trans_a, trans_b; /* stored the other way round */
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* from row to row as stored */
    bool turn;             /* f32 with trans_b: turn b first; the sums are other ones */
};

struct pst_gemm {
    struct pst_gemm_shape shape;
    const struct pst_device *device;
    void *primitive, *a, *b, *c, *scratch; /* bf16 only */
    uint64_t scratch_bytes;                /* what run() wants */
};

/* On the device thread. finish() accepts what a failed init() or an all-zero struct leaves. */
pst_status pst_gemm_init(struct pst_gemm *gemm, const struct pst_device *device,
                         const struct pst_gemm_shape *shape, struct pst_error *err);
void pst_gemm_finish(struct pst_gemm *gemm);

/* The scratch_bytes of such a product, a multiple of 64. */
uint64_t pst_gemm_scratch(const struct pst_device *device, const struct pst_gemm_shape *shape);

/* scratch is aligned to 64 bytes. Allocates nothing of its own. */
void pst_gemm_run(const struct pst_gemm *gemm, const void *a, const void *b, float *c,
                  void *scratch);

/* --- dnnl_outer.c: c [m,n] = a^T b in f32, a [rows,m] and b [rows,n] dense -------------------- */

struct pst_outer_shape {
    uint64_t rows, m, n;
};

/* Workspace for it. */
uint64_t pst_outer_floats(const struct pst_outer_shape *shape);

/* c is overwritten. */
void pst_outer_run(const struct pst_device *device, const struct pst_outer_shape *shape,
                   const float *a, const float *b, float *c, float *floats);

#endif
