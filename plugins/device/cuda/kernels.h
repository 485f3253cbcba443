/* SPDX-License-Identifier: Apache-2.0
 *
 * Own CUDA kernels that stand beside or between products: what the C files of the device call. Each
 * function puts its kernels on a stream and returns; a failed launch stays in the runtime's last
 * error. Pointers are device memory. `bf16` says that untyped activations are bf16, else f32. Every
 * sum has one order, which follows from the shape alone; no atomic operation touches a
 * floating-point number.
 */
#ifndef PST_DEVICE_CUDA_KERNELS_H
#define PST_DEVICE_CUDA_KERNELS_H

#include <cuda_runtime_api.h>

#include "device/common/optimizer.h"
#include "device/common/conv_window.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- maps.cu -----------------------------------------------------------------------------------*/

/* dx = dy act'(.), told by seen: the result for relu, the input for gelu. */
void pst_cuda_act_back(cudaStream_t stream, bool bf16, void *dx, const void *dy, const void *seen,
                       uint32_t act, uint64_t n);
/* h = acc + bias, y = act(acc + bias), rows of n; h and bias may be NULL; y may be acc in f32. */
void pst_cuda_bias_act(cudaStream_t stream, bool bf16, void *y, void *h, const float *acc,
                       const float *bias, uint32_t act, uint64_t rows, uint64_t n);
/* Sums of the columns of x [rows, n]; partial: pst_cuda_column_floats(rows, n), which may be 0. */
uint64_t pst_cuda_column_floats(uint64_t rows, uint64_t n);
void pst_cuda_column_sums(cudaStream_t stream, bool bf16, float *sums, const void *x, uint64_t rows,
                          uint64_t n, float *partial);

/* The second half of that: sums of partial [chunks, n], in order; others, which may be NULL: of a
   second one after it. */
void pst_cuda_column_end(cudaStream_t stream, float *sums, float *others, const float *partial,
                         uint64_t chunks, uint64_t n);

/* --- step.cu -----------------------------------------------------------------------------------*/

void pst_cuda_accumulate(cudaStream_t stream, float *dst, const float *src, uint64_t n);
void pst_cuda_sum(cudaStream_t stream, bool bf16, void *dst, const void *a, const void *b,
                  uint64_t n);
/* As device.h says; scratch: pst_cuda_square_doubles() of each of them. */
uint64_t pst_cuda_square_doubles(uint64_t n);
void pst_cuda_squares(cudaStream_t stream, const struct pst_squared *list, uint32_t n,
                      double *scratch);
/* factors: on the device */
void pst_cuda_update(cudaStream_t stream, const struct pst_update_factors *factors, float *weights,
                     const float *grad, float *s0, float *s1, void *working, bool working_bf16,
                     uint64_t n);
/* Writes a value to the device, in the order of the stream; it may change once this returns. */
void pst_cuda_set_sample(cudaStream_t stream, uint64_t *at, uint64_t value);
void pst_cuda_set_factors(cudaStream_t stream, struct pst_update_factors *at,
                          const struct pst_update_factors *value);
/* To bf16, or as they are; at most PST_CUDA_ROUNDINGS vectors at once. */
struct pst_cuda_rounding {
    const float *from;
    void *to;
    uint64_t n;
};
enum { PST_CUDA_ROUNDINGS = 128 }; /* arguments of a launch are 4 KiB at most */
void pst_cuda_round(cudaStream_t stream, bool bf16, const struct pst_cuda_rounding *list,
                    uint32_t n);
/* Muon: x = what is to be orthogonalised, and the momentum in slot; x divided by the root of what
   is at sum; a = by_a a + by_b b; the step along x, and working, which may be NULL, as update has
   it. */
void pst_cuda_muon_take(cudaStream_t stream, const struct pst_update_factors *factors, float *x,
                        const float *grad, float *slot, uint64_t n);
void pst_cuda_muon_scale(cudaStream_t stream, float *x, const double *sum, uint64_t n);
void pst_cuda_muon_combine(cudaStream_t stream, float *a, float by_a, const float *b, float by_b,
                           uint64_t n);
