/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of split GPUs for the whole process, under a lock, which also keeps calls on a green
 * context apart: the driver does not. A part has its context while somebody has the part.
 */
#include "parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

/* The smallest part for compute capability 9 and newer, if the driver does not report one. */
#define LEAST_SMS 8u

struct split;

struct pst_cuda_part {
    struct split *split;
    CUdevResource resource;
    CUgreenCtx context; /* NULL: nobody has it */
    uint32_t users;
};

struct split {
    struct split *next;
    struct pst_cuda_driver driver;
    int ordinal;
    CUdevice device;
    uint32_t share, sms, users;
    char why[128]; /* it has no parts, where a call ends with PST_ERR_CANCELLED */
    struct pst_cuda_part parts[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct split *splits;

/* --- the driver --------------------------------------------------------------------------------*/

static void *find(const char *name, unsigned version)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void *function = NULL;

    if (cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found) !=
        cudaSuccess) {
        cudaGetLastError(); /* an older driver: this one does not stick */
        return NULL;
    }
    return found == cudaDriverEntryPointSuccess ? function : NULL;
}

bool pst_cuda_driver_find(struct pst_cuda_driver *ret_driver, char *ret_why, size_t why_size)
{
#define FIND(name, version)                                                                        \
    *(void **)&ret_driver->name = find("cu" #name, version);                                       \
    if (ret_driver->name == NULL) {                                                                \
        snprintf(ret_why, why_size, "the driver has no cu" #name);                                 \
        return false;                                                                              \
    }
    PST_CUDA_DRIVER_FUNCTIONS(FIND)
#undef FIND
    return true;
}

/* A refusal to split a GPU without parts in use is not an error: the GPU stays whole. The caller
   holds the lock. */
static pst_status fail(struct split *split, const char *doing, CUresult result,
                       struct pst_error *err)
{
    const char *name = NULL;

    if (split->driver.GetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) {
        name = "an unknown error";
    }
    if (split->users == 0 &&
        (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED)) {
        snprintf(split->why, sizeof split->why, "the driver refuses %s: %s (%d)", doing, name,
                 (int)result);
        return PST_ERR_CANCELLED;
    }
    return pst_fail(err, result == CUDA_ERROR_OUT_OF_MEMORY ? PST_ERR_NOMEM : PST_ERR_UNSUPPORTED,
                    "machine.missing", "device cuda, %s: %s (%d); run.share = 0 needs no parts",
                    doing, name, (int)result);
}

/* --- splitting ---------------------------------------------------------------------------------*/

/* Returns the driver's granularity of parts; older drivers report none. */
static uint32_t grain(uint32_t said, uint32_t sms)
{
    return said >= LEAST_SMS && said <= sms ? said : LEAST_SMS;
}

static pst_status too_small(const struct split *split, uint32_t least, struct pst_error *err)
{
    return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                    "GPU %d has %u multiprocessors, which cannot be split into %u equal parts of "
                    "%u or more; lower run.share",
                    split->ordinal, split->sms, split->share, least);
}

/* The largest equal parts that the driver makes `share` of. GPUs have units of several sizes, so
   that it may make fewer than there seem to be. */
static pst_status divide(struct split *split, CUdevResource *groups, const CUdevResource *all,
                         struct pst_error *err)
{
    const uint32_t least = grain(all->sm.minSmPartitionSize, split->sms);
    const uint32_t step = grain(all->sm.smCoscheduledAlignment, split->sms);

    for (uint32_t size = split->sms / split->share / step * step; size >= least; size -= step) {
        unsigned int n = split->share;
        CUdevResource rest = {0};
        CUresult result = split->driver.DevSmResourceSplitByCount(groups, &n, all, &rest, 0, size);

        if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION) {
            return fail(split, "splitting the GPU", result, err);
        }
        if (result == CUDA_SUCCESS && n >= split->share) {
            return PST_OK;
        }
    }
    return too_small(split, least, err);
}

static pst_status fill(struct split *split, struct pst_error *err)
{
    CUdevResource all = {0}, *groups = NULL;
    CUresult result = split->driver.DeviceGet(&split->device, split->ordinal);
    pst_status status;

    if (result == CUDA_SUCCESS) {
        result = split->driver.DeviceGetDevResource(split->device, &all, CU_DEV_RESOURCE_TYPE_SM);
    }
    if (result != CUDA_SUCCESS) {
        return fail(split, "asking for multiprocessors", result, err);
    }
    split->sms = all.sm.smCount;
    groups = pst_alloc(split->share, sizeof *groups);
    status = divide(split, groups, &all, err);
    for (uint32_t i = 0; status == PST_OK && i < split->share; i++) {
        split->parts[i].split = split;
        split->parts[i].resource = groups[i];
    }
    free(groups);
    return status;
}

