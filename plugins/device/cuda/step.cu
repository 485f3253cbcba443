/* SPDX-License-Identifier: Apache-2.0
 *
 * Around the step: sums of gradients, their norm, the optimizer. The sum of squares follows the
 * same tree as on the cpu device, and an update does the same operations.
 */
#include "device/cuda/launch.h"

#define CHUNK 4096u

/* In neighbours, then what is left of n. */
#define EACH_SOME(W, at, n, some, one)                                                             \
    PST_EACH(i, (n) / (W))                                                                         \
    {                                                                                              \
        const uint64_t at = i * (W);                                                               \
                                                                                                   \
        some;                                                                                      \
    }                                                                                              \
    PST_EACH(i, (n) % (W))                                                                         \
    {                                                                                              \
        const uint64_t at = (n) - (n) % (W) + i;                                                   \
                                                                                                   \
        one;                                                                                       \
    }

template <class S, unsigned W> __device__ static void sum_some(S *dst, const S *a, const S *b)
{
    const pst_some<S, W> more = pst_read<W>(b);
    pst_some<S, W> some = pst_read<W>(a);

    for (unsigned k = 0; k < W; k++) {
        pst_store(&some.v[k], pst_load(some.v[k]) + pst_load(more.v[k]));
    }
    pst_write<W>(dst, some);
}

template <class S, unsigned W>
__global__ void sum_kernel(S *dst, const S *a, const S *b, uint64_t n)
{
    EACH_SOME(W, at, n, (sum_some<S, W>(dst + at, a + at, b + at)),
              (sum_some<S, 1>(dst + at, a + at, b + at)))
}

/* --- sum of squares ----------------------------------------------------------------------------*/

#define MOST 128u /* parameters of a launch: its arguments are 4 KiB at most */

struct squared {
    const float *values;
    uint64_t elems;
    double *sum;    /* in pinned memory */
    uint32_t first; /* of its chunks among those of the launch */
};

struct squares {
    struct squared list[MOST];
    uint32_t n, chunks;
};