void pst_cuda_muon_step(cudaStream_t stream, const struct pst_update_factors *factors,
                        float *weights, const float *x, float factor, void *working,
                        bool working_bf16, uint64_t n);
void pst_cuda_refresh(cudaStream_t stream, void *working, const float *weights, bool working_bf16,
                      uint64_t n);

/* --- pool.cu: NHWC, dense ----------------------------------------------------------------------*/

/* col [out pixels, kernel, channels] of one sample. */
void pst_cuda_im2col(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t channels,
                     void *col, const void *x);
/* dx of one sample from the f32 gradient of its col. */
void pst_cuda_col2im(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t channels,
                     void *dx, const float *dcol);

/* --- dnn.cu ------------------------------------------------------------------------------------*/

/* y [columns, rows] = x [rows, columns] on its side. */
void pst_cuda_turn(cudaStream_t stream, bool bf16, void *y, const void *x, uint64_t rows,
                   uint64_t columns);

/* --- rotary.cu ---------------------------------------------------------------------------------*/

struct pst_cuda_rotation {
    uint64_t rows, positions, columns; /* rows [samples, positions, columns] */
    uint64_t first;                    /* position of the first row of a sample */
    uint64_t heads, half;              /* that turn; pairs of a head */
    const double *turns;               /* [half] per position; device memory */
    bool back;                         /* the other way */
};

void pst_cuda_rotate(cudaStream_t stream, bool bf16, const struct pst_cuda_rotation *shape, void *y,
                     const void *x);

/* --- attention.cu: one sample ------------------------------------------------------------------*/

struct pst_cuda_attention {
    uint64_t heads, rows, keys;
    uint64_t first; /* the key of row 0 */
    bool causal;
    uint64_t window;        /* causal: row t sees t - window + 1 ... t; 0: all up to t */
    const int32_t *buckets; /* [rows + keys - 1], by key - row + rows - 1; NULL: no bias */
    uint32_t n_buckets;
};

/* Heads side by side in rows of `stride` elements, and one after the other [heads, rows, depth]. */
void pst_cuda_split_heads(cudaStream_t stream, bool bf16, uint64_t heads, uint64_t rows,
                          uint64_t depth, uint64_t stride, void *apart, const void *packed);
void pst_cuda_join_heads(cudaStream_t stream, bool bf16, uint64_t heads, uint64_t rows,
                         uint64_t depth, uint64_t stride, void *packed, const void *apart);

/* Columns of rows of `stride` elements = dkv [rows, columns], with past, where it is not NULL. */
void pst_cuda_store_keys(cudaStream_t stream, bool bf16, uint64_t rows, uint64_t columns,
                         uint64_t stride, void *to, const float *dkv, const float *past);

/* scores [heads, rows, keys] become probabilities, in place for f32, in probs for bf16. bias:
   [buckets, heads] in the type of the activations. lse: [heads, rows], may be NULL. */
void pst_cuda_softmax(cudaStream_t stream, bool bf16, const struct pst_cuda_attention *shape,
                      float *scores, void *probs, const void *bias, float *lse);
/* scores and dprobs (f32) are products. dprobs becomes the gradient of the scores before scaling;
   dscores has the same in the activations' type and probs the probabilities: in f32 they may be
   dprobs and scores themselves. */
void pst_cuda_softmax_back(cudaStream_t stream, bool bf16, const struct pst_cuda_attention *shape,
                           const float *scores, float *dprobs, void *probs, void *dscores,
                           const void *bias, const float *lse);
/* dbias (f32 [buckets, heads]) = or += sums of slopes [heads, rows, keys]; scratch: heads times
   rows + keys - 1 floats. */
void pst_cuda_bucket_sums(cudaStream_t stream, const struct pst_cuda_attention *shape, float *dbias,
                          const float *slopes, bool add, float *scratch);

#ifdef __cplusplus
}
#endif

#endif
