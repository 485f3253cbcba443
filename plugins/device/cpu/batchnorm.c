/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm over the micro-batch and all axes but the last, with relu where the operator says so.
 * Sums go over blocks of 64 rows in f32, then over the blocks in double: the same sums whatever the
 * number of threads.
 */
#include "tile.h"

#include <math.h>
#include <string.h>

#define ROWS      64u /* of a block */
#define N_BUFFERS 4u  /* rows that a thread widens: x, y, dy, dx */
#define N_VECTORS 4u  /* per channel: of the whole micro-batch */

struct batch {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t n, n_rows, n_blocks;
    float *buffers; /* of tiles */
    float *vector[N_VECTORS];
    float *first, *second; /* sums of blocks, [n_blocks][n] */
    const float *mean, *rstd;
};

static bool serves(const struct pst_op_request *request)
{
    const struct pst_parameter *params = request->graph->params;

    return params[request->op->param[0]].dtype == PST_F32 &&
           params[request->op->param[1]].dtype == PST_F32;
}

static struct batch batch_of(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0);
    struct batch batch = {.request = request, .n = request_columns(x)};

    batch.n_rows = request_rows(request, x);
    batch.n_blocks = batch.n_rows / ROWS + (batch.n_rows % ROWS != 0);
    return batch;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    const struct batch batch = batch_of(request);

    if (request->pass == PST_KERNEL_W) {
        return 0;
    }
    return (pst_tile_floats(request, N_BUFFERS, batch.n) +
            (N_VECTORS + 2 * batch.n_blocks) * batch.n) *
           sizeof(float);
}

static struct batch begin_pass(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct batch batch = batch_of(&pst_cpu_kernel_of(kernel)->request);
    float *at = call->workspace;

    batch.call = call;
    batch.buffers = at;
    at += pst_tile_floats(batch.request, N_BUFFERS, batch.n);
    for (uint32_t i = 0; i < N_VECTORS; i++, at += batch.n) {
        batch.vector[i] = at;
    }
    batch.first = at;
    batch.second = at + batch.n_blocks * batch.n;
    return batch;
}

static struct pst_tile tile_of(const struct batch *batch, uint32_t thread, uint32_t i)
{
    return pst_tile_make(batch->request, batch->buffers, N_BUFFERS, batch->n, thread, i);
}

static uint64_t block_end(const struct batch *batch, uint64_t block)
{
    const uint64_t end = (block + 1) * ROWS;

    return end < batch->n_rows ? end : batch->n_rows;
}

/* Column c of sums of blocks. */
static double total(const struct batch *batch, const float *sums, uint64_t c)
{
    double sum = 0;

    for (uint64_t block = 0; block < batch->n_blocks; block++) {
        sum += (double)sums[block * batch->n + c];
    }
    return sum;
}

/* --- forward: vectors are mean, rstd, factor -------------------------------------------------- */

/* Rows from r on that are read in one go: up to `end` and no more than stay in the cache, for they
   are read strip by strip; 1 where a tile has room for no more. */
static uint64_t stretch(const struct pst_tile *tile, uint64_t r, uint64_t end)
{
    if (tile->buffer != NULL) {
        return 1;
    }
    return end - r < ROWS ? end - r : ROWS;
}

/* Sums of x, or of squared distances from the mean where that is known, of blocks. */
static void sum_blocks(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct batch *batch = context;
    const struct pst_simd *simd = batch->request->device->simd;
    const struct pst_tile tile = tile_of(batch, thread, 0);
    const uint64_t n = batch->n;

    memset(batch->first + begin * n, 0, (end - begin) * n * sizeof(float));
    for (uint64_t block = begin; block < end; block++) {
        float *sums = batch->first + block * n;
        uint64_t rows, last = block_end(batch, block);

        for (uint64_t r = block * ROWS; r < last; r += rows) {
            const float *x;

            rows = stretch(&tile, r, last);
            x = pst_tile_read(&tile, batch->call->x[0], r * n, rows * n);
            if (batch->mean == NULL) {
                simd->column_sums(sums, x, rows, n, n);
            } else {
                simd->column_squares(sums, x, batch->mean, rows, n);
            }
        }
    }
}

/* Running statistics take the unbiased variance; a replay does not count twice. */
static void track(const struct batch *batch, uint64_t c, double mean, double var)
{
    const float momentum = batch->request->op->momentum;
    float *running_mean = batch->call->state[0], *running_var = batch->call->state[1];

    if ((batch->call->flags & PST_CALL_REPLAY) != 0) {
        return;
    }
    if (batch->n_rows > 1) {
        var *= (double)batch->n_rows / (double)(batch->n_rows - 1);
    }
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * (float)mean;
    running_var[c] = (1 - momentum) * running_var[c] + momentum * (float)var;
}

static void find_statistics(struct batch *batch)
{
    const double rows = (double)batch->n_rows, eps = (double)batch->request->op->eps;
    const bool training = (batch->call->flags & PST_CALL_TRAINING) != 0;
    const float *gain = batch->call->p[0];

    if (training) {
        pst_cpu_parallel(batch->request->device, batch->n_blocks, sum_blocks, batch);
        for (uint64_t c = 0; c < batch->n; c++) {
            batch->vector[0][c] = (float)(total(batch, batch->first, c) / rows);
        }
        batch->mean = batch->vector[0];
        pst_cpu_parallel(batch->request->device, batch->n_blocks, sum_blocks, batch);
    } else {
        memcpy(batch->vector[0], batch->call->state[0], batch->n * sizeof(float));
        batch->mean = batch->vector[0];
    }
    for (uint64_t c = 0; c < batch->n; c++) {
        const double var =
            training ? total(batch, batch->first, c) / rows : (double)batch->call->state[1][c];

        if (training) {
            track(batch, c, (double)batch->mean[c], var);
        }
        batch->vector[1][c] = (float)(1 / sqrt(var + eps));
        batch->vector[2][c] = batch->vector[1][c] * gain[c];
    }
}

