/* SPDX-License-Identifier: Apache-2.0
 *
 * The general operators: the reference kernel of one sample, for every sample of the micro-batch,
 * on as many threads as there are. No sample knows of another, so the split changes no bit.
 */
#include "cpu.h"

#include "graph/draft.h"
#include "reference/reference.h"

struct samples {
    struct pst_cpu_kernel base;
    struct pst_kernel *one;
    uint64_t bytes; /* workspace of one */
};

struct work {
    const struct samples *samples;
    const struct pst_call *call;
};

static uint32_t op_of(const struct pst_op_request *request)
{
    return (uint32_t)(request->op - request->graph->ops);
}

/* Rounded, so that each thread's begins where a vector may. */
static uint64_t one_bytes(const struct pst_op_request *request)
{
    const uint64_t bytes =
        pst_reference_workspace(request->graph, op_of(request), request->pass, 1);

    return (bytes + 63) / 64 * 64;
}

static bool serves(const struct pst_op_request *request)
{
    return request->device->threads > 1 && request->samples > 1;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    return request->device->threads * one_bytes(request);
}

static pst_status init(struct pst_cpu_kernel *kernel, struct pst_error *err)
{
    struct samples *samples = (struct samples *)(void *)kernel;
    const struct pst_op_request *request = &kernel->request;

    samples->bytes = one_bytes(request);
    return pst_reference_kernel(request->graph, op_of(request), request->pass, 1, &samples->one,
                                err);
}

static void finish(struct pst_cpu_kernel *kernel)
{
    struct samples *samples = (struct samples *)(void *)kernel;

    if (samples->one != NULL) {
        samples->one->destroy(samples->one);
    }
}

/* Where the operand of a sample begins; NULL stays. */
static void *shifted(const void *operand, const struct pst_tensor *tensor, uint64_t sample)
{
    return operand == NULL ? NULL : (char *)(uintptr_t)operand + sample * tensor->bytes;
}

static void shift_all(const struct pst_op_request *request, const uint32_t *tensors, uint32_t n,
                      void *const *operands, uint64_t sample, void **ret_shifted)
{
    for (uint32_t i = 0; i < n; i++) {
        ret_shifted[i] =
            shifted(request_operand(operands, i), &request->graph->tensors[tensors[i]], sample);
    }
}

static void some_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct work *work = context;
    const struct samples *samples = work->samples;
    const struct pst_op_request *request = &samples->base.request;
    const struct pst_op *op = request->op;
    void *x[PST_MAX_IN], *y[PST_MAX_OUT], *dx[PST_MAX_IN], *add[PST_MAX_IN];
    struct pst_call call = *work->call;

    call.x = x;
    call.y = y;
    call.dx = dx;
    call.add = add;
    call.workspace = (char *)work->call->workspace + thread * samples->bytes;
    for (uint64_t sample = begin; sample < end; sample++) {
        shift_all(request, op->in, op->n_in, work->call->x, sample, x);
        shift_all(request, op->out, op->n_out, work->call->y, sample, y);
        shift_all(request, op->in, op->n_in, work->call->dx, sample, dx);
        shift_all(request, op->in, op->n_in, work->call->add, sample, add);
        call.dy = shifted(work->call->dy, request_out(request), sample);
        call.first_sample = work->call->first_sample + sample;
        samples->one->run(samples->one, &call);
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct samples *samples = (const struct samples *)(const void *)kernel;
    struct work work = {samples, call};

    pst_cpu_parallel(samples->base.request.device, samples->base.request.samples, some_samples,
                     &work);
}

const struct pst_cpu_family pst_cpu_samples = {
    .kernel_bytes = sizeof(struct samples),
    .serves = serves,
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {run, run, NULL},
};
