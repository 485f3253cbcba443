/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm and root mean square norm over rows; a block has a row. Long sums are double, as in
 * the plain C kernels.
 */
#include "device/cuda/launch.h"

#define CHUNK 64u /* rows that one thread adds up; as for the sums of columns */

template <class S>
__global__ void norm_kernel(bool rms, S *y, const S *x, const float *gain, const float *bias,
                            float eps, uint64_t rows, uint64_t n, float *means, float *rstds)
{
    PST_EACH_BLOCK(row, rows)
    {
        const S *at = x + row * n;
        double mean = 0, squares = 0;
        float m, rstd;

        if (!rms) {
            PST_EACH_THREAD(c, n)
            {
                mean += (double)pst_load(at[c]);
            }
            mean = pst_block_sum(mean) / (double)n;
        }
        PST_EACH_THREAD(c, n)
        {
            const double centred = (double)pst_load(at[c]) - mean;

            squares += centred * centred;
        }
        squares = pst_block_sum(squares);
        m = (float)mean;
        rstd = (float)(1 / sqrt(squares / (double)n + (double)eps));
        PST_EACH_THREAD(c, n)
        {
            const float value = (pst_load(at[c]) - m) * rstd * gain[c];

            pst_store(&y[row * n + c], rms ? value : value + bias[c]);
        }
        if (threadIdx.x == 0 && rstds != NULL) {
            rstds[row] = rstd;
            if (!rms) {
                means[row] = m;
            }
        }
    }
}

/* rstd (g - mean(g) - xhat mean(g xhat)) with g = dy gain; without the first mean where rms. */
template <class S>
__global__ void norm_dx_kernel(bool rms, S *dx, const S *add, const S *dy, const S *x,
                               const float *gain, const float *means, const float *rstds,
                               uint64_t rows, uint64_t n)
{
    PST_EACH_BLOCK(row, rows)
    {
        const uint64_t at = row * n;
        const float m = rms ? 0 : means[row], rstd = rstds[row];
        double sum = 0, projection = 0;

        PST_EACH_THREAD(c, n)
        {
            const double g = (double)pst_load(dy[at + c]) * (double)gain[c];

            sum += g;
            projection += g * (double)((pst_load(x[at + c]) - m) * rstd);
        }
        sum = rms ? 0 : pst_block_sum(sum) / (double)n;
        projection = pst_block_sum(projection) / (double)n;
        PST_EACH_THREAD(c, n)
        {
            const float xhat = (pst_load(x[at + c]) - m) * rstd;
            const float g = pst_load(dy[at + c]) * gain[c];

            pst_store_gradient(&dx[at + c], rstd * (g - (float)sum - xhat * (float)projection),
                               add == NULL ? (const S *)NULL : &add[at + c]);
        }
    }
}

template <class S>
__global__ void norm_params_kernel(bool rms, float *dgain, float *dbias, const S *dy, const S *x,
                                   const float *means, const float *rstds, uint64_t rows,
                                   uint64_t n)
{
    const uint64_t chunks = (rows + CHUNK - 1) / CHUNK;

    PST_EACH(i, chunks * n)
    {
        const uint64_t first = i / n * CHUNK, c = i % n;
        const uint64_t end = first + CHUNK < rows ? first + CHUNK : rows;
        float gain = 0, bias = 0;

        for (uint64_t r = first; r < end; r++) {
            const float g = pst_load(dy[r * n + c]);

            gain += g * ((pst_load(x[r * n + c]) - (rms ? 0 : means[r])) * rstds[r]);
            bias += g;
        }
        dgain[i] = gain;
        if (!rms) {
            dbias[i] = bias;
        }
    }
}

void pst_cuda_norm(cudaStream_t stream, bool bf16, bool rms, void *y, const void *x,
                   const float *gain, const float *bias, float eps, uint64_t rows, uint64_t n,
                   float *means, float *rstds)
{
    PST_TYPED(bf16, PST_LAUNCH_MEETING(norm_kernel<S>, pst_blocks_each(rows), stream, rms, (S *)y,
                                       (const S *)x, gain, bias, eps, rows, n, means, rstds));
}

void pst_cuda_norm_dx(cudaStream_t stream, bool bf16, bool rms, void *dx, const void *add,
                      const void *dy, const void *x, const float *gain, const float *means,
                      const float *rstds, uint64_t rows, uint64_t n)
{
    PST_TYPED(bf16, PST_LAUNCH_MEETING(norm_dx_kernel<S>, pst_blocks_each(rows), stream, rms,
                                       (S *)dx, (const S *)add, (const S *)dy, (const S *)x, gain,
                                       means, rstds, rows, n));
}

void pst_cuda_norm_params(cudaStream_t stream, bool bf16, bool rms, float *dgain, float *dbias,
                          const void *dy, const void *x, const float *means, const float *rstds,
                          uint64_t rows, uint64_t n, float *partial)
{
    const uint64_t chunks = (rows + CHUNK - 1) / CHUNK;
    float *other = partial + chunks * n;

    PST_TYPED(bf16, PST_LAUNCH(norm_params_kernel<S>, pst_blocks(chunks * n), stream, rms, partial,
                               other, (const S *)dy, (const S *)x, means, rstds, rows, n));
    pst_cuda_column_end(stream, dgain, partial, chunks, n);
    if (!rms) {
        pst_cuda_column_end(stream, dbias, other, chunks, n);
    }
}
