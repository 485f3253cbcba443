/* SPDX-License-Identifier: Apache-2.0
 *
 * Own CUDA kernels: what the C files of the device call. Each function puts its kernels on a stream
 * and returns; a failed launch stays in the runtime's last error. Pointers are device memory.
 * `bf16` says that untyped activations are bf16, else f32. Every sum has one order, which follows
 * from the shape alone; no atomic operation touches a floating-point number.
 */
#ifndef PST_DEVICE_CUDA_KERNELS_H
#define PST_DEVICE_CUDA_KERNELS_H

#include <cuda_runtime_api.h>

#include "exec/optimizer.h"
#include "exec/window.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- maps.cu ----------------------------------------------------------------------------------
 */

struct pst_cuda_dropout {
    uint64_t samples, elems; /* elems of a sample */
    uint64_t seed;
    const uint64_t *first_sample; /* changes between launches: on the device */
    uint32_t salt;
    float p; /* 0: nothing is dropped */
};

/* y = x kept and scaled, plus base unless that is NULL. */
void pst_cuda_dropout(cudaStream_t stream, bool bf16, void *y, const void *x, const void *base,
                      const struct pst_cuda_dropout *how);
void pst_cuda_act(cudaStream_t stream, bool bf16, void *y, const void *x, uint32_t act, uint64_t n);
/* dx = dy act'(.), told by seen: the result for relu, the input for gelu. */
void pst_cuda_act_back(cudaStream_t stream, bool bf16, void *dx, const void *dy, const void *seen,
                       uint32_t act, uint64_t n);
/* h = acc + bias, y = act(acc + bias), rows of n; h and bias may be NULL; y may be acc in f32. */
void pst_cuda_bias_act(cudaStream_t stream, bool bf16, void *y, void *h, const float *acc,
                       const float *bias, uint32_t act, uint64_t rows, uint64_t n);
/* Sums of the columns of x [rows, n]; partial: pst_cuda_column_floats(rows, n). */
uint64_t pst_cuda_column_floats(uint64_t rows, uint64_t n);
void pst_cuda_column_sums(cudaStream_t stream, bool bf16, float *sums, const void *x, uint64_t rows,
                          uint64_t n, float *partial);

/* The second half of that: sums of partial [chunks, n], in order. */
void pst_cuda_column_end(cudaStream_t stream, float *sums, const float *partial, uint64_t chunks,
                         uint64_t n);

/* --- step.cu ----------------------------------------------------------------------------------
 */

void pst_cuda_accumulate(cudaStream_t stream, float *dst, const float *src, uint64_t n);
void pst_cuda_sum(cudaStream_t stream, bool bf16, void *dst, const void *a, const void *b,
                  uint64_t n);
/* As device.h says; scratch: pst_cuda_square_doubles(n), the sum is the first. */
uint64_t pst_cuda_square_doubles(uint64_t n);
void pst_cuda_square_sum(cudaStream_t stream, const float *values, uint64_t n, double *scratch);
/* factors: on the device */
void pst_cuda_update(cudaStream_t stream, const struct pst_update_factors *factors, float *weights,
                     const float *grad, float *s0, float *s1, void *working, bool working_bf16,
                     uint64_t n);
/* Writes a value to the device, in the order of the stream; it may change once this returns. */
void pst_cuda_set_sample(cudaStream_t stream, uint64_t *at, uint64_t value);
void pst_cuda_set_factors(cudaStream_t stream, struct pst_update_factors *at,
                          const struct pst_update_factors *value);
void pst_cuda_refresh(cudaStream_t stream, void *working, const float *weights, bool working_bf16,
                      uint64_t n);

/* --- norm.cu: rows of n ------------------------------------------------------------------------
 */

/* mean NULL: root mean square only, without bias. means, rstds: NULL, or one per row. */
void pst_cuda_norm(cudaStream_t stream, bool bf16, bool rms, void *y, const void *x,
                   const float *gain, const float *bias, float eps, uint64_t rows, uint64_t n,
                   float *means, float *rstds);
/* dx = gradient + add where add is not NULL; may be add. */
void pst_cuda_norm_dx(cudaStream_t stream, bool bf16, bool rms, void *dx, const void *add,
                      const void *dy, const void *x, const float *gain, const float *means,
                      const float *rstds, uint64_t rows, uint64_t n);
/* partial: 2 * pst_cuda_column_floats(rows, n). dbias NULL where rms. */
void pst_cuda_norm_params(cudaStream_t stream, bool bf16, bool rms, float *dgain, float *dbias,
                          const void *dy, const void *x, const float *means, const float *rstds,
                          uint64_t rows, uint64_t n, float *partial);

/* --- batchnorm.cu: rows of n channels ----------------------------------------------------------
 */

struct pst_cuda_channels {
    uint64_t rows, n;
    float eps, momentum;
    bool relu, training, track; /* track: running statistics are updated */
};

