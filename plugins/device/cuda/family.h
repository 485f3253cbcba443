/* SPDX-License-Identifier: Apache-2.0
 *
 * Families of kernels, for C and CUDA files. A family serves one kind of operator; its run() puts
 * work on the device's stream and returns, and a failed launch stays in the runtime's last error.
 */
#ifndef PST_DEVICE_CUDA_FAMILY_H
#define PST_DEVICE_CUDA_FAMILY_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "device/common/request.h"

struct pst_cuda_kernel {
    struct pst_kernel base; /* first */
    struct pst_op_request request;
    const struct pst_cuda_family *family;
    void *state; /* of the family: products, tables */
};

typedef void pst_cuda_run(const struct pst_cuda_kernel *kernel, const struct pst_call *call);

struct pst_cuda_family {
    /* Returns true if it can make this kernel; NULL: it makes all. Other kernels use the simple
       family. */
    bool (*serves)(const struct pst_op_request *request);
    /* Bytes of workspace; NULL: none. Pure. */
    uint64_t (*workspace)(const struct pst_op_request *request);
    /* Optional; finish() also runs after a failed init(), on what that has left. */
    pst_status (*init)(struct pst_cuda_kernel *kernel, struct pst_error *err);
    void (*finish)(struct pst_cuda_kernel *kernel);
    pst_cuda_run *run[3]; /* NULL: nothing to do */
};

extern const struct pst_cuda_family pst_cuda_embedding_family, pst_cuda_linear_family,
    pst_cuda_layernorm_family, pst_cuda_attention_family, pst_cuda_add_family,
    pst_cuda_dropout_family, pst_cuda_act_family, pst_cuda_cross_entropy_family,
    pst_cuda_conv2d_family, pst_cuda_batchnorm_family, pst_cuda_maxpool2d_family,
    pst_cuda_avgpool_family, pst_cuda_concat_family, pst_cuda_mse_family, pst_cuda_avgpool2d_family,
    pst_cuda_shift2d_family, pst_cuda_parameter_family, pst_cuda_constant_family,
    pst_cuda_map_family, pst_cuda_reduce_family, pst_cuda_softmax_family, pst_cuda_matmul_family,
    pst_cuda_reshape_family, pst_cuda_strided_family, pst_cuda_gather_family, pst_cuda_glu_family,
    pst_cuda_rotary_family, pst_cuda_router_family, pst_cuda_experts_family;

#define PST_CUDA_RUN(name)                                                                         \
    static void name(const struct pst_cuda_kernel *k, const struct pst_call *call)

/* compile.c. The W of families whose B finds the parameters' gradients on its way. */
pst_cuda_run pst_cuda_copy_scratch;
cudaStream_t pst_cuda_stream(const struct pst_op_request *request);

/* norm.cu. The forward call of a norm together with that of the sum of two before it; false:
   nothing was done. */
bool pst_cuda_norm_of_sum(const struct pst_cuda_kernel *kernel, const struct pst_call *call,
                          const struct pst_call *sum);

/* A piece of a workspace, aligned for every use; *used grows. base may be NULL, to measure. */
static inline void *pst_cuda_carve(void *base, uint64_t *used, uint64_t bytes)
{
    void *piece = base == NULL ? NULL : (char *)base + *used;

    *used += (bytes + 255) / 256 * 256;
    return piece;
}

static inline bool pst_cuda_bf16(const struct pst_op_request *request)
{
    return request->dtype == PST_BF16;
}

/* graphs.c: where kernels find what changes between launches of a graph. Asks for it to be written
   where it is not there yet and nothing is captured. */
const uint64_t *pst_cuda_first_sample(struct pst_device *device, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
