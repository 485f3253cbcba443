/* SPDX-License-Identifier: Apache-2.0
 *
 * For .cu files: launching, types of elements, sums over a block. A test compiles the same files as
 * C++ for the host (PST_CUDA_ON_HOST), where blocks are run one after the other.
 */
#ifndef PST_DEVICE_CUDA_LAUNCH_H
#define PST_DEVICE_CUDA_LAUNCH_H

#include "base/bf16.h"
#include "device/cuda/family.h"
#include "device/cuda/kernels.h"

#define PST_THREADS   256u
#define PST_WARP      32u
#define PST_ALL_LANES 0xFFFFFFFFu

#ifdef PST_CUDA_ON_HOST
#include "on_host.h"
#else
#include <cuda_bf16.h>
#include <type_traits>

/* Kernels whose threads go their own ways; kernels that meet, in a block or in a warp. */
#define PST_LAUNCH(kernel, blocks, stream, ...)                                                    \
    kernel<<<(unsigned)(blocks), PST_THREADS, 0, (stream)>>>(__VA_ARGS__)
#define PST_LAUNCH_MEETING(kernel, blocks, stream, ...)                                            \
    PST_LAUNCH(kernel, blocks, stream, __VA_ARGS__)
#endif

#define PST_MOST_BLOCKS 65536u

/* Blocks of a kernel that strides through n items. */
static inline unsigned pst_blocks(uint64_t n)
{
    const uint64_t blocks = n / PST_THREADS + (n % PST_THREADS != 0);

    return blocks < 1 ? 1u : blocks > PST_MOST_BLOCKS ? PST_MOST_BLOCKS : (unsigned)blocks;
}

/* For kernels with a block per item. */
static inline unsigned pst_blocks_each(uint64_t n)
{
    return n < 1 ? 1u : n < PST_MOST_BLOCKS ? (unsigned)n : PST_MOST_BLOCKS;
}

/* For rows of n items; a thread has several. */
static inline unsigned pst_blocks_cells(uint64_t rows, uint64_t n)
{
    const uint64_t least = (n + PST_THREADS - 1) / PST_THREADS, most = pst_blocks(rows * n);

    return (unsigned)(least > 2048 ? least : most < 2048 ? most : 2048);
}

#define PST_EACH(i, n)                                                                             \
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                    \
         i += (uint64_t)gridDim.x * blockDim.x)
/* Rows of n items: a thread stays in its column, so that it divides once. */
#define PST_EACH_CELL(row, column, rows, n)                                                        \
    for (uint64_t pst_at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x,                        \
                  pst_step = (uint64_t)gridDim.x * blockDim.x / (n), column = pst_at % (n),        \
                  row = pst_at / (n) < pst_step ? pst_at / (n) : (rows);                           \
         row < (rows); row += pst_step)
#define PST_EACH_BLOCK(i, n)  for (uint64_t i = blockIdx.x; i < (n); i += gridDim.x)
#define PST_EACH_THREAD(i, n) for (uint64_t i = threadIdx.x; i < (n); i += blockDim.x)

struct pst_half {
    uint16_t bits;
};

__device__ static inline float pst_load(float value)
{
    return value;
}
__device__ static inline float pst_load(pst_half value)
{
    return pst_bf16_load(value.bits);
}
__device__ static inline void pst_store(float *at, float value)
{
    *at = value;
}
__device__ static inline void pst_store(pst_half *at, float value)
{
#ifdef __CUDA_ARCH__
    at->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value)); /* NaN apart, the same bits */
#else
    at->bits = pst_bf16_round(value);
#endif
}

/* Neighbours that are moved at once: 16 bytes of the activations' type. */
template <class S, unsigned W> struct alignas(W * sizeof(S)) pst_some {
    S v[W];
};

template <unsigned W, class S> __device__ static inline pst_some<S, W> pst_read(const S *at)
{
    return *(const pst_some<S, W> *)(const void *)at;
}
template <unsigned W, class S>
__device__ static inline void pst_write(S *at, const pst_some<S, W> &values)
{
    *(pst_some<S, W> *)(void *)at = values;
}

/* pst_write in one access where the compiler may else write the values one by one: it does if they
   come out of branches or loops. Look at the machine code before choosing. */