/* Bytes of scratch of both. */
uint64_t pst_cuda_batchnorm_bytes(uint64_t rows, uint64_t n);
/* means, rstds may be NULL. */
void pst_cuda_batchnorm(cudaStream_t stream, bool bf16, const struct pst_cuda_channels *how,
                        void *y, const void *x, const float *gain, const float *bias,
                        float *running_mean, float *running_var, float *means, float *rstds,
                        void *scratch);
/* dx may be NULL; y is read for relu only. */
void pst_cuda_batchnorm_back(cudaStream_t stream, bool bf16, const struct pst_cuda_channels *how,
                             void *dx, float *dgain, float *dbias, const void *dy, const void *y,
                             const void *x, const float *gain, const float *means,
                             const float *rstds, void *scratch);

/* --- loss.cu -----------------------------------------------------------------------------------
 */

/* rows per sample; lse [samples rows] may be NULL; row_losses: scratch of as many floats. */
void pst_cuda_cross_entropy(cudaStream_t stream, bool bf16, float *losses, float *lse,
                            const void *logits, const int32_t *targets, uint64_t samples,
                            uint64_t rows, uint64_t classes, float *row_losses);
void pst_cuda_cross_entropy_back(cudaStream_t stream, bool bf16, void *dx, const void *logits,
                                 const int32_t *targets, const float *lse, float scale,
                                 uint64_t samples, uint64_t rows, uint64_t classes,
                                 float *sample_scales);
void pst_cuda_mse(cudaStream_t stream, bool bf16, float *losses, const void *x, const void *targets,
                  uint64_t samples, uint64_t n);
void pst_cuda_mse_back(cudaStream_t stream, bool bf16, void *dx, const void *x, const void *targets,
                       float factor, uint64_t n);

/* --- embedding.cu ------------------------------------------------------------------------------
 */

struct pst_cuda_embedding {
    uint64_t tokens;    /* of the micro-batch */
    uint64_t positions; /* tokens of a sample */
    uint64_t summed;    /* tokens whose rows make one of the result */
    uint64_t entries, columns;
};

void pst_cuda_embedding(cudaStream_t stream, bool bf16, const struct pst_cuda_embedding *shape,
                        void *y, const int32_t *ids, const void *table, const void *places);
/* Scratch: tokens + entries integers. dtable, dplaces may be NULL. */
void pst_cuda_embedding_back(cudaStream_t stream, bool bf16, const struct pst_cuda_embedding *shape,
                             float *dtable, float *dplaces, const int32_t *ids, const void *dy,
                             int32_t *scratch);

/* --- pool.cu: NHWC, dense ----------------------------------------------------------------------
 */

/* index may be NULL. */
void pst_cuda_maxpool(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t samples,
                      uint64_t channels, void *y, int32_t *index, const void *x);
void pst_cuda_maxpool_back(cudaStream_t stream, bool bf16, const struct pst_window *w,
                           uint64_t samples, uint64_t channels, void *dx, const void *dy,
                           const int32_t *index);
void pst_cuda_avgpool2d(cudaStream_t stream, bool bf16, const struct pst_window *w,
                        uint64_t samples, uint64_t channels, void *y, const void *x);
void pst_cuda_avgpool2d_back(cudaStream_t stream, bool bf16, const struct pst_window *w,
                             uint64_t samples, uint64_t channels, void *dx, const void *dy);
/* Mean over all pixels of a sample. */
void pst_cuda_mean(cudaStream_t stream, bool bf16, uint64_t samples, uint64_t pixels,
                   uint64_t channels, void *y, const void *x);
void pst_cuda_mean_back(cudaStream_t stream, bool bf16, uint64_t samples, uint64_t pixels,
                        uint64_t channels, void *dx, const void *dy);
/* y[h,w] = x[h + pad[0], w + pad[1]], 0 beyond the image; back: the other way round. */
void pst_cuda_shift(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t samples,
                    uint64_t channels, bool back, void *y, const void *x);
/* col [out pixels, kernel, channels] of one sample. */
void pst_cuda_im2col(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t channels,
                     void *col, const void *x);
/* dx of one sample from the f32 gradient of its col. */
void pst_cuda_col2im(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t channels,
                     void *dx, const float *dcol);

/* --- dnn.cu -----------------------------------------------------------------------------------
 */

/* y [columns, rows] = x [rows, columns] on its side. */
void pst_cuda_turn(cudaStream_t stream, bool bf16, void *y, const void *x, uint64_t rows,
                   uint64_t columns);

/* --- attention.cu: one sample ------------------------------------------------------------------
 */

struct pst_cuda_attention {
    uint64_t heads, rows, keys;
    bool causal;
    const int32_t *buckets; /* [rows + keys - 1], by key - row + rows - 1; NULL: no bias */
    uint32_t n_buckets;
};

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
