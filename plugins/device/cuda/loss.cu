/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax with cross-entropy, and mean squared differences. A block has a row of logits, then a
 * sample.
 */
#include "device/cuda/launch.h"

#include <float.h>
#include <math_constants.h>

#define AT_ONCE(S) (16 / (unsigned)sizeof(S))

/* A row by a block: W elements at once where they start at a multiple of 16 bytes, which rows do
   only if their length is one; the few before and after those one by one. */
struct pieces {
    uint64_t first, end, one; /* one: an element before or after them; not in the row: none */
};

template <unsigned W> __device__ static inline struct pieces pieces_of(uint64_t row, uint64_t n)
{
    const uint64_t lacking = (W - row * n % W) % W, head = lacking < n ? lacking : n;
    const uint64_t wide = (n - head) / W * W;
    struct pieces p;

    static_assert(2 * W <= PST_THREADS, "a thread for each of them");
    p.first = head + threadIdx.x * W;
    p.end = head + wide;
    p.one = threadIdx.x < head ? threadIdx.x : threadIdx.x + wide;
    return p;
}

__device__ static inline float exp_from(float value, float from)
{
    return exp2f((value - from) * (float)M_LOG2E);
}

/* Some more for the largest value so far and the sum of exponentials relative to it (Milakov and
   Gimelshein, "Online normalizer calculation for softmax", 2018). NaN is left to the sum. */
template <unsigned W, class S>
__device__ static inline void take(const S *at, float *most, float *sum, float *plain)
{
    const pst_some<S, W> some = pst_read<W>(at);
    const float before = *most;
    float values[W], summed[W];

    for (unsigned k = 0; k < W; k++) {
        values[k] = pst_load(some.v[k]);
        *most = fmaxf(*most, values[k]);
    }
    for (unsigned k = 0; k < W; k++) {
        summed[k] = values[k];
    }
    *plain += pst_tree_sum(summed);
    for (unsigned k = 0; k < W; k++) {
        values[k] = exp_from(values[k], *most);
    }
    *sum = *sum * exp_from(before, *most) + pst_tree_sum(values);
}

/* The parameters of cross-entropy (graph.h). */
struct terms {
    float smoothing, z_loss;
};

/* lse NULL: not kept. Rows with target -1 count nothing; with one that is no class they are NaN. */
/* mean: of the logits. */
__device__ static inline float row_loss(float logit, float log_sum, float mean, struct terms terms)
{
    float loss = log_sum - logit;

    if (terms.smoothing > 0) {
        loss += terms.smoothing * (logit - mean);
    }
    return terms.z_loss > 0 ? loss + terms.z_loss * log_sum * log_sum : loss;
}

/* Targets of a sample; over > 0: with a number after them (request_counted). */
struct targets {
    const int32_t *at;
    uint64_t rows, stride;
    double over;
};

__device__ static inline int32_t target_of(struct targets targets, uint64_t row)
{
    return targets.at[row / targets.rows * targets.stride + row % targets.rows];
}

template <class S>
__global__ void cross_entropy_kernel(float *row_losses, float *lse, const S *logits,
                                     struct targets targets, uint64_t rows, uint64_t classes,
                                     struct terms terms)
{
    PST_EACH_BLOCK(row, rows)
    {
        const S *at = logits + row * classes;
        const struct pieces p = pieces_of<AT_ONCE(S)>(row, classes);
        float most = -FLT_MAX, sum = 0, largest, log_sum; /* -inf - -inf would be NaN */
        float plain = 0;

        for (uint64_t c = p.first; c < p.end; c += PST_THREADS * AT_ONCE(S)) {
            take<AT_ONCE(S)>(at + c, &most, &sum, &plain);
        }
        if (p.one < classes) {
            take<1>(at + p.one, &most, &sum, &plain);
        }
        largest = pst_block_max(most);
        log_sum = largest + logf(pst_block_sum(sum * exp_from(most, largest)));
        plain = terms.smoothing > 0 ? pst_block_sum(plain) : 0;
        if (threadIdx.x == 0) {
            const int32_t target = target_of(targets, row);

            if (lse != NULL) {
                lse[row] = log_sum;
            }
            row_losses[row] = target < 0                   ? 0
                              : (uint64_t)target < classes ? row_loss(pst_load(at[target]), log_sum,
                                                                      plain / (float)classes, terms)
                                                           : CUDART_NAN_F;
        }
    }
}

