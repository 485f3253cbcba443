/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm, root mean square norm, batch norm. B finds the parameters' gradients on its way, W
 * copies them to where they belong.
 */
#include "cuda.h"

static bool is_rms(const struct pst_op_request *r)
{
    return r->op->kind == PST_OP_RMSNORM;
}

static uint64_t norm_workspace(const struct pst_op_request *r)
{
    const struct pst_tensor *x = request_in(r, 0);

    return r->pass == PST_KERNEL_B
               ? 2 * sizeof(float) * pst_cuda_column_floats(request_rows(r, x), request_columns(x))
               : 0;
}

static void norm_f(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_tensor *x = request_in(r, 0);
    const bool rms = is_rms(r);

    pst_cuda_norm(r->device->compute, pst_cuda_bf16(r), rms, call->y[0], call->x[0], call->p[0],
                  rms ? NULL : call->p[1], r->op->eps, request_rows(r, x), request_columns(x),
                  rms ? NULL : call->y[1], call->y[rms ? 1 : 2]);
}

static void norm_b(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_tensor *x = request_in(r, 0);
    const uint64_t rows = request_rows(r, x), n = request_columns(x);
    const bool rms = is_rms(r);
    const float *means = rms ? NULL : call->y[1], *rstds = call->y[rms ? 1 : 2];
    void *dx = request_operand(call->dx, 0);

    pst_cuda_norm_params(r->device->compute, pst_cuda_bf16(r), rms, call->z[0],
                         rms ? NULL : call->z[1], call->dy, call->x[0], means, rstds, rows, n,
                         call->workspace);
    if (dx != NULL) {
        pst_cuda_norm_dx(r->device->compute, pst_cuda_bf16(r), rms, dx,
                         request_operand(call->add, 0), call->dy, call->x[0],
                         request_operand(call->p, 0), means, rstds, rows, n);
    }
}

const struct pst_cuda_family pst_cuda_layernorm_family = {
    .workspace = norm_workspace,
    .run = {norm_f, norm_b, pst_cuda_copy_scratch},
};
const struct pst_cuda_family pst_cuda_rmsnorm_family = {
    .workspace = norm_workspace,
    .run = {norm_f, norm_b, pst_cuda_copy_scratch},
};

/* --- batch norm --------------------------------------------------------------------------------
 */

static struct pst_cuda_channels channels_of(const struct pst_op_request *r, uint32_t flags)
{
    const struct pst_tensor *x = request_in(r, 0);
    struct pst_cuda_channels how;

    how.rows = request_rows(r, x);
    how.n = request_columns(x);
    how.eps = r->op->eps;
    how.momentum = r->op->momentum;
    how.relu = r->op->act == PST_ACT_RELU;
    how.training = (flags & PST_CALL_TRAINING) != 0;
    how.track = (flags & PST_CALL_REPLAY) == 0;
    return how;
}

static uint64_t batchnorm_workspace(const struct pst_op_request *r)
{
    const struct pst_cuda_channels how = channels_of(r, 0);

    return r->pass == PST_KERNEL_W ? 0 : pst_cuda_batchnorm_bytes(how.rows, how.n);
}

static void batchnorm_f(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_cuda_channels how = channels_of(r, call->flags);

    pst_cuda_batchnorm(r->device->compute, pst_cuda_bf16(r), &how, call->y[0], call->x[0],
                       call->p[0], call->p[1], call->state[0], call->state[1], call->y[1],
                       call->y[2], call->workspace);
}

static void batchnorm_b(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_cuda_channels how = channels_of(r, call->flags);

    pst_cuda_batchnorm_back(r->device->compute, pst_cuda_bf16(r), &how,
                            request_operand(call->dx, 0), call->z[0], call->z[1], call->dy,
                            call->y[0], call->x[0], request_operand(call->p, 0), call->y[1],
                            call->y[2], call->workspace);
}

const struct pst_cuda_family pst_cuda_batchnorm_family = {
    .workspace = batchnorm_workspace,
    .run = {batchnorm_f, batchnorm_b, pst_cuda_copy_scratch},
};