template <unsigned W, class S>
__device__ static inline void pst_write_whole(S *at, const pst_some<S, W> &values)
{
#ifdef __CUDA_ARCH__
    using Word = std::conditional_t<sizeof values % sizeof(uint4) == 0, uint4, uint2>;

    if constexpr (sizeof values % sizeof(Word) == 0) {
#pragma unroll
        for (unsigned i = 0; i < sizeof values / sizeof(Word); i++) {
            Word word;

            memcpy(&word, (const char *)&values + i * sizeof word, sizeof word);
            __stwb((Word *)(void *)at + i, word);
        }
        return;
    }
#endif
    pst_write<W>(at, values);
}

/* Makes the compiler recompute what it derived from these values: that needs less time than the
   registers that would keep it. */
template <unsigned W, class S> __device__ static inline void pst_forget(pst_some<S, W> &values)
{
#ifdef __CUDA_ARCH__
    uint32_t words[(sizeof values + 3) / 4] = {};

    memcpy(words, &values, sizeof values);
#pragma unroll
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        asm volatile("" : "+r"(words[i]));
    }
    memcpy(&values, words, sizeof values);
#else
    (void)values;
#endif
}

/* Memory is asked for n elements that are read soon, for all that read them by one thread. Both the
   place and their bytes are multiples of 16. */
template <class S> __device__ static inline void pst_prefetch(const S *at, uint64_t n)
{
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at),
                 "r"((unsigned)(n * sizeof(S))));
#else
    (void)at;
    (void)n;
#endif
}

/* Adds n of them, which begin at row(0), row(1), ..., in this order; AHEAD are read at once. */
template <unsigned AHEAD, unsigned W, class Row>
__device__ static inline void pst_add_rows(pst_some<float, W> &sum, uint64_t n, Row row)
{
    for (uint64_t first = 0; first < n; first += AHEAD) {
        decltype(pst_read<W>(row(0))) some[AHEAD] = {};

        for (unsigned k = 0; k < AHEAD; k++) {
            if (first + k < n) {
                some[k] = pst_read<W>(row(first + k));
            }
        }
        for (unsigned k = 0; k < AHEAD; k++) {
            for (unsigned c = 0; c < W; c++) {
                sum.v[c] += pst_load(some[k].v[c]);
            }
        }
    }
}

/* Returns true if such vectors, of up to 8 floats, can begin here; addresses may be NULL. */
static inline bool pst_is_aligned(const void *a, const void *b, const void *c)
{
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 32 == 0;
}

/* Returns true if rows of n elements consist of such vectors. */
static inline bool pst_is_wide(uint64_t n, const void *a, const void *b, const void *c)
{
    return n % 8 == 0 && pst_is_aligned(a, b, c);
}

/* A gradient as it is stored: rounded, then summed with the addend and rounded again. */
template <class S> __device__ static inline void pst_store_gradient(S *at, float g, const S *add)
{
    S rounded;

    pst_store(&rounded, g);
    if (add == NULL) {
        *at = rounded;
    } else {
        pst_store(at, pst_load(rounded) + pst_load(*add));
    }
}

/* Sum over the lanes of a warp, the same for all of them. For all lanes of a warp. */
template <class T> __device__ static inline T pst_warp_sum(T value)
{
    for (unsigned width = PST_WARP / 2; width > 0; width /= 2) {
        value += __shfl_xor_sync(PST_ALL_LANES, value, width);
    }
    return value;
}

/* The larger one; NaN where one of them is. */
__device__ static inline float pst_larger(float a, float b)
{
    return b > a || b != b ? b : a;
}

__device__ static inline float pst_warp_max(float value)
{
    for (unsigned width = PST_WARP / 2; width > 0; width /= 2) {
        value = pst_larger(value, __shfl_xor_sync(PST_ALL_LANES, value, width));
    }
    return value;
}

/* Exchanges the values of the warps of a block: lane l of each warp gets that of warp l, lanes
   beyond get `none`. All threads of a block call it. */
#define PST_WARPS (PST_THREADS / PST_WARP)
static_assert(PST_WARPS <= PST_WARP, "a warp takes what all of them have found");

template <class T> __device__ static inline T pst_of_warps(T value, T none)
{
    __shared__ T part[PST_WARPS];
    const unsigned lane = threadIdx.x % PST_WARP;

    if (lane == 0) {
        part[threadIdx.x / PST_WARP] = value;
    }
    __syncthreads();
    value = lane < PST_WARPS ? part[lane] : none;
    __syncthreads();
    return value;
}

