/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm and root mean square norm over rows; a block has a row. B finds the gradients of the
 * parameters on its way. Long sums are double, as in
 * the plain C kernels.
 */
#include "device/cuda/launch.h"

#define CHUNK 64u /* rows that one thread adds up */

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

/* Rows of x, and what the kernels of all passes ask for. */
struct norm {
    bool rms, bf16;
    uint64_t rows, n;
    cudaStream_t stream;
};

static struct norm norm_of(const struct pst_op_request *r)
{
    const struct pst_tensor *x = request_in(r, 0);
    struct norm norm;

    norm.rms = r->op->kind == PST_OP_RMSNORM;
    norm.bf16 = pst_cuda_bf16(r);
    norm.rows = request_rows(r, x);
    norm.n = request_columns(x);
    norm.stream = pst_cuda_stream(r);
    return norm;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct pst_tensor *x = request_in(r, 0);
    const uint64_t chunks = (request_rows(r, x) + CHUNK - 1) / CHUNK;

    return r->pass == PST_KERNEL_B ? 2 * sizeof(float) * chunks * request_columns(x) : 0;
}

PST_CUDA_RUN(norm_f)
{
    const struct norm m = norm_of(&k->request);
    const float *gain = (const float *)call->p[0];
    const float *bias = m.rms ? NULL : (const float *)call->p[1];
    float *means = m.rms ? NULL : (float *)call->y[1], *rstds = (float *)call->y[m.rms ? 1 : 2];

    PST_TYPED(m.bf16, PST_LAUNCH_MEETING(norm_kernel<S>, pst_blocks_each(m.rows), m.stream, m.rms,
                                         (S *)call->y[0], (const S *)call->x[0], gain, bias,
                                         k->request.op->eps, m.rows, m.n, means, rstds));
}

PST_CUDA_RUN(norm_b)
{
    const struct norm m = norm_of(&k->request);
    const float *means = m.rms ? NULL : (const float *)call->y[1];
    const float *rstds = (const float *)call->y[m.rms ? 1 : 2];
    const uint64_t chunks = (m.rows + CHUNK - 1) / CHUNK;
    float *partial = (float *)call->workspace, *other = partial + chunks * m.n;
    void *dx = request_operand(call->dx, 0), *add = request_operand(call->add, 0);

    PST_TYPED(m.bf16, PST_LAUNCH(norm_params_kernel<S>, pst_blocks(chunks * m.n), m.stream, m.rms,
                                 partial, other, (const S *)call->dy, (const S *)call->x[0], means,
                                 rstds, m.rows, m.n));
    pst_cuda_column_end(m.stream, (float *)call->z[0], partial, chunks, m.n);
    if (!m.rms) {
        pst_cuda_column_end(m.stream, (float *)call->z[1], other, chunks, m.n);
    }
    if (dx != NULL) {
        PST_TYPED(m.bf16,
                  PST_LAUNCH_MEETING(norm_dx_kernel<S>, pst_blocks_each(m.rows), m.stream, m.rms,
                                     (S *)dx, (const S *)add, (const S *)call->dy,
                                     (const S *)call->x[0],
                                     (const float *)request_operand(call->p, 0), means, rstds,
                                     m.rows, m.n));
    }
}

const struct pst_cuda_family pst_cuda_layernorm_family = {
    NULL, workspace, NULL, NULL, {norm_f, norm_b, pst_cuda_copy_scratch}};