/* The last one that begins at the chunk or before. */
__device__ static uint32_t squared_of(const struct squares *all, uint64_t chunk)
{
    uint32_t low = 0, high = all->n;

    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;

        if (all->list[middle].first <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Lane l has the elements l, l + 16 and so on of 128, in ascending order. The 16 lanes meet: the
   upper half is added to the lower. Four threads side by side have four lanes each. */
__device__ static double square_block(const float *values, uint64_t left)
{
    const unsigned first = threadIdx.x % 4 * 4;
    pst_some<float, 4> fours[8];
    double lane[4];

    if (left >= 128 && (uintptr_t)values % sizeof fours[0] == 0) {
        for (unsigned j = 0; j < 8; j++) {
            fours[j] = pst_read<4>(values + first + j * 16);
        }
    } else {
        for (unsigned i = 0; i < 32; i++) {
            const unsigned at = first + i / 4 * 16 + i % 4;

            fours[i / 4].v[i % 4] = at < left ? values[at] : 0;
        }
    }
    for (unsigned k = 0; k < 4; k++) {
        lane[k] = (double)fours[0].v[k] * (double)fours[0].v[k];
        for (unsigned j = 1; j < 8; j++) {
            lane[k] += (double)fours[j].v[k] * (double)fours[j].v[k];
        }
        lane[k] += __shfl_xor_sync(PST_ALL_LANES, lane[k], 2);
        lane[k] += __shfl_xor_sync(PST_ALL_LANES, lane[k], 1);
    }
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* Sums of chunks of 32 such blocks, which meet in the same way. Half the threads have a chunk. */
__global__ void square_kernel(const struct squares all, double *sums)
{
    const unsigned half = threadIdx.x / (PST_THREADS / 2), block = threadIdx.x / 4 % 32;
    __shared__ double part[2][32];

    PST_EACH_BLOCK(pair, ((uint64_t)all.chunks + 1) / 2)
    {
        const uint64_t chunk = 2 * pair + half;
        const struct squared *one = &all.list[squared_of(&all, chunk)];
        const uint64_t at = (chunk - one->first) * CHUNK + block * 128;
        const double sum = square_block(one->values + at, at < one->elems ? one->elems - at : 0);

        if (threadIdx.x % 4 == 0) {
            part[half][block] = sum;
        }
        __syncthreads();
        if (threadIdx.x / PST_WARP < 2) {
            const double whole = pst_warp_sum(part[threadIdx.x / PST_WARP][threadIdx.x % PST_WARP]);
            const uint64_t to = 2 * pair + threadIdx.x / PST_WARP;

            if (threadIdx.x % PST_WARP == 0 && to < all.chunks) {
                sums[to] = whole;
            }
        }
        __syncthreads();
    }
}

#define EACH 8u /* that a thread adds up */

/* The sum of as many as the block adds up at once, neighbours first; in thread 0. */
__device__ static double pair_sum(const double *sums, uint64_t n)
{
    __shared__ double part[PST_THREADS / PST_WARP];
    double own[EACH];

    for (unsigned k = 0; k < EACH; k++) {
        const uint64_t i = threadIdx.x * EACH + k;

        own[k] = i < n ? sums[i] : 0;
    }
    for (unsigned width = 1; width < EACH; width *= 2) {
        for (unsigned k = 0; k < EACH; k += 2 * width) {
            own[k] += own[k + width];
        }
    }
    for (unsigned width = 1; width < PST_WARP; width *= 2) {
        own[0] += __shfl_xor_sync(PST_ALL_LANES, own[0], width);
    }
    if (threadIdx.x % PST_WARP == 0) {
        part[threadIdx.x / PST_WARP] = own[0];
    }
    __syncthreads();
    for (unsigned width = 1; width < PST_THREADS / PST_WARP; width *= 2) {
        for (unsigned k = 0; threadIdx.x == 0 && k < PST_THREADS / PST_WARP; k += 2 * width) {
            part[k] += part[k + width];
        }
    }
    return part[0];
}

/* A block for each parameter: the tree over its chunks, where they are. */
__global__ void square_end_kernel(const struct squares all, double *sums)
{
    PST_EACH_BLOCK(i, all.n)
    {
        double *own = sums + all.list[i].first;
        uint64_t n = (i + 1 < all.n ? all.list[i + 1].first : all.chunks) - all.list[i].first;

        do {
            const uint64_t groups = (n + PST_THREADS * EACH - 1) / (PST_THREADS * EACH);

            for (uint64_t group = 0; group < groups; group++) {
                const uint64_t at = group * PST_THREADS * EACH;
                const double sum = pair_sum(own + at, n - at);

                if (threadIdx.x == 0) {
                    own[group] = sum;
                }
                __syncthreads();
            }
            n = groups;
        } while (n > 1);
        if (threadIdx.x == 0) {
            *all.list[i].sum = own[0];
        }
    }
}

uint64_t pst_cuda_square_doubles(uint64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

void pst_cuda_squares(cudaStream_t stream, const struct pst_squared *list, uint32_t n,
                      double *scratch)
{
    while (n > 0) {
        struct squares all;

        all.chunks = 0;
        for (all.n = 0; all.n < n && all.n < MOST; all.n++) {
            struct squared *one = &all.list[all.n];

            one->values = list[all.n].values;
            one->elems = list[all.n].elems;
            one->sum = list[all.n].ret_sum;
            one->first = all.chunks;
            all.chunks += (uint32_t)pst_cuda_square_doubles(one->elems);
        }
        PST_LAUNCH_MEETING(square_kernel, pst_blocks_each((all.chunks + 1) / 2), stream, all,
                           scratch);
        PST_LAUNCH_MEETING(square_end_kernel, pst_blocks_each(all.n), stream, all, scratch);
        list += all.n;
        n -= all.n;
    }
}

/* --- optimizer ---------------------------------------------------------------------------------*/

/* State and working may be NULL. */
struct updated {
    float *weights;
    const float *grad;
    float *s0, *s1;
    void *working;
};

template <class S, unsigned W>
__device__ static void update_some(const struct pst_update_factors *factors,
                                   const struct updated *of, uint64_t at)
{
    const pst_some<float, W> grad = pst_read<W>(of->grad + at);
    pst_some<float, W> weights = pst_read<W>(of->weights + at), s0 = {}, s1 = {};
    pst_some<S, W> working;

    if (of->s0 != NULL) {
        s0 = pst_read<W>(of->s0 + at);
    }
    if (of->s1 != NULL) {
        s1 = pst_read<W>(of->s1 + at);
    }
    for (unsigned k = 0; k < W; k++) {
        weights.v[k] = pst_update_element(factors, weights.v[k], grad.v[k], &s0.v[k], &s1.v[k]);
        pst_store(&working.v[k], weights.v[k]);
    }
    pst_write<W>(of->weights + at, weights);
    if (of->s0 != NULL) {
        pst_write<W>(of->s0 + at, s0);
    }
    if (of->s1 != NULL) {
        pst_write<W>(of->s1 + at, s1);
    }
    if (of->working != NULL) {
        pst_write<W>((S *)of->working + at, working);
    }
}

template <class S, unsigned W>
__global__ void update_kernel(const struct pst_update_factors *factors, const struct updated of,
                              uint64_t n)
{
    const struct pst_update_factors own = *factors;

    EACH_SOME(W, at, n, (update_some<S, W>(&own, &of, at)), (update_some<S, 1>(&own, &of, at)))
}

/* --- Muon --------------------------------------------------------------------------------------*/

__global__ void muon_take_kernel(const struct pst_update_factors *factors, float *x,
                                 const float *grad, float *slot, uint64_t n)
{
    const struct pst_update_factors own = *factors;

    PST_EACH(i, n)
    {
        x[i] = pst_muon_element(&own, grad[i], &slot[i]);
    }
}

__global__ void muon_scale_kernel(float *x, const double *sum, uint64_t n)
{
    const float scale = (float)(1 / fmax(sqrt(*sum), PST_MUON_EPS));

    PST_EACH(i, n)
    {
        x[i] *= scale;
    }
}

__global__ void muon_combine_kernel(float *a, float by_a, const float *b, float by_b, uint64_t n)
{
    PST_EACH(i, n)
    {
        a[i] = by_a * a[i] + by_b * b[i];
    }
}

template <class S>
__global__ void muon_step_kernel(const struct pst_update_factors *factors, float *weights,
                                 const float *x, float factor, S *working, uint64_t n)
{
    const float shrink = factors->shrink, step = factors->lr * factor;

    PST_EACH(i, n)
    {
        weights[i] = weights[i] * shrink - step * x[i];
        if (working != NULL) {
            pst_store(&working[i], weights[i]);
        }
    }
}

template <class S, unsigned W> __device__ static void round_some(S *working, const float *weights)
{
    const pst_some<float, W> some = pst_read<W>(weights);
    pst_some<S, W> rounded;

    for (unsigned k = 0; k < W; k++) {
        pst_store(&rounded.v[k], some.v[k]);
    }
    pst_write<W>(working, rounded);
}

template <class S, unsigned W>
__global__ void refresh_kernel(S *working, const float *weights, uint64_t n)
{
    EACH_SOME(W, at, n, (round_some<S, W>(working + at, weights + at)),
              (round_some<S, 1>(working + at, weights + at)))
}

struct roundings {
    struct pst_cuda_rounding list[PST_CUDA_ROUNDINGS];
};

/* A thread has one element of one of n vectors, which have `parts` blocks each. */
template <class S>
__global__ void round_kernel(const struct roundings all, uint32_t n, uint64_t parts)
{
    PST_EACH_BLOCK(i, n * parts)
    {
        const struct pst_cuda_rounding &one = all.list[i / parts];
        const uint64_t c = i % parts * PST_THREADS + threadIdx.x;

        if (c < one.n) {
            round_some<S, 1>((S *)one.to + c, one.from + c);
        }
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
    pst_cuda_sum(stream, false, dst, dst, src, n);
}

void pst_cuda_sum(cudaStream_t stream, bool bf16, void *dst, const void *a, const void *b,
                  uint64_t n)
{
    PST_TYPED_WIDE(bf16, pst_is_aligned(dst, a, b),
                   PST_LAUNCH((sum_kernel<S, W>), pst_blocks(n / W), stream, (S *)dst, (const S *)a,
                              (const S *)b, n));
}

void pst_cuda_update(cudaStream_t stream, const struct pst_update_factors *factors, float *weights,
                     const float *grad, float *s0, float *s1, void *working, bool working_bf16,
                     uint64_t n)
{
    const struct updated of = {weights, grad, s0, s1, working};
    const bool wide = pst_is_aligned(weights, grad, working) && pst_is_aligned(s0, s1, NULL);

    PST_TYPED_WIDE(working_bf16, wide,
                   PST_LAUNCH((update_kernel<S, W>), pst_blocks(n / W), stream, factors, of, n));
}

void pst_cuda_round(cudaStream_t stream, bool bf16, const struct pst_cuda_rounding *list,
                    uint32_t n)
{
    struct roundings all = {};
    uint64_t parts = 1;

    memcpy(all.list, list, n * sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t own = (list[i].n + PST_THREADS - 1) / PST_THREADS;

        parts = own > parts ? own : parts;
    }
    PST_TYPED(bf16,
              PST_LAUNCH((round_kernel<S>), pst_blocks_each(n * parts), stream, all, n, parts));
}

void pst_cuda_muon_take(cudaStream_t stream, const struct pst_update_factors *factors, float *x,
                        const float *grad, float *slot, uint64_t n)
{
    PST_LAUNCH(muon_take_kernel, pst_blocks(n), stream, factors, x, grad, slot, n);
}

void pst_cuda_muon_scale(cudaStream_t stream, float *x, const double *sum, uint64_t n)
{
    PST_LAUNCH(muon_scale_kernel, pst_blocks(n), stream, x, sum, n);
}

void pst_cuda_muon_combine(cudaStream_t stream, float *a, float by_a, const float *b, float by_b,
                           uint64_t n)
{
    PST_LAUNCH(muon_combine_kernel, pst_blocks(n), stream, a, by_a, b, by_b, n);
}

void pst_cuda_muon_step(cudaStream_t stream, const struct pst_update_factors *factors,
                        float *weights, const float *x, float factor, void *working,
                        bool working_bf16, uint64_t n)
{
    PST_TYPED(working_bf16, PST_LAUNCH((muon_step_kernel<S>), pst_blocks(n), stream, factors,
                                       weights, x, factor, (S *)working, n));
}

void pst_cuda_refresh(cudaStream_t stream, void *working, const float *weights, bool working_bf16,
                      uint64_t n)
{
    PST_TYPED_WIDE(
        working_bf16, pst_is_aligned(working, weights, NULL),
        PST_LAUNCH((refresh_kernel<S, W>), pst_blocks(n / W), stream, (S *)working, weights, n));
}
