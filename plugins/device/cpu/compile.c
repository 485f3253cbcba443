/* SPDX-License-Identifier: Apache-2.0
 *
 * From an operator to its kernel: the family that serves it, else the reference kernels.
 */
#include "cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "reference/reference.h"

static const struct pst_cpu_family *const families[PST_OP_KINDS] = {
    [PST_OP_EMBEDDING] = &pst_cpu_embedding,
    [PST_OP_LAYERNORM] = &pst_cpu_layernorm,
    [PST_OP_ADD] = &pst_cpu_add,
    [PST_OP_DROPOUT] = &pst_cpu_dropout,
    [PST_OP_ACT] = &pst_cpu_act,
    [PST_OP_CROSS_ENTROPY] = &pst_cpu_cross_entropy,
    [PST_OP_BATCHNORM] = &pst_cpu_batchnorm,
    [PST_OP_MAXPOOL2D] = &pst_cpu_maxpool2d,
    [PST_OP_MSE] = &pst_cpu_mse,
    [PST_OP_RMSNORM] = &pst_cpu_layernorm,
    [PST_OP_AVGPOOL2D] = &pst_cpu_avgpool2d,
    [PST_OP_ROTARY] = &pst_cpu_rotary,
    [PST_OP_GLU] = &pst_cpu_glu,
    [PST_OP_QKNORM] = &pst_cpu_qknorm,
    [PST_OP_CONSTANT] = &pst_cpu_samples,
    [PST_OP_MAP] = &pst_cpu_samples,
    [PST_OP_REDUCE] = &pst_cpu_samples,
    [PST_OP_SOFTMAX] = &pst_cpu_samples,
    [PST_OP_RESHAPE] = &pst_cpu_samples,
    [PST_OP_STRIDED] = &pst_cpu_samples,
    [PST_OP_GATHER] = &pst_cpu_samples,
    [PST_OP_BCE] = &pst_cpu_samples,
    [PST_OP_CONVERT] = &pst_cpu_samples,
    [PST_OP_CE_PART] = &pst_cpu_ce_part,
    [PST_OP_CE_JOIN] = &pst_cpu_ce_join,
#ifdef PENSTOCK_ONEDNN
    [PST_OP_LINEAR] = &pst_cpu_linear,
    [PST_OP_ATTENTION] = &pst_cpu_attention,
    [PST_OP_CONV2D] = &pst_cpu_conv2d,
    [PST_OP_EXPERTS] = &pst_cpu_experts,
    [PST_OP_MATMUL] = &pst_cpu_matmul,
#else
    [PST_OP_MATMUL] = &pst_cpu_samples,
#endif
};

/* NULL where the reference kernels serve it. */
static const struct pst_cpu_family *family_of(const struct pst_op_request *request)
{
    const struct pst_cpu_family *family =
        request->op->kind < PST_OP_KINDS ? families[request->op->kind] : NULL;

#ifdef PENSTOCK_ONEDNN
    if (request->op->kind == PST_OP_CONV2D && pst_cpu_strided.serves(request)) {
        family = &pst_cpu_strided;
    }
#endif
    if (request->op->positions > 0 && request->op->kind == PST_OP_ATTENTION &&
        request->pass == PST_KERNEL_F) {
        return &pst_cpu_cached; /* the one that there is */
    }
    if (request->op->custom != NULL) {
        return &pst_cpu_custom; /* the same: the session has seen that it serves */
    }
    if (request->device->reference || family == NULL || request->pass > PST_KERNEL_W ||
        family->run[request->pass] == NULL || request->samples == 0 ||
        (request->dtype != PST_F32 && request->dtype != PST_BF16) || !family->serves(request)) {
        return NULL;
    }
    return family;
}

static void destroy(struct pst_kernel *base)
{
    struct pst_cpu_kernel *kernel = (struct pst_cpu_kernel *)(void *)base;

    if (kernel->family->finish != NULL) {
        kernel->family->finish(kernel);
    }
    free(kernel);
}

/*
 * One device at a time makes primitives: oneDNN's cache of them synchronises by means that the
 * thread sanitizer cannot see inside an uninstrumented library, and making them takes milliseconds
 * once.
 */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static pst_status init_kernel(struct pst_cpu_kernel *kernel, struct pst_error *err)
{
    pst_status status;

    if (kernel->family->init == NULL) {
        return PST_OK;
    }
    pthread_mutex_lock(&making);
    status = kernel->family->init(kernel, err);
    pthread_mutex_unlock(&making);
    return status;
}

pst_status pst_cpu_compile(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                           uint32_t pass, uint32_t samples, struct pst_kernel **ret_kernel,
                           struct pst_error *err)
{
    const struct pst_op_request request = request_of(device, graph, op, pass, samples);
    const struct pst_cpu_family *family = family_of(&request);
    struct pst_cpu_kernel *kernel;
    pst_status status;

    if (family == NULL) {
        return pst_reference_kernel(graph, op, pass, samples, ret_kernel, err);
    }
    kernel = pst_alloc(1, family->kernel_bytes);
    kernel->request = request;
    kernel->family = family;
    kernel->base.run = family->run[pass];
    kernel->base.destroy = destroy;
    kernel->base.workspace_bytes = family->workspace == NULL ? 0 : family->workspace(&request);
    status = init_kernel(kernel, err);
    if (status != PST_OK) {
        pst_error_prefix(err, "operator %s", request.op->name);
        destroy(&kernel->base);
        return status;
    }
    *ret_kernel = &kernel->base;
    return PST_OK;
}

uint64_t pst_cpu_workspace(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                           uint32_t pass, uint32_t samples)
{
    const struct pst_op_request request = request_of(device, graph, op, pass, samples);
    const struct pst_cpu_family *family = family_of(&request);

    if (family == NULL) {
        return pst_reference_workspace(graph, op, pass, samples);
    }
    return family->workspace == NULL ? 0 : family->workspace(&request);
}

void pst_cpu_copy_scratch(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *request = &pst_cpu_kernel_of(kernel)->request;

    for (uint32_t i = 0; i < request->op->n_param; i++) {
        float *dp = request_dp(request, call, i);

        if (dp != NULL) {
            memcpy(dp, call->z[i], request_parameter(request, i)->elems * sizeof *dp);
        }
    }
}
