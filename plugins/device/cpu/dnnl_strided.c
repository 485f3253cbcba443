/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight gradient of 1x1 convolutions that leave out pixels, as one matrix product: the pixels that
 * were seen are gathered first. oneDNN 2.6 has a primitive for it that gathers, too, but with
 * some numbers of channels (4 to 4, 2 to 8) its result depends on what its scratch memory held.
 */
#include <string.h>

#include "dnnl_gemm.h"

struct strided {
    const struct pst_op_request *request;
    const void *x;
    float *gathered; /* [rows][channels] */
};

/* Pixels of the micro-batch's results. */
static struct pst_outer_shape shape_of(const struct pst_op_request *request)
{
    const struct pst_tensor *y = request_out(request);
    struct pst_outer_shape shape = {.rows = request_rows(request, y),
                                    .m = request_columns(request_in(request, 0)),
                                    .n = request_columns(y)};

    return shape;
}

static bool serves(const struct pst_op_request *request)
{
    const struct pst_op *op = request->op;

    return request->pass == PST_KERNEL_W && op->kernel[0] == 1 && op->kernel[1] == 1 &&
           (op->stride[0] > 1 || op->stride[1] > 1) && op->pad[0] == 0 && op->pad[1] == 0 &&
           request_is_plain_window(request);
}

static uint64_t rounded(uint64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* bf16: dy as f32. */
static uint64_t wide_floats(const struct pst_op_request *request,
                            const struct pst_outer_shape *shape)
{
    return request->dtype == PST_BF16 ? rounded(shape->rows * shape->n) : 0;
}

/* Gathered pixels, dy, the product's own, partial sums of the bias gradient. */
static uint64_t workspace(const struct pst_op_request *request)
{
    const struct pst_outer_shape shape = shape_of(request);

    return (rounded(shape.rows * shape.m) + wide_floats(request, &shape) +
            rounded(pst_outer_floats(&shape)) +
            (request_has_param(request, 1) ? pst_cpu_bias_floats(request) : 0)) *
           sizeof(float);
}

static void gather_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct strided *job = context;
    const struct pst_tensor *x = request_in(job->request, 0), *y = request_out(job->request);
    const struct pst_op *op = job->request->op;
    const uint64_t n = x->dims[2];

    (void)thread;
    for (uint64_t r = begin; r < end; r++) {
        const uint64_t column = r % y->dims[1], row = r / y->dims[1] % y->dims[0];
        const uint64_t sample = r / (y->dims[0] * y->dims[1]);
        const uint64_t at =
            ((sample * x->dims[0] + row * op->stride[0]) * x->dims[1] + column * op->stride[1]) * n;

        if (job->request->dtype == PST_F32) {
            memcpy(job->gathered + r * n, (const float *)job->x + at, n * sizeof(float));
        } else {
            job->request->device->simd->widen(job->gathered + r * n, (const uint16_t *)job->x + at,
                                              n);
        }
    }
}

static void weights(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *request = &pst_cpu_kernel_of(kernel)->request;
    const struct pst_outer_shape shape = shape_of(request);
    struct strided job = {request, call->x[0], call->workspace};
    float *wide = job.gathered + rounded(shape.rows * shape.m);
    float *floats = wide + wide_floats(request, &shape);
    const float *dy = request->dtype == PST_BF16 ? wide : call->dy;

    if (call->dp[0] != NULL) {
        pst_cpu_parallel(request->device, shape.rows, gather_rows, &job);
        if (request->dtype == PST_BF16) {
            request->device->simd->widen(wide, call->dy, shape.rows * shape.n);
        }
        pst_outer_run(request->device, &shape, job.gathered, dy, call->dp[0], floats);
    }
    if (request_has_param(request, 1) && call->dp[1] != NULL) {
        pst_cpu_bias_gradient(request, call->dy, shape.rows, shape.n, call->dp[1],
                              floats + rounded(pst_outer_floats(&shape)));
    }
}

const struct pst_cpu_family pst_cpu_strided = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {NULL, NULL, weights},
};
