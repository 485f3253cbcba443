/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA C++ as C++ for the host, as far as the device's own kernels go: blocks run one after the
 * other, the threads of a block as coroutines that change where they meet: a block at
 * __syncthreads(), a warp at a shuffle. What only some of them reach ends the program. Included by
 * device/cuda/launch.h.
 */
#ifndef PST_TESTS_CUDA_ON_HOST_H
#define PST_TESTS_CUDA_ON_HOST_H

#include <math.h>
#include <tuple>
#include <type_traits>

#include "streams.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __global__ static
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __MATH_CONSTANTS_H__
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN

struct on_host_index {
    unsigned x;
};
/* Read at every turn: nothing to initialise, one look-up in a function. */
extern __thread __attribute__((visibility("hidden"))) on_host_index threadIdx, blockIdx, blockDim,
    gridDim;

/* Ends the program. */
[[noreturn]] void on_host_refuse(const char *what);

void __syncthreads();
void __syncwarp();

enum { ON_HOST_WORD = 16 }; /* bytes that lanes hand each other at once */

/* Hands over a value for the lanes of the warp; returns that of one of them, until the warp meets
   for the second time from now. */
const void *on_host_exchange(const void *value, size_t bytes, unsigned lane);

template <class T> static inline T on_host_shuffle(unsigned mask, T value, unsigned lane)
{
    static_assert(sizeof value <= ON_HOST_WORD, "in one word");
    if (mask != PST_ALL_LANES) {
        on_host_refuse("a shuffle of some lanes");
    }
    return *(const T *)on_host_exchange(&value, sizeof value, lane);
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, unsigned lane)
{
    return on_host_shuffle(mask, value, lane % PST_WARP);
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, unsigned bits)
{
    return on_host_shuffle(mask, value, (threadIdx.x ^ bits) % PST_WARP);
}

template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by)
{
    const unsigned lane = threadIdx.x % PST_WARP;

    return on_host_shuffle(mask, value, lane + by < PST_WARP ? lane + by : lane);
}

/* body(context) for every thread of every block; meeting: through coroutines. */
void on_host_launch(unsigned blocks, bool meeting, void (*body)(void *), void *context);

/* A launch as the stream keeps it: arguments as they are now. */
template <class F, class... A> struct on_host_kernel {
    F function;
    unsigned blocks;
    bool meeting;
    std::tuple<A...> arguments;

    static void run(void *context)
    {
        on_host_kernel *self = (on_host_kernel *)context;

        on_host_launch(
            self->blocks, self->meeting,
            [](void *launch) {
                std::apply(((on_host_kernel *)launch)->function,
                           ((on_host_kernel *)launch)->arguments);
            },
            self);
    }
};

template <class F, class... A>
static void on_host_run(cudaStream_t stream, unsigned blocks, bool meeting, F function,
                        A... arguments)
{
    on_host_kernel<F, A...> kernel = {function, blocks, meeting, {arguments...}};

    static_assert((std::is_trivially_copyable<A>::value && ...), "copied byte for byte");
    on_host_enqueue_kernel(stream, on_host_kernel<F, A...>::run, &kernel, sizeof kernel);
}

#define PST_LAUNCH(kernel, blocks, stream, ...)                                                    \
    on_host_run((stream), (unsigned)(blocks), false, [](auto... a) { kernel(a...); }, __VA_ARGS__)
#define PST_LAUNCH_MEETING(kernel, blocks, stream, ...)                                            \
    on_host_run((stream), (unsigned)(blocks), true, [](auto... a) { kernel(a...); }, __VA_ARGS__)

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

/* Tensor cores: lane 0 of a warp has the whole of a fragment. */
struct __nv_bfloat16 {
    uint16_t bits;
};

namespace nvcuda
{
namespace wmma
{
enum layout_t { mem_row_major };
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    float v[16][16];
};

static inline bool is_first()
{
    return threadIdx.x % PST_WARP == 0;
}

template <class F> static inline void fill_fragment(F &f, float value)
{
    for (unsigned i = 0; i < 256; i++) {
        f.v[i / 16][i % 16] = value;
    }
}

template <class F>
static inline void load_matrix_sync(F &f, const __nv_bfloat16 *at, unsigned stride)
{
    __syncwarp();
    for (unsigned i = 0; is_first() && i < 256; i++) {
        f.v[i / 16][i % 16] = pst_bf16_load(at[i / 16 * stride + i % 16].bits);
    }
}

template <class F>
static inline void store_matrix_sync(float *at, const F &f, unsigned stride, layout_t)
{
    for (unsigned i = 0; is_first() && i < 256; i++) {
        at[i / 16 * stride + i % 16] = f.v[i / 16][i % 16];
    }
    __syncwarp();
}

template <class D, class A, class B, class C>
static inline void mma_sync(D &d, const A &a, const B &b, const C &c)
{
    for (unsigned i = 0; is_first() && i < 256; i++) {
        float sum = c.v[i / 16][i % 16];

        for (unsigned k = 0; k < 16; k++) {
            sum += a.v[i / 16][k] * b.v[k][i % 16];
        }
        d.v[i / 16][i % 16] = sum;
    }
}
} // namespace wmma
} // namespace nvcuda

static inline void sincospif(float x, float *ret_sin, float *ret_cos)
{
    *ret_sin = (float)sin((double)x * 3.14159265358979323846);
    *ret_cos = (float)cos((double)x * 3.14159265358979323846);
}

static inline float __fdividef(float a, float b)
{
    return a / b;
}

#endif
