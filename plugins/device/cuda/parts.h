/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a GPU for ranks that share it: disjoint sets of its multiprocessors (SMs), each a green
 * context of the driver (CUDA Driver API, "Green Contexts") that streams are made in. Kernels of
 * such a stream run on the part alone; memory and everything else stay those of the GPU. The
 * driver's functions come through the runtime, so that nothing is linked with libcuda.
 */
#ifndef PST_DEVICE_CUDA_PARTS_H
#define PST_DEVICE_CUDA_PARTS_H

#include <crt/../cuda.h> /* the toolkit's, not this folder's */
#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/error.h"

/* The driver's functions, with the version of CUDA that brought each. */
#define PST_CUDA_DRIVER_FUNCTIONS(F)                                                               \
    F(GetErrorName, 12000)                                                                         \
    F(DeviceGet, 12000)                                                                            \
    F(DeviceGetDevResource, 12040)                                                                 \
    F(DevSmResourceSplitByCount, 12040)                                                            \
    F(DevResourceGenerateDesc, 12040)                                                              \
    F(GreenCtxCreate, 12040)                                                                       \
    F(GreenCtxDestroy, 12040)                                                                      \
    F(GreenCtxStreamCreate, 12050)

struct pst_cuda_driver {
#define FUNCTION(name, version) __typeof__(&cu##name) name;
    PST_CUDA_DRIVER_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* False, with one line in ret_why, where the driver lacks one of them. */
bool pst_cuda_driver_find(struct pst_cuda_driver *ret_driver, char *ret_why, size_t why_size);

struct pst_cuda_part;

/*
 * Part `slot` of `share` equal parts of a GPU, which the calling thread has chosen. A GPU is split
 * once for all who have parts of it; who asks for the same part again gets the same. NULL, with one
 * line in ret_why, where the driver cannot split: then streams are plain ones. Any thread.
 * Errors: machine.missing where the GPU is too small, or the driver fails.
 */
pst_status pst_cuda_part_open(int ordinal, uint32_t share, uint32_t slot,
                              struct pst_cuda_part **ret_part, char *ret_why, size_t why_size,
                              struct pst_error *err);
/* After its streams are gone. NULL: nothing. */
void pst_cuda_part_close(struct pst_cuda_part *part);
/* Multiprocessors of the part, and of the GPU. */
uint32_t pst_cuda_part_sms(const struct pst_cuda_part *part);
uint32_t pst_cuda_part_all_sms(const struct pst_cuda_part *part);
/* A stream of the part, not blocking; cudaStreamDestroy() it. Any thread. */
pst_status pst_cuda_part_stream(struct pst_cuda_part *part, int priority, cudaStream_t *ret_stream,
                                struct pst_error *err);

#endif
