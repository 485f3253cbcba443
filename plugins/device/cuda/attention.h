/* SPDX-License-Identifier: Apache-2.0
 *
 * Where queries, keys and values lie in the operands of attention: for the simple kernels and for
 * cuDNN's.
 */
#ifndef PST_DEVICE_CUDA_ATTENTION_H
#define PST_DEVICE_CUDA_ATTENTION_H

#include "cuda.h"

/* In elements. Heads lie side by side in a row of y, of queries, of keys and of values. */
struct pst_cuda_heads {
    uint64_t rows, keys, columns, depth; /* columns: of y */
    uint32_t heads;
    uint64_t q_stride, kv_stride, k_at, v_at; /* from row to row; where they begin in a row */
    bool packed;                              /* all three in x[0]; else keys and values in x[1] */
    float scale;
    uint32_t n_buckets; /* 0: no bias */
};

struct pst_cuda_heads pst_cuda_heads(const struct pst_cuda_request *request);

/* Queries of a sample, and its keys, with the values `columns` elements behind, in x or dx; NULL
   where there is no such operand. */
void *pst_cuda_queries(const struct pst_cuda_request *request, const struct pst_cuda_heads *heads,
                       void *const *operands, uint64_t sample);
void *pst_cuda_keys(const struct pst_cuda_request *request, const struct pst_cuda_heads *heads,
                    void *const *operands, uint64_t sample);

#endif
