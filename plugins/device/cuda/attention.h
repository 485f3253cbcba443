/* SPDX-License-Identifier: Apache-2.0
 *
 * Where queries, keys and values lie in the operands of attention: for the simple kernels and for
 * cuDNN's.
 */
#ifndef PST_DEVICE_CUDA_ATTENTION_H
#define PST_DEVICE_CUDA_ATTENTION_H

#include "cuda.h"

/* Queries of a sample, and its keys, in x or dx; NULL where there is no such operand. */
void *pst_cuda_queries(const struct pst_op_request *request, const struct pst_heads *heads,
                       void *const *operands, uint64_t sample);
void *pst_cuda_keys(const struct pst_op_request *request, const struct pst_heads *heads,
                    void *const *operands, uint64_t sample);

/* The values, which stand after the keys in each row. */
static inline void *pst_cuda_values(const struct pst_op_request *request,
                                    const struct pst_heads *heads, const void *keys)
{
    return pst_cuda_at(request, keys, heads->v_at - heads->k_at);
}

#endif
