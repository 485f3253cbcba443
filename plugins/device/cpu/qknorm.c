/* SPDX-License-Identifier: Apache-2.0
 *
 * RMS norm of the heads of queries and keys in packed rows. The gradients of both gains are summed
 * over blocks of 64 rows, then over the blocks: the same sums whatever the number of threads.
 */
#include "tile.h"

#include <string.h>

#define ROWS 64u /* of a block */

struct qknorm {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t columns, n_rows, n_blocks;
    uint64_t queries, heads, depth, normed; /* heads: of queries and keys; normed: their columns */
    float *grads;  /* backward: [threads][depth], where nobody wants the gradient of x */
    float *dgains; /* backward: [n_blocks][2][depth] */
};

/* Rows that a thread widens. Forward: x, y. Backward: dy, x, dx. */
#define N_BUFFERS 3u

static bool serves(const struct pst_op_request *request)
{
    return request_parameter(request, 0)->dtype == PST_F32 &&
           request_parameter(request, 1)->dtype == PST_F32;
}

static struct qknorm qknorm_of(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0);
    struct qknorm norm = {.request = request, .columns = request_columns(x)};

    norm.n_rows = request_rows(request, x);
    norm.n_blocks = norm.n_rows / ROWS + (norm.n_rows % ROWS != 0);
    norm.queries = request->op->heads;
    norm.heads = norm.queries + pst_op_kv_heads(request->op);
    norm.depth = request_parameter(request, 0)->elems;
    norm.normed = norm.heads * norm.depth;
    return norm;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    const struct qknorm norm = qknorm_of(request);
    uint64_t floats = pst_tile_floats(request, N_BUFFERS, norm.normed);

    if (request->pass == PST_KERNEL_B) {
        floats += (request->device->threads + 2 * norm.n_blocks) * norm.depth;
    }
    return request->pass == PST_KERNEL_W ? 0 : floats * sizeof(float);
}

/* Copies the columns after the heads unchanged. */
static void copy_rest(const struct qknorm *norm, void *dst, const void *src, uint64_t row)
{
    const uint64_t bytes = pst_dtype_bytes(norm->request->dtype);
    const uint64_t at = (row * norm->columns + norm->normed) * bytes;

    memcpy((char *)dst + at, (const char *)src + at, (norm->columns - norm->normed) * bytes);
}

static void forward_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct qknorm *norm = context;
    const struct pst_op_request *request = norm->request;
    const struct pst_call *call = norm->call;
    const uint64_t d = norm->depth;
    const struct pst_tile in =
        pst_tile_make(request, call->workspace, N_BUFFERS, norm->normed, thread, 0);
    const struct pst_tile out =
        pst_tile_make(request, call->workspace, N_BUFFERS, norm->normed, thread, 1);
    float *rstds = call->y[1], rstd;

    for (uint64_t r = begin; r < end; r++) {
        const float *x = pst_tile_read(&in, call->x[0], r * norm->columns, norm->normed);
        float *y = pst_tile_write(&out, call->y[0], r * norm->columns);

        for (uint64_t h = 0; h < norm->heads; h++) {
            request->device->simd->rms(y + h * d, x + h * d, call->p[h < norm->queries ? 0 : 1],
                                       request->op->eps, d, &rstd);
            if (rstds != NULL) {
                rstds[r * norm->heads + h] = rstd;
            }
        }
        pst_tile_done(&out, call->y[0], r * norm->columns, norm->normed);
        copy_rest(norm, call->y[0], call->x[0], r);
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct qknorm norm = qknorm_of(&pst_cpu_kernel_of(kernel)->request);

    norm.call = call;
    pst_cpu_parallel(norm.request->device, norm.n_rows, forward_rows, &norm);
}

static void backward_row(const struct qknorm *norm, const struct pst_tile tile[N_BUFFERS],
                         uint64_t r, float *dgains, float *unwanted)
{
    const struct pst_call *call = norm->call;
    const uint64_t at = r * norm->columns, d = norm->depth;
    const float *dy = pst_tile_read(&tile[0], call->dy, at, norm->normed);
    const float *x = pst_tile_read(&tile[1], call->x[0], at, norm->normed);
    const float *rstds = (const float *)call->y[1] + r * norm->heads;
    void *to = request_operand(call->dx, 0);
    float *dx = to == NULL ? NULL : pst_tile_write(&tile[2], to, at);

    for (uint64_t h = 0; h < norm->heads; h++) {
        const uint32_t part = h < norm->queries ? 0 : 1;

        /* Without dx gains are not handed on; what they scale is unwanted. */
        norm->request->device->simd->rms_back(dx == NULL ? unwanted : dx + h * d, NULL,
                                              dgains + part * d, dy + h * d, x + h * d,
                                              dx == NULL ? x + h * d : call->p[part], rstds[h], d);
    }
    if (dx != NULL) {
        pst_tile_done(&tile[2], to, at, norm->normed);
        copy_rest(norm, to, call->dy, r);
    }
}

static void backward_blocks(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct qknorm *norm = context;
    struct pst_tile tile[N_BUFFERS];

    for (uint32_t i = 0; i < N_BUFFERS; i++) {
        tile[i] =
            pst_tile_make(norm->request, norm->call->workspace, N_BUFFERS, norm->normed, thread, i);
    }
    for (uint64_t block = begin; block < end; block++) {
        float *dgains = norm->dgains + block * 2 * norm->depth;

        memset(dgains, 0, 2 * norm->depth * sizeof *dgains);
        for (uint64_t r = block * ROWS; r < norm->n_rows && r < (block + 1) * ROWS; r++) {
            backward_row(norm, tile, r, dgains, norm->grads + thread * norm->depth);
        }
    }
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct qknorm norm = qknorm_of(&pst_cpu_kernel_of(kernel)->request);
    const struct pst_op_request *request = norm.request;

    norm.call = call;
    norm.grads = (float *)call->workspace + pst_tile_floats(request, N_BUFFERS, norm.normed);
    norm.dgains = norm.grads + request->device->threads * norm.depth;
    pst_cpu_parallel(request->device, norm.n_blocks, backward_blocks, &norm);
    for (uint32_t i = 0; i < 2; i++) {
        memset(call->z[i], 0, norm.depth * sizeof(float));
        request->device->simd->column_sums(call->z[i], norm.dgains + i * norm.depth, norm.n_blocks,
                                           2 * norm.depth, norm.depth);
    }
}

const struct pst_cpu_family pst_cpu_qknorm = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {forward, backward, pst_cpu_copy_scratch},
};
