/* SPDX-License-Identifier: Apache-2.0
 *
 * The router of a mixture of experts: a warp has a token, a thread then an expert of a sample,
 * which takes tokens in their order.
 */
#include "device/cuda/launch.h"

#define NOBODY UINT32_MAX

enum { WANTED = 1, KEPT = 2 };

struct router {
    uint64_t samples, tokens, experts, chosen; /* tokens: of a sample; chosen: by each of them */
    double capacity;                           /* tokens of a sample that an expert takes */
    bool normalize;
    uint8_t *marks; /* [samples, tokens, experts] */
};

__device__ static inline uint64_t tokens_of(const struct router &r)
{
    return r.samples * r.tokens;
}

/* A token's logits with the terms of their softmax, and the sum of its chosen probabilities. */
template <class S> struct choice {
    const S *logits;
    float most, sum, chosen;
};

template <class S> __device__ static inline float probability(const choice<S> &c, uint64_t e)
{
    return expf(pst_load(c.logits[e]) - c.most) / c.sum;
}

/* For all lanes of a warp. */
template <class S>
__device__ static inline choice<S> softmax_of(const struct router &r, const S *logits)
{
    choice<S> c = {logits, pst_load(logits[0]), 0, 0};

    for (uint64_t e = threadIdx.x % PST_WARP; e < r.experts; e += PST_WARP) {
        c.most = pst_larger(c.most, pst_load(logits[e]));
    }
    c.most = pst_warp_max(c.most);
    for (uint64_t e = threadIdx.x % PST_WARP; e < r.experts; e += PST_WARP) {
        c.sum += expf(pst_load(logits[e]) - c.most);
    }
    c.sum = pst_warp_sum(c.sum);
    return c;
}

/* The greatest that has no mark, the first of equals; each lane marks its own experts. */
template <class S>
__device__ static inline float choose(const struct router &r, const choice<S> &c, uint8_t *marks)
{
    uint32_t best = NOBODY;
    float p = 0;

    for (uint64_t e = threadIdx.x % PST_WARP; e < r.experts; e += PST_WARP) {
        const float other = probability(c, e);

        if (marks[e] == 0 && (best == NOBODY || other > p)) {
            best = (uint32_t)e;
            p = other;
        }
    }
    for (unsigned width = PST_WARP / 2; width > 0; width /= 2) {
        const uint32_t e = __shfl_xor_sync(PST_ALL_LANES, best, width);
        const float other = __shfl_xor_sync(PST_ALL_LANES, p, width);

        if (e != NOBODY && (best == NOBODY || other > p || (other == p && e < best))) {
            best = e;
            p = other;
        }
    }
    if (best % PST_WARP == threadIdx.x % PST_WARP && best != NOBODY) {
        marks[best] = WANTED;
    }
    return p;
}

template <class S>
__device__ static inline choice<S> choose_all(const struct router &r, const S *x, uint64_t token)
{
    uint8_t *marks = r.marks + token * r.experts;
    choice<S> c = softmax_of(r, x + token * r.experts);

    for (uint64_t e = threadIdx.x % PST_WARP; e < r.experts; e += PST_WARP) {
        marks[e] = 0;
    }
    for (uint64_t i = 0; i < r.chosen; i++) {
        c.chosen += choose(r, c, marks);
    }
    return c;
}

/* Weights of all tokens, as if every expert took all that want it. */
template <class S> __global__ void router_kernel(struct router r, S *y, const S *x)
{
    PST_EACH_ROW(PST_WARP, token, tokens_of(r))
    {
        const choice<S> c = choose_all(r, x, token);

        for (uint64_t e = threadIdx.x % PST_WARP; e < r.experts; e += PST_WARP) {
            const float p = probability(c, e);
            const bool wanted = r.marks[token * r.experts + e] != 0;

            pst_store(&y[token * r.experts + e], !wanted ? 0 : r.normalize ? p / c.chosen : p);
        }
    }
}

/* Which tokens an expert takes: marks; weights y of the others become 0, where there is y; load
   [samples, experts], where there is: how many want it. */
template <class S> __global__ void take_kernel(struct router r, S *y, float *load)
{
    PST_EACH(i, r.samples * r.experts)
    {
        const uint64_t sample = i / r.experts, e = i % r.experts;
        uint64_t wanted = 0;

        for (uint64_t t = 0; t < r.tokens; t++) {
            const uint64_t at = (sample * r.tokens + t) * r.experts + e;

            if (r.marks[at] != 0) {
                if ((double)wanted < r.capacity) {
                    r.marks[at] |= KEPT;
                } else if (y != NULL) {
                    pst_store(&y[at], 0.0f);
                }
                wanted++;
            }
        }
        if (load != NULL) {
            load[i] = (float)wanted;
        }
    }
}

template <class S> __global__ void mark_kernel(struct router r, const S *x)
{
    PST_EACH_ROW(PST_WARP, token, tokens_of(r))
    {
        choose_all(r, x, token);
    }
}

