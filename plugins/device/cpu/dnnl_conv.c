/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution through oneDNN on NHWC images. Parameters lie as [kh,kw,in,(group,)out]; the
 * primitive picks its own form of them, and a reorder from or into a packed copy in the workspace
 * goes with it.
 */
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "cpu.h"

/* Descriptors of the tensors, and of the primitives of one pass. */
struct conv_descs {
    dnnl_memory_desc_t src, weights, any_weights, bias, dst;
    dnnl_primitive_desc_t conv, reorder; /* reorder: NULL where the primitive takes weights as is */
    uint64_t scratch_bytes, packed_bytes;
};

struct conv {
    struct pst_cpu_kernel base;
    bool has_bias;
    uint64_t scratch_bytes, packed_bytes, pixels, channels; /* pixels: rows of the result */
    dnnl_primitive_t conv, reorder;
    dnnl_memory_t src, dst, weights, packed, bias, scratch;
};

/* As for products: no bf16 in hardware, no primitive. */
static bool serves(const struct pst_op_request *request)
{
    return request->dtype == PST_F32 || pst_dnnl_has_bf16();
}

/* --- descriptors ------------------------------------------------------------------------------ */

static dnnl_data_type_t type_of(uint32_t dtype)
{
    return dtype == PST_BF16 ? dnnl_bf16 : dnnl_f32;
}

static void describe_tensors(const struct pst_op_request *request, struct conv_descs *descs)
{
    const struct pst_tensor *x = request_in(request, 0), *y = request_out(request);
    const struct pst_op *op = request->op;
    const dnnl_dim_t n = (dnnl_dim_t)request->samples, in = (dnnl_dim_t)x->dims[2];
    const dnnl_dim_t out = (dnnl_dim_t)y->dims[2];
    const dnnl_dims_t src = {n, in, (dnnl_dim_t)x->dims[0], (dnnl_dim_t)x->dims[1]};
    const dnnl_dims_t dst = {n, out, (dnnl_dim_t)y->dims[0], (dnnl_dim_t)y->dims[1]};
    const dnnl_dim_t groups = request_groups(request);
    const dnnl_dims_t weights = {out, in, op->kernel[0], op->kernel[1]};
    const dnnl_dims_t grouped = {groups, out / groups, in / groups, op->kernel[0], op->kernel[1]};
    const dnnl_dims_t bias = {out};
    const dnnl_data_type_t type = type_of(request->dtype);
    /* gradients of parameters are f32 */
    const dnnl_data_type_t weights_type = request->pass == PST_KERNEL_W ? dnnl_f32 : type;

    dnnl_memory_desc_init_by_tag(&descs->src, 4, src, type, dnnl_nhwc);
    dnnl_memory_desc_init_by_tag(&descs->dst, 4, dst, type, dnnl_nhwc);
    dnnl_memory_desc_init_by_tag(&descs->weights, groups == 1 ? 4 : 5,
                                 groups == 1 ? weights : grouped, weights_type,
                                 groups == 1 ? dnnl_hwio : dnnl_hwigo);
    dnnl_memory_desc_init_by_tag(&descs->any_weights, groups == 1 ? 4 : 5,
                                 groups == 1 ? weights : grouped, weights_type,
                                 dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&descs->bias, 1, bias, dnnl_f32, dnnl_a);
}

