/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy: per sample the mean over the rows whose target is not negative
 * (request_counted).
 */
#include "tile.h"

#include <math.h>
#include <string.h>

#include "graph/split.h"

struct loss {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t n_classes, n_rows; /* rows of a sample */
    uint64_t n_columns, first;  /* of a row of logits, some of which may be padding; where classes
                                   are divided over parts: the number of the first one here */
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

    loss.n_columns = loss.n_classes;
    loss.n_rows = x->elems / loss.n_columns;
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

static struct loss loss_of_call(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *request = &pst_cpu_kernel_of(kernel)->request;
    struct loss loss = loss_of(request);

    loss.call = call;
    loss.targets = call->x[1];
    if (request->op->classes > 0) {
        loss.first = call->part * loss.n_columns;
        loss.n_classes = pst_own_places(request->op->classes, loss.n_columns, call->part);
    }
    return loss;
}

/* The loss that label smoothing and z-loss add to a row's cross-entropy. `mean`: of its logits. */
static double extra(const struct loss *loss, double logit, double mean, float lse)
{
    const struct pst_op *op = loss->request->op;

    return (op->smoothing > 0 ? (double)op->smoothing * (logit - mean) : 0) +
           (double)op->z_loss * (double)lse * (double)lse;
}

/* That of a row without it, and with it where the call trains. */
static double row_loss(const struct loss *loss, const float *logits, int32_t target, float lse)
{
    const bool trains = (loss->call->flags & PST_CALL_TRAINING) != 0;
    const uint64_t n = loss->n_classes;
    float sum = 0;

    if ((uint64_t)target >= n) { /* one out of range must show */
        return (double)NAN;
    }
    if (trains && loss->request->op->smoothing > 0) {
        sum = loss->request->device->simd->sum(logits, n);
    }
    return (double)(lse - logits[target]) +
           (trains ? extra(loss, (double)logits[target], (double)sum / (double)n, lse) : 0);
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
            if (targets[r] >= 0) {
                total += row_loss(loss, logits, targets[r], log_sum);
            }
        }
        losses[sample] = counted == 0 ? 0 : (float)(total / counted);
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct loss loss = loss_of_call(kernel, call);

    pst_cpu_parallel(loss.request->device, loss.request->samples, forward_samples, &loss);
}

/* (softmax * (1 + 2 z lse) - smoothed one hot) * factor. Near certainty the target's difference is
   taken in double. */
static void gradient_row(const struct loss *loss, const float *logits, float lse, int32_t target,
                         float factor, float *dx)
{
    const uint64_t n = loss->n_classes, own = (uint64_t)target - loss->first;
    const double smoothing = (double)loss->request->op->smoothing;
    const double shared = smoothing / (double)request_classes(loss->request, n);
    const double slope = 2 * (double)loss->request->op->z_loss * (double)lse;

    memset(dx + n, 0, (loss->n_columns - n) * sizeof *dx);
    if (target < 0) {
        memset(dx, 0, n * sizeof *dx);
        return;
    }
    loss->request->device->simd->exp_scaled(dx, logits, lse, (float)(1 + slope) * factor,
                                            (float)shared * factor, n);
    if ((uint64_t)target >= loss->first && own < n) {
        const double log_p = (double)logits[own] - (double)lse;

        dx[own] = (float)(expm1(log_p) + slope * exp(log_p) + smoothing - shared) * factor;
    }
}

static void backward_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct loss *loss = context;
    const struct pst_call *call = loss->call;
    const uint64_t n = loss->n_columns;
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
    struct loss loss = loss_of_call(kernel, call);

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

/* --- classes of parts --------------------------------------------------------------------------*/

