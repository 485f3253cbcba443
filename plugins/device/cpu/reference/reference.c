/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <stdlib.h>

#include "base/memory.h"
#include "graph/split.h"
#include "instantiate.h"

/* A conversion of one part alone, in any type. */
static void convert(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *request = reference_of(kernel);
    const bool forward = request->pass == PST_KERNEL_F;
    const struct pst_tensor *x = request_in(request, 0), *y = request_out(request);
    const uint64_t from = (forward ? x : y)->bytes, to = (forward ? y : x)->bytes; /* a sample */
    const bool cuts = pst_convert_work(request->op, request->pass) == PST_WORK_CUT;
    const char *operand = forward ? call->x[0] : call->dy;
    char *result = forward ? call->y[0] : call->dx[0];

    for (uint64_t sample = 0; sample < request->samples; sample++) {
        memcpy(result + sample * to, operand + sample * from + (cuts ? call->part * to : 0), to);
    }
}

#define CONVERT                                                                                    \
    {                                                                                              \
        convert, convert, NULL                                                                     \
    }

static const struct pst_reference_family families[PST_OP_KINDS] = {
    [PST_OP_EMBEDDING] = {PST_REFERENCE_F_W(embedding), NULL},
    [PST_OP_LINEAR] = {PST_REFERENCE_F_B_W(linear), linear_workspace},
    [PST_OP_LAYERNORM] = {PST_REFERENCE_F_B_W(norm), NULL},
    [PST_OP_ATTENTION] = {PST_REFERENCE_F_B_W(attention), attention_workspace},
    [PST_OP_ADD] = {PST_REFERENCE_F_B(add), NULL},
    [PST_OP_DROPOUT] = {PST_REFERENCE_F_B(dropout), NULL},
    [PST_OP_ACT] = {PST_REFERENCE_F_B(act), NULL},
    [PST_OP_CROSS_ENTROPY] = {PST_REFERENCE_F_B(cross_entropy), NULL},
    [PST_OP_CONV2D] = {PST_REFERENCE_F_B_W(conv2d), conv_workspace},
    [PST_OP_BATCHNORM] = {PST_REFERENCE_F_B_W(batchnorm), NULL},
    [PST_OP_MAXPOOL2D] = {PST_REFERENCE_F_B(maxpool2d), pool_workspace},
    [PST_OP_AVGPOOL] = {PST_REFERENCE_F_B(avgpool), NULL},
    [PST_OP_CONCAT] = {PST_REFERENCE_F_B(concat), NULL},
    [PST_OP_MSE] = {PST_REFERENCE_F_B(mse), NULL},
    [PST_OP_RMSNORM] = {PST_REFERENCE_F_B_W(norm), NULL},
    [PST_OP_AVGPOOL2D] = {PST_REFERENCE_F_B(avgpool2d), pool_workspace},
    [PST_OP_SHIFT2D] = {PST_REFERENCE_F_B(shift2d), NULL},
    [PST_OP_ROTARY] = {PST_REFERENCE_F_B(rotary), NULL},
    [PST_OP_GLU] = {PST_REFERENCE_F_B(glu), NULL},
    [PST_OP_QKNORM] = {PST_REFERENCE_F_B_W(qknorm), NULL},
    [PST_OP_ROUTER] = {PST_REFERENCE_F_B(router), router_workspace},
    [PST_OP_EXPERTS] = {PST_REFERENCE_F_B_W(experts), experts_workspace},
    [PST_OP_PARAMETER] = {PST_REFERENCE_F_W(parameter), NULL},
    [PST_OP_CONSTANT] = {PST_REFERENCE_F(constant), NULL},
    [PST_OP_MAP] = {PST_REFERENCE_F_B(map), sums_workspace},
    [PST_OP_REDUCE] = {PST_REFERENCE_F_B(reduce), NULL},
    [PST_OP_SOFTMAX] = {PST_REFERENCE_F_B(softmax), NULL},
    [PST_OP_MATMUL] = {PST_REFERENCE_F_B(matmul), matmul_workspace},
    [PST_OP_RESHAPE] = {PST_REFERENCE_F(reshape), NULL},
    [PST_OP_STRIDED] = {PST_REFERENCE_F_B(strided), sums_workspace},
    [PST_OP_BCE] = {PST_REFERENCE_F_B(mse), NULL},
    [PST_OP_GATHER] = {PST_REFERENCE_F_B(gather), sums_workspace},
    [PST_OP_CONVERT] = {{CONVERT, CONVERT, CONVERT}, NULL},
    [PST_OP_CE_PART] = {PST_REFERENCE_F(ce_part), NULL},
    [PST_OP_CE_JOIN] = {PST_REFERENCE_F_B(ce_join), NULL},
};

/* Meetings have no kernel: the executor runs them. */
static bool converts(const struct pst_op_request *request)
{
    const enum pst_convert_work work = pst_convert_work(request->op, request->pass);

    return work == PST_WORK_COPY || work == PST_WORK_CUT;
}

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
    /* Integers change places as floats do. */
    const uint32_t dtype = request->dtype == PST_I32 ? (uint32_t)PST_F32 : request->dtype;
    uint64_t elems;

    if (op->kind >= PST_OP_KINDS || request->pass > PST_KERNEL_W || !(op->p >= 0 && op->p < 1)) {
        return NULL;
    }
    family = &families[op->kind];
    if (dtype > PST_F64 || !params_match(request) ||
        (op->kind == PST_OP_CONVERT && !converts(request))) {
        return NULL;
    }
    elems = family->workspace == NULL ? 0 : family->workspace(request);
    *ret_workspace = elems * (dtype == PST_F64 ? sizeof(double) : sizeof(float));
    return family->run[dtype][request->pass];
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
