/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the device and its run time (the linker's --wrap): a machine of several GPUs, calls that
 * fail when a test says so, and counts of what was made and not yet destroyed. A function that is
 * wrapped is there twice, __wrap_ what the device calls, __real_ what it would have called.
 */
#include "faults.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static struct cuda_on_host host = {
    .n_gpus = 1, .sms = 132, .memory_bytes = 1u << 30, .left_bytes = 1u << 30, .peers = true};

__attribute__((constructor)) static void read_environment(void)
{
    const char *gpus = getenv("ON_HOST_GPUS"), *sms = getenv("ON_HOST_SMS");
    const char *driver = getenv("ON_HOST_DRIVER");

    host.n_gpus = gpus != NULL ? atoi(gpus) : host.n_gpus;
    host.sms = sms != NULL ? (uint32_t)atoi(sms) : host.sms;
    host.missing = driver != NULL && strcmp(driver, "none") == 0 ? "" : NULL;
}

__attribute__((visibility("default"))) struct cuda_on_host *cuda_on_host(void)
{
    return &host;
}

bool faulty(void)
{
    const int call = atomic_fetch_add(&host.calls, 1) + 1;

    return call == host.fail_at || (host.fail_again && call == host.fail_at + 1);
}

/* A kernel that broke: the error shows at the next wait, and at all that come later. */
static bool broken(void)
{
    return host.break_after > 0 && atomic_load(&host.launches) > host.break_after;
}

static cudaError_t count(cudaError_t error, atomic_int *made)
{
    if (error == cudaSuccess) {
        atomic_fetch_add(made, 1);
    }
    return error;
}

/* --- the machine --- */

static _Thread_local int chosen;

/* CUDA makes a context on the GPU that a thread has chosen, which is the first one at first. A
   process that has one GPU of many shall take memory on no other (ON_HOST_ONE_GPU). */
static void make_context(void)
{
    static atomic_uint contexts;
    const unsigned now = atomic_fetch_or(&contexts, 1u << chosen) | 1u << chosen;

    if ((now & (now - 1)) != 0 && getenv("ON_HOST_ONE_GPU") != NULL) {
        fprintf(stderr, "CUDA of the host: this process has contexts on several GPUs\n");
        abort();
    }
}

cudaError_t __wrap_cudaGetDeviceCount(int *count_of)
{
    if (getenv("ON_HOST_EAGER") != NULL && getenv("CUDA_MODULE_LOADING") == NULL) {
        fprintf(stderr, "CUDA of the host: called before CUDA_MODULE_LOADING was set\n");
        abort();
    }
    *count_of = host.n_gpus;
    return cudaSuccess;
}

cudaError_t __wrap_cudaSetDevice(int device)
{
    if (device < 0 || device >= host.n_gpus) {
        return cudaErrorInvalidDevice;
    }
    chosen = device;
    make_context();
    return faulty() ? cudaErrorDevicesUnavailable : cudaSuccess;
}

void on_host_enqueue_kernel(cudaStream_t stream, void (*body)(void *), void *context, size_t bytes)
{
    if (chosen != on_host_gpu_of(stream)) {
        fprintf(stderr, "CUDA of the host: a kernel for GPU %d where GPU %d is chosen\n",
                on_host_gpu_of(stream), chosen);
        abort();
    }
    on_host_enqueue(stream, body, context, bytes);
}

cudaError_t __wrap_cudaGetDevice(int *device)
{
    *device = chosen;
    return cudaSuccess;
}

cudaError_t __wrap_cudaMemGetInfo(size_t *left, size_t *all)
{
    make_context();
    *left = host.left_bytes;
    *all = host.memory_bytes;
    return faulty() ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t __wrap_cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    atomic_fetch_or(&host.peers_asked, 1u << peer);
    *can = host.peers;
    return faulty() ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t __wrap_cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return faulty() ? cudaErrorUnknown : cudaSuccess;
}

const char *__wrap_cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorIllegalAddress     ? "cudaErrorIllegalAddress"
           : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                                : "an error of a test";
}

/* --- what is made --- */

cudaError_t __real_cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t __real_cudaStreamDestroy(cudaStream_t stream);
cudaError_t __real_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t __real_cudaEventDestroy(cudaEvent_t event);
cudaError_t __real_cudaMalloc(void **memory, size_t bytes);
cudaError_t __real_cudaFree(void *memory);
cudaError_t __real_cudaMallocHost(void **memory, size_t bytes);
cudaError_t __real_cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t __real_cudaFreeHost(void *memory);
cublasStatus_t __real_cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t __real_cublasLtDestroy(cublasLtHandle_t handle);
cublasStatus_t __real_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                     cublasLtMatmulDescAttributes_t which,
                                                     const void *value, size_t size);

cudaError_t create_counted_stream(cudaStream_t *ret_stream, unsigned flags, int priority)
{
    make_context();
    return faulty() ? cudaErrorUnknown
                    : count(__real_cudaStreamCreateWithPriority(ret_stream, flags, priority),
                            &host.streams);
}

cudaError_t __wrap_cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    return create_counted_stream(stream, flags, priority);
}

cudaError_t __wrap_cudaStreamDestroy(cudaStream_t stream)
{
    atomic_fetch_sub(&host.streams, 1);
    return __real_cudaStreamDestroy(stream);
}

cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    make_context();
    return faulty() ? cudaErrorUnknown
                    : count(__real_cudaEventCreateWithFlags(event, flags), &host.events);
}

cudaError_t __wrap_cudaEventDestroy(cudaEvent_t event)
{
    atomic_fetch_sub(&host.events, 1);
    return __real_cudaEventDestroy(event);
}