/* Computes the four numbers of a row that the part sends to the others. */
static void sum_classes_of_row(const struct loss *loss, const float *logits, int32_t target,
                               float *numbers)
{
    const struct pst_simd *simd = loss->request->device->simd;
    const uint64_t n = loss->n_classes, own = (uint64_t)target - loss->first;
    float max = -INFINITY, sum = n > 0 ? simd->exp_sum(logits, n, &max) : 0;

    numbers[PST_CE_GREATEST] = max;
    numbers[PST_CE_TARGET] =
        target >= 0 && (uint64_t)target >= loss->first && own < n ? logits[own] : 0;
    numbers[PST_CE_SUM] = n > 0 ? simd->sum(logits, n) : 0;
    numbers[PST_CE_EXP_SUM] = max > -INFINITY || isnan(numbers[PST_CE_SUM]) ? sum : 0;
}

static void sum_classes_of_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct loss *loss = context;
    const uint64_t n = loss->n_columns;
    const struct pst_tile tile =
        pst_tile_make(loss->request, loss->call->workspace, 2, n, thread, 0);
    float *numbers = loss->call->y[0];

    for (uint64_t row = begin * loss->n_rows; row < end * loss->n_rows; row++) {
        const int32_t target = targets_of(loss, row / loss->n_rows)[row % loss->n_rows];

        sum_classes_of_row(loss, pst_tile_read(&tile, loss->call->x[0], row * n, n), target,
                           numbers + row * PST_CE_NUMBERS);
    }
}

static void sum_classes(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct loss loss = loss_of_call(kernel, call);

    pst_cpu_parallel(loss.request->device, loss.request->samples, sum_classes_of_samples, &loss);
}

/* The loss of a row from what all parts say, one `stride` numbers after the other. */
static double joined_row(const struct loss *loss, const float *numbers, uint64_t stride,
                         int32_t target, float *ret_lse)
{
    const struct pst_op *op = loss->request->op;
    double exp_sum = 0, logit = 0, sum = 0;
    float max = -INFINITY;

    for (uint32_t p = 0; p < op->parts; p++) {
        const float own = numbers[p * stride + PST_CE_GREATEST];

        max = own > max ? own : max;
    }
    for (uint32_t p = 0; p < op->parts; p++) {
        const float *own = numbers + p * stride;

        exp_sum += (double)own[PST_CE_EXP_SUM] * exp((double)own[PST_CE_GREATEST] - (double)max);
        logit += (double)own[PST_CE_TARGET];
        sum += (double)own[PST_CE_SUM];
    }
    *ret_lse = max + (float)log(exp_sum);
    return target < 0 ? 0
           : (uint32_t)target >= op->classes
               ? (double)NAN
               : (double)(*ret_lse - (float)logit) +
                     ((loss->call->flags & PST_CALL_TRAINING) != 0
                          ? extra(loss, logit, sum / (double)op->classes, *ret_lse)
                          : 0);
}

static void join_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct loss *loss = context;
    const uint64_t stride = loss->n_rows * PST_CE_NUMBERS;
    float *losses = loss->call->y[0], *lse = loss->call->y[1], unused;

    (void)thread;
    for (uint64_t sample = begin; sample < end; sample++) {
        const int32_t *targets = targets_of(loss, sample);
        const double counted = request_counted(loss->request, targets);
        const float *numbers =
            (const float *)loss->call->x[2] + sample * loss->request->op->parts * stride;
        double total = 0;

        for (uint64_t r = 0; r < loss->n_rows; r++) {
            total += joined_row(loss, numbers + r * PST_CE_NUMBERS, stride, targets[r],
                                lse != NULL ? &lse[sample * loss->n_rows + r] : &unused);
        }
        losses[sample] = counted == 0 ? 0 : (float)(total / counted);
    }
}

static void join(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct loss loss = loss_of_call(kernel, call);

    pst_cpu_parallel(loss.request->device, loss.request->samples, join_samples, &loss);
}

const struct pst_cpu_family pst_cpu_ce_part = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {sum_classes, NULL, NULL},
};

const struct pst_cpu_family pst_cpu_ce_join = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {join, backward, NULL},
};
