/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary positions: how far each pair of a head turns per position is found here, once for a
 * kernel.
 */
#include "cuda.h"

#include <stdlib.h>

#include "base/memory.h"
#include "graph/rotary.h"

/* The kernel's state is the table of turns, in device memory. */
static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    const struct pst_op *op = k->request.op;
    const uint32_t half = op->head_dim / 2;
    const double two_pi = 6.283185307179586476925286766559;
    double *turns = pst_alloc(half, sizeof *turns);
    pst_status status;

    for (uint32_t i = 0; i < half; i++) {
        turns[i] = pst_rotary_frequency(&op->rope, op->head_dim, i) / two_pi;
    }
    status = pst_cuda_table(k->request.device, "a table of frequencies", turns,
                            half * sizeof *turns, &k->state, err);
    free(turns);
    return status;
}

static void finish(struct pst_cuda_kernel *k)
{
    cudaFree(k->state);
}

static void rotate(const struct pst_cuda_kernel *k, uint32_t slice, void *y, const void *x)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_tensor *rows = request_in(r, 0);
    const struct pst_cuda_rotation shape = {
        .rows = request_rows(r, rows),
        .positions = rows->dims[0],
        .first = slice * rows->dims[0],
        .columns = request_columns(rows),
        .heads = r->op->heads,
        .half = r->op->head_dim / 2,
        .turns = k->state,
        .back = r->pass == PST_KERNEL_B,
    };

    if (y != NULL) {
        pst_cuda_rotate(r->device->compute, pst_cuda_bf16(r), &shape, y, x);
    }
}

static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    rotate(k, call->slice, call->y[0], call->x[0]);
}

static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    rotate(k, call->slice, request_operand(call->dx, 0), call->dy);
}

const struct pst_cuda_family pst_cuda_rotary_family = {
    .init = init,
    .finish = finish,
    .run = {forward, backward, NULL},
};
