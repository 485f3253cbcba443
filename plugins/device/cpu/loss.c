/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy: per sample the mean over the rows whose target is not negative
 * (request_counted).
 */
#include "tile.h"

#include <math.h>
#include <string.h>

struct loss {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t n_classes, n_rows; /* rows of a sample */
    const int32_t *targets;
};

static bool serves(const struct pst_op_request *request)
{
    return request_in(request, 1)->dtype == PST_I32 && request_out(request)->dtype == PST_F32;
}

static struct loss loss_of(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0);
    struct loss loss = {.request = request, .n_classes = request_columns(x)};

    loss.n_rows = x->elems / loss.n_classes;
    return loss;
}

/* A row of logits, and one of gradients. */
static uint64_t workspace(const struct pst_op_request *request)
{
    return pst_tile_floats(request, 2, loss_of(request).n_classes) * sizeof(float);
}

static const int32_t *targets_of(const struct loss *loss, uint64_t sample)
{
    return loss->targets + sample * request_in(loss->request, 1)->elems;
}

/* The loss that label smoothing and z-loss add to a row's cross-entropy. */
static double extra(const struct loss *loss, const float *logits, int32_t target, float lse)
{
    const struct pst_op *op = loss->request->op;
    double smooth = 0;

    if ((loss->call->flags & PST_CALL_TRAINING) == 0) {
        return 0;
    }
    if (op->smoothing > 0) {
        const float sum = loss->request->device->simd->sum(logits, loss->n_classes);

        smooth = (double)op->smoothing *
                 ((double)logits[target] - (double)sum / (double)loss->n_classes);
    }
    return smooth + (double)op->z_loss * (double)lse * (double)lse;
}

static void forward_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct loss *loss = context;
    const uint64_t n = loss->n_classes;
    const struct pst_tile tile =
        pst_tile_make(loss->request, loss->call->workspace, 2, n, thread, 0);
    float *losses = loss->call->y[0], *lse = loss->call->y[1];

    for (uint64_t sample = begin; sample < end; sample++) {
        const int32_t *targets = targets_of(loss, sample);
        const double counted = request_counted(loss->request, targets);
        double total = 0;

        for (uint64_t r = 0; r < loss->n_rows; r++) {
            const uint64_t row = sample * loss->n_rows + r;
            const float *logits = pst_tile_read(&tile, loss->call->x[0], row * n, n);
            float max, sum = loss->request->device->simd->exp_sum(logits, n, &max);
            const float log_sum = max + (float)log((double)sum);

            if (lse != NULL) {
                lse[row] = log_sum;
            }
            if (targets[r] >= 0) { /* one out of range must show */
                total += (uint64_t)targets[r] < n ? (double)(log_sum - logits[targets[r]]) +
                                                        extra(loss, logits, targets[r], log_sum)
                                                  : (double)NAN;
            }
        }
        losses[sample] = counted == 0 ? 0 : (float)(total / counted);
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct loss loss = loss_of(&pst_cpu_kernel_of(kernel)->request);

    loss.call = call;
    loss.targets = call->x[1];
    pst_cpu_parallel(loss.request->device, loss.request->samples, forward_samples, &loss);
}

/* (softmax * (1 + 2 z lse) - smoothed one hot) * factor. Near certainty the target's difference is
   taken in double. */
static void gradient_row(const struct loss *loss, const float *logits, float lse, int32_t target,
                         float factor, float *dx)
{
    const uint64_t n = loss->n_classes;
    const double smoothing = (double)loss->request->op->smoothing;
    const double shared = smoothing / (double)n;
    const double slope = 2 * (double)loss->request->op->z_loss * (double)lse;

    if (target < 0) {
        memset(dx, 0, n * sizeof *dx);
        return;
    }
    loss->request->device->simd->exp_scaled(dx, logits, lse, (float)(1 + slope) * factor,
                                            (float)shared * factor, n);
    if ((uint64_t)target < n) {
        const double log_p = (double)logits[target] - (double)lse;

        dx[target] = (float)(expm1(log_p) + slope * exp(log_p) + smoothing - shared) * factor;
    }
}

static void backward_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct loss *loss = context;
    const struct pst_call *call = loss->call;
    const uint64_t n = loss->n_classes;
    const struct pst_tile in = pst_tile_make(loss->request, call->workspace, 2, n, thread, 0);
    const struct pst_tile out = pst_tile_make(loss->request, call->workspace, 2, n, thread, 1);
    const float *lse = call->y[1];

    for (uint64_t sample = begin; sample < end; sample++) {
        const int32_t *targets = targets_of(loss, sample);
        const float factor = call->scale / (float)request_counted(loss->request, targets);

        for (uint64_t r = 0; r < loss->n_rows; r++) {
            const uint64_t row = sample * loss->n_rows + r;
            const float *logits = pst_tile_read(&in, call->x[0], row * n, n);
            float *dx = pst_tile_write(&out, call->dx[0], row * n);

            gradient_row(loss, logits, lse[row], targets[r], factor, dx);
            pst_tile_done(&out, call->dx[0], row * n, n);
        }
    }
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct loss loss = loss_of(&pst_cpu_kernel_of(kernel)->request);

    loss.call = call;
    loss.targets = call->x[1];
    if (request_operand(call->dx, 0) != NULL) {
        pst_cpu_parallel(loss.request->device, loss.request->samples, backward_samples, &loss);
    }
}

const struct pst_cpu_family pst_cpu_cross_entropy = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {forward, backward, NULL},
};
