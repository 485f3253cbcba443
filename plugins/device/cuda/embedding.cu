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

struct embedding {
    uint64_t tokens;    /* of the micro-batch */
    uint64_t positions; /* tokens of a sample */
    uint64_t summed;    /* tokens whose rows make one of the result */
    uint64_t entries, columns;
};

__device__ static bool is_entry(const struct embedding *shape, int32_t id)
{
    return id >= 0 && (uint64_t)id < shape->entries;
}

template <class S>
__global__ void embedding_kernel(struct embedding shape, S *y, const int32_t *ids,
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

__global__ void link_kernel(struct embedding shape, const int32_t *ids, int32_t *next,
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
__global__ void table_kernel(struct embedding shape, float *dtable, const S *dy,
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
__global__ void places_kernel(struct embedding shape, float *dplaces, const S *dy)
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

static struct embedding shape_of(const struct pst_op_request *r)
{
    const struct pst_parameter *table = request_parameter(r, 0);
    struct embedding shape;

    shape.positions = request_in(r, 0)->elems;
    shape.tokens = r->samples * shape.positions;
    shape.columns = table->dims[1];
    shape.entries = table->elems / shape.columns;
    shape.summed = r->op->bag == PST_BAG_SUM ? shape.positions : 1;
    return shape;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct embedding shape = shape_of(r);

    return r->pass == PST_KERNEL_W ? (shape.tokens + shape.entries) * sizeof(int32_t) : 0;
}

/* Lists of tokens hold 32-bit numbers. */
static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    if (shape_of(&k->request).tokens > INT32_MAX / 2) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "device cuda: too many tokens in a micro-batch");
    }
    return PST_OK;
}

PST_CUDA_RUN(embedding_f)
{
    const struct pst_op_request *r = &k->request;
    const struct embedding shape = shape_of(r);

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH(embedding_kernel<S>, pst_blocks(shape.tokens / shape.summed * shape.columns),
                         pst_cuda_stream(r), shape, (S *)call->y[0], (const int32_t *)call->x[0],
                         (const S *)call->p[0], (const S *)request_param(r, call, 1)));
}

PST_CUDA_RUN(embedding_w)
{
    const struct pst_op_request *r = &k->request;
    const struct embedding shape = shape_of(r);
    cudaStream_t stream = pst_cuda_stream(r);
    float *dtable = (float *)request_dp(r, call, 0), *dplaces = (float *)request_dp(r, call, 1);
    int32_t *next = (int32_t *)call->workspace, *first = next + shape.tokens;

    if (dtable != NULL) {
        cudaMemsetAsync(first, 0x7F, shape.entries * sizeof *first, stream);
        PST_LAUNCH(link_kernel, pst_blocks(shape.tokens), stream, shape,
                   (const int32_t *)call->x[0], next, first);
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(table_kernel<S>, pst_blocks(shape.entries * shape.columns), stream,
                             shape, dtable, (const S *)call->dy, (const int32_t *)next,
                             (const int32_t *)first));
    }
    if (dplaces != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(places_kernel<S>, pst_blocks(shape.positions * shape.columns), stream,
                             shape, dplaces, (const S *)call->dy));
    }
}

const struct pst_cuda_family pst_cuda_embedding_family = {
    NULL, workspace, init, NULL, {embedding_f, NULL, embedding_w}};
