/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax with cross-entropy, and mean squared differences. A block has a row of logits, then a
 * sample.
 */
#include "device/cuda/launch.h"

#include <math_constants.h>

/* lse NULL: not kept. Rows with target -1 count nothing; with one that is no class they are NaN. */
template <class S>
__global__ void cross_entropy_kernel(float *row_losses, float *lse, const S *logits,
                                     const int32_t *targets, uint64_t rows, uint64_t classes)
{
    PST_EACH_BLOCK(row, rows)
    {
        const S *at = logits + row * classes;
        float most = -CUDART_INF_F, log_sum;
        double sum = 0;

        PST_EACH_THREAD(c, classes)
        {
            const float value = pst_load(at[c]);

            most = value > most || value != value ? value : most;
        }
        most = pst_block_max(most);
        PST_EACH_THREAD(c, classes)
        {
            sum += (double)expf(pst_load(at[c]) - most);
        }
        log_sum = most + (float)log(pst_block_sum(sum));
        if (threadIdx.x == 0) {
            const int32_t target = targets[row];

            if (lse != NULL) {
                lse[row] = log_sum;
            }
            row_losses[row] = target < 0                   ? 0
                              : (uint64_t)target < classes ? log_sum - pst_load(at[target])
                                                           : CUDART_NAN_F;
        }
    }
}

/* How many rows of a sample are not ignored; for all threads of the block. */
__device__ static double counted_rows(const int32_t *targets, uint64_t rows)
{
    double counted = 0;

    PST_EACH_THREAD(r, rows)
    {
        counted += targets[r] >= 0;
    }
    return pst_block_sum(counted);
}

__global__ void sample_loss_kernel(float *losses, const float *row_losses, const int32_t *targets,
                                   uint64_t samples, uint64_t rows)
{
    PST_EACH_BLOCK(sample, samples)
    {
        const double counted = counted_rows(targets + sample * rows, rows);
        double sum = 0;

        PST_EACH_THREAD(r, rows)
        {
            sum += (double)row_losses[sample * rows + r];
        }
        sum = pst_block_sum(sum);
        if (threadIdx.x == 0) {
            losses[sample] = counted == 0 ? 0 : (float)(sum / counted);
        }
    }
}

__global__ void sample_scale_kernel(float *scales, const int32_t *targets, float scale,
                                    uint64_t samples, uint64_t rows)
{
    PST_EACH_BLOCK(sample, samples)
    {
        const double counted = counted_rows(targets + sample * rows, rows);

        if (threadIdx.x == 0) {
            scales[sample] = scale / (float)counted;
        }
    }
}

/* classes: a multiple of W. */
template <class S, unsigned W>
__global__ void cross_entropy_back_kernel(S *dx, const S *logits, const int32_t *targets,
                                          const float *lse, const float *scales, uint64_t samples,
                                          uint64_t rows, uint64_t classes)
{
    const uint64_t parts = classes / W;

    PST_EACH(i, samples * rows * parts)
    {
        const uint64_t row = i / parts, c = i % parts * W;
        const int32_t target = targets[row];
        const float scale = scales[row / rows], sum = lse[row];
        pst_some<S, W> some = pst_read<W>(logits + row * classes + c);

        for (unsigned k = 0; k < W; k++) {
            float g = 0;

            if (target >= 0) {
                g = expf(pst_load(some.v[k]) - sum);
                g = (g - ((uint64_t)target == c + k ? 1.0f : 0.0f)) * scale;
            }
            pst_store(&some.v[k], g);
        }
        pst_write<W>(dx + row * classes + c, some);
    }
}

template <class S>
__global__ void mse_kernel(float *losses, const S *x, const S *targets, uint64_t samples,
                           uint64_t n)
{
    PST_EACH_BLOCK(sample, samples)
    {
        double sum = 0;

        PST_EACH_THREAD(i, n)
        {
            const float d = pst_load(x[sample * n + i]) - pst_load(targets[sample * n + i]);

            sum += (double)d * (double)d;
        }
        sum = pst_block_sum(sum);
        if (threadIdx.x == 0) {
            losses[sample] = (float)(sum / (double)n);
        }
    }
}

template <class S>
__global__ void mse_back_kernel(S *dx, const S *x, const S *targets, float factor, uint64_t n)
{
    PST_EACH(i, n)
    {
        pst_store(&dx[i], factor * (pst_load(x[i]) - pst_load(targets[i])));
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

PST_CUDA_RUN(cross_entropy_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t samples = r->samples, rows = rows_of(r), all = samples * rows;
    const int32_t *targets = (const int32_t *)call->x[1];
    float *row_losses = (float *)call->workspace;
    cudaStream_t stream = pst_cuda_stream(r);

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(cross_entropy_kernel<S>, pst_blocks_each(all), stream, row_losses,
                                 (float *)call->y[1], (const S *)call->x[0], targets, all,
                                 request_columns(request_in(r, 0))));
    PST_LAUNCH_MEETING(sample_loss_kernel, pst_blocks_each(samples), stream, (float *)call->y[0],
                       (const float *)row_losses, targets, samples, rows);
}

PST_CUDA_RUN(cross_entropy_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t samples = r->samples, rows = rows_of(r);
    const uint64_t classes = request_columns(request_in(r, 0));
    const int32_t *targets = (const int32_t *)call->x[1];
    float *scales = (float *)call->workspace;
    void *dx = request_operand(call->dx, 0);
    cudaStream_t stream = pst_cuda_stream(r);

    if (dx == NULL) {
        return;
    }
    PST_LAUNCH_MEETING(sample_scale_kernel, pst_blocks_each(samples), stream, scales, targets,
                       call->scale, samples, rows);
    PST_TYPED_WIDE(pst_cuda_bf16(r), pst_is_wide(classes, dx, call->x[0], NULL),
                   PST_LAUNCH((cross_entropy_back_kernel<S, W>),
                              pst_blocks(samples * rows * classes / W), stream, (S *)dx,
                              (const S *)call->x[0], targets, (const float *)call->y[1],
                              (const float *)scales, samples, rows, classes));
}

PST_CUDA_RUN(mse_f)
{
    const struct pst_op_request *r = &k->request;

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(mse_kernel<S>, pst_blocks_each(r->samples), pst_cuda_stream(r),
                                 (float *)call->y[0], (const S *)call->x[0], (const S *)call->x[1],
                                 (uint64_t)r->samples, request_in(r, 0)->elems));
}

PST_CUDA_RUN(mse_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_in(r, 0)->elems;
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(mse_back_kernel<S>, pst_blocks(r->samples * n), pst_cuda_stream(r),
                             (S *)dx, (const S *)call->x[0], (const S *)call->x[1],
                             2 * call->scale / (float)n, r->samples * n));
    }
}

const struct pst_cuda_family pst_cuda_cross_entropy_family = {
    NULL, workspace, NULL, NULL, {cross_entropy_f, cross_entropy_b, NULL}};
const struct pst_cuda_family pst_cuda_mse_family = {NULL, NULL, NULL, NULL, {mse_f, mse_b, NULL}};
