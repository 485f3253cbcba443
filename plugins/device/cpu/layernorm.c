/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm and RMS norm over the last axis. The gradients of gain and bias are summed over blocks
 * of 64 rows, then over the blocks: the same sums whatever the number of threads.
 */
#include "tile.h"

#include <string.h>

#define ROWS 64u /* of a block */

struct norm {
    const struct pst_op_request *request;
    const struct pst_call *call;
    bool rms; /* no mean, no bias */
    uint64_t n, n_rows, n_blocks;
    const float *gain, *bias;
    float *buffers; /* of tiles */
    float *grads;   /* backward: [threads][n], used where the gradient is not wanted as it is */
    float *dgains, *dbiases; /* backward: [n_blocks][n]; rms: dgains alone */
};

static bool serves(const struct pst_op_request *request)
{
    const struct pst_graph *graph = request->graph;

    for (uint32_t i = 0; i < request->op->n_param; i++) {
        if (graph->params[request->op->param[i]].dtype != PST_F32) {
            return false;
        }
    }
    return true;
}

static struct norm norm_of(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0);
    struct norm norm = {.request = request, .n = request_columns(x)};

    norm.rms = request->op->kind == PST_OP_RMSNORM;
    norm.n_rows = request_rows(request, x);
    norm.n_blocks = norm.n_rows / ROWS + (norm.n_rows % ROWS != 0);
    return norm;
}

/* Rows that a thread widens. Forward: x, y. Backward: dy, x, addend. */
#define N_BUFFERS 3u

/* Behind them in the backward pass a row of gradients per thread, then the sums of blocks. */
static uint64_t workspace(const struct pst_op_request *request)
{
    const struct norm norm = norm_of(request);
    uint64_t rows = 0;

    if (request->pass == PST_KERNEL_W) {
        return 0;
    }
    if (request->pass == PST_KERNEL_B) {
        rows += request->device->threads + (norm.rms ? 1 : 2) * norm.n_blocks;
    }
    return (pst_tile_floats(request, N_BUFFERS, norm.n) + rows * norm.n) * sizeof(float);
}

static void carve(struct norm *norm, const struct pst_call *call)
{
    const struct pst_op_request *request = norm->request;
    float *at = call->workspace;

    norm->call = call;
    norm->buffers = at;
    at += pst_tile_floats(request, N_BUFFERS, norm->n);
    norm->gain = call->p[0];
    if (request->pass == PST_KERNEL_F) {
        norm->bias = norm->rms ? NULL : call->p[1];
    } else {
        norm->grads = at;
        norm->dgains = at + request->device->threads * norm->n;
        norm->dbiases = norm->dgains + norm->n_blocks * norm->n;
    }
}

static void forward_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct norm *norm = context;
    const struct pst_call *call = norm->call;
    const struct pst_simd *simd = norm->request->device->simd;
    const uint64_t n = norm->n;
    const struct pst_tile x_tile =
        pst_tile_make(norm->request, norm->buffers, N_BUFFERS, n, thread, 0);
    const struct pst_tile y_tile =
        pst_tile_make(norm->request, norm->buffers, N_BUFFERS, n, thread, 1);
    float *means = norm->rms ? NULL : call->y[1], *rstds = call->y[norm->rms ? 1 : 2];

    for (uint64_t r = begin; r < end; r++) {
        const float *x = pst_tile_read(&x_tile, call->x[0], r * n, n);
        float *y = pst_tile_write(&y_tile, call->y[0], r * n);
        float mean = 0, rstd;

        if (norm->rms) {
            simd->rms(y, x, norm->gain, norm->request->op->eps, n, &rstd);
        } else {
            simd->norm(y, x, norm->gain, norm->bias, norm->request->op->eps, n, &mean, &rstd);
        }
        pst_tile_done(&y_tile, call->y[0], r * n, n);
        if (means != NULL) {
            means[r] = mean;
        }
        if (rstds != NULL) {
            rstds[r] = rstd;
        }
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct norm norm = norm_of(&pst_cpu_kernel_of(kernel)->request);

    carve(&norm, call);
    pst_cpu_parallel(norm.request->device, norm.n_rows, forward_rows, &norm);
}