/* The gradient of a probability: through the weights that were kept, and of the balance. */
template <class S>
__device__ static inline float slope_of(const struct router &r, const choice<S> &c, const S *dy,
                                        uint8_t mark, float mean, float balance, uint64_t e)
{
    const float g = (mark & KEPT) != 0 ? pst_load(dy[e]) : 0;

    if (!r.normalize) {
        return g + balance;
    }
    return ((mark & WANTED) != 0 ? (g - mean) / c.chosen : 0) + balance;
}

/* factor: of the load balancing loss. */
template <class S>
__global__ void router_back_kernel(struct router r, S *dx, const S *dy_all, const S *x,
                                   const float *load, float factor)
{
    PST_EACH_ROW(PST_WARP, token, tokens_of(r))
    {
        const uint64_t first = token * r.experts, lane = threadIdx.x % PST_WARP;
        const float *loads = load + token / r.tokens * r.experts;
        const uint8_t *marks = r.marks + first;
        const S *dy = dy_all + first;
        choice<S> c = softmax_of(r, x + first);
        double mean = 0, inner = 0; /* of slopes: under the weights, under all probabilities */

        for (uint64_t e = lane; e < r.experts; e += PST_WARP) {
            c.chosen += marks[e] != 0 ? probability(c, e) : 0;
        }
        c.chosen = pst_warp_sum(c.chosen);
        for (uint64_t e = lane; e < r.experts; e += PST_WARP) {
            mean += (marks[e] & KEPT) != 0
                        ? (double)pst_load(dy[e]) * (double)(probability(c, e) / c.chosen)
                        : 0;
        }
        mean = pst_warp_sum(mean);
        for (uint64_t e = lane; e < r.experts; e += PST_WARP) {
            inner += (double)probability(c, e) *
                     (double)slope_of(r, c, dy, marks[e], (float)mean, factor * loads[e], e);
        }
        inner = pst_warp_sum(inner);
        for (uint64_t e = lane; e < r.experts; e += PST_WARP) {
            const float g =
                slope_of(r, c, dy, marks[e], (float)mean, factor * loads[e], e) - (float)inner;

            pst_store(&dx[first + e], probability(c, e) * g);
        }
    }
}

static struct router router_of(const struct pst_op_request *r, void *workspace)
{
    const struct pst_tensor *x = request_in(r, 0);
    struct router shape = {};

    shape.samples = r->samples;
    shape.tokens = x->dims[0];
    shape.experts = x->dims[1];
    shape.chosen = r->op->experts_per_token;
    shape.normalize = r->op->normalize;
    shape.capacity = (double)UINT32_MAX;
    if (r->op->capacity > 0) {
        shape.capacity = ceil((double)r->op->capacity * (double)shape.tokens *
                              (double)shape.chosen / (double)shape.experts);
    }
    shape.marks = (uint8_t *)workspace;
    return shape;
}

/* Loads, in backward, stand after the marks. */
static uint64_t load_at(const struct router *r)
{
    return (r->samples * r->tokens * r->experts + 15) / 16 * 16;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct router shape = router_of(r, NULL);

    return load_at(&shape) +
           (r->pass == PST_KERNEL_B ? shape.samples * shape.experts * sizeof(float) : 0);
}

PST_CUDA_RUN(router_f)
{
    const struct pst_op_request *r = &k->request;
    const struct router shape = router_of(r, call->workspace);
    const cudaStream_t stream = pst_cuda_stream(r);
    const unsigned blocks = pst_blocks(shape.samples * shape.tokens * PST_WARP);

    PST_TYPED(pst_cuda_bf16(r), PST_LAUNCH_MEETING(router_kernel<S>, blocks, stream, shape,
                                                   (S *)call->y[0], (const S *)call->x[0]));
    if (r->op->capacity > 0) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(take_kernel<S>, pst_blocks(shape.samples * shape.experts), stream,
                             shape, (S *)call->y[0], (float *)NULL));
    }
}

PST_CUDA_RUN(router_b)
{
    const struct pst_op_request *r = &k->request;
    const struct router shape = router_of(r, call->workspace);
    const cudaStream_t stream = pst_cuda_stream(r);
    const unsigned blocks = pst_blocks(shape.samples * shape.tokens * PST_WARP);
    float *load = (float *)(void *)(shape.marks + load_at(&shape));
    const float tokens = (float)shape.tokens;
    const float factor = r->op->aux_loss * call->scale * (float)shape.experts / (tokens * tokens);
    void *dx = request_operand(call->dx, 0);

    if (dx == NULL) {
        return;
    }
    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(mark_kernel<S>, blocks, stream, shape, (const S *)call->x[0]));
    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH(take_kernel<S>, pst_blocks(shape.samples * shape.experts), stream, shape,
                         (S *)NULL, load));
    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(router_back_kernel<S>, blocks, stream, shape, (S *)dx,
                                 (const S *)call->dy, (const S *)call->x[0], load, factor));
}

const struct pst_cuda_family pst_cuda_router_family = {
    NULL, workspace, NULL, NULL, {router_f, router_b, NULL}};
