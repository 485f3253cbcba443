/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <stdlib.h>

#include "base/memory.h"
#include "kernel.h"

static const struct pst_reference_family *const families[PST_OP_KINDS] = {
    [PST_OP_EMBEDDING] = &pst_reference_embedding,
    [PST_OP_LINEAR] = &pst_reference_linear,
    [PST_OP_LAYERNORM] = &pst_reference_layernorm,
    [PST_OP_ATTENTION] = &pst_reference_attention,
    [PST_OP_ADD] = &pst_reference_add,
    [PST_OP_DROPOUT] = &pst_reference_dropout,
    [PST_OP_ACT] = &pst_reference_act,
    [PST_OP_CROSS_ENTROPY] = &pst_reference_cross_entropy,
    [PST_OP_CONV2D] = &pst_reference_conv2d,
    [PST_OP_BATCHNORM] = &pst_reference_batchnorm,
    [PST_OP_MAXPOOL2D] = &pst_reference_maxpool2d,
    [PST_OP_AVGPOOL] = &pst_reference_avgpool,
    [PST_OP_CONCAT] = &pst_reference_concat,
    [PST_OP_MSE] = &pst_reference_mse,
    [PST_OP_RMSNORM] = &pst_reference_layernorm,
    [PST_OP_AVGPOOL2D] = &pst_reference_avgpool2d,
    [PST_OP_SHIFT2D] = &pst_reference_shift2d,
};

/* Matrices have the type of the activations, vectors that of the arithmetic. */
static bool params_match(const struct pst_op_request *request)
{
    for (uint32_t i = 0; i < request->op->n_param; i++) {
        if (request_has_param(request, i)) {
            const struct pst_parameter *param = request_parameter(request, i);
            const bool wide = param->rank < 2 && request->dtype == PST_BF16;

            if (param->dtype != (wide ? (uint32_t)PST_F32 : request->dtype)) {
                return false;
            }
        }
    }
    return true;
}

/* The function for it, NULL where there is none; its workspace in bytes. */
static pst_reference_run *choose(const struct pst_op_request *request, uint64_t *ret_workspace)
{
    const struct pst_op *op = request->op;
    const struct pst_reference_family *family;
    uint64_t elems;

    if (op->kind >= PST_OP_KINDS || request->pass > PST_KERNEL_W || !(op->p >= 0 && op->p < 1)) {
        return NULL;
    }
    family = families[op->kind];
    if (request->dtype > PST_F64 || !params_match(request)) {
        return NULL;
    }
    elems = family->workspace == NULL ? 0 : family->workspace(request);
    *ret_workspace = elems * (request->dtype == PST_F64 ? sizeof(double) : sizeof(float));
    return family->run[request->dtype][request->pass];
}

static void destroy(struct pst_kernel *kernel)
{
    free(kernel);
}

pst_status pst_reference_kernel(const struct pst_graph *graph, uint32_t op, uint32_t pass,
                                uint32_t samples, struct pst_kernel **ret_kernel,
                                struct pst_error *err)
{
    struct pst_reference *reference = pst_alloc(1, sizeof *reference);
    struct pst_kernel *kernel = &reference->base;

    reference->request = request_of(NULL, graph, op, pass, samples);
    kernel->destroy = destroy;
    kernel->run = choose(&reference->request, &kernel->workspace_bytes);
    if (kernel->run == NULL) {
        free(reference);
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "operator %s: no reference kernel for pass %c of its kind and types",
                        graph->ops[op].name, "FBW?"[pass > PST_KERNEL_W ? 3 : pass]);
    }
    *ret_kernel = kernel;
    return PST_OK;
}

uint64_t pst_reference_workspace(const struct pst_graph *graph, uint32_t op, uint32_t pass,
                                 uint32_t samples)
{
    const struct pst_op_request request = request_of(NULL, graph, op, pass, samples);
    uint64_t bytes = 0;

    return choose(&request, &bytes) == NULL ? 0 : bytes;
}
