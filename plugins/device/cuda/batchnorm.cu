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

struct channels {
    uint64_t rows, n;
    float eps, momentum;
    bool relu, training, track; /* track: running statistics are updated */
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
__global__ void track_kernel(struct channels how, double *mean, double *var,
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
__global__ void normalize_kernel(struct channels how, S *y, const S *x, const float *gain,
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
__global__ void slope_kernel(struct channels how, double *sums, double *projections,
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
__global__ void batchnorm_dx_kernel(struct channels how, S *dx, const S *dy, const S *y,
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

static struct channels channels_of(const struct pst_op_request *r, uint32_t flags)
{
    const struct pst_tensor *x = request_in(r, 0);
    struct channels how;

    how.rows = request_rows(r, x);
    how.n = request_columns(x);
    how.eps = r->op->eps;
    how.momentum = r->op->momentum;
    how.relu = r->op->act == PST_ACT_RELU;
    how.training = (flags & PST_CALL_TRAINING) != 0;
    how.track = (flags & PST_CALL_REPLAY) == 0;
    return how;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct channels how = channels_of(r, 0);

    return r->pass == PST_KERNEL_W ? 0 : (2 + 2 * chunks_of(how.rows)) * how.n * sizeof(double);
}

/* to = sums of the chunks, divided. */
static void end_sums(cudaStream_t stream, const struct channels *how, double *to,
                     const double *sums, double divisor)
{
    PST_LAUNCH_MEETING(channel_end_kernel, pst_blocks_each(pst_column_groups(how->n)), stream, to,
                       sums, how->rows, how->n, divisor);
}

PST_CUDA_RUN(batchnorm_f)
{
    const struct channels how = channels_of(&k->request, call->flags);
    const struct channel_sums at = sums_in(call->workspace, how.rows, how.n);
    const bool bf16 = pst_cuda_bf16(&k->request);
    const unsigned blocks = pst_blocks(chunks_of(how.rows) * how.n);
    cudaStream_t stream = pst_cuda_stream(&k->request);

    if (how.training) {
        PST_TYPED(bf16, PST_LAUNCH(moment_kernel<S>, blocks, stream, at.first,
                                   (const S *)call->x[0], (const double *)NULL, how.rows, how.n));
        end_sums(stream, &how, at.mean, at.first, (double)how.rows);
        PST_TYPED(bf16,
                  PST_LAUNCH(moment_kernel<S>, blocks, stream, at.first, (const S *)call->x[0],
                             (const double *)at.mean, how.rows, how.n));
        end_sums(stream, &how, at.var, at.first, (double)how.rows);
    }
    PST_LAUNCH(track_kernel, pst_blocks(how.n), stream, how, at.mean, at.var, call->state[0],
               call->state[1], (float *)call->y[1], (float *)call->y[2]);
    PST_TYPED(bf16, PST_LAUNCH(normalize_kernel<S>, pst_blocks(how.rows * how.n), stream, how,
                               (S *)call->y[0], (const S *)call->x[0], (const float *)call->p[0],
                               (const float *)call->p[1], at.mean, at.var));
}

PST_CUDA_RUN(batchnorm_b)
{
    const struct channels how = channels_of(&k->request, call->flags);
    const struct channel_sums at = sums_in(call->workspace, how.rows, how.n);
    const bool bf16 = pst_cuda_bf16(&k->request);
    const float *means = (const float *)call->y[1], *rstds = (const float *)call->y[2];
    void *dx = request_operand(call->dx, 0);
    cudaStream_t stream = pst_cuda_stream(&k->request);

    PST_TYPED(bf16, PST_LAUNCH(slope_kernel<S>, pst_blocks(chunks_of(how.rows) * how.n), stream,
                               how, at.first, at.other, (const S *)call->dy, (const S *)call->y[0],
                               (const S *)call->x[0], means, rstds));
    end_sums(stream, &how, at.mean, at.first, 1.0);
    end_sums(stream, &how, at.var, at.other, 1.0);
    PST_LAUNCH(params_kernel, pst_blocks(how.n), stream, (float *)call->z[0], (float *)call->z[1],
               at.mean, at.var, how.n);
    if (dx != NULL) {
        PST_TYPED(bf16, PST_LAUNCH(batchnorm_dx_kernel<S>, pst_blocks(how.rows * how.n), stream,
                                   how, (S *)dx, (const S *)call->dy, (const S *)call->y[0],
                                   (const S *)call->x[0],
                                   (const float *)request_operand(call->p, 0), means, rstds,
                                   at.mean, at.var));
    }
}

const struct pst_cuda_family pst_cuda_batchnorm_family = {
    NULL, workspace, NULL, NULL, {batchnorm_f, batchnorm_b, pst_cuda_copy_scratch}};