/* Adds the split of a GPU whose parts nobody uses. The caller holds the lock. */
static struct split *make_split(int ordinal, uint32_t share)
{
    struct split *split = pst_alloc(1, sizeof *split + share * sizeof split->parts[0]);

    split->ordinal = ordinal;
    split->share = share;
    split->next = splits;
    splits = split;
    return split;
}

static void drop_split(struct split *split)
{
    struct split **at = &splits;

    while (*at != split) {
        at = &(*at)->next;
    }
    *at = split->next;
    free(split);
}

/* --- parts -------------------------------------------------------------------------------------*/

static pst_status make_context(struct pst_cuda_part *part, struct pst_error *err)
{
    struct split *split = part->split;
    CUdevResourceDesc described = NULL;
    CUresult result = split->driver.DevResourceGenerateDesc(&described, &part->resource, 1);

    if (result != CUDA_SUCCESS) {
        return fail(split, "describing a part of the GPU", result, err);
    }
    result = split->driver.GreenCtxCreate(&part->context, described, split->device,
                                          CU_GREEN_CTX_DEFAULT_STREAM);
    if (result != CUDA_SUCCESS) {
        part->context = NULL;
        return fail(split, "making a green context", result, err);
    }
    return PST_OK;
}

/* Under the lock. */
static pst_status take_part(struct split *split, uint32_t slot, struct pst_error *err)
{
    struct pst_cuda_part *part = &split->parts[slot];
    pst_status status = part->users == 0 ? make_context(part, err) : PST_OK;

    if (status == PST_OK) {
        part->users++;
        split->users++;
    }
    return status;
}

pst_status pst_cuda_part_open(int ordinal, uint32_t share, uint32_t slot,
                              struct pst_cuda_part **ret_part, char *ret_why, size_t why_size,
                              struct pst_error *err)
{
    struct split *split;
    pst_status status = PST_OK;

    pthread_mutex_lock(&lock);
    split = splits;
    while (split != NULL && (split->ordinal != ordinal || split->share != share)) {
        split = split->next;
    }
    if (split == NULL) {
        split = make_split(ordinal, share);
        status = pst_cuda_driver_find(&split->driver, split->why, sizeof split->why)
                     ? fill(split, err)
                     : PST_ERR_CANCELLED;
    }
    if (status == PST_OK) {
        status = take_part(split, slot, err);
    }
    if (status == PST_OK || status == PST_ERR_CANCELLED) {
        *ret_part = status == PST_OK ? &split->parts[slot] : NULL;
        snprintf(ret_why, why_size, "%s", split->why);
    }
    if (split->users == 0) {
        drop_split(split);
    }
    pthread_mutex_unlock(&lock);
    return status == PST_ERR_CANCELLED ? PST_OK : status;
}

void pst_cuda_part_close(struct pst_cuda_part *part)
{
    struct split *split;

    if (part == NULL) {
        return;
    }
    split = part->split;
    pthread_mutex_lock(&lock);
    if (--part->users == 0) {
        split->driver.GreenCtxDestroy(part->context);
        part->context = NULL;
    }
    if (--split->users == 0) {
        drop_split(split);
    }
    pthread_mutex_unlock(&lock);
}

uint32_t pst_cuda_part_sms(const struct pst_cuda_part *part)
{
    return part->resource.sm.smCount;
}

uint32_t pst_cuda_part_all_sms(const struct pst_cuda_part *part)
{
    return part->split->sms;
}

pst_status pst_cuda_part_stream(struct pst_cuda_part *part, int priority, cudaStream_t *ret_stream,
                                struct pst_error *err)
{
    const struct pst_cuda_driver *driver = &part->split->driver;
    CUstream stream = NULL;
    CUresult result;
    pst_status status = PST_OK;

    pthread_mutex_lock(&lock);
    result = driver->GreenCtxStreamCreate(&stream, part->context, CU_STREAM_NON_BLOCKING, priority);
    if (result == CUDA_SUCCESS) {
        *ret_stream = stream;
    } else {
        status = fail(part->split, "making a stream in a green context", result, err);
    }
    pthread_mutex_unlock(&lock);
    return status;
}