/* Sum over the threads of a block, the same for all of them. */
template <class T> __device__ static inline T pst_block_sum(T value)
{
    return pst_warp_sum(pst_of_warps(pst_warp_sum(value), (T)0));
}

__device__ static inline float pst_block_max(float value)
{
    value = pst_warp_max(value);
    return pst_warp_max(pst_of_warps(value, value));
}

/* Rows of which each is a team's: T threads, a warp's or a block's. */
#define PST_EACH_ROW(T, i, n)                                                                      \
    for (uint64_t i = blockIdx.x * (uint64_t)(PST_THREADS / (T)) + threadIdx.x / (T); i < (n);     \
         i += (uint64_t)gridDim.x * (PST_THREADS / (T)))

/* Sum over the threads of a team, the same for all of them. */
template <unsigned T> __device__ static inline float pst_team_sum(float value)
{
    return T == PST_WARP ? pst_warp_sum(value) : pst_block_sum(value);
}

/* Two of them at once. */
template <unsigned T> __device__ static inline void pst_team_sums(float &a, float &b)
{
    a = pst_warp_sum(a);
    b = pst_warp_sum(b);
    if (T != PST_WARP) {
        const pst_some<float, 2> both = pst_of_warps<pst_some<float, 2>>({{a, b}}, {{0, 0}});

        a = pst_warp_sum(both.v[0]);
        b = pst_warp_sum(both.v[1]);
    }
}

/* Sum of neighbours, in pairs. */
template <unsigned W> __device__ static inline float pst_tree_sum(float (&values)[W])
{
    for (unsigned width = W / 2; width > 0; width /= 2) {
        for (unsigned k = 0; k < width; k++) {
            values[k] += values[k + width];
        }
    }
    return values[0];
}

/* Sum of a column of partial [chunks, n], by PST_PARTS threads that each have every so manieth
   chunk; valid in those of lane 0. For all threads of a block; columns side by side in it. */
#define PST_PARTS         8u
#define PST_WIDTH         (PST_THREADS / PST_PARTS)
#define PST_COLUMN(group) ((group)*PST_WIDTH + threadIdx.x % PST_WIDTH)
#define PST_LANE          (threadIdx.x / PST_WIDTH)

template <class T>
__device__ static inline T pst_column_sum(const T *partial, uint64_t chunks, uint64_t n,
                                          uint64_t column)
{
    constexpr unsigned AHEAD = 16;
    __shared__ T part[PST_THREADS];
    T sum = 0;

    for (uint64_t first = PST_LANE; column < n && first < chunks; first += AHEAD * PST_PARTS) {
        T some[AHEAD];

        for (unsigned k = 0; k < AHEAD; k++) { /* all are on their way before one is added */
            const uint64_t i = first + k * PST_PARTS;

            some[k] = i < chunks ? partial[i * n + column] : 0;
        }
        for (unsigned k = 0; k < AHEAD; k++) {
            sum += some[k];
        }
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned k = 1; PST_LANE == 0 && k < PST_PARTS; k++) {
        sum += part[k * PST_WIDTH + threadIdx.x];
    }
    __syncthreads();
    return sum;
}

static inline uint64_t pst_column_groups(uint64_t n)
{
    return (n + PST_WIDTH - 1) / PST_WIDTH;
}

/* Calls a template for the type of the activations, and for how many elements at once. */
#define PST_TYPED_WIDE(bf16, wide, call)                                                           \
    do {                                                                                           \
        if ((bf16) && (wide)) {                                                                    \
            using S = pst_half;                                                                    \
            constexpr unsigned W = 8;                                                              \
            call;                                                                                  \
        } else if (wide) {                                                                         \
            using S = float;                                                                       \
            constexpr unsigned W = 4;                                                              \
            call;                                                                                  \
        } else if (bf16) {                                                                         \
            using S = pst_half;                                                                    \
            constexpr unsigned W = 1;                                                              \
            call;                                                                                  \
        } else {                                                                                   \
            using S = float;                                                                       \
            constexpr unsigned W = 1;                                                              \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

/* Calls a template for the type of the activations. */
#define PST_TYPED(bf16, call)                                                                      \
    do {                                                                                           \
        if (bf16) {                                                                                \
            using S = pst_half;                                                                    \
            call;                                                                                  \
        } else {                                                                                   \
            using S = float;                                                                       \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

#endif
