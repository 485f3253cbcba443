/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues are streams, marks are events. A stream takes what any thread asks for, but a kernel has
 * to be launched with the stream's GPU chosen. Streams beside the one of the kernels have the
 * highest priority, so that a sum of a few blocks does not wait for a whole product.
 */
#include "cuda.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/spin_pause.h"

/* A float of milliseconds between events is good to a microsecond up to here. */
#define ANCHORED_NS UINT64_C(5000000000)

#define LOOK_NS 50000u /* so long a wait looks all the time, */
#define NAP_NS  20000u /* then so often */

static pst_status open_queue(struct pst_device *device, uint32_t queue, int priority,
                             struct pst_error *err)
{
    cudaStream_t *stream = &device->queues[queue];
    cudaError_t error;

    if (device->part != NULL) {
        return pst_cuda_part_stream(device->part, priority, stream, err);
    }
    error = cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority);
    return error == cudaSuccess ? PST_OK : pst_cuda_fail(err, "opening the GPU", error);
}

pst_status pst_cuda_queues_open(struct pst_device *device, struct pst_error *err)
{
    int least = 0, greatest = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);

    for (uint32_t q = 0; q < PST_QUEUES && error == cudaSuccess; q++) {
        const int priority = q == PST_QUEUE_COMPUTE ? least : greatest;
        const pst_status status = open_queue(device, q, priority, err);

        if (status != PST_OK) {
            return status;
        }
    }
    device->compute = device->queues[PST_QUEUE_COMPUTE];
    if (error == cudaSuccess) {
        error = cudaEventCreateWithFlags(&device->base, cudaEventDefault);
    }
    if (error == cudaSuccess) {
        pst_cuda_anchor(device);
    }
    return error == cudaSuccess ? PST_OK : pst_cuda_fail(err, "opening the GPU", error);
}

void pst_cuda_anchor(struct pst_device *device)
{
    const uint64_t now = pst_now_ns();
    cudaError_t error;

    if (device->base_ns > 0 && now - device->base_ns < ANCHORED_NS) {
        return;
    }
    error = cudaEventRecord(device->base, device->compute);
    if (error == cudaSuccess) {
        error = cudaEventSynchronize(device->base);
    }
    device->base_ns = pst_now_ns();
    pst_cuda_note(device, "recording an event", error);
}

uint64_t pst_cuda_mark_ns(struct pst_device *device, struct pst_mark *mark)
{
    float ms = 0;
    cudaError_t error = cudaEventElapsedTime(&ms, device->base, mark->event);

    pst_cuda_note(device, "reading the time of an event", error);
    return device->base_ns + (uint64_t)(int64_t)((double)ms * 1e6);
}

void pst_cuda_queues_close(struct pst_device *device)
{
    if (device->base != NULL) {
        cudaEventDestroy(device->base);
    }
    for (uint32_t q = 0; q < PST_QUEUES; q++) {
        if (device->queues[q] != NULL) {
            cudaStreamSynchronize(device->queues[q]);
            cudaStreamDestroy(device->queues[q]);
        }
    }
    for (uint32_t i = 0; i < device->n_marks; i++) {
        cudaEventDestroy(device->marks[i]->event);
        free(device->marks[i]);
    }
    for (uint32_t i = 0; i < device->n_pinned; i++) {
        cudaFreeHost(device->pinned[i]);
    }
    free(device->marks);
    free(device->pinned);
}

pst_status pst_cuda_pinned(struct pst_device *device, uint64_t bytes, void **ret_base,
                           struct pst_error *err)
{
    void *base = NULL;
    cudaError_t error;

    device->pinned = pst_resize(device->pinned, device->n_pinned + 1, sizeof *device->pinned);
    error = cudaHostAlloc(&base, bytes > 0 ? bytes : 1, cudaHostAllocPortable);
    if (error != cudaSuccess) {
        return pst_cuda_fail_pinned(device, bytes, error, err);
    }
    memset(base, 0xFF, bytes);
    device->pinned[device->n_pinned++] = base;
    *ret_base = base;
    return PST_OK;
}

pst_status pst_cuda_mark_create(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                                struct pst_error *err)
{
    struct pst_mark *mark = pst_alloc(1, sizeof *mark);
    cudaError_t error;

    device->marks = pst_resize(device->marks, device->n_marks + 1, sizeof *device->marks);
    error =
        cudaEventCreateWithFlags(&mark->event, timed ? cudaEventDefault : cudaEventDisableTiming);
    if (error != cudaSuccess) {
        free(mark);
        return pst_cuda_fail(err, "making an event", error);
    }
    device->marks[device->n_marks++] = mark;
    *ret_mark = mark;
    return PST_OK;
}

void pst_cuda_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    pst_cuda_note(device, "recording an event",
                  cudaEventRecord(mark->event, device->queues[queue]));
}

void pst_cuda_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    pst_cuda_note(device, "waiting for an event",
                  cudaStreamWaitEvent(device->queues[queue], mark->event, 0));
}

static bool passed(struct pst_device *device, struct pst_mark *mark)
{
    cudaError_t error;
    char doing[80];

    if (atomic_load(&device->failed)) {
        return true;
    }
    error = cudaEventQuery(mark->event);
    if (error == cudaErrorNotReady) {
        cudaGetLastError(); /* no error, but where it is kept the next launch would tell it */
        return false;
    }
    pst_cuda_note(device, pst_cuda_doing(device, doing, sizeof doing), error);
    return true;
}

bool pst_cuda_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const uint64_t begin = ns > 0 ? pst_now_ns() : 0;
    uint64_t now = begin;

    while (!passed(device, mark)) {
        if (now - begin >= ns) {
            return false;
        }
        if (now - begin < LOOK_NS) {
            pst_spin_pause();
        } else {
            nanosleep(&nap, NULL);
        }
        now = pst_now_ns();
    }
    return true;
}

/* Unified addressing tells where the two ends are. */
void pst_cuda_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                   uint64_t bytes)
{
    pst_cuda_note(device, "a copy",
                  cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, device->queues[queue]));
}

void pst_cuda_call(struct pst_device *device, uint32_t queue, void (*work)(void *context),
                   void *context)
{
    pst_cuda_note(device, "a call of the host",
                  cudaLaunchHostFunc(device->queues[queue], work, context));
}

void pst_cuda_add(struct pst_device *device, uint32_t queue, float *dst, const float *src,
                  uint64_t elems)
{
    pst_cuda_visit(device);
    pst_cuda_accumulate(device->queues[queue], dst, src, elems);
    pst_cuda_note_launch(device, "a sum over ranks");
    pst_cuda_return(device);
}