/* bf16: dx = the gradient, rounded, + the addend, rounded. `row` holds the gradient. */
static void store_bf16(const struct norm *norm, const struct pst_tile *tile, float *row,
                       uint64_t at)
{
    const struct pst_simd *simd = norm->request->device->simd;
    const void *addend = request_operand(norm->call->add, 0);
    uint16_t *dx = (uint16_t *)norm->call->dx[0] + at;

    if (addend != NULL) { /* which may be dx itself */
        const float *add = pst_tile_read(tile, addend, at, norm->n);

        simd->narrow(dx, row, norm->n);
        simd->widen(row, dx, norm->n);
        simd->add(row, row, add, norm->n);
    }
    simd->narrow(dx, row, norm->n);
}

static void backward_row(const struct norm *norm, const struct pst_tile tile[N_BUFFERS],
                         uint64_t block, uint64_t r, float *row)
{
    const struct pst_call *call = norm->call;
    const uint64_t n = norm->n;
    const float *dy = pst_tile_read(&tile[0], call->dy, r * n, n);
    const float *x = pst_tile_read(&tile[1], call->x[0], r * n, n);
    const float rstd = ((const float *)call->y[norm->rms ? 1 : 2])[r];
    const struct pst_simd *simd = norm->request->device->simd;
    const bool direct = norm->request->dtype == PST_F32;
    const float *add = direct ? request_operand(call->add, 0) : NULL;
    float *dx = request_operand(call->dx, 0), *dx_row;
    /* A pass without dx gets no gain: any row may stand for it, since what it makes is not read. */
    const float *gain = norm->gain != NULL ? norm->gain : x;

    add = dx != NULL && add != NULL ? add + r * n : NULL;
    dx_row = direct && dx != NULL ? dx + r * n : row;
    if (norm->rms) {
        simd->rms_back(dx_row, add, norm->dgains + block * n, dy, x, gain, rstd, n);
    } else {
        simd->norm_back(dx_row, add, norm->dgains + block * n, norm->dbiases + block * n, dy, x,
                        gain, ((const float *)call->y[1])[r], rstd, n);
    }
    if (!direct && dx != NULL) {
        store_bf16(norm, &tile[2], row, r * n);
    }
}

static void backward_blocks(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct norm *norm = context;
    const uint64_t n = norm->n;
    struct pst_tile tile[N_BUFFERS];

    for (uint32_t i = 0; i < N_BUFFERS; i++) {
        tile[i] = pst_tile_make(norm->request, norm->buffers, N_BUFFERS, n, thread, i);
    }
    for (uint64_t block = begin; block < end; block++) {
        memset(norm->dgains + block * n, 0, n * sizeof(float));
        if (!norm->rms) {
            memset(norm->dbiases + block * n, 0, n * sizeof(float));
        }
        for (uint64_t r = block * ROWS; r < norm->n_rows && r < (block + 1) * ROWS; r++) {
            backward_row(norm, tile, block, r, norm->grads + thread * n);
        }
    }
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct norm norm = norm_of(&pst_cpu_kernel_of(kernel)->request);
    const struct pst_simd *simd = norm.request->device->simd;

    carve(&norm, call);
    pst_cpu_parallel(norm.request->device, norm.n_blocks, backward_blocks, &norm);
    for (uint32_t i = 0; i < norm.request->op->n_param; i++) {
        memset(call->z[i], 0, norm.n * sizeof(float));
        simd->column_sums(call->z[i], i == 0 ? norm.dgains : norm.dbiases, norm.n_blocks, norm.n,
                          norm.n);
    }
}

const struct pst_cpu_family pst_cpu_layernorm = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {forward, backward, pst_cpu_copy_scratch},
};
