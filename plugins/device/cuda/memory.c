/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas, and copies in the order of the kernels that end before they return.
 */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

static _Thread_local const struct pst_device *entered;

pst_status pst_cuda_table(struct pst_device *device, const char *doing, const void *host,
                          uint64_t bytes, void **ret_table, struct pst_error *err)
{
    cudaError_t error = cudaMalloc(ret_table, bytes);

    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(*ret_table, host, bytes, cudaMemcpyHostToDevice, device->compute);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(device->compute);
    }
    return error == cudaSuccess ? PST_OK : pst_cuda_fail(err, doing, error);
}

void pst_cuda_enter(struct pst_device *device)
{
    entered = device;
    pst_cuda_note(device, "choosing the GPU", cudaSetDevice(device->ordinal));
}

void pst_cuda_visit(struct pst_device *device)
{
    if (entered == NULL || entered->ordinal != device->ordinal) {
        pst_cuda_note(device, "choosing the GPU", cudaSetDevice(device->ordinal));
    }
}

void pst_cuda_return(struct pst_device *device)
{
    if (entered != NULL && entered->ordinal != device->ordinal) {
        pst_cuda_note(device, "choosing the GPU", cudaSetDevice(entered->ordinal));
    }
}

pst_status pst_cuda_arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                          struct pst_error *err)
{
    cudaError_t error;
    void *base = NULL;
    char doing[64];

    device->arenas = pst_resize(device->arenas, device->n_arenas + 1, sizeof *device->arenas);
    error = cudaMalloc(&base, bytes);
    if (error != cudaSuccess) {
        snprintf(doing, sizeof doing, "the plan's %llu bytes on GPU %d", (unsigned long long)bytes,
                 device->ordinal);
        return pst_cuda_fail(err, doing, error);
    }
    device->arenas[device->n_arenas++] = base;
    error = cudaMemsetAsync(base, 0xFF, bytes, device->compute);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(device->compute);
    }
    if (error != cudaSuccess) {
        return pst_cuda_fail(err, "filling the arena", error);
    }
    *ret_base = base;
    return PST_OK;
}

void pst_cuda_arenas_free(struct pst_device *device)
{
    for (uint32_t i = 0; i < device->n_arenas; i++) {
        cudaFree(device->arenas[i]);
    }
    free(device->arenas);
    device->arenas = NULL;
    device->n_arenas = 0;
}

static void move(struct pst_device *device, void *dst, const void *src, uint64_t bytes,
                 enum cudaMemcpyKind kind, const char *doing)
{
    cudaError_t error = cudaMemcpyAsync(dst, src, bytes, kind, device->compute);

    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(device->compute);
    }
    pst_cuda_note(device, doing, error);
}

void pst_cuda_upload(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    move(device, dst, src, bytes, cudaMemcpyHostToDevice, "a copy to the GPU");
}

void pst_cuda_download(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    move(device, dst, src, bytes, cudaMemcpyDeviceToHost, "a copy from the GPU");
}

void pst_cuda_zero(struct pst_device *device, void *dst, uint64_t bytes)
{
    pst_cuda_note(device, "clearing memory", cudaMemsetAsync(dst, 0, bytes, device->compute));
}
