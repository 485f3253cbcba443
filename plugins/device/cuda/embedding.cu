/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a table, and their gradient. The tokens of a row are a list in ascending order: each
 * token finds the next one of its kind, and the first of them by an integer minimum. Then every
 * element of the table is the sum over its list, made by one thread. Data are not trusted: a token
 * that is out of range makes NaN and has no gradient.
 */
#include "device/cuda/launch.h"

#include <math_constants.h>

#define NOWHERE 0x7F7F7F7F /* what memset makes of 0x7F */

__device__ static bool is_entry(const struct pst_cuda_embedding *shape, int32_t id)
{
    return id >= 0 && (uint64_t)id < shape->entries;
}

template <class S>
__global__ void embedding_kernel(struct pst_cuda_embedding shape, S *y, const int32_t *ids,
                                 const S *table, const S *places)
{
    const uint64_t n = shape.columns;

    PST_EACH(i, shape.tokens / shape.summed * n)
    {
        const uint64_t r = i / n, c = i % n;
        float sum = 0;

        for (uint64_t t = r * shape.summed; t < (r + 1) * shape.summed; t++) {
            sum +=
                is_entry(&shape, ids[t]) ? pst_load(table[(uint64_t)ids[t] * n + c]) : CUDART_NAN_F;
        }
        if (places != NULL) {
            sum += pst_load(places[r % shape.positions * n + c]);
        }
        pst_store(&y[i], sum);
    }
}

__global__ void link_kernel(struct pst_cuda_embedding shape, const int32_t *ids, int32_t *next,
                            int32_t *first)
{
    PST_EACH(t, shape.tokens)
    {
        const int32_t id = ids[t];
        uint64_t other = t + 1;

        while (other < shape.tokens && ids[other] != id) {
            other++;
        }
        next[t] = other < shape.tokens ? (int32_t)other : NOWHERE;
        if (is_entry(&shape, id)) {
            atomicMin(&first[id], (int32_t)t);
        }
    }
}

template <class S>
__global__ void table_kernel(struct pst_cuda_embedding shape, float *dtable, const S *dy,
                             const int32_t *next, const int32_t *first)
{
    const uint64_t n = shape.columns;

    PST_EACH(i, shape.entries * n)
    {
        float sum = 0;

        for (int32_t t = first[i / n]; t != NOWHERE; t = next[t]) {
            sum += pst_load(dy[(uint64_t)t / shape.summed * n + i % n]);
        }
        dtable[i] = sum;
    }
}

template <class S>
__global__ void places_kernel(struct pst_cuda_embedding shape, float *dplaces, const S *dy)
{
    const uint64_t n = shape.columns;

    PST_EACH(i, shape.positions * n)
    {
        float sum = 0;

        for (uint64_t t = i / n; t < shape.tokens; t += shape.positions) {
            sum += pst_load(dy[t * n + i % n]);
        }
        dplaces[i] = sum;
    }
}

void pst_cuda_embedding(cudaStream_t stream, bool bf16, const struct pst_cuda_embedding *shape,
                        void *y, const int32_t *ids, const void *table, const void *places)
{
    const uint64_t elems = shape->tokens / shape->summed * shape->columns;

    PST_TYPED(bf16, PST_LAUNCH(embedding_kernel<S>, pst_blocks(elems), stream, *shape, (S *)y, ids,
                               (const S *)table, (const S *)places));
}

void pst_cuda_embedding_back(cudaStream_t stream, bool bf16, const struct pst_cuda_embedding *shape,
                             float *dtable, float *dplaces, const int32_t *ids, const void *dy,
                             int32_t *scratch)
{
    int32_t *next = scratch, *first = scratch + shape->tokens;

    if (dtable != NULL) {
        cudaMemsetAsync(first, 0x7F, shape->entries * sizeof *first, stream);
        PST_LAUNCH(link_kernel, pst_blocks(shape->tokens), stream, *shape, ids, next, first);
        PST_TYPED(bf16, PST_LAUNCH(table_kernel<S>, pst_blocks(shape->entries * shape->columns),
                                   stream, *shape, dtable, (const S *)dy, (const int32_t *)next,
                                   (const int32_t *)first));
    }
    if (dplaces != NULL) {
        PST_TYPED(bf16, PST_LAUNCH(places_kernel<S>, pst_blocks(shape->positions * shape->columns),
                                   stream, *shape, dplaces, (const S *)dy));
    }
}