static dnnl_status_t conv_desc(const struct pst_op_request *request, const struct conv_descs *descs,
                               uint32_t pass, dnnl_convolution_desc_t *ret_desc)
{
    const struct pst_op *op = request->op;
    const dnnl_dims_t strides = {op->stride[0], op->stride[1]};
    const dnnl_dims_t pad = {op->pad[0], op->pad[1]};
    const dnnl_dims_t far_pad = {op->pad[0] + op->pad_more[0], op->pad[1] + op->pad_more[1]};
    const struct pst_window w = request_window(request);
    const dnnl_dims_t dilates = {w.dilation[0] - 1, w.dilation[1] - 1}; /* pixels in between */
    const bool has_bias = request_has_param(request, 1);

    switch (pass) {
    case PST_KERNEL_F:
        return dnnl_dilated_convolution_forward_desc_init(
            ret_desc, dnnl_forward_training, dnnl_convolution_direct, &descs->src,
            &descs->any_weights, has_bias ? &descs->bias : NULL, &descs->dst, strides, dilates, pad,
            far_pad);
    case PST_KERNEL_B:
        return dnnl_dilated_convolution_backward_data_desc_init(
            ret_desc, dnnl_convolution_direct, &descs->src, &descs->any_weights, &descs->dst,
            strides, dilates, pad, far_pad);
    default:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            ret_desc, dnnl_convolution_direct, &descs->src, &descs->any_weights, NULL, &descs->dst,
            strides, dilates, pad, far_pad);
    }
}

/* The backward passes want to know what the forward pass would be. */
static dnnl_status_t describe_conv(const struct pst_op_request *request,
                                   const struct conv_descs *descs, dnnl_primitive_attr_t attr,
                                   dnnl_primitive_desc_t *ret_conv)
{
    dnnl_convolution_desc_t forward, desc;
    dnnl_primitive_desc_t hint = NULL;
    struct conv_descs hint_descs = *descs;
    dnnl_status_t status;

    hint_descs.any_weights.data_type = descs->src.data_type;
    status = conv_desc(request, &hint_descs, PST_KERNEL_F, &forward);
    if (status == dnnl_success) {
        status = dnnl_primitive_desc_create(request->pass == PST_KERNEL_F ? ret_conv : &hint,
                                            &forward, attr, request->device->engine, NULL);
    }
    if (status == dnnl_success && request->pass != PST_KERNEL_F) {
        status = conv_desc(request, descs, request->pass, &desc);
        if (status == dnnl_success) {
            status =
                dnnl_primitive_desc_create(ret_conv, &desc, attr, request->device->engine, hint);
        }
    }
    if (hint != NULL) {
        dnnl_primitive_desc_destroy(hint);
    }
    return status;
}

