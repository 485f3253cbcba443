/* SPDX-License-Identifier: Apache-2.0
 *
 * From an operation graph to the descriptors of cuDNN's graph interface.
 */
#include "dnn_library.h"

struct builder {
    struct pst_dnn_maker *maker;
    const struct pst_dnn_graph *graph;
    cudnnBackendDescriptor_t tensors[PST_DNN_TENSORS];
    cudnnBackendDescriptor_t ops[PST_DNN_OPS];
};

static const cudnnDataType_t types[] = {
    [PST_DNN_F32] = CUDNN_DATA_FLOAT,
    [PST_DNN_BF16] = CUDNN_DATA_BFLOAT16,
    [PST_DNN_I32] = CUDNN_DATA_INT32,
    [PST_DNN_BOOL] = CUDNN_DATA_BOOLEAN,
};
static const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;

/* The pointwise operations; MATMUL and those after RESHAPE are not. */
static const cudnnPointwiseMode_t modes[] = {
    [PST_DNN_MUL] = CUDNN_POINTWISE_MUL,           [PST_DNN_ADD] = CUDNN_POINTWISE_ADD,
    [PST_DNN_SUB] = CUDNN_POINTWISE_SUB,           [PST_DNN_DIV] = CUDNN_POINTWISE_DIV,
    [PST_DNN_EXP] = CUDNN_POINTWISE_EXP,           [PST_DNN_LOG] = CUDNN_POINTWISE_LOG,
    [PST_DNN_GE] = CUDNN_POINTWISE_CMP_GE,         [PST_DNN_GT] = CUDNN_POINTWISE_CMP_GT,
    [PST_DNN_INDEX] = CUDNN_POINTWISE_GEN_INDEX,   [PST_DNN_SELECT] = CUDNN_POINTWISE_BINARY_SELECT,
    [PST_DNN_IDENTITY] = CUDNN_POINTWISE_IDENTITY,
};

static cudnnBackendDescriptor_t tensor_of(struct pst_dnn_maker *m, const struct pst_dnn_tensor *t,
                                          int64_t id)
{
    cudnnBackendDescriptor_t d = pst_dnn_make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
    const int64_t align = t->place == PST_DNN_VALUE ? 4 : 16;
    const bool yes = true;

    pst_dnn_set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &types[t->type]);
    pst_dnn_set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->dims);
    pst_dnn_set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->strides);
    pst_dnn_set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    pst_dnn_set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (t->place == PST_DNN_INSIDE) {
        pst_dnn_set(m, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    } else if (t->place == PST_DNN_VALUE) {
        pst_dnn_set(m, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    }
    pst_dnn_finalize(m, d);
    return d;
}

static cudnnBackendDescriptor_t matmul_of(const struct builder *b, const struct pst_dnn_op *op)
{
    struct pst_dnn_maker *m = b->maker;
    cudnnBackendDescriptor_t how = pst_dnn_make(m, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a product");
    cudnnBackendDescriptor_t d;

    pst_dnn_set(m, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    pst_dnn_finalize(m, how);
    d = pst_dnn_make(m, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "a product");
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, b->tensors[op->x]);
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->tensors[op->b]);
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, b->tensors[op->y]);
    return d;
}

static cudnnBackendDescriptor_t reduction_of(const struct builder *b, const struct pst_dnn_op *op)
{
    struct pst_dnn_maker *m = b->maker;
    const cudnnReduceTensorOp_t kind =
        op->kind == PST_DNN_REDUCE_MAX ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD;
    cudnnBackendDescriptor_t how = pst_dnn_make(m, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a sum");
    cudnnBackendDescriptor_t d;

    pst_dnn_set(m, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
                &kind);
    pst_dnn_set(m, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    pst_dnn_finalize(m, how);
    d = pst_dnn_make(m, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "a sum");
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, b->tensors[op->x]);
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, b->tensors[op->y]);
    return d;
}

static cudnnBackendDescriptor_t reshape_of(const struct builder *b, const struct pst_dnn_op *op)
{
    struct pst_dnn_maker *m = b->maker;
    cudnnBackendDescriptor_t d =
        pst_dnn_make(m, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "a change of strides");

    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, b->tensors[op->x]);
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, b->tensors[op->y]);
    return d;
}

