/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver as far as parts of a GPU go: green contexts that are numbers, streams of the runtime.
 * What is not as the driver's manual wants it ends in an error.
 */
#include <crt/../cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

struct CUdevResourceDesc_st {
    uint32_t first, sms;
};

struct CUgreenCtx_st {
    uint32_t first, sms;
};

static struct CUdevResourceDesc_st described[64]; /* the driver's own, never freed */
static atomic_uint n_described;

/* The driver has the function and does not do it here. */
static bool refuses(const char *function)
{
    const char *refused = cuda_on_host()->refused;

    return refused != NULL && strcmp(refused, function) == 0;
}

/* Where a part begins is the driver's affair: it is kept in what others shall not read. */
static uint32_t first_of(const CUdevResource *resource)
{
    uint32_t first;

    memcpy(&first, resource->_internal_padding, sizeof first);
    return first;
}

static CUresult get_error_name(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_TEST";
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    if (faulty()) {
        return CUDA_ERROR_UNKNOWN;
    }
    *device = ordinal;
    return ordinal < cuda_on_host()->n_gpus ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult get_resource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    const struct cuda_on_host *host = cuda_on_host();

    if (faulty()) {
        return CUDA_ERROR_UNKNOWN;
    }
    if (refuses("cuDeviceGetDevResource")) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    memset(resource, 0, sizeof *resource);
    resource->type = type;
    resource->sm.smCount = host->sms;
    resource->sm.minSmPartitionSize = host->least;
    resource->sm.smCoscheduledAlignment = host->step;
    return CUDA_SUCCESS;
}

static CUresult split(CUdevResource *groups, unsigned *n, const CUdevResource *all,
                      CUdevResource *rest, unsigned flags, unsigned size)
{
    struct cuda_on_host *host = cuda_on_host();
    unsigned made;

    if (faulty()) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (refuses("cuDevSmResourceSplitByCount")) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (all->type != CU_DEV_RESOURCE_TYPE_SM || flags != 0 || size < 8 || size % 8 != 0 ||
        size > all->sm.smCount) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    made = all->sm.smCount / size;
    made = size > all->sm.smCount / *n - 8 && made > host->fewer ? made - host->fewer : made;
    *n = made < *n ? made : *n;
    for (uint32_t i = 0; i < *n; i++) {
        const uint32_t first = i * size;

        groups[i] = *all;
        groups[i].sm.smCount = size;
        memcpy(groups[i]._internal_padding, &first, sizeof first);
    }
    *rest = *all;
    rest->sm.smCount = all->sm.smCount - *n * size;
    atomic_fetch_add(&host->splits, 1);
    return CUDA_SUCCESS;
}

static CUresult describe(CUdevResourceDesc *desc, CUdevResource *resources, unsigned n)
{
    struct CUdevResourceDesc_st *to;

    if (faulty() || n != 1) {
        return CUDA_ERROR_UNKNOWN;
    }
    if (refuses("cuDevResourceGenerateDesc")) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    to = &described[atomic_fetch_add(&n_described, 1) % 64];
    to->first = first_of(resources);
    to->sms = resources->sm.smCount;
    *desc = to;
    return CUDA_SUCCESS;
}

static CUresult create(CUgreenCtx *context, CUdevResourceDesc desc, CUdevice device, unsigned flags)
{
    struct cuda_on_host *host = cuda_on_host();
    struct CUgreenCtx_st *made;

    if (faulty() || (flags & CU_GREEN_CTX_DEFAULT_STREAM) == 0) {
        return CUDA_ERROR_UNKNOWN;
    }
    if (refuses("cuGreenCtxCreate")) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    made = malloc(sizeof *made);
    if (made == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->first = desc->first;
    made->sms = desc->sms;
    atomic_fetch_or(&host->parts, 1u << desc->first / desc->sms);
    atomic_fetch_add(&host->contexts, 1);
    *context = made;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUgreenCtx context)
{
    atomic_fetch_sub(&cuda_on_host()->contexts, 1);
    free(context);
    return CUDA_SUCCESS;
}

static CUresult create_stream(CUstream *stream, CUgreenCtx context, unsigned flags, int priority)
{
    if (flags != CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return cudaStreamCreateWithPriority(stream, flags, priority) == cudaSuccess
               ? CUDA_SUCCESS
               : CUDA_ERROR_UNKNOWN;
}

static const struct {
    const char *name;
    unsigned version;
    void *function;
} functions[] = {
    {"cuGetErrorName", 6000, (void *)get_error_name},
    {"cuDeviceGet", 2000, (void *)device_get},
    {"cuDeviceGetDevResource", 12040, (void *)get_resource},
    {"cuDevSmResourceSplitByCount", 12040, (void *)split},
    {"cuDevResourceGenerateDesc", 12040, (void *)describe},
    {"cuGreenCtxCreate", 12040, (void *)create},
    {"cuGreenCtxDestroy", 12040, (void *)destroy},
    {"cuGreenCtxStreamCreate", 12050, (void *)create_stream},
};

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    const char *missing = cuda_on_host()->missing;

    *function = NULL;
    *found = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i].name, symbol) != 0 ||
            (missing != NULL && (missing[0] == '\0' || strcmp(missing, symbol) == 0))) {
            continue;
        }
        if (version < functions[i].version) {
            *found = cudaDriverEntryPointVersionNotSufficent;
            return cudaSuccess;
        }
        *function = functions[i].function;
        *found = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}
