/* SPDX-License-Identifier: Apache-2.0
 *
 * The first failure of a device, kept until somebody asks.
 */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

#define OUT_OF_MEMORY "cudaErrorMemoryAllocation"

static void keep(struct pst_device *device, const char *doing, const char *name, const char *text)
{
    if (pst_cuda_captures(device)) {
        if (!device->refused) {
            device->refused = true;
            snprintf(device->refused_doing, sizeof device->refused_doing, "%s", doing);
            snprintf(device->refused_why, sizeof device->refused_why, "%s%s%s", name,
                     text[0] == '\0' ? "" : ": ", text);
        }
        return;
    }
    if (atomic_flag_test_and_set(&device->failing)) {
        return;
    }
    snprintf(device->doing, sizeof device->doing, "%s", doing);
    snprintf(device->why, sizeof device->why, "%s%s%s", name, text[0] == '\0' ? "" : ": ", text);
    atomic_store(&device->failed, true);
}

void pst_cuda_note_text(struct pst_device *device, const char *doing, const char *name,
                        const char *text)
{
    keep(device, doing, name, text);
}

void pst_cuda_note(struct pst_device *device, const char *doing, cudaError_t error)
{
    if (error != cudaSuccess) {
        keep(device, doing, cudaGetErrorName(error), cudaGetErrorString(error));
    }
}

void pst_cuda_note_blas(struct pst_device *device, const char *doing, cublasStatus_t status)
{
    if (status != CUBLAS_STATUS_SUCCESS) {
        keep(device, doing, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
    }
}

void pst_cuda_note_launch(struct pst_device *device, const char *doing)
{
    pst_cuda_note(device, doing, cudaGetLastError());
}

const char *pst_cuda_doing(const struct pst_device *device, char *text, size_t size)
{
    const char *last = atomic_load_explicit(&device->last, memory_order_relaxed);

    snprintf(text, size, "%.60s or before it", last == NULL ? "the start" : last);
    return text;
}

void pst_cuda_hint_memory(struct pst_error *err)
{
    pst_error_hint(
        err, "no plan counts the memory that CUDA, its libraries and other processes use on a GPU: "
             "raise cluster.reserve, the part of cluster.memory that plans leave free");
}

/* The work failed (exit code 1), not the request. */
pst_status pst_cuda_failure(struct pst_device *device, struct pst_error *err)
{
    if (!atomic_load(&device->failed)) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_UNSUPPORTED, "run.device", "GPU %d failed at %s: %s", device->ordinal,
             device->doing, device->why);
    if (strncmp(device->why, OUT_OF_MEMORY, strlen(OUT_OF_MEMORY)) == 0) {
        pst_cuda_hint_memory(err);
    }
    if (err != NULL) {
        err->exit_code = 1;
    }
    return PST_ERR_UNSUPPORTED;
}

pst_status pst_cuda_fail(struct pst_error *err, const char *doing, cudaError_t error)
{
    const char *name = cudaGetErrorName(error), *text = cudaGetErrorString(error);
    size_t left = 0, all = 0;
    char room[96] = "";

    if (error != cudaErrorMemoryAllocation) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing", "device cuda, %s: %s: %s",
                        doing, name, text);
    }
    cudaGetLastError(); /* this one does not stick */
    if (cudaMemGetInfo(&left, &all) == cudaSuccess) {
        snprintf(room, sizeof room, "; the GPU has %zu of its %zu bytes left", left, all);
    }
    pst_fail(err, PST_ERR_NOMEM, "machine.memory", "device cuda, %s: %s: %s%s", doing, name, text,
             room);
    pst_cuda_hint_memory(err);
    return PST_ERR_NOMEM;
}

pst_status pst_cuda_fail_pinned(const struct pst_device *device, uint64_t bytes, cudaError_t error,
                                struct pst_error *err)
{
    if (error != cudaErrorMemoryAllocation) {
        return pst_cuda_fail(err, "pinning host memory", error);
    }
    cudaGetLastError(); /* this one does not stick */
    return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                    "GPU %d: %llu bytes of host memory cannot be pinned; see ulimit -l",
                    device->ordinal, (unsigned long long)bytes);
}
