/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPU a rank has, what part of it, and whether all ranks of the process find room.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/saturate.h"
#include "cuda.h"
#include "parts.h"

/* Where no share is set, and in processes of one rank each, GPUs are taken in turn. */
static uint32_t gpu_of(const struct pst_device_config *config, uint32_t rank, uint32_t n_gpus)
{
    const bool alone = config->n_ranks <= 1;

    return config->share == 0 ? rank % n_gpus
                              : rank / config->share % (alone ? n_gpus : UINT32_MAX);
}

pst_status pst_cuda_place(const struct pst_device_config *config, struct pst_device *device,
                          struct pst_error *err)
{
    uint32_t gpu;
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if (error != cudaSuccess || n <= 0) {
        return pst_cuda_fail(err, "counting GPUs", error);
    }
    gpu = gpu_of(config, config->index, (uint32_t)n);
    if (gpu >= (uint32_t)n) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "run.share = %u puts rank %u on GPU %u, but there %s %d", config->share,
                        config->index, gpu, n == 1 ? "is" : "are", n);
    }
    device->ordinal = (int)gpu;
    device->share = config->share;
    device->slot = config->share == 0 ? 0 : config->index % config->share;
    return PST_OK;
}

/* Does the driver let this GPU read the other one's memory? */
static pst_status reach(const struct pst_device *device, int other, struct pst_error *err)
{
    int can = 0;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, device->ordinal, other);

    if (error == cudaSuccess && !can) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "GPU %d cannot read the memory of GPU %d; hide one of them with "
                        "CUDA_VISIBLE_DEVICES",
                        device->ordinal, other);
    }
    error = error == cudaSuccess ? cudaDeviceEnablePeerAccess(other, 0) : error;
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError(); /* by another rank: this one does not stick */
    } else if (error != cudaSuccess) {
        return pst_cuda_fail(err, "reaching the other GPUs", error);
    }
    return PST_OK;
}

pst_status pst_cuda_reach_others(const struct pst_device_config *config,
                                 const struct pst_device *device, struct pst_error *err)
{
    pst_status status = PST_OK;
    int n = 0;

    cudaGetDeviceCount(&n);
    for (int other = 0; other < n && status == PST_OK; other++) {
        bool used = false;

        for (uint32_t i = 0; i < config->n_ranks && !used; i++) {
            used = gpu_of(config, config->first_rank + i, (uint32_t)n) == (uint32_t)other;
        }
        status = used && other != device->ordinal ? reach(device, other, err) : PST_OK;
    }
    return status;
}

/* The arenas on one GPU: how many bytes, and a list of them in `text`. */
static uint64_t sum_arenas(const struct pst_device_config *config, const uint64_t *arena_bytes,
                           uint32_t n_gpus, uint32_t gpu, char *text, size_t size)
{
    uint64_t sum = 0;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < config->n_ranks; i++) {
        const uint32_t rank = config->first_rank + i;

        if (gpu_of(config, rank, n_gpus) != gpu) {
            continue;
        }
        sum = pst_sat_add(sum, arena_bytes[i]);
        if (used < size) {
            used += (size_t)snprintf(text + used, size - used, "%srank %" PRIu32 " %.2f",
                                     used == 0 ? "" : ", ", rank, (double)arena_bytes[i] / 0x1p30);
        }
    }
    return sum;
}

static pst_status check_memory(const struct pst_device_config *config, const uint64_t *arena_bytes,
                               uint32_t n_gpus, uint32_t gpu, struct pst_error *err)
{
    char list[160];
    const uint64_t sum = sum_arenas(config, arena_bytes, n_gpus, gpu, list, sizeof list);
    size_t left = 0, all = 0;
    cudaError_t error = sum == 0 ? cudaSuccess : cudaSetDevice((int)gpu);

    if (sum == 0) {
        return PST_OK;
    }
    error = error == cudaSuccess ? cudaMemGetInfo(&left, &all) : error;
    if (error != cudaSuccess) {
        return pst_cuda_fail(err, "asking for its memory", error);
    }
    if (sum > left) {
        pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                 "GPU %u has %.2f of its %.2f GiB left, the arenas on it take %.2f GiB together "
                 "(%s); use fewer ranks per GPU, or smaller micro-batches",
                 gpu, (double)left / 0x1p30, (double)all / 0x1p30, (double)sum / 0x1p30, list);
        pst_cuda_hint_memory(err);
        return PST_ERR_NOMEM;
    }
    return PST_OK;
}

pst_status pst_cuda_fits(const struct pst_device_config *config, const uint64_t *arena_bytes,
                         struct pst_error *err)
{
    const uint32_t share = config->share;
    pst_status status = PST_OK;
    int n = 0, before = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if (error != cudaSuccess || n <= 0) {
        return pst_cuda_fail(err, "counting GPUs", error);
    }
    if (share > 0 && config->n_ranks > 1 &&
        config->first_rank + config->n_ranks > (uint64_t)share * (uint32_t)n) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "%u ranks, %u for each GPU, need %u GPUs, but there %s %d; raise run.share",
                        config->n_ranks, share,
                        (config->first_rank + config->n_ranks + share - 1) / share,
                        n == 1 ? "is" : "are", n);
    }
    if (arena_bytes == NULL) {
        return PST_OK;
    }
    cudaGetDevice(&before);
    for (int gpu = 0; gpu < n && status == PST_OK; gpu++) {
        status = check_memory(config, arena_bytes, (uint32_t)n, (uint32_t)gpu, err);
    }
    cudaSetDevice(before);
    return status;
}

pst_status pst_cuda_part_of(struct pst_device *device, struct pst_error *err)
{
    pst_status status;

    if (device->share < 2) {
        return PST_OK;
    }
    status = pst_cuda_part_open(device->ordinal, device->share, device->slot, &device->part,
                                device->undivided, sizeof device->undivided, err);
    if (status == PST_OK && device->part != NULL) {
        device->sms = pst_cuda_part_sms(device->part);
    }
    return status;
}

void pst_cuda_sharing(struct pst_device *device, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (device->part != NULL) {
        snprintf(ret_text, size, "%u ranks per GPU, each on %u of its %u multiprocessors",
                 device->share, device->sms, pst_cuda_part_all_sms(device->part));
    } else if (device->share > 1) {
        snprintf(ret_text, size, "%u ranks per GPU on plain streams: %s", device->share,
                 device->undivided);
    }
}

void pst_cuda_identity(const struct pst_device_config *config, char *ret_text, size_t size)
{
    int n = 0;

    ret_text[0] = '\0';
    if (cudaGetDeviceCount(&n) != cudaSuccess || n <= 0) {
        return;
    }
    if (cudaDeviceGetPCIBusId(ret_text, (int)size,
                              (int)(gpu_of(config, config->index, (uint32_t)n) % (uint32_t)n)) !=
        cudaSuccess) {
        ret_text[0] = '\0';
    }
}