static void normalize_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct batch *batch = context;
    const struct pst_tile x_tile = tile_of(batch, thread, 0), y_tile = tile_of(batch, thread, 1);
    const bool relu = batch->request->op->act == PST_ACT_RELU;
    const uint64_t n = batch->n;

    for (uint64_t r = begin, rows; r < end; r += rows) {
        const float *x;
        float *y = pst_tile_write(&y_tile, batch->call->y[0], r * n);

        rows = stretch(&x_tile, r, end);
        x = pst_tile_read(&x_tile, batch->call->x[0], r * n, rows * n);
        batch->request->device->simd->channel_norm(y, x, batch->mean, batch->vector[2],
                                                   batch->call->p[1], relu, rows, n);
        pst_tile_done(&y_tile, batch->call->y[0], r * n, rows * n);
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct batch batch = begin_pass(kernel, call);

    find_statistics(&batch);
    pst_cpu_parallel(batch.request->device, batch.n_rows, normalize_rows, &batch);
    if (call->y[1] != NULL) {
        memcpy(call->y[1], batch.vector[0], batch.n * sizeof(float));
        memcpy(call->y[2], batch.vector[1], batch.n * sizeof(float));
    }
}

/* --- backward: vectors are factor, mean of g, mean of g normed -------------------------------- */

static const float *relu_rows(const struct batch *batch, const struct pst_tile *tile, uint64_t r,
                              uint64_t rows)
{
    return batch->request->op->act == PST_ACT_RELU
               ? pst_tile_read(tile, batch->call->y[0], r * batch->n, rows * batch->n)
               : NULL;
}

static void gradient_blocks(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct batch *batch = context;
    const struct pst_tile x_tile = tile_of(batch, thread, 0), y_tile = tile_of(batch, thread, 1);
    const struct pst_tile dy_tile = tile_of(batch, thread, 2);
    const uint64_t n = batch->n;

    memset(batch->first + begin * n, 0, (end - begin) * n * sizeof(float));
    memset(batch->second + begin * n, 0, (end - begin) * n * sizeof(float));
    for (uint64_t block = begin; block < end; block++) {
        uint64_t rows, last = block_end(batch, block);

        for (uint64_t r = block * ROWS; r < last; r += rows) {
            const float *x, *dy;

            rows = stretch(&x_tile, r, last);
            x = pst_tile_read(&x_tile, batch->call->x[0], r * n, rows * n);
            dy = pst_tile_read(&dy_tile, batch->call->dy, r * n, rows * n);
            batch->request->device->simd->channel_sums(
                batch->first + block * n, batch->second + block * n, dy,
                relu_rows(batch, &y_tile, r, rows), x, batch->mean, batch->rstd, rows, n);
        }
    }
}

static void gradient_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct batch *batch = context;
    const struct pst_tile x_tile = tile_of(batch, thread, 0), y_tile = tile_of(batch, thread, 1);
    const struct pst_tile dy_tile = tile_of(batch, thread, 2), dx_tile = tile_of(batch, thread, 3);
    const struct pst_simd_channels channels = {batch->mean, batch->rstd, batch->vector[0],
                                               batch->vector[1], batch->vector[2]};
    const uint64_t n = batch->n;

    for (uint64_t r = begin, rows; r < end; r += rows) {
        const float *x, *dy;
        float *dx = pst_tile_write(&dx_tile, batch->call->dx[0], r * n);

        rows = stretch(&x_tile, r, end);
        x = pst_tile_read(&x_tile, batch->call->x[0], r * n, rows * n);
        dy = pst_tile_read(&dy_tile, batch->call->dy, r * n, rows * n);
        batch->request->device->simd->channel_back(dx, dy, relu_rows(batch, &y_tile, r, rows), x,
                                                   &channels, rows, n);
        pst_tile_done(&dx_tile, batch->call->dx[0], r * n, rows * n);
    }
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct batch batch = begin_pass(kernel, call);
    const bool training = (call->flags & PST_CALL_TRAINING) != 0;
    float *dgain = call->z[0], *dbias = call->z[1];

    batch.mean = call->y[1];
    batch.rstd = call->y[2];
    pst_cpu_parallel(batch.request->device, batch.n_blocks, gradient_blocks, &batch);
    for (uint64_t c = 0; c < batch.n; c++) {
        const double along = total(&batch, batch.first, c), sum = total(&batch, batch.second, c);

        dgain[c] = (float)along;
        dbias[c] = (float)sum;
        /* outside of training the statistics are constants */
        batch.vector[1][c] = training ? (float)(sum / (double)batch.n_rows) : 0;
        batch.vector[2][c] = training ? (float)(along / (double)batch.n_rows) : 0;
    }
    if (request_operand(call->dx, 0) == NULL) {
        return;
    }
    for (uint64_t c = 0; c < batch.n; c++) {
        batch.vector[0][c] = ((const float *)call->p[0])[c] * batch.rstd[c];
    }
    pst_cpu_parallel(batch.request->device, batch.n_rows, gradient_rows, &batch);
}

const struct pst_cpu_family pst_cpu_batchnorm = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {forward, backward, pst_cpu_copy_scratch},
};
