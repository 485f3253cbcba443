/* SPDX-License-Identifier: Apache-2.0
 *
 * The first failure of a device, kept until somebody asks.
 */
#include "cuda.h"

#include <stdio.h>

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

/* The work failed (exit code 1), not the request. */
pst_status pst_cuda_failure(struct pst_device *device, struct pst_error *err)
{
    if (!atomic_load(&device->failed)) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_UNSUPPORTED, "run.device", "GPU %d failed at %s: %s", device->ordinal,
             device->doing, device->why);
    if (err != NULL) {
        err->exit_code = 1;
    }
    return PST_ERR_UNSUPPORTED;
}

pst_status pst_cuda_fail(struct pst_error *err, const char *doing, cudaError_t error)
{
    return pst_fail(err, error == cudaErrorMemoryAllocation ? PST_ERR_NOMEM : PST_ERR_UNSUPPORTED,
                    "machine.missing", "device cuda, %s: %s: %s", doing, cudaGetErrorName(error),
                    cudaGetErrorString(error));
}
