/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that are one or two own kernels: operands in place, and what is asked for.
 */
#include "cuda.h"

#include <string.h>

#define RUN(name) static void name(const struct pst_cuda_kernel *k, const struct pst_call *call)

/* --- embedding ---------------------------------------------------------------------------------
 */

static struct pst_cuda_embedding embedding_shape(const struct pst_op_request *r)
{
    const struct pst_parameter *table = &r->graph->params[r->op->param[0]];
    struct pst_cuda_embedding shape;

    shape.positions = request_in(r, 0)->elems;
    shape.tokens = r->samples * shape.positions;
    shape.columns = table->dims[1];
    shape.entries = table->elems / shape.columns;
    shape.summed = r->op->bag == PST_BAG_SUM ? shape.positions : 1;
    return shape;
}

static uint64_t embedding_workspace(const struct pst_op_request *r)
{
    const struct pst_cuda_embedding shape = embedding_shape(r);

    return r->pass == PST_KERNEL_W ? (shape.tokens + shape.entries) * sizeof(int32_t) : 0;
}

/* Lists of tokens hold 32-bit numbers. */
static pst_status embedding_init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    if (embedding_shape(&k->request).tokens > INT32_MAX / 2) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "device cuda: too many tokens in a micro-batch");
    }
    return PST_OK;
}

RUN(embedding_f)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_cuda_embedding shape = embedding_shape(r);

    pst_cuda_embedding(r->device->compute, pst_cuda_bf16(r), &shape, call->y[0], call->x[0],
                       call->p[0], request_param(r, call, 1));
}

RUN(embedding_w)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_cuda_embedding shape = embedding_shape(r);

    pst_cuda_embedding_back(r->device->compute, pst_cuda_bf16(r), &shape, request_dp(r, call, 0),
                            request_dp(r, call, 1), call->x[0], call->dy, call->workspace);
}

const struct pst_cuda_family pst_cuda_embedding_family = {
    .workspace = embedding_workspace,
    .init = embedding_init,
    .run = {embedding_f, NULL, embedding_w},
};

/* --- addition, dropout, activation -------------------------------------------------------------
 */

static struct pst_cuda_dropout dropout_of(const struct pst_op_request *r,
                                          const struct pst_call *call)
{
    struct pst_cuda_dropout how;

    how.samples = r->samples;
    how.elems = request_out(r)->elems;
    how.seed = call->seed;
    how.salt = r->op->salt;
    how.p = (call->flags & PST_CALL_TRAINING) != 0 ? r->op->p : 0;
    how.first_sample = how.p > 0 ? pst_cuda_first_sample(r->device, call->first_sample) : NULL;
    return how;
}

RUN(add_f)
{
    const struct pst_cuda_dropout how = dropout_of(&k->request, call);

    pst_cuda_dropout(k->request.device->compute, pst_cuda_bf16(&k->request), call->y[0], call->x[1],
                     call->x[0], &how);
}

RUN(dropout_f)
{
    const struct pst_cuda_dropout how = dropout_of(&k->request, call);

    pst_cuda_dropout(k->request.device->compute, pst_cuda_bf16(&k->request), call->y[0], call->x[0],
                     NULL, &how);
}

/* The gradient goes through the same mask. That of an addition's x[0] is dy itself. */
RUN(dropout_b)
{
    const struct pst_cuda_dropout how = dropout_of(&k->request, call);
    void *dx = request_operand(call->dx, k->request.op->kind == PST_OP_ADD ? 1 : 0);

    if (dx != NULL) {
        pst_cuda_dropout(k->request.device->compute, pst_cuda_bf16(&k->request), dx, call->dy, NULL,
                         &how);
    }
}

RUN(act_f)
{
    pst_cuda_act(k->request.device->compute, pst_cuda_bf16(&k->request), call->y[0], call->x[0],
                 k->request.op->act, k->request.samples * request_out(&k->request)->elems);
}

RUN(act_b)
{
    const uint32_t act = k->request.op->act;
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        pst_cuda_act_back(k->request.device->compute, pst_cuda_bf16(&k->request), dx, call->dy,
                          act == PST_ACT_RELU ? call->y[0] : call->x[0], act,
                          k->request.samples * request_out(&k->request)->elems);
    }
}

const struct pst_cuda_family pst_cuda_add_family = {.run = {add_f, dropout_b, NULL}};
const struct pst_cuda_family pst_cuda_dropout_family = {.run = {dropout_f, dropout_b, NULL}};
const struct pst_cuda_family pst_cuda_act_family = {.run = {act_f, act_b, NULL}};

/* --- concatenation -----------------------------------------------------------------------------
 */

static void concat(const struct pst_cuda_kernel *k, const struct pst_call *call, bool back)
{
    const struct pst_op_request *r = &k->request;
    const size_t size = pst_dtype_bytes(r->dtype);
    const size_t pitch = request_columns(request_out(r)) * size;
    const uint64_t rows = request_rows(r, request_out(r));
    size_t offset = 0;

    for (uint32_t i = 0; i < r->op->n_in; i++) {
        const size_t width = request_columns(request_in(r, i)) * size;
        void *dx = back ? request_operand(call->dx, i) : NULL;
        cudaError_t error = cudaSuccess;

        if (!back) {
            error = cudaMemcpy2DAsync((char *)call->y[0] + offset, pitch, call->x[i], width, width,
                                      rows, cudaMemcpyDeviceToDevice, r->device->compute);
        } else if (dx != NULL) {
            error = cudaMemcpy2DAsync(dx, width, (const char *)call->dy + offset, pitch, width,
                                      rows, cudaMemcpyDeviceToDevice, r->device->compute);
        }
        pst_cuda_note(r->device, r->op->name, error);
        offset += width;
    }
}

