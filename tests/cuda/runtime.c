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

#include "streams.h"

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
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
    *value = 9;
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
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

/* Of the calling thread. What is not ready yet is no error; runtimes have kept it as one. */
static _Thread_local cudaError_t last_error;

cudaError_t on_host_keep(cudaError_t error)
{
    return last_error = error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "an error";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *left = *all = 1u << 30;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **ret_memory, size_t bytes)
{
    void *memory = NULL;

    if (on_host_forbid() != cudaSuccess) {
        return cudaErrorStreamCaptureUnsupported;
    }
    if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) {
        return cudaErrorMemoryAllocation;
    }
    memset(memory, 0xFF, bytes);
    *ret_memory = memory;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    if (on_host_forbid() != cudaSuccess) {
        return cudaErrorStreamCaptureUnsupported;
    }
    on_host_await_gpu();
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret_memory, size_t bytes)
{
    return cudaMalloc(ret_memory, bytes);
}

cudaError_t cudaHostAlloc(void **ret_memory, size_t bytes, unsigned flags)
{
    return cudaMalloc(ret_memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
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
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, which);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return cudaErrorInvalidDevice;
}
