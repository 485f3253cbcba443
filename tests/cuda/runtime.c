/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA runtime as far as the device module calls it, on host memory; streams are in
 * streams.c. Memory is filled with a pattern and allocated byte for byte, so that a tool
 * that watches memory sees what kernels do. There is no default stream, which the device's streams
 * do not wait for: whoever calls cudaMemcpy() or cudaMemset() does not load.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "streams.h"

static _Thread_local int chosen;

/* CUDA makes a context on the GPU that a thread has chosen, which is the first one at first. A
   process that has one GPU of many shall take memory on no other (ON_HOST_ONE_GPU). */
void on_host_make_context(void)
{
    static atomic_uint contexts;
    const unsigned now = atomic_fetch_or(&contexts, 1u << chosen) | 1u << chosen;

    if ((now & (now - 1)) != 0 && getenv("ON_HOST_ONE_GPU") != NULL) {
        fprintf(stderr, "CUDA of the host: this process has contexts on several GPUs\n");
        abort();
    }
}

void on_host_enqueue_kernel(cudaStream_t stream, void (*body)(void *), void *context, size_t bytes)
{
    atomic_fetch_add(&cuda_on_host()->kernels, 1);
    if (chosen != on_host_gpu_of(stream)) {
        fprintf(stderr, "CUDA of the host: a kernel for GPU %d where GPU %d is chosen\n",
                on_host_gpu_of(stream), chosen);
        abort();
    }
    on_host_enqueue(stream, body, context, bytes);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (getenv("ON_HOST_EAGER") != NULL && getenv("CUDA_MODULE_LOADING") == NULL) {
        fprintf(stderr, "CUDA of the host: called before CUDA_MODULE_LOADING was set\n");
        abort();
    }
    *count = cuda_on_host()->n_gpus;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    return snprintf(text, (size_t)size, "0000:%02x:00.0", (unsigned)device + 1) < size
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    switch (attr) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = (int)cuda_on_host()->sms;
        break;
    case cudaDevAttrClockRate:
        *value = 1830000; /* kHz */
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 2619000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 5120;
        break;
    default:
        return on_host_keep(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof *prop);
    strcpy(prop->name, "the host");
    prop->major = 9;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return faulty() ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= cuda_on_host()->n_gpus) {
        return cudaErrorInvalidDevice;
    }
    chosen = device;
    on_host_make_context();
    return faulty() ? cudaErrorDevicesUnavailable : cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = chosen;
    return cudaSuccess;
}

/* Of the calling thread. What is not ready yet is no error; runtimes have kept it as one. */
static _Thread_local cudaError_t last_error;

cudaError_t on_host_keep(cudaError_t error)
{
    return last_error = error;
}

/* Asked behind each launch. */
cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;

    atomic_fetch_add(&cuda_on_host()->launches, 1);
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorIllegalAddress     ? "cudaErrorIllegalAddress"
           : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                                : "an error of a test";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    on_host_make_context();
    *left = cuda_on_host()->left_bytes;
    *all = cuda_on_host()->memory_bytes;
    return faulty() ? cudaErrorUnknown : cudaSuccess;
}

static cudaError_t allocate(void **ret_memory, size_t bytes, atomic_int *n_made)
{
    void *memory = NULL;

    on_host_make_context();
    if (faulty()) {
        return cudaErrorMemoryAllocation;
    }
    if (on_host_forbid() != cudaSuccess) {
        return cudaErrorStreamCaptureUnsupported;
    }
    if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) {
        return cudaErrorMemoryAllocation;
    }
    memset(memory, 0xFF, bytes);
    atomic_fetch_add(n_made, 1);
    *ret_memory = memory;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **ret_memory, size_t bytes)
{
    return allocate(ret_memory, bytes, &cuda_on_host()->arrays);
}

cudaError_t cudaFree(void *memory)
{
    atomic_fetch_sub(&cuda_on_host()->arrays, memory != NULL);
    if (on_host_forbid() != cudaSuccess) {
        return cudaErrorStreamCaptureUnsupported;
    }
    on_host_await_gpu();
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret_memory, size_t bytes)
{
    return allocate(ret_memory, bytes, &cuda_on_host()->pinned);
}

cudaError_t cudaHostAlloc(void **ret_memory, size_t bytes, unsigned flags)
{
    return cudaMallocHost(ret_memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    atomic_fetch_sub(&cuda_on_host()->pinned, memory != NULL);
    on_host_await_gpu();
    free(memory);
    return cudaSuccess;
}

struct fill {
    void *to;
    int value;
    size_t bytes;
};

static void fill(void *context)
{
    const struct fill *f = context;

    memset(f->to, f->value, f->bytes);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t which)
{
    struct fill f = {to, value, bytes};

    if (faulty()) {
        return cudaErrorUnknown;
    }
    on_host_enqueue(which, fill, &f, sizeof f);
    return cudaSuccess;
}

struct rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
};

static void move(void *context)
{
    const struct rows *r = context;

    for (size_t i = 0; i < r->height; i++) {
        memcpy(r->to + i * r->to_pitch, r->from + i * r->from_pitch, r->width);
    }
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t which)
{
    struct rows rows = {to, from, to_pitch, from_pitch, width, height};

    if (width > to_pitch || width > from_pitch) {
        return cudaErrorInvalidPitchValue;
    }
    on_host_enqueue(which, move, &rows, sizeof rows);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t which)
{
    return faulty() ? cudaErrorUnknown
                    : cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, which);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    atomic_fetch_or(&cuda_on_host()->peers_asked, 1u << peer);
    *can = cuda_on_host()->peers;
    return faulty() ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return faulty() ? cudaErrorUnknown : cudaSuccess;
}