static const dnnl_memory_desc_t *packed_desc(const struct pst_op_request *request,
                                             const struct conv_descs *descs)
{
    return dnnl_primitive_desc_query_md(
        descs->conv,
        request->pass == PST_KERNEL_W ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static uint64_t scratch_of(dnnl_primitive_desc_t desc)
{
    return dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
}

static dnnl_status_t describe_reorder(const struct pst_op_request *request,
                                      dnnl_primitive_attr_t attr, struct conv_descs *descs)
{
    const dnnl_memory_desc_t *packed = packed_desc(request, descs);
    const bool back = request->pass == PST_KERNEL_W;
    const dnnl_engine_t engine = request->device->engine;

    if (dnnl_memory_desc_equal(packed, &descs->weights)) {
        return dnnl_success;
    }
    descs->packed_bytes = rounded(dnnl_memory_desc_get_size(packed));
    return dnnl_reorder_primitive_desc_create(&descs->reorder, back ? packed : &descs->weights,
                                              engine, back ? &descs->weights : packed, engine,
                                              attr);
}

static void finish_descs(struct conv_descs *descs)
{
    if (descs->conv != NULL) {
        dnnl_primitive_desc_destroy(descs->conv);
    }
    if (descs->reorder != NULL) {
        dnnl_primitive_desc_destroy(descs->reorder);
    }
}

/* finish_descs() in any case. */
static dnnl_status_t make_descs(const struct pst_op_request *request, struct conv_descs *descs)
{
    const int old = pst_cpu_threads_push(request->device->threads);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);

    memset(descs, 0, sizeof *descs);
    describe_tensors(request, descs);
    if (status == dnnl_success) {
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    }
    if (status == dnnl_success) {
        status = describe_conv(request, descs, attr, &descs->conv);
    }
    if (status == dnnl_success) {
        descs->scratch_bytes = scratch_of(descs->conv);
        status = describe_reorder(request, attr, descs);
    }
    if (status == dnnl_success && descs->reorder != NULL &&
        scratch_of(descs->reorder) > descs->scratch_bytes) {
        descs->scratch_bytes = scratch_of(descs->reorder);
    }
    descs->scratch_bytes = rounded(descs->scratch_bytes);
    if (attr != NULL) {
        dnnl_primitive_attr_destroy(attr);
    }
    pst_cpu_threads_pop(old);
    return status;
}

/* oneDNN's scratch, packed weights, partial sums of the bias gradient. */
static uint64_t workspace_of(const struct pst_op_request *request, const struct conv_descs *descs)
{
    const bool sums = request->pass == PST_KERNEL_W && request_has_param(request, 1);

    return descs->scratch_bytes + descs->packed_bytes +
           (sums ? pst_cpu_bias_floats(request) * sizeof(float) : 0);
}

static uint64_t workspace(const struct pst_op_request *request)
{
    struct conv_descs descs;
    uint64_t bytes = 0;

    if (make_descs(request, &descs) == dnnl_success) {
        bytes = workspace_of(request, &descs);
    }
    finish_descs(&descs);
    return bytes;
}

/* --- the kernel ------------------------------------------------------------------------------- */

static dnnl_status_t make_memories(struct conv *conv, const struct conv_descs *descs)
{
    const struct pst_op_request *request = &conv->base.request;
    const dnnl_dims_t scratch_dims = {(dnnl_dim_t)descs->scratch_bytes};
    dnnl_memory_desc_t scratch;
    dnnl_status_t status;

    /* one that fits both primitives */
    dnnl_memory_desc_init_by_tag(&scratch, 1, scratch_dims, dnnl_u8, dnnl_a);
    const struct {
        dnnl_memory_t *memory;
        const dnnl_memory_desc_t *desc;
    } rows[] = {
        {&conv->src, &descs->src},         {&conv->dst, &descs->dst},
        {&conv->weights, &descs->weights}, {&conv->packed, packed_desc(request, descs)},
        {&conv->bias, &descs->bias},       {&conv->scratch, &scratch},
    };

    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        status = dnnl_memory_create(rows[i].memory, rows[i].desc, request->device->engine,
                                    DNNL_MEMORY_NONE);
        if (status != dnnl_success) {
            return status;
        }
    }
    return dnnl_success;
}

static pst_status init(struct pst_cpu_kernel *kernel, struct pst_error *err)
{
    struct conv *conv = (struct conv *)(void *)kernel;
    const struct pst_op_request *request = &kernel->request;
    struct conv_descs descs;
    dnnl_status_t status = make_descs(request, &descs);

    if (status == dnnl_success) {
        conv->scratch_bytes = descs.scratch_bytes;
        conv->packed_bytes = descs.packed_bytes;
        conv->has_bias = request_has_param(request, 1);
        conv->channels = request_columns(request_out(request));
        conv->pixels = request_rows(request, request_out(request));
        status = dnnl_primitive_create(&conv->conv, descs.conv);
    }
    if (status == dnnl_success && descs.reorder != NULL) {
        status = dnnl_primitive_create(&conv->reorder, descs.reorder);
    }
    if (status == dnnl_success) {
        status = make_memories(conv, &descs);
    }
    finish_descs(&descs);
    if (status != dnnl_success) {
        pst_dnnl_heed_no_memory(status);
        return pst_fail(err, PST_ERR_DEVICE, "run.device", "oneDNN made no convolution (status %d)",
                        (int)status);
    }
    return PST_OK;
}

static void finish(struct pst_cpu_kernel *kernel)
{
    struct conv *conv = (struct conv *)(void *)kernel;
    const dnnl_memory_t memories[] = {conv->src,    conv->dst,  conv->weights,
                                      conv->packed, conv->bias, conv->scratch};

    for (uint32_t i = 0; i < sizeof memories / sizeof memories[0]; i++) {
        if (memories[i] != NULL) {
            dnnl_memory_destroy(memories[i]);
        }
    }
    if (conv->conv != NULL) {
        dnnl_primitive_destroy(conv->conv);
    }
    if (conv->reorder != NULL) {
        dnnl_primitive_destroy(conv->reorder);
    }
}