static cudnnBackendDescriptor_t pointwise_of(const struct builder *b, const struct pst_dnn_op *op)
{
    struct pst_dnn_maker *m = b->maker;
    cudnnBackendDescriptor_t how = pst_dnn_make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "a map");
    cudnnBackendDescriptor_t d;
    const int64_t axis = op->axis;

    pst_dnn_set(m, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &modes[op->kind]);
    pst_dnn_set(m, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    if (op->kind == PST_DNN_INDEX) {
        pst_dnn_set(m, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    }
    pst_dnn_finalize(m, how);
    d = pst_dnn_make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "a map");
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, b->tensors[op->x]);
    if (op->b != PST_DNN_NONE) {
        pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->tensors[op->b]);
    }
    if (op->t != PST_DNN_NONE) {
        pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, b->tensors[op->t]);
    }
    pst_dnn_set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, b->tensors[op->y]);
    return d;
}

static cudnnBackendDescriptor_t window_of(const struct builder *b)
{
    struct pst_dnn_maker *m = b->maker;
    const struct pst_window *w = &b->graph->window;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = 2, ones[2] = {1, 1}, strides[2] = {w->stride[0], w->stride[1]};
    const int64_t pads[2] = {w->pad[0], w->pad[1]};
    cudnnBackendDescriptor_t how =
        pst_dnn_make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution");

    pst_dnn_set(m, how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    pst_dnn_set(m, how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    pst_dnn_set(m, how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    pst_dnn_set(m, how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    pst_dnn_set(m, how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    pst_dnn_set(m, how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    pst_dnn_set(m, how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    pst_dnn_finalize(m, how);
    return how;
}

static cudnnBackendDescriptor_t conv_of(const struct builder *b, const struct pst_dnn_op *op)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t window, x, b, y, alpha, beta;
    } of[] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    const uint32_t i = op->kind - PST_DNN_CONV;
    struct pst_dnn_maker *m = b->maker;
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t how = window_of(b);
    cudnnBackendDescriptor_t d = pst_dnn_make(m, of[i].type, "a convolution");

    pst_dnn_set_one(m, d, of[i].window, how);
    pst_dnn_set_one(m, d, of[i].x, b->tensors[op->x]);
    pst_dnn_set_one(m, d, of[i].b, b->tensors[op->b]);
    pst_dnn_set_one(m, d, of[i].y, b->tensors[op->y]);
    pst_dnn_set(m, d, of[i].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    pst_dnn_set(m, d, of[i].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    return d;
}

static cudnnBackendDescriptor_t op_of(const struct builder *b, const struct pst_dnn_op *op)
{
    switch (op->kind) {
    case PST_DNN_MATMUL:
        return matmul_of(b, op);
    case PST_DNN_REDUCE_MAX:
    case PST_DNN_REDUCE_ADD:
        return reduction_of(b, op);
    case PST_DNN_RESHAPE:
        return reshape_of(b, op);
    case PST_DNN_CONV:
    case PST_DNN_CONV_X:
    case PST_DNN_CONV_B:
        return conv_of(b, op);
    default:
        return pointwise_of(b, op);
    }
}

cudnnBackendDescriptor_t pst_dnn_describe_graph(struct pst_dnn_maker *maker,
                                                const struct pst_dnn_graph *graph)
{
    struct builder b = {.maker = maker, .graph = graph};
    cudnnBackendDescriptor_t whole;

    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        b.tensors[i] = tensor_of(maker, &graph->tensors[i], i + 1);
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        b.ops[i] = op_of(&b, &graph->ops[i]);
        pst_dnn_finalize(maker, b.ops[i]);
    }
    whole = pst_dnn_make(maker, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "the graph");
    pst_dnn_set(maker, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                graph->n_ops, b.ops);
    if (maker->dnn->handle != NULL) {
        pst_dnn_set(maker, whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                    &maker->dnn->handle);
    }
    pst_dnn_finalize(maker, whole);
    return whole;
}
