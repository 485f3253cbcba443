/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: what cuDNN makes of an operation graph. The library is opened at run time, so that a
 * machine without it still has the module; one that is missing, too old, or knows no kernel for a
 * graph is no failure but the reason to go the simple way.
 */
#ifndef PST_DEVICE_CUDA_DNN_PLAN_H
#define PST_DEVICE_CUDA_DNN_PLAN_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "dnn_graph.h"

struct pst_dnn;
struct pst_dnn_plan;

/*
 * Opens the library for the current GPU; work goes to stream. properties: NULL, or the JSON text of
 * a GPU that need not be there: plans for it are made, but not run. sms: multiprocessors that
 * kernels will have; 0: all. NULL is returned with one line
 * in ret_why where it cannot be used.
 */
struct pst_dnn *pst_dnn_open(cudaStream_t stream, const char *properties, uint32_t sms,
                             char *ret_why, size_t why_size);
void pst_dnn_close(struct pst_dnn *dnn);
/* From now on work goes to this stream; NULL: there is none for now. False: it cannot be had. */
bool pst_dnn_follow(struct pst_dnn *dnn, cudaStream_t stream);
/* One line: "cuDNN 9.19.0", or why there is none. Opens no GPU. */
void pst_dnn_describe(char *ret_text, size_t text_size);

/*
 * Collects the kernels that the library proposes and that keep the rules (sums in one order if the
 * graph asks for it, f32 stays f32), best first by its own ranking. Compiles nothing, so it is
 * quick. If there are none, it returns NULL and one line in ret_why.
 */
struct pst_dnn_plan *pst_dnn_plan_create(struct pst_dnn *dnn, const struct pst_dnn_graph *graph,
                                         char *ret_why, size_t why_size);
void pst_dnn_plan_destroy(struct pst_dnn_plan *plan);
/* Compiles the first of them that can be, which takes up to some seconds; workspace stays what was
   said before. False: none, and why. True at once where it has been done. */
bool pst_dnn_plan_compile(struct pst_dnn_plan *plan, char *ret_why, size_t why_size);
/* Workspace of the first proposal. */
uint64_t pst_dnn_plan_bytes(const struct pst_dnn_plan *plan);

/* Puts it on the stream; operands by role, aligned to 16 bytes, the workspace to 256. NULL, or why
   it failed. */
const char *pst_dnn_plan_run(const struct pst_dnn_plan *plan, void *const operands[PST_DNN_ROLES],
                             void *workspace);

#endif
