/* SPDX-License-Identifier: Apache-2.0
 *
 * The families that cuDNN serves, in front of the simple ones, and the plans of a device.
 */
#ifndef PST_DEVICE_CUDA_DNN_H
#define PST_DEVICE_CUDA_DNN_H

#include "cuda.h"
#include "dnn_plan.h"

/* --- dnn_cache.c: a device's plans, by graph ---------------------------------------------------*/

/* Gives a device, which has its streams, the plans that one like it has left behind, or none. Its
   note takes what is not served and why, once for each shape. */
void pst_cuda_dnn_open(struct pst_device *device);
/* Before its streams are gone. */
void pst_cuda_dnn_close(struct pst_device *device);

/*
 * The plan of a graph, not yet compiled: how much workspace it takes is known. NULL: this goes the
 * simple way. Opens the library when it is called first. Any thread.
 */
struct pst_dnn_plan *pst_cuda_dnn_propose(struct pst_device *device,
                                          const struct pst_dnn_graph *graph);
/* plan: proposed by the same device. PST_ERR_UNSUPPORTED: no kernel of it can be compiled. */
pst_status pst_cuda_dnn_compile(struct pst_device *device, struct pst_dnn_plan *plan,
                                const char *name, struct pst_error *err);
/* Runs it; a failure is kept. */
void pst_cuda_dnn_run(struct pst_device *device, const char *name, const struct pst_dnn_plan *plan,
                      void *const operands[PST_DNN_ROLES], void *workspace);

/* --- dnn_attention.c, dnn_conv.c ---------------------------------------------------------------*/

extern const struct pst_cuda_family pst_cuda_dnn_attention_family, pst_cuda_dnn_conv_family;

#endif