cudaError_t __wrap_cudaMalloc(void **memory, size_t bytes)
{
    make_context();
    return faulty() ? cudaErrorMemoryAllocation
                    : count(__real_cudaMalloc(memory, bytes), &host.arrays);
}

cudaError_t __wrap_cudaFree(void *memory)
{
    atomic_fetch_sub(&host.arrays, memory != NULL);
    return __real_cudaFree(memory);
}

cudaError_t __wrap_cudaMallocHost(void **memory, size_t bytes)
{
    make_context();
    return faulty() ? cudaErrorMemoryAllocation
                    : count(__real_cudaMallocHost(memory, bytes), &host.pinned);
}

cudaError_t __wrap_cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    make_context();
    return faulty() ? cudaErrorMemoryAllocation
                    : count(__real_cudaHostAlloc(memory, bytes, flags), &host.pinned);
}

cudaError_t __wrap_cudaFreeHost(void *memory)
{
    atomic_fetch_sub(&host.pinned, memory != NULL);
    return __real_cudaFreeHost(memory);
}

cublasStatus_t __wrap_cublasLtCreate(cublasLtHandle_t *handle)
{
    cublasStatus_t status = faulty() ? CUBLAS_STATUS_ALLOC_FAILED : __real_cublasLtCreate(handle);

    atomic_fetch_add(&host.libraries, status == CUBLAS_STATUS_SUCCESS);
    return status;
}

cublasStatus_t __wrap_cublasLtDestroy(cublasLtHandle_t handle)
{
    atomic_fetch_sub(&host.libraries, 1);
    return __real_cublasLtDestroy(handle);
}

cublasStatus_t __wrap_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                     cublasLtMatmulDescAttributes_t which,
                                                     const void *value, size_t size)
{
    int32_t sms;

    if (faulty()) {
        return product_failure(CUBLAS_STATUS_NOT_INITIALIZED);
    }
    if (which != CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET) {
        return __real_cublasLtMatmulDescSetAttribute(desc, which, value, size);
    }
    if (size != sizeof sms) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(&sms, value, sizeof sms);
    atomic_store(&host.product_sms, sms);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- what waits --- */

cudaError_t __real_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __real_cudaGetLastError(void);
cudaError_t __real_cudaEventQuery(cudaEvent_t event);
cudaError_t __real_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);

/* Asked behind each launch. */
cudaError_t __wrap_cudaGetLastError(void)
{
    atomic_fetch_add(&host.launches, 1);
    return __real_cudaGetLastError();
}

cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream)
{
    const cudaError_t error = __real_cudaStreamSynchronize(stream);

    return broken() ? cudaErrorIllegalAddress : faulty() ? cudaErrorUnknown : error;
}

cudaError_t __wrap_cudaEventQuery(cudaEvent_t event)
{
    make_context();
    return broken() ? cudaErrorIllegalAddress : __real_cudaEventQuery(event);
}

cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    make_context();
    return faulty() ? cudaErrorUnknown : __real_cudaEventRecord(event, stream);
}

cudaError_t __real_cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t __real_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __real_cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t __real_cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t __real_cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);

cudaError_t __wrap_cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return faulty() ? cudaErrorUnknown : __real_cudaDeviceGetStreamPriorityRange(least, greatest);
}

cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return faulty() ? cudaErrorUnknown : __real_cudaStreamWaitEvent(stream, event, flags);
}

cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    return faulty() ? cudaErrorUnknown : __real_cudaEventSynchronize(event);
}

cudaError_t __wrap_cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return faulty() ? cudaErrorUnknown : __real_cudaEventElapsedTime(ms, start, end);
}

cudaError_t __wrap_cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return faulty() ? cudaErrorUnknown : __real_cudaMemcpyAsync(to, from, bytes, kind, stream);
}

cudaError_t __wrap_cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return faulty() ? cudaErrorUnknown : __real_cudaMemsetAsync(to, value, bytes, stream);
}

/* --- captures and graphs --- */

cudaError_t __real_cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t __real_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t __real_cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                        unsigned long long flags);
cudaError_t __real_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t __real_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t __real_cudaGraphDestroy(cudaGraph_t graph);
cudaError_t __real_cudaGraphExecDestroy(cudaGraphExec_t exec);

cudaError_t __wrap_cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    const char *how = getenv("ON_HOST_CAPTURES");

    return faulty() || (how != NULL && strcmp(how, "none") == 0)
               ? cudaErrorIllegalState
               : __real_cudaStreamBeginCapture(stream, mode);
}

/* A capture that fails at its end is over, too, and leaves nothing. */
cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t error = __real_cudaStreamEndCapture(stream, graph);

    if (error == cudaSuccess && faulty()) {
        __real_cudaGraphDestroy(*graph);
        *graph = NULL;
        error = cudaErrorStreamCaptureInvalidated;
    }
    return count(error, &host.graphs);
}

cudaError_t __wrap_cudaGraphDestroy(cudaGraph_t graph)
{
    atomic_fetch_sub(&host.graphs, 1);
    return __real_cudaGraphDestroy(graph);
}

cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                        unsigned long long flags)
{
    return faulty() ? cudaErrorUnknown
                    : count(__real_cudaGraphInstantiate(exec, graph, flags), &host.graphs);
}

cudaError_t __wrap_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    atomic_fetch_sub(&host.graphs, 1);
    return __real_cudaGraphExecDestroy(exec);
}

cudaError_t __wrap_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    return faulty() ? cudaErrorUnknown : __real_cudaGraphUpload(exec, stream);
}

cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return faulty() ? cudaErrorUnknown : __real_cudaGraphLaunch(exec, stream);
}
