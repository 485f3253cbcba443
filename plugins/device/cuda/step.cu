/* SPDX-License-Identifier: Apache-2.0
 *
 * Around the step: sums of gradients, their norm, the optimizer. The sum of squares follows the
 * same tree as on the cpu device, and an update does the same operations.
 */
#include "device/cuda/launch.h"

#define CHUNK 4096u
#define LANES 512u /* of a chunk: 32 blocks of 128 elements in 16 lanes */

__global__ void accumulate_kernel(float *dst, const float *src, uint64_t n)
{
    PST_EACH(i, n)
    {
        dst[i] += src[i];
    }
}

template <class S, unsigned W>
__global__ void sum_kernel(S *dst, const S *a, const S *b, uint64_t n)
{
    PST_EACH(i, n / W)
    {
        const pst_some<S, W> more = pst_read<W>(b + i * W);
        pst_some<S, W> some = pst_read<W>(a + i * W);

        for (unsigned k = 0; k < W; k++) {
            pst_store(&some.v[k], pst_load(some.v[k]) + pst_load(more.v[k]));
        }
        pst_write<W>(dst + i * W, some);
    }
}

/* Lane l of block b: elements 128 b + l, + 16, ... in ascending order, 8 of them. */
__device__ static double square_lane(const float *values, uint64_t left, uint64_t lane)
{
    const uint64_t first = lane / 16 * 128 + lane % 16;
    double sum = 0;

    for (uint64_t e = first; e < first + 128; e += 16) {
        const double value = e < left ? (double)values[e] : 0.0;

        sum = e == first ? value * value : sum + value * value;
    }
    return sum;
}

/* Lanes of a block meet first, then the blocks: in both the upper half is added to the lower. */
__global__ void square_kernel(const float *values, uint64_t n, double *sums)
{
    __shared__ double lane[LANES];

    PST_EACH_BLOCK(chunk, (n + CHUNK - 1) / CHUNK)
    {
        const uint64_t at = chunk * CHUNK;

        PST_EACH_THREAD(i, LANES)
        {
            lane[i] = square_lane(values + at, n - at, i);
        }
        __syncthreads();
        for (unsigned width = 8; width > 0; width /= 2) {
            PST_EACH_THREAD(i, 32 * width)
            {
                const uint64_t to = i / width * 16 + i % width;

                lane[to] += lane[to + width];
            }
            __syncthreads();
        }
        for (unsigned width = 16; width > 0; width /= 2) {
            PST_EACH_THREAD(i, width)
            {
                lane[i * 16] += lane[(i + width) * 16];
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            sums[chunk] = lane[0];
        }
        __syncthreads();
    }
}

/* One level of the tree over chunks: neighbours are added. */
__global__ void pair_kernel(double *to, const double *from, uint64_t n)
{
    PST_EACH(i, (n + 1) / 2)
    {
        to[i] = 2 * i + 1 < n ? from[2 * i] + from[2 * i + 1] : from[2 * i];
    }
}

template <class S>
__global__ void update_kernel(const struct pst_update_factors *at, float *weights, const float *grad,
                              float *s0, float *s1, S *working, uint64_t n)
{
    const struct pst_update_factors factors = *at;

    PST_EACH(i, n)
    {
        float a = s0 == NULL ? 0 : s0[i], b = s1 == NULL ? 0 : s1[i];
        const float w = pst_update_element(&factors, weights[i], grad[i], &a, &b);

        weights[i] = w;
        if (s0 != NULL) {
            s0[i] = a;
        }
        if (s1 != NULL) {
            s1[i] = b;
        }
        if (working != NULL) {
            pst_store(&working[i], w);
        }
    }
}

template <class S> __global__ void refresh_kernel(S *working, const float *weights, uint64_t n)
{
    PST_EACH(i, n)
    {
        pst_store(&working[i], weights[i]);
    }
}

__global__ void set_sample_kernel(uint64_t *at, uint64_t value)
{
    PST_EACH(i, 1)
    {
        *at = value;
    }
}

__global__ void set_factors_kernel(struct pst_update_factors *at, struct pst_update_factors value)
{
    PST_EACH(i, 1)
    {
        *at = value;
    }
}

void pst_cuda_set_sample(cudaStream_t stream, uint64_t *at, uint64_t value)
{
    PST_LAUNCH(set_sample_kernel, 1, stream, at, value);
}

void pst_cuda_set_factors(cudaStream_t stream, struct pst_update_factors *at,
                          const struct pst_update_factors *value)
{
    PST_LAUNCH(set_factors_kernel, 1, stream, at, *value);
}

void pst_cuda_accumulate(cudaStream_t stream, float *dst, const float *src, uint64_t n)
{
    PST_LAUNCH(accumulate_kernel, pst_blocks(n), stream, dst, src, n);
}

void pst_cuda_sum(cudaStream_t stream, bool bf16, void *dst, const void *a, const void *b,
                  uint64_t n)
{
    PST_TYPED_WIDE(bf16, pst_is_wide(n, dst, a, b),
                   PST_LAUNCH((sum_kernel<S, W>), pst_blocks(n / W), stream, (S *)dst, (const S *)a,
                              (const S *)b, n));
}

/* The chunks' sums, and room for the next level beside them. */
uint64_t pst_cuda_square_doubles(uint64_t n)
{
    const uint64_t chunks = (n + CHUNK - 1) / CHUNK;

    return 2 * chunks + 2;
}

void pst_cuda_square_sum(cudaStream_t stream, const float *values, uint64_t n, double *scratch)
{
    uint64_t chunks = (n + CHUNK - 1) / CHUNK, levels = 0;
    double *from, *to;

    for (uint64_t left = chunks; left > 1; left = (left + 1) / 2) {
        levels++;
    }
    /* Levels go to and fro, so that the last one ends in front. */
    from = levels % 2 == 0 ? scratch : scratch + chunks + 1;
    to = levels % 2 == 0 ? scratch + chunks + 1 : scratch;
    PST_LAUNCH_MEETING(square_kernel, pst_blocks_each(chunks), stream, values, n, from);
    for (; chunks > 1; chunks = (chunks + 1) / 2) {
        double *swap = from;

        PST_LAUNCH(pair_kernel, pst_blocks((chunks + 1) / 2), stream, to, from, chunks);
        from = to;
        to = swap;
    }
}

void pst_cuda_update(cudaStream_t stream, const struct pst_update_factors *factors, float *weights,
                     const float *grad, float *s0, float *s1, void *working, bool working_bf16,
                     uint64_t n)
{
    PST_TYPED(working_bf16, PST_LAUNCH(update_kernel<S>, pst_blocks(n), stream, factors, weights,
                                       grad, s0, s1, (S *)working, n));
}

void pst_cuda_refresh(cudaStream_t stream, void *working, const float *weights, bool working_bf16,
                      uint64_t n)
{
    PST_TYPED(working_bf16,
              PST_LAUNCH(refresh_kernel<S>, pst_blocks(n), stream, (S *)working, weights, n));
}
