/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA runtime as far as the device module calls it, on host memory: everything ends before
 * the call returns. Memory is filled with a pattern and allocated byte for byte, so that a tool
 * that watches memory sees what kernels do.
 */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_stream.h"

static struct host_stream stream = {HOST_STREAM, NULL, NULL}; /* all of them */

struct CUevent_st {
    bool timed;
    double ms; /* when it was recorded last; 0: never */
};

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

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    (void)attr;
    (void)device;
    *value = 9;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    (void)device;
    memset(prop, 0, sizeof *prop);
    strcpy(prop->name, "the host");
    prop->major = 9;
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

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "an error";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned flags)
{
    (void)flags;
    *ret_stream = (cudaStream_t)(void *)&stream;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret_stream, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(ret_stream, flags);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t which, cudaEvent_t event, unsigned flags)
{
    (void)which;
    (void)event;
    (void)flags;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned flags)
{
    struct CUevent_st *event = calloc(1, sizeof *event);

    if (event == NULL) {
        return cudaErrorMemoryAllocation;
    }
    event->timed = (flags & cudaEventDisableTiming) == 0;
    *ret_event = event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t which)
{
    struct timespec now;

    (void)which;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t start, cudaEvent_t end)
{
    if (!start->timed || !end->timed || start->ms == 0 || end->ms == 0) {
        return cudaErrorInvalidResourceHandle;
    }
    *ret_ms = (float)(end->ms - start->ms);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t which)
{
    (void)which;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t which)
{
    (void)which;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *left = *all = 1u << 30;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **ret_memory, size_t bytes)
{
    void *memory = NULL;

    if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) {
        return cudaErrorMemoryAllocation;
    }
    memset(memory, 0xFF, bytes);
    *ret_memory = memory;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret_memory, size_t bytes)
{
    return cudaMalloc(ret_memory, bytes);
}

cudaError_t cudaHostAlloc(void **ret_memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(ret_memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t which)
{
    (void)which;
    return cudaMemset(to, value, bytes);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t which)
{
    (void)which;
    return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t which)
{
    (void)kind;
    (void)which;
    if (width > to_pitch || width > from_pitch) {
        return cudaErrorInvalidPitchValue;
    }
    for (size_t i = 0; i < height; i++) {
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device;
    (void)peer;
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer;
    (void)flags;
    return cudaErrorInvalidDevice;
}