static void execute(const struct conv *conv, dnnl_primitive_t primitive,
                    const dnnl_exec_arg_t *args, int n_args)
{
    const dnnl_stream_t stream = conv->base.request.device->stream;

    dnnl_status_t status = dnnl_primitive_execute(primitive, stream, n_args, args);

    if (status == dnnl_success) {
        status = dnnl_stream_wait(stream);
    }
    pst_dnnl_must(status);
}

/* Between the parameter's own form and the packed one. */
static void reorder(const struct conv *conv)
{
    const bool back = conv->base.request.pass == PST_KERNEL_W;
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_FROM, back ? conv->packed : conv->weights},
        {DNNL_ARG_TO, back ? conv->weights : conv->packed},
        {DNNL_ARG_SCRATCHPAD, conv->scratch},
    };

    if (conv->reorder != NULL) {
        execute(conv, conv->reorder, args, 3);
    }
}

/* Points the memories at this call's operands. */
static void attach(const struct conv *conv, const struct pst_call *call, const void *src,
                   const void *dst, const void *weights)
{
    char *packed = (char *)call->workspace + conv->scratch_bytes;

    dnnl_memory_set_data_handle(conv->scratch, call->workspace);
    dnnl_memory_set_data_handle(conv->src, (void *)(uintptr_t)src);
    dnnl_memory_set_data_handle(conv->dst, (void *)(uintptr_t)dst);
    dnnl_memory_set_data_handle(conv->weights, (void *)(uintptr_t)weights);
    dnnl_memory_set_data_handle(conv->packed,
                                conv->reorder == NULL ? (void *)(uintptr_t)weights : packed);
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct conv *conv = (const struct conv *)(const void *)kernel;
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, conv->src},   {DNNL_ARG_WEIGHTS, conv->packed},
        {DNNL_ARG_DST, conv->dst},   {DNNL_ARG_SCRATCHPAD, conv->scratch},
        {DNNL_ARG_BIAS, conv->bias},
    };

    attach(conv, call, call->x[0], call->y[0], call->p[0]);
    if (conv->has_bias) {
        dnnl_memory_set_data_handle(conv->bias, call->p[1]);
    }
    reorder(conv);
    execute(conv, conv->conv, args, conv->has_bias ? 5 : 4);
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct conv *conv = (const struct conv *)(const void *)kernel;
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_DIFF_SRC, conv->src},
        {DNNL_ARG_WEIGHTS, conv->packed},
        {DNNL_ARG_DIFF_DST, conv->dst},
        {DNNL_ARG_SCRATCHPAD, conv->scratch},
    };

    if (request_operand(call->dx, 0) != NULL) {
        attach(conv, call, call->dx[0], call->dy, call->p[0]);
        reorder(conv);
        execute(conv, conv->conv, args, 4);
    }
}

static void weights(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct conv *conv = (const struct conv *)(const void *)kernel;
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, conv->src},
        {DNNL_ARG_DIFF_WEIGHTS, conv->packed},
        {DNNL_ARG_DIFF_DST, conv->dst},
        {DNNL_ARG_SCRATCHPAD, conv->scratch},
    };

    if (call->dp[0] != NULL) {
        attach(conv, call, call->x[0], call->dy, call->dp[0]);
        execute(conv, conv->conv, args, 4);
        reorder(conv);
    }
    if (conv->has_bias && call->dp[1] != NULL) {
        char *floats = (char *)call->workspace + conv->scratch_bytes + conv->packed_bytes;

        pst_cpu_bias_gradient(&conv->base.request, call->dy, conv->pixels, conv->channels,
                              call->dp[1], (float *)(void *)floats);
    }
}

const struct pst_cpu_family pst_cpu_conv2d = {
    .kernel_bytes = sizeof(struct conv),
    .serves = serves,
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {forward, backward, weights},
};
