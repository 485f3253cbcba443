/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm over rows of n channels. Sums over rows are made per chunk of rows and channel, in
 * double, then over the chunks in order.
 */
#include "device/cuda/launch.h"

#define CHUNK 64u

/* Per channel, in front of the scratch; the chunks' sums follow. */
struct channel_sums {
    double *mean, *var;    /* forward: of the micro-batch, or running; backward: dh, dh xhat */
    double *first, *other; /* [chunks, n] */
};

static uint64_t chunks_of(uint64_t rows)
{
    return (rows + CHUNK - 1) / CHUNK;
}

static struct channel_sums sums_in(void *scratch, uint64_t rows, uint64_t n)
{
    struct channel_sums sums;

    sums.mean = (double *)scratch;
    sums.var = sums.mean + n;
    sums.first = sums.var + n;
    sums.other = sums.first + chunks_of(rows) * n;
    return sums;
}

/* Sums of x or, where mean is not NULL, of the squares of its distance from that. */
template <class S>
__global__ void moment_kernel(double *sums, const S *x, const double *mean, uint64_t rows,
                              uint64_t n)
{
    PST_EACH(i, (rows + CHUNK - 1) / CHUNK * n)
    {
        const uint64_t first = i / n * CHUNK, c = i % n;
        const uint64_t end = first + CHUNK < rows ? first + CHUNK : rows;
        double sum = 0;

        for (uint64_t r = first; r < end; r++) {
            const double value = (double)pst_load(x[r * n + c]);

            sum += mean == NULL ? value : (value - mean[c]) * (value - mean[c]);
        }
        sums[i] = sum;
    }
}

__global__ void channel_end_kernel(double *to, const double *sums, uint64_t rows, uint64_t n,
                                   double divisor)
{
    PST_EACH_BLOCK(group, (n + PST_WIDTH - 1) / PST_WIDTH)
    {
        const uint64_t c = PST_COLUMN(group);
        const double sum = pst_column_sum(sums, (rows + CHUNK - 1) / CHUNK, n, c);

        if (PST_LANE == 0 && c < n) {
            to[c] = sum / divisor;
        }
    }
}

/* Running statistics take the unbiased variance. Outside of training they are what is used. */
__global__ void track_kernel(struct pst_cuda_channels how, double *mean, double *var,
                             float *running_mean, float *running_var, float *means, float *rstds)
{
    PST_EACH(c, how.n)
    {
        if (!how.training) {
            mean[c] = (double)running_mean[c];
            var[c] = (double)running_var[c];
        } else if (how.track) {
            const double unbiased =
                how.rows > 1 ? var[c] * ((double)how.rows / (double)(how.rows - 1)) : var[c];

            running_mean[c] = (1 - how.momentum) * running_mean[c] + how.momentum * (float)mean[c];
            running_var[c] = (1 - how.momentum) * running_var[c] + how.momentum * (float)unbiased;
        }
        if (means != NULL) {
            means[c] = (float)mean[c];
            rstds[c] = (float)(1 / sqrt(var[c] + (double)how.eps));
        }
    }
}

template <class S>
__global__ void normalize_kernel(struct pst_cuda_channels how, S *y, const S *x, const float *gain,
                                 const float *bias, const double *mean, const double *var)
{
    PST_EACH(i, how.rows * how.n)
    {
        const uint64_t c = i % how.n;
        const float rstd = (float)(1 / sqrt(var[c] + (double)how.eps));
        const float h = (pst_load(x[i]) - (float)mean[c]) * rstd * gain[c] + bias[c];

        pst_store(&y[i], how.relu && h <= 0 ? 0 : h);
    }
}

/* The gradient before the relu. */
template <class S> __device__ static float before(bool relu, const S *dy, const S *y, uint64_t i)
{
    return relu && !(pst_load(y[i]) > 0) ? 0 : pst_load(dy[i]);
}

template <class S>
__global__ void slope_kernel(struct pst_cuda_channels how, double *sums, double *projections,
                             const S *dy, const S *y, const S *x, const float *means,
                             const float *rstds)
{
    const uint64_t n = how.n;

    PST_EACH(i, (how.rows + CHUNK - 1) / CHUNK * n)
    {
        const uint64_t first = i / n * CHUNK, c = i % n;
        const uint64_t end = first + CHUNK < how.rows ? first + CHUNK : how.rows;
        double sum = 0, projection = 0;

        for (uint64_t r = first; r < end; r++) {
            const double dh = (double)before(how.relu, dy, y, r * n + c);

            sum += dh;
            projection += dh * (double)((pst_load(x[r * n + c]) - means[c]) * rstds[c]);
        }
        sums[i] = sum;
        projections[i] = projection;
    }
}

