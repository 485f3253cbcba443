/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector routines under the cpu kernels: one table for each instruction set, all compiled from
 * the same source (simd_impl.h). Everything is f32 and single-threaded. Sums run over 16 fixed
 * lanes that are joined pairwise, and nothing is contracted, so every table gives the same bits.
 * Accuracy: exp within 1.5 ulp, 0 below -87, saturated above 88.
 */
#ifndef PST_DEVICE_CPU_SIMD_H
#define PST_DEVICE_CPU_SIMD_H

#include <stdbool.h>
#include <stdint.h>

#include "device/common/optimizer.h"

/* Dropout of elements first ... first + n - 1 of one sample; first is a multiple of 4. */
struct pst_simd_dropout {
    uint64_t seed, stream; /* of Philox */
    uint32_t threshold;    /* kept iff word >= threshold */
    float scale;           /* of what is kept */
};

/* Per channel, for the backward pass of batch norm. */
struct pst_simd_channels {
    const float *mean, *rstd, *factor, *mean_g, *mean_gn;
};

/*
 * An output may be the same array as an input of the same name and length,
 * but must not overlap one in any other way.
 */
struct pst_simd {
    const char *name;

    /* --- maps over n elements --- */
    void (*add)(float *dst, const float *a, const float *b, uint64_t n);
    void (*scale)(float *dst, const float *a, float factor, uint64_t n);
    void (*widen)(float *dst, const uint16_t *bf16, uint64_t n);
    void (*narrow)(uint16_t *bf16, const float *src, uint64_t n);
    void (*relu)(float *y, const float *h, uint64_t n);
    void (*gelu)(float *y, const float *h, uint64_t n); /* tanh form */
    void (*silu)(float *y, const float *h, uint64_t n);
    /* dh = dy * act'; relu is told by the sign of y, the others by h */
    void (*relu_back)(float *dh, const float *dy, const float *y, uint64_t n);
    void (*gelu_back)(float *dh, const float *dy, const float *h, uint64_t n);
    void (*silu_back)(float *dh, const float *dy, const float *h, uint64_t n);
    /* y = act(gate) up, and back */
    void (*gelu_gate)(float *y, const float *gate, const float *up, uint64_t n);
    void (*silu_gate)(float *y, const float *gate, const float *up, uint64_t n);
    void (*gelu_gate_back)(float *dgate, float *dup, const float *dy, const float *gate,
                           const float *up, uint64_t n);
    void (*silu_gate_back)(float *dgate, float *dup, const float *dy, const float *gate,
                           const float *up, uint64_t n);
    /* Pairs of n columns and the n after them are turned; way: 1, or -1 back. */
    void (*rotate)(float *y, const float *x, const float *cosines, const float *sines, float way,
                   uint64_t n);
    /* dst[columns][to] = src[rows][from], turned; no overlap */
    void (*turn)(float *dst, uint64_t to, const float *src, uint64_t from, uint64_t rows,
                 uint64_t columns);
    /* y = x kept and scaled, plus base where base is not NULL */
    void (*dropout)(const struct pst_simd_dropout *dropout, float *y, const float *x,
                    const float *base, uint64_t first, uint64_t n);

    /* --- rows of n columns, dense --- */
    void (*bias)(float *h, const float *bias, uint64_t rows, uint64_t n);
    void (*bias_relu)(float *h, const float *bias, uint64_t rows, uint64_t n);
    void (*bias_gelu)(float *h, const float *bias, float *y, uint64_t rows, uint64_t n);
    /* sums += the rows, in ascending order; from row to row it is ld */
    void (*column_sums)(float *sums, const float *x, uint64_t rows, uint64_t ld, uint64_t n);

    /* --- layer norm, one row; back: dgain and dbias are accumulated, dx = gradient + add unless
       add is NULL --- */
    void (*norm)(float *y, const float *x, const float *gain, const float *bias, float eps,
                 uint64_t n, float *ret_mean, float *ret_rstd);
    void (*norm_back)(float *dx, const float *add, float *dgain, float *dbias, const float *dy,
                      const float *x, const float *gain, float mean, float rstd, uint64_t n);

    /* --- the same without mean and bias: x over the root of its mean square --- */
    void (*rms)(float *y, const float *x, const float *gain, float eps, uint64_t n,
                float *ret_rstd);
    void (*rms_back)(float *dx, const float *add, float *dgain, const float *dy, const float *x,
                     const float *gain, float rstd, uint64_t n);

    /* --- batch norm, dense rows of n channels, sums in ascending order of rows; relu: told by y,
       which may be NULL --- */
    /* sums += (x - mean)^2 */
    void (*column_squares)(float *sums, const float *x, const float *mean, uint64_t rows,
                           uint64_t n);
    /* y = (x - mean) factor + bias, then relu */
    void (*channel_norm)(float *y, const float *x, const float *mean, const float *factor,
                         const float *bias, bool relu, uint64_t rows, uint64_t n);
    /* dbias += dh, dgain += dh normed, where dh is dy after the relu */
    void (*channel_sums)(float *dgain, float *dbias, const float *dy, const float *y,
                         const float *x, const float *mean, const float *rstd, uint64_t rows,
                         uint64_t n);
    /* dx = factor (dh - mean_g - normed mean_gn) */
    void (*channel_back)(float *dx, const float *dy, const float *y, const float *x,
                         const struct pst_simd_channels *channels, uint64_t rows, uint64_t n);

    /* --- max pooling, one row of channels; tap: which element of the window x is --- */
    /* x where it is greater, or NaN, replaces y, and tap the index */
    void (*max_tap)(float *y, int32_t *index, const float *x, int32_t tap, uint64_t n);
    /* dx += dy where the index is tap */
    void (*back_tap)(float *dx, const float *dy, const int32_t *index, int32_t tap, uint64_t n);

    /* --- softmax --- */
    /* values = exp(scale * values - shift) where shift = scale * max; returns their sum */
    float (*exp_row)(float *values, float scale, uint64_t n, float *ret_shift);
    /* sum of exp(values - max), without writing them */
    float (*exp_sum)(const float *values, uint64_t n, float *ret_max);
    /* probs = exp(scale * scores - lse) */
    void (*exp_known)(float *probs, const float *scores, float scale, float lse, uint64_t n);
    /* ds = scale * p * (dp - sum(p * dp)); over dp */
    void (*softmax_back)(float *dp, const float *p, float scale, uint64_t n);
    /* dst = factor * exp(src - lse) - less */
    void (*exp_scaled)(float *dst, const float *src, float lse, float factor, float less,
                       uint64_t n);
    float (*sum)(const float *values, uint64_t n);

    /* --- the step --- */
    void (*sgd)(const struct pst_update_factors *update, float *w, const float *g, uint64_t n);
    void (*momentum)(const struct pst_update_factors *update, float *w, const float *g, float *s,
                     uint64_t n);
    void (*adam)(const struct pst_update_factors *update, float *w, const float *g, float *m,
                 float *v, uint64_t n);
    double (*square_sum)(const float *values, uint64_t n); /* n <= 4096, pairwise */
};

extern const struct pst_simd pst_simd_base;
#if defined(__x86_64__)
extern const struct pst_simd pst_simd_avx2;
extern const struct pst_simd pst_simd_avx512;
#endif

/* The widest that this machine has, and that ONEDNN_MAX_CPU_ISA allows (as it does for oneDNN). */
const struct pst_simd *pst_simd_select(void);

#endif
