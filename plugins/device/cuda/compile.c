/* SPDX-License-Identifier: Apache-2.0
 *
 * From an operator to its kernel.
 */
#include "dnn.h"

#include <stdlib.h>

#include "base/memory.h"

static const struct pst_cuda_family *const families[PST_OP_KINDS] = {
    [PST_OP_EMBEDDING] = &pst_cuda_embedding_family,
    [PST_OP_LINEAR] = &pst_cuda_linear_family,
    [PST_OP_LAYERNORM] = &pst_cuda_layernorm_family,
    [PST_OP_ATTENTION] = &pst_cuda_attention_family,
    [PST_OP_ADD] = &pst_cuda_add_family,
    [PST_OP_DROPOUT] = &pst_cuda_dropout_family,
    [PST_OP_ACT] = &pst_cuda_act_family,
    [PST_OP_CROSS_ENTROPY] = &pst_cuda_cross_entropy_family,
    [PST_OP_CONV2D] = &pst_cuda_conv2d_family,
    [PST_OP_BATCHNORM] = &pst_cuda_batchnorm_family,
    [PST_OP_MAXPOOL2D] = &pst_cuda_maxpool2d_family,
    [PST_OP_AVGPOOL] = &pst_cuda_avgpool_family,
    [PST_OP_CONCAT] = &pst_cuda_concat_family,
    [PST_OP_MSE] = &pst_cuda_mse_family,
    [PST_OP_RMSNORM] = &pst_cuda_layernorm_family,
    [PST_OP_AVGPOOL2D] = &pst_cuda_avgpool2d_family,
    [PST_OP_SHIFT2D] = &pst_cuda_shift2d_family,
    [PST_OP_ROTARY] = &pst_cuda_rotary_family,
    [PST_OP_GLU] = &pst_cuda_glu_family,
    [PST_OP_QKNORM] = &pst_cuda_layernorm_family,
    [PST_OP_ROUTER] = &pst_cuda_router_family,
    [PST_OP_EXPERTS] = &pst_cuda_experts_family,
    [PST_OP_PARAMETER] = &pst_cuda_parameter_family,
    [PST_OP_CONSTANT] = &pst_cuda_constant_family,
    [PST_OP_MAP] = &pst_cuda_map_family,
    [PST_OP_REDUCE] = &pst_cuda_reduce_family,
    [PST_OP_SOFTMAX] = &pst_cuda_softmax_family,
    [PST_OP_MATMUL] = &pst_cuda_matmul_family,
    [PST_OP_RESHAPE] = &pst_cuda_reshape_family,
    [PST_OP_STRIDED] = &pst_cuda_strided_family,
    [PST_OP_GATHER] = &pst_cuda_gather_family,
    [PST_OP_BCE] = &pst_cuda_mse_family,
};

/* Families that are tried first. */
static const struct pst_cuda_family *const preferred[PST_OP_KINDS] = {
    [PST_OP_ATTENTION] = &pst_cuda_dnn_attention_family,
    [PST_OP_CONV2D] = &pst_cuda_dnn_conv_family,
};

static const struct pst_cuda_family *simple_family(const struct pst_op_request *request)
{
    const struct pst_cuda_family *family =
        request->op->kind < PST_OP_KINDS ? families[request->op->kind] : NULL;
    const bool windows = family != NULL && request->op->kernel[0] != 0;

    if (family == NULL || request->pass > PST_KERNEL_W || family->run[request->pass] == NULL ||
        request->dtype == PST_F64 || /* integers change places as f32 do */
        !(request->op->p >= 0 && request->op->p < 1) ||
        (windows && !request_is_plain_window(request))) {
        return NULL;
    }
    return family;
}

static const struct pst_cuda_family *family_of(const struct pst_op_request *request)
{
    const struct pst_cuda_family *simple = simple_family(request);
    const struct pst_cuda_family *first = simple == NULL ? NULL : preferred[request->op->kind];

    return first != NULL && first->serves(request) ? first : simple;
}

static uint64_t workspace_of(const struct pst_cuda_family *family,
                             const struct pst_op_request *request)
{
    return family == NULL || family->workspace == NULL ? 0 : family->workspace(request);
}

static void run(const struct pst_kernel *base, const struct pst_call *call)
{
    const struct pst_cuda_kernel *kernel = (const struct pst_cuda_kernel *)(const void *)base;

    atomic_store_explicit(&kernel->request.device->last, kernel->request.op->name,
                          memory_order_relaxed);
    kernel->family->run[kernel->request.pass](kernel, call);
    pst_cuda_note_launch(kernel->request.device, kernel->request.op->name);
}