__global__ void params_kernel(float *dgain, float *dbias, const double *sum,
                              const double *projection, uint64_t n)
{
    PST_EACH(c, n)
    {
        dgain[c] = (float)projection[c];
        dbias[c] = (float)sum[c];
    }
}

template <class S>
__global__ void batchnorm_dx_kernel(struct pst_cuda_channels how, S *dx, const S *dy, const S *y,
                                    const S *x, const float *gain, const float *means,
                                    const float *rstds, const double *sum, const double *projection)
{
    PST_EACH(i, how.rows * how.n)
    {
        const uint64_t c = i % how.n;
        const float xhat = (pst_load(x[i]) - means[c]) * rstds[c];
        float g = before(how.relu, dy, y, i);

        if (how.training) { /* the statistics depend on x, too */
            g -= (float)(sum[c] / (double)how.rows) +
                 xhat * (float)(projection[c] / (double)how.rows);
        }
        pst_store(&dx[i], gain[c] * rstds[c] * g);
    }
}

uint64_t pst_cuda_batchnorm_bytes(uint64_t rows, uint64_t n)
{
    return (2 + 2 * chunks_of(rows)) * n * sizeof(double);
}

void pst_cuda_batchnorm(cudaStream_t stream, bool bf16, const struct pst_cuda_channels *how,
                        void *y, const void *x, const float *gain, const float *bias,
                        float *running_mean, float *running_var, float *means, float *rstds,
                        void *scratch)
{
    const struct channel_sums at = sums_in(scratch, how->rows, how->n);
    const uint64_t rows = how->rows, n = how->n, parts = chunks_of(rows) * n;

    if (how->training) {
        PST_TYPED(bf16, PST_LAUNCH(moment_kernel<S>, pst_blocks(parts), stream, at.first,
                                   (const S *)x, (const double *)NULL, rows, n));
        PST_LAUNCH_MEETING(channel_end_kernel, pst_blocks_each(pst_column_groups(n)), stream,
                           at.mean, at.first, rows, n, (double)rows);
        PST_TYPED(bf16, PST_LAUNCH(moment_kernel<S>, pst_blocks(parts), stream, at.first,
                                   (const S *)x, (const double *)at.mean, rows, n));
        PST_LAUNCH_MEETING(channel_end_kernel, pst_blocks_each(pst_column_groups(n)), stream,
                           at.var, at.first, rows, n, (double)rows);
    }
    PST_LAUNCH(track_kernel, pst_blocks(n), stream, *how, at.mean, at.var, running_mean,
               running_var, means, rstds);
    PST_TYPED(bf16, PST_LAUNCH(normalize_kernel<S>, pst_blocks(rows * n), stream, *how, (S *)y,
                               (const S *)x, gain, bias, at.mean, at.var));
}

void pst_cuda_batchnorm_back(cudaStream_t stream, bool bf16, const struct pst_cuda_channels *how,
                             void *dx, float *dgain, float *dbias, const void *dy, const void *y,
                             const void *x, const float *gain, const float *means,
                             const float *rstds, void *scratch)
{
    const struct channel_sums at = sums_in(scratch, how->rows, how->n);
    const uint64_t rows = how->rows, n = how->n;

    PST_TYPED(bf16,
              PST_LAUNCH(slope_kernel<S>, pst_blocks(chunks_of(rows) * n), stream, *how, at.first,
                         at.other, (const S *)dy, (const S *)y, (const S *)x, means, rstds));
    PST_LAUNCH_MEETING(channel_end_kernel, pst_blocks_each(pst_column_groups(n)), stream, at.mean,
                       at.first, rows, n, 1.0);
    PST_LAUNCH_MEETING(channel_end_kernel, pst_blocks_each(pst_column_groups(n)), stream, at.var,
                       at.other, rows, n, 1.0);
    PST_LAUNCH(params_kernel, pst_blocks(n), stream, dgain, dbias, at.mean, at.var, n);
    if (dx != NULL) {
        PST_TYPED(bf16, PST_LAUNCH(batchnorm_dx_kernel<S>, pst_blocks(rows * n), stream, *how,
                                   (S *)dx, (const S *)dy, (const S *)y, (const S *)x, gain, means,
                                   rstds, at.mean, at.var));
    }
}
