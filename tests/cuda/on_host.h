/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA C++ as C++ for the host, as far as the device's own kernels go: blocks run one after the
 * other, the threads of a block as coroutines that change at __syncthreads(). A barrier that only
 * some threads of a block reach ends the program. Included by device/cuda/launch.h.
 */
#ifndef PST_TESTS_CUDA_ON_HOST_H
#define PST_TESTS_CUDA_ON_HOST_H

#include <math.h>
#include <tuple>
#include <type_traits>

#include "streams.h"

#undef __global__
#undef __device__
#undef __shared__
#define __global__ static
#define __device__
#define __shared__ static thread_local
#define __MATH_CONSTANTS_H__
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN

#define PST_THREADS 8u

struct on_host_index {
    unsigned x;
};
extern thread_local on_host_index threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();

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

static inline void atomicMin(int32_t *at, int32_t value)
{
    *at = value < *at ? value : *at;
}

#endif
