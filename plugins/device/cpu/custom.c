/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of plugins: the kernels are the plugin's, called with the operands of the step and the
 * threads of the device.
 */
#include "cpu.h"

#include "graph/custom.h"

#define DEVICE "cpu"

static const struct pst_operator_kernels *kernels_of(const struct pst_op_request *request)
{
    const struct pst_custom *custom = request->op->custom;

    return pst_custom_kernels(custom, DEVICE, custom->question.dtype);
}

/* Never more than sums of bytes can hold; no arena has as much. */
static uint64_t workspace(const struct pst_op_request *request)
{
    const struct pst_custom *custom = request->op->custom;
    const struct pst_operator_kernels *kernels = kernels_of(request);
    const uint64_t bytes = kernels != NULL && PST_CAN(kernels, workspace)
                               ? kernels->workspace(custom->self, &custom->question, &custom->row,
                                                    request->pass, request->samples)
                               : 0;

    return bytes < PST_CUSTOM_MAX_WORKSPACE ? bytes : PST_CUSTOM_MAX_WORKSPACE;
}

struct custom_kernel {
    struct pst_cpu_kernel base; /* first */
    void (*run)(const void *self, const struct pst_operator_call *call);
};

static pst_status init(struct pst_cpu_kernel *kernel, struct pst_error *err)
{
    const struct pst_operator_kernels *kernels = kernels_of(&kernel->request);

    if (kernels == NULL) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "plugin %s has no kernels for device " DEVICE,
                        kernel->request.op->custom->id);
    }
    ((struct custom_kernel *)(void *)kernel)->run = kernels->run;
    return PST_OK;
}

/* The plugin's function, as pst_cpu_parallel() calls one. */
struct split {
    void (*work)(void *context, uint64_t begin, uint64_t end);
    void *context;
};

static void work_range(void *split_, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct split *split = split_;

    (void)thread;
    split->work(split->context, begin, end);
}

static void parallel(const struct pst_operator_call *call, uint64_t n,
                     void (*work)(void *context, uint64_t begin, uint64_t end), void *context)
{
    struct split split = {work, context};

    pst_cpu_parallel(call->impl, n, work_range, &split);
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct custom_kernel *own = (const struct custom_kernel *)(const void *)kernel;
    const struct pst_op_request *request = &own->base.request;
    const struct pst_custom *custom = request->op->custom;
    const struct pst_operator_call given = {
        .size = sizeof given,
        .pass = request->pass,
        .samples = request->samples,
        .flags = ((call->flags & PST_CALL_TRAINING) != 0 ? PST_OPERATOR_TRAINING : 0u) |
                 ((call->flags & PST_CALL_REPLAY) != 0 ? PST_OPERATOR_REPLAY : 0u),
        .question = &custom->question,
        .row = &custom->row,
        .x = (const void *const *)call->x,
        .p = (const void *const *)call->p,
        .y = call->y,
        .dy = call->dy,
        .dx = call->dx,
        .z = call->z,
        .dp = (void *const *)call->dp,
        .workspace = kernel->workspace_bytes > 0 ? call->workspace : NULL,
        .first_sample = call->first_sample,
        .impl = request->device,
        .parallel = parallel,
    };

    own->run(custom->self, &given);
}

const struct pst_cpu_family pst_cpu_custom = {
    .kernel_bytes = sizeof(struct custom_kernel),
    .workspace = workspace,
    .init = init,
    .run = {run, run, run},
};