RUN(concat_f)
{
    concat(k, call, false);
}

RUN(concat_b)
{
    concat(k, call, true);
}

const struct pst_cuda_family pst_cuda_concat_family = {.run = {concat_f, concat_b, NULL}};

/* --- losses ------------------------------------------------------------------------------------
 */

static uint64_t loss_rows(const struct pst_op_request *r)
{
    return request_in(r, 0)->elems / request_columns(request_in(r, 0));
}

/* F: a loss per row. B: a factor per sample. */
static uint64_t cross_entropy_workspace(const struct pst_op_request *r)
{
    return r->samples * (r->pass == PST_KERNEL_F ? loss_rows(r) : 1) * sizeof(float);
}

RUN(cross_entropy_f)
{
    const struct pst_op_request *r = &k->request;

    pst_cuda_cross_entropy(r->device->compute, pst_cuda_bf16(r), call->y[0], call->y[1], call->x[0],
                           call->x[1], r->samples, loss_rows(r), request_columns(request_in(r, 0)),
                           call->workspace);
}

RUN(cross_entropy_b)
{
    const struct pst_op_request *r = &k->request;
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        pst_cuda_cross_entropy_back(r->device->compute, pst_cuda_bf16(r), dx, call->x[0],
                                    call->x[1], call->y[1], call->scale, r->samples, loss_rows(r),
                                    request_columns(request_in(r, 0)), call->workspace);
    }
}

RUN(mse_f)
{
    const struct pst_op_request *r = &k->request;

    pst_cuda_mse(r->device->compute, pst_cuda_bf16(r), call->y[0], call->x[0], call->x[1],
                 r->samples, request_in(r, 0)->elems);
}

RUN(mse_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_in(r, 0)->elems;
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        pst_cuda_mse_back(r->device->compute, pst_cuda_bf16(r), dx, call->x[0], call->x[1],
                          2 * call->scale / (float)n, r->samples * n);
    }
}

const struct pst_cuda_family pst_cuda_cross_entropy_family = {
    .workspace = cross_entropy_workspace,
    .run = {cross_entropy_f, cross_entropy_b, NULL},
};
const struct pst_cuda_family pst_cuda_mse_family = {.run = {mse_f, mse_b, NULL}};

/* --- images ------------------------------------------------------------------------------------
 */

RUN(maxpool_f)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_window w = request_window(r);

    pst_cuda_maxpool(r->device->compute, pst_cuda_bf16(r), &w, r->samples,
                     request_columns(request_in(r, 0)), call->y[0], call->y[1], call->x[0]);
}

RUN(maxpool_b)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_window w = request_window(r);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        pst_cuda_maxpool_back(r->device->compute, pst_cuda_bf16(r), &w, r->samples,
                              request_columns(request_in(r, 0)), dx, call->dy, call->y[1]);
    }
}

RUN(avgpool2d_f)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_window w = request_window(r);

    pst_cuda_avgpool2d(r->device->compute, pst_cuda_bf16(r), &w, r->samples,
                       request_columns(request_in(r, 0)), call->y[0], call->x[0]);
}

RUN(avgpool2d_b)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_window w = request_window(r);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        pst_cuda_avgpool2d_back(r->device->compute, pst_cuda_bf16(r), &w, r->samples,
                                request_columns(request_in(r, 0)), dx, call->dy);
    }
}

RUN(avgpool_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_columns(request_out(r));

    pst_cuda_mean(r->device->compute, pst_cuda_bf16(r), r->samples, request_in(r, 0)->elems / n, n,
                  call->y[0], call->x[0]);
}

RUN(avgpool_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_columns(request_out(r));
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        pst_cuda_mean_back(r->device->compute, pst_cuda_bf16(r), r->samples,
                           request_in(r, 0)->elems / n, n, dx, call->dy);
    }
}

static void shift(const struct pst_cuda_kernel *k, bool back, void *y, const void *x)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_window w = request_window(r);

    if (y != NULL) {
        pst_cuda_shift(r->device->compute, pst_cuda_bf16(r), &w, r->samples,
                       request_columns(request_in(r, 0)), back, y, x);
    }
}

RUN(shift_f)
{
    shift(k, false, call->y[0], call->x[0]);
}

RUN(shift_b)
{
    shift(k, true, request_operand(call->dx, 0), call->dy);
}

const struct pst_cuda_family pst_cuda_maxpool2d_family = {.run = {maxpool_f, maxpool_b, NULL}};
const struct pst_cuda_family pst_cuda_avgpool2d_family = {.run = {avgpool2d_f, avgpool2d_b, NULL}};
const struct pst_cuda_family pst_cuda_avgpool_family = {.run = {avgpool_f, avgpool_b, NULL}};
const struct pst_cuda_family pst_cuda_shift2d_family = {.run = {shift_f, shift_b, NULL}};
