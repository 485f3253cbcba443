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
    [PST_OP_RMSNORM] = &pst_reference_rmsnorm,
    [PST_OP_AVGPOOL2D] = &pst_reference_avgpool2d,
    [PST_OP_SHIFT2D] = &pst_reference_shift2d,
};

/* The dtype that names the instance: that of the logits for a loss, else that of the result. */
static uint32_t dtype_of(const struct pst_reference *reference)
{
    const struct pst_tensor *tensor =
        pst_op_is_loss(reference->op->kind) ? reference_in(reference, 0) : reference_out(reference);

    return tensor->dtype;
}

/* Matrices have the type of the activations, vectors that of the arithmetic. */
static bool params_match(const struct pst_reference *reference, uint32_t dtype)
{
    const struct pst_op *op = reference->op;
    uint32_t i;

    for (i = 0; i < op->n_param; i++) {
        const struct pst_parameter *param;

        if (op->param[i] == PST_NONE) {
            continue;
        }
        param = &reference->graph->params[op->param[i]];
        if (param->dtype != (param->rank < 2 && dtype == PST_BF16 ? (uint32_t)PST_F32 : dtype)) {
            return false;
        }
    }
    return true;
}

/* The function for it, NULL where there is none; its workspace in bytes. */
static pst_reference_run *choose(const struct pst_reference *reference, uint64_t *ret_workspace)
{
    const struct pst_op *op = reference->op;
    const struct pst_reference_family *family;
    uint32_t dtype;
    uint64_t elems;

    if (op->kind >= PST_OP_KINDS || reference->pass > PST_KERNEL_W || !(op->p >= 0 && op->p < 1)) {
        return NULL;
    }
    family = families[op->kind];
    dtype = dtype_of(reference);
    if (dtype > PST_F64 || !params_match(reference, dtype)) {
        return NULL;
    }
    elems = family->workspace == NULL ? 0 : family->workspace(reference);
    *ret_workspace = elems * (dtype == PST_F64 ? sizeof(double) : sizeof(float));
    return family->run[dtype][reference->pass];
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

    reference->graph = graph;
    reference->op = &graph->ops[op];
    reference->pass = pass;
    reference->samples = samples;
    reference->base.destroy = destroy;
    reference->base.run = choose(reference, &reference->base.workspace_bytes);
    if (reference->base.run == NULL) {
        free(reference);
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "operator %s: no reference kernel for pass %c of its kind and types",
                        graph->ops[op].name, "FBW?"[pass > PST_KERNEL_W ? 3 : pass]);
    }
    *ret_kernel = &reference->base;
    return PST_OK;
}

uint64_t pst_reference_workspace(const struct pst_graph *graph, uint32_t op, uint32_t pass,
                                 uint32_t samples)
{
    struct pst_reference reference = {0};
    uint64_t bytes = 0;

    reference.graph = graph;
    reference.op = &graph->ops[op];
    reference.pass = pass;
    reference.samples = samples;
    return choose(&reference, &bytes) == NULL ? 0 : bytes;
}