/* Runs a sum without dropout and its norm as one kernel. Returns false if it cannot. */
static bool run_both(const struct pst_kernel *base, const struct pst_call *call,
                     const struct pst_kernel *next_base, const struct pst_call *next_call)
{
    const struct pst_cuda_kernel *sum = (const struct pst_cuda_kernel *)(const void *)base;
    const struct pst_cuda_kernel *next = (const struct pst_cuda_kernel *)(const void *)next_base;
    const struct pst_op_request *r = &next->request;

    if (next->family != &pst_cuda_layernorm_family || r->pass != PST_KERNEL_F ||
        (sum->request.op->p > 0 && (call->flags & PST_CALL_TRAINING) != 0) ||
        !pst_cuda_norm_of_sum(next, next_call, call)) {
        return false;
    }
    atomic_store_explicit(&r->device->last, r->op->name, memory_order_relaxed);
    pst_cuda_note_launch(r->device, r->op->name);
    return true;
}

static void finish(struct pst_cuda_kernel *kernel)
{
    if (kernel->family->finish != NULL) {
        kernel->family->finish(kernel);
    }
    kernel->state = NULL;
}

static void destroy(struct pst_kernel *base)
{
    struct pst_cuda_kernel *kernel = (struct pst_cuda_kernel *)(void *)base;

    finish(kernel);
    free(kernel);
}

/* A kernel that turns out to be unsupported falls back to the simple family, if the planned
   workspace is large enough for that. */
static pst_status init_kernel(struct pst_cuda_kernel *kernel, struct pst_error *err)
{
    const struct pst_op_request *request = &kernel->request;
    const struct pst_cuda_family *simple = simple_family(request);
    struct pst_error first = {0};
    pst_status status =
        kernel->family->init == NULL ? PST_OK : kernel->family->init(kernel, &first);

    if (status == PST_ERR_UNSUPPORTED && kernel->family != simple &&
        workspace_of(simple, request) <= kernel->base.workspace_bytes) {
        finish(kernel);
        kernel->family = simple;
        status = simple->init == NULL ? PST_OK : simple->init(kernel, &first);
    }
    if (status != PST_OK && err != NULL) {
        *err = first;
    }
    return status;
}

/* squares() has no workspace of a plan: room for all parameters of the graph. */
static pst_status reserve_squares(struct pst_device *device, const struct pst_graph *graph,
                                  struct pst_error *err)
{
    uint64_t all = 0;
    cudaError_t error;

    for (uint32_t i = 0; i < graph->n_params; i++) {
        all += pst_cuda_square_doubles(graph->params[i].elems);
    }
    if (all <= device->n_squares) {
        return PST_OK;
    }
    cudaFree(device->squares);
    device->squares = NULL;
    device->n_squares = 0;
    error = cudaMalloc((void **)&device->squares, all * sizeof *device->squares);
    if (error != cudaSuccess) {
        return pst_cuda_fail(err, "scratch for norms", error);
    }
    device->n_squares = all;
    return PST_OK;
}

pst_status pst_cuda_compile(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                            uint32_t pass, uint32_t samples, struct pst_kernel **ret_kernel,
                            struct pst_error *err)
{
    const struct pst_op_request request = request_of(device, graph, op, pass, samples);
    const struct pst_cuda_family *family = family_of(&request);
    struct pst_cuda_kernel *kernel;
    pst_status status = reserve_squares(device, graph, err);

    if (status == PST_OK) {
        status = pst_cuda_muon_reserve(device, graph, err);
    }
    if (status != PST_OK) {
        return status;
    }
    if (family == NULL) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "device cuda has no kernel for pass %c of operator %s",
                        "FBW?"[pass > PST_KERNEL_W ? 3 : pass], request.op->name);
    }
    kernel = pst_alloc(1, sizeof *kernel);
    kernel->request = request;
    kernel->family = family;
    kernel->base.run = run;
    kernel->base.destroy = destroy;
    kernel->base.run_both =
        request.op->kind == PST_OP_ADD && pass == PST_KERNEL_F && device->choices.paired ? run_both
                                                                                         : NULL;
    kernel->base.workspace_bytes = workspace_of(family, &request);
    status = init_kernel(kernel, err);
    if (status != PST_OK) {
        destroy(&kernel->base);
        return status;
    }
    *ret_kernel = &kernel->base;
    return PST_OK;
}

uint64_t pst_cuda_workspace(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                            uint32_t pass, uint32_t samples)
{
    const struct pst_op_request request = request_of(device, graph, op, pass, samples);

    return workspace_of(family_of(&request), &request);
}

void pst_cuda_copy_scratch(const struct pst_cuda_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *r = &kernel->request;
    struct pst_cuda_rounding list[PST_MAX_SCRATCH];
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->op->n_param; i++) {
        float *dp = request_dp(r, call, i);

        if (dp != NULL) {
            list[n++] = (struct pst_cuda_rounding){call->z[i], dp, request_parameter(r, i)->elems};
        }
    }
    if (n > 0) {
        pst_cuda_round(r->device->compute, false, list, n);
    }
}

cudaStream_t pst_cuda_stream(const struct pst_op_request *request)
{
    return request->device->compute;
}