/* How many rows of a sample are not ignored; for all threads of the block. */
__device__ static double counted_rows(struct targets targets, uint64_t sample)
{
    const int32_t *at = targets.at + sample * targets.stride;
    double counted = 0;

    if (targets.over > 0) {
        return at[targets.rows] / targets.over;
    }
    PST_EACH_THREAD(r, targets.rows)
    {
        counted += at[r] >= 0;
    }
    return pst_block_sum(counted);
}

__global__ void sample_loss_kernel(float *losses, const float *row_losses, struct targets targets,
                                   uint64_t samples)
{
    PST_EACH_BLOCK(sample, samples)
    {
        const double counted = counted_rows(targets, sample);
        double sum = 0;

        PST_EACH_THREAD(r, targets.rows)
        {
            sum += (double)row_losses[sample * targets.rows + r];
        }
        sum = pst_block_sum(sum);
        if (threadIdx.x == 0) {
            losses[sample] = counted == 0 ? 0 : (float)(sum / counted);
        }
    }
}

__global__ void sample_scale_kernel(float *scales, struct targets targets, float scale,
                                    uint64_t samples)
{
    PST_EACH_BLOCK(sample, samples)
    {
        const double counted = counted_rows(targets, sample);

        if (threadIdx.x == 0) {
            scales[sample] = scale / (float)counted;
        }
    }
}

/* (softmax gain - shared - one) scale, `one` at the target; 0 where the row is not counted. */
struct slope {
    int64_t target;
    float log_sum, scale, gain, one, shared;
};

/* The W from c on. */
template <unsigned W, class S>
__device__ static inline void put_slopes(S *dx, const S *logits, uint64_t c, struct slope row)
{
    const int64_t target = row.target - (int64_t)c;
    pst_some<S, W> some = pst_read<W>(logits + c);
    float values[W];

    for (unsigned k = 0; k < W; k++) {
        values[k] = exp_from(pst_load(some.v[k]), row.log_sum) * row.gain - row.shared;
    }
    if (target >= 0 && target < W) {
        for (unsigned k = 0; k < W; k++) {
            values[k] -= k == target ? row.one : 0.0f;
        }
    }
    for (unsigned k = 0; k < W; k++) {
        pst_store(&some.v[k], row.target < 0 ? 0 : values[k] * row.scale);
    }
    pst_write<W>(dx + c, some);
}

template <class S>
__global__ void cross_entropy_back_kernel(S *dx, const S *logits, struct targets targets,
                                          const float *lse, const float *scales, uint64_t rows,
                                          uint64_t classes, struct terms terms)
{
    PST_EACH_BLOCK(row, rows)
    {
        const S *at = logits + row * classes;
        S *to = dx + row * classes;
        const struct pieces p = pieces_of<AT_ONCE(S)>(row, classes);
        const struct slope slope = {target_of(targets, row),    lse[row],
                                    scales[row / targets.rows], 1 + 2 * terms.z_loss * lse[row],
                                    1 - terms.smoothing,        terms.smoothing / (float)classes};

        for (uint64_t c = p.first; c < p.end; c += PST_THREADS * AT_ONCE(S)) {
            put_slopes<AT_ONCE(S)>(to, at, c, slope);
        }
        if (p.one < classes) {
            put_slopes<1>(to, at, p.one, slope);
        }
    }
}

template <class S>
__global__ void mse_kernel(float *losses, const S *x, const S *targets, bool bce, uint64_t samples,
                           uint64_t n)
{
    PST_EACH_BLOCK(sample, samples)
    {
        double sum = 0;

        PST_EACH_THREAD(i, n)
        {
            const float at = pst_load(x[sample * n + i]);
            const float target = pst_load(targets[sample * n + i]), d = at - target;

            sum += bce ? (double)((at > 0 ? at : 0) - at * target + log1pf(expf(-fabsf(at))))
                       : (double)d * (double)d;
        }
        sum = pst_block_sum(sum);
        if (threadIdx.x == 0) {
            losses[sample] = (float)(sum / (double)n);
        }
    }
}

