/* SPDX-License-Identifier: Apache-2.0
 *
 * Algorithms of products that a device has tried, by key. Where they are timed they are in a file,
 * too: times differ from run to run, and with them the choice and the last bits. The first choice
 * on a machine for a GPU, a version of the library and a shape is that of all later runs and of all
 * processes.
 */
#ifndef PST_DEVICE_CUDA_KEPT_H
#define PST_DEVICE_CUDA_KEPT_H

#include "cuda.h"

#define PST_CUDA_KEY 320

typedef pst_status pst_cuda_find(void *context, cublasLtMatmulAlgo_t *ret_algo,
                                 struct pst_error *err);

/* The device has chosen its GPU. Fails if there is no place for the file. */
pst_status pst_cuda_kept_open(struct pst_device *device, struct pst_error *err);
void pst_cuda_kept_close(struct pst_cuda_kept *kept);
/* Returns the algorithm kept for the key, else keeps the one from find(). With a file, no other
   process of this machine finds one meanwhile. */
pst_status pst_cuda_keep(struct pst_cuda_kept *kept, const char *key, pst_cuda_find *find,
                         void *context, cublasLtMatmulAlgo_t *ret_algo, struct pst_error *err);

#endif
