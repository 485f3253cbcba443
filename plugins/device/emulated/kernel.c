/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that take their time and note where their operands lie. The sizes of these come from the
 * graph and not from the plan: that is what makes the measured peak a check of the plan.
 */
#include "emulated.h"

#include <stdlib.h>

#include "base/memory.h"

struct kernel {
    struct pst_kernel base; /* first */
    struct pst_device *device;
    const struct pst_graph *graph;
    const struct pst_op *op;
    struct pst_op_grad grad;
    uint32_t index, pass, samples;
    uint64_t ns; /* of the first slice */
};

static uint64_t ask(const struct kernel *kernel, uint32_t slice)
{
    const struct pst_device *device = kernel->device;

    return device->times->kernel_ns(device->times->context, device->index, kernel->index,
                                    kernel->pass, kernel->samples, slice);
}

static uint64_t tensor_bytes(const struct kernel *kernel, uint32_t tensor)
{
    const struct pst_tensor *t = &kernel->graph->tensors[tensor];

    return t->bytes * (t->batched ? kernel->samples : 1);
}

static void touch_parameters(const struct kernel *kernel, const struct pst_call *call)
{
    struct pst_device *device = kernel->device;

    for (uint32_t i = 0; i < kernel->op->n_param; i++) {
        if (kernel->op->param[i] != PST_NONE) {
            const struct pst_parameter *p = &kernel->graph->params[kernel->op->param[i]];

            pst_emulated_touch(device, call->p[i], p->elems * pst_dtype_bytes(p->dtype));
            pst_emulated_touch(device, call->dp[i], p->elems * sizeof(float));
        }
    }
    for (uint32_t i = 0; i < kernel->op->n_state; i++) {
        pst_emulated_touch(device, call->state[i], kernel->op->state_elems[i] * sizeof(float));
    }
}

static void run(const struct pst_kernel *base, const struct pst_call *call)
{
    const struct kernel *kernel = (const struct kernel *)(const void *)base;
    const struct pst_op *op = kernel->op;
    struct pst_device *device = kernel->device;

    for (uint32_t i = 0; i < op->n_in; i++) {
        uint64_t bytes = tensor_bytes(kernel, op->in[i]);

        pst_emulated_touch(device, call->x[i], bytes);
        pst_emulated_touch(device, call->dx[i], bytes);
        pst_emulated_touch(device, call->add[i], bytes);
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        pst_emulated_touch(device, call->y[i], tensor_bytes(kernel, op->out[i]));
    }
    pst_emulated_touch(device, call->dy, tensor_bytes(kernel, op->out[0]));
    for (uint32_t i = 0; i < kernel->grad.n_z; i++) {
        pst_emulated_touch(device, call->z[i],
                           kernel->grad.z_elems[i] * pst_dtype_bytes(kernel->grad.z_dtype[i]) *
                               (kernel->grad.z_batched[i] ? kernel->samples : 1));
    }
    touch_parameters(kernel, call);
    pst_emulated_spend(device, op->slices > 1 ? ask(kernel, call->slice) : kernel->ns);
}

static void destroy(struct pst_kernel *base)
{
    free(base);
}

pst_status pst_emulated_compile(struct pst_device *device, const struct pst_graph *graph,
                                uint32_t op, uint32_t pass, uint32_t samples,
                                struct pst_kernel **ret_kernel, struct pst_error *err)
{
    struct kernel *kernel;

    if (device->times == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "device emulated: opened without times");
    }
    kernel = pst_alloc(1, sizeof *kernel);
    kernel->base.run = run;
    kernel->base.destroy = destroy;
    kernel->device = device;
    kernel->graph = graph;
    kernel->op = &graph->ops[op];
    kernel->index = op;
    kernel->pass = pass;
    kernel->samples = samples;
    kernel->ns = ask(kernel, 0);
    pst_op_grad_info(graph, op, &kernel->grad);
    *ret_kernel = &kernel->base;
    return PST_OK;
}