template <class S>
__global__ void mse_back_kernel(S *dx, const S *x, const S *targets, bool bce, float factor,
                                uint64_t n)
{
    PST_EACH(i, n)
    {
        const float at = pst_load(x[i]), found = bce ? 1 / (1 + expf(-at)) : at;

        pst_store(&dx[i], factor * (found - pst_load(targets[i])));
    }
}

/* Rows of a sample. */
static uint64_t rows_of(const struct pst_op_request *r)
{
    return request_in(r, 0)->elems / request_columns(request_in(r, 0));
}

/* F: a loss per row. B: a factor per sample. */
static uint64_t workspace(const struct pst_op_request *r)
{
    return r->samples * (r->pass == PST_KERNEL_F ? rows_of(r) : 1) * sizeof(float);
}

static struct targets targets_of(const struct pst_op_request *r, const struct pst_call *call)
{
    const struct targets targets = {(const int32_t *)call->x[1], rows_of(r),
                                    request_in(r, 1)->elems,
                                    (double)pst_graph_counts_over(r->graph)};

    return targets;
}

/* F without training reports the cross-entropy alone. */
static struct terms terms_of(const struct pst_op_request *r, const struct pst_call *call)
{
    const bool plain = r->pass == PST_KERNEL_F && (call->flags & PST_CALL_TRAINING) == 0;
    const struct terms terms = {plain ? 0 : r->op->smoothing, plain ? 0 : r->op->z_loss};

    return terms;
}

PST_CUDA_RUN(cross_entropy_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t samples = r->samples, all = samples * rows_of(r);
    const struct targets targets = targets_of(r, call);
    float *row_losses = (float *)call->workspace;
    cudaStream_t stream = pst_cuda_stream(r);

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(cross_entropy_kernel<S>, pst_blocks_each(all), stream, row_losses,
                                 (float *)call->y[1], (const S *)call->x[0], targets, all,
                                 request_columns(request_in(r, 0)), terms_of(r, call)));
    PST_LAUNCH_MEETING(sample_loss_kernel, pst_blocks_each(samples), stream, (float *)call->y[0],
                       (const float *)row_losses, targets, samples);
}

PST_CUDA_RUN(cross_entropy_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t samples = r->samples, rows = samples * rows_of(r);
    const struct targets targets = targets_of(r, call);
    float *scales = (float *)call->workspace;
    void *dx = request_operand(call->dx, 0);
    cudaStream_t stream = pst_cuda_stream(r);

    if (dx == NULL) {
        return;
    }
    PST_LAUNCH_MEETING(sample_scale_kernel, pst_blocks_each(samples), stream, scales, targets,
                       call->scale, samples);
    PST_TYPED(pst_cuda_bf16(r), PST_LAUNCH(cross_entropy_back_kernel<S>, pst_blocks_each(rows),
                                           stream, (S *)dx, (const S *)call->x[0], targets,
                                           (const float *)call->y[1], (const float *)scales, rows,
                                           request_columns(request_in(r, 0)), terms_of(r, call)));
}

PST_CUDA_RUN(mse_f)
{
    const struct pst_op_request *r = &k->request;

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(mse_kernel<S>, pst_blocks_each(r->samples), pst_cuda_stream(r),
                                 (float *)call->y[0], (const S *)call->x[0], (const S *)call->x[1],
                                 r->op->kind == PST_OP_BCE, (uint64_t)r->samples,
                                 request_in(r, 0)->elems));
}

PST_CUDA_RUN(mse_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_in(r, 0)->elems;
    const bool bce = r->op->kind == PST_OP_BCE;
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(mse_back_kernel<S>, pst_blocks(r->samples * n), pst_cuda_stream(r),
                             (S *)dx, (const S *)call->x[0], (const S *)call->x[1], bce,
                             (bce ? 1 : 2) * call->scale / (float)n, r->samples * n));
    }
}

const struct pst_cuda_family pst_cuda_cross_entropy_family = {
    NULL, workspace, NULL, NULL, {cross_entropy_f, cross_entropy_b, NULL}};
const struct pst_cuda_family pst_cuda_mse_family = {NULL, NULL, NULL, NULL, {mse_f, mse_b, NULL}};
