/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element: dropout, activations, what stands behind a product; sums of columns.
 */
#include "device/cuda/launch.h"

#define REAL    float
#define NAME(f) f##_f32
#define MATH(m) m##f
#include "device/activation.inc"

#define CHUNK 64u /* rows that one thread adds up */

/* A thread has the four elements that a block of random words serves. */
template <class S>
__global__ void dropout_kernel(S *y, const S *x, const S *base, struct pst_cuda_dropout how)
{
    const uint64_t groups = (how.elems + 3) / 4;
    const uint32_t threshold = (uint32_t)(how.p * 4294967296.0f);
    const float factor = 1.0f / (1.0f - how.p);

    PST_EACH(i, how.samples * groups)
    {
        const uint64_t sample = i / groups, group = i % groups;
        struct pst_philox words = {};

        if (how.p > 0) {
            words = pst_philox(how.seed, pst_dropout_stream(how.salt, how.first_sample + sample),
                               group);
        }
        for (uint32_t k = 0; k < 4 && group * 4 + k < how.elems; k++) {
            const uint64_t at = sample * how.elems + group * 4 + k;
            float value = pst_load(x[at]);

            if (how.p > 0) {
                value = words.v[k] >= threshold ? value * factor : 0;
            }
            pst_store(&y[at], base == NULL ? value : pst_load(base[at]) + value);
        }
    }
}

template <class S> __global__ void act_kernel(S *y, const S *x, uint32_t act, uint64_t n)
{
    PST_EACH(i, n)
    {
        pst_store(&y[i], act_f32(act, pst_load(x[i])));
    }
}

template <class S>
__global__ void act_back_kernel(S *dx, const S *dy, const S *seen, uint32_t act, uint64_t n)
{
    PST_EACH(i, n)
    {
        const float at = pst_load(seen[i]), g = pst_load(dy[i]);

        if (act == PST_ACT_RELU) {
            pst_store(&dx[i], at > 0 ? g : 0);
        } else {
            pst_store(&dx[i], g * gelu_slope_f32(at));
        }
    }
}

template <class S>
__global__ void bias_act_kernel(S *y, S *h, const float *acc, const float *bias, uint32_t act,
                                uint64_t elems, uint64_t n)
{
    PST_EACH(i, elems)
    {
        const float sum = bias == NULL ? acc[i] : acc[i] + bias[i % n];

        if (h != NULL) {
            pst_store(&h[i], sum);
        }
        pst_store(&y[i], act_f32(act, sum));
    }
}

template <class S>
__global__ void column_kernel(float *partial, const S *x, uint64_t rows, uint64_t n)
{
    const uint64_t chunks = (rows + CHUNK - 1) / CHUNK;

    PST_EACH(i, chunks * n)
    {
        const uint64_t first = i / n * CHUNK, column = i % n;
        const uint64_t end = first + CHUNK < rows ? first + CHUNK : rows;
        float sum = 0;

        for (uint64_t r = first; r < end; r++) {
            sum += pst_load(x[r * n + column]);
        }
        partial[i] = sum;
    }
}

__global__ void column_end_kernel(float *sums, const float *partial, uint64_t chunks, uint64_t n)
{
    PST_EACH(column, n)
    {
        float sum = 0;

        for (uint64_t i = 0; i < chunks; i++) {
            sum += partial[i * n + column];
        }
        sums[column] = sum;
    }
}

void pst_cuda_dropout(cudaStream_t stream, bool bf16, void *y, const void *x, const void *base,
                      const struct pst_cuda_dropout *how)
{
    const unsigned blocks = pst_blocks(how->samples * ((how->elems + 3) / 4));

    PST_TYPED(bf16, PST_LAUNCH(dropout_kernel<S>, blocks, stream, (S *)y, (const S *)x,
                               (const S *)base, *how));
}

void pst_cuda_act(cudaStream_t stream, bool bf16, void *y, const void *x, uint32_t act, uint64_t n)
{
    PST_TYPED(bf16, PST_LAUNCH(act_kernel<S>, pst_blocks(n), stream, (S *)y, (const S *)x, act, n));
}

void pst_cuda_act_back(cudaStream_t stream, bool bf16, void *dx, const void *dy, const void *seen,
                       uint32_t act, uint64_t n)
{
    PST_TYPED(bf16, PST_LAUNCH(act_back_kernel<S>, pst_blocks(n), stream, (S *)dx, (const S *)dy,
                               (const S *)seen, act, n));
}

void pst_cuda_bias_act(cudaStream_t stream, bool bf16, void *y, void *h, const float *acc,
                       const float *bias, uint32_t act, uint64_t rows, uint64_t n)
{
    const uint64_t elems = rows * n;

    PST_TYPED(bf16, PST_LAUNCH(bias_act_kernel<S>, pst_blocks(elems), stream, (S *)y, (S *)h, acc,
                               bias, act, elems, n));
}

uint64_t pst_cuda_column_floats(uint64_t rows, uint64_t n)
{
    return (rows + CHUNK - 1) / CHUNK * n;
}

void pst_cuda_column_end(cudaStream_t stream, float *sums, const float *partial, uint64_t chunks,
                         uint64_t n)
{
    PST_LAUNCH(column_end_kernel, pst_blocks(n), stream, sums, partial, chunks, n);
}

void pst_cuda_column_sums(cudaStream_t stream, bool bf16, float *sums, const void *x, uint64_t rows,
                          uint64_t n, float *partial)
{
    const uint64_t chunks = (rows + CHUNK - 1) / CHUNK;

    PST_TYPED(bf16, PST_LAUNCH(column_kernel<S>, pst_blocks(chunks * n), stream, partial,
                               (const S *)x, rows, n));
    pst_cuda_column_end(stream, sums, partial, chunks, n);
}
