/* SPDX-License-Identifier: Apache-2.0
 *
 * The request that a kernel is compiled from, and functions that read an operator for the kernels
 * of all devices: its tensors, rows and parameters, the windows of images, the heads of attention.
 */
#ifndef PST_COMMON_REQUEST_H
#define PST_COMMON_REQUEST_H

#include <math.h>

#include "device/common/conv_window.h"
#include "exec/device.h"

struct pst_op_request {
    struct pst_device *device;
    const struct pst_graph *graph;
    const struct pst_op *op;
    uint32_t pass, samples;
    uint32_t dtype; /* of the activations: of x[0] for a loss, else of y[0] */
};

static inline const struct pst_tensor *request_in(const struct pst_op_request *request, uint32_t i)
{
    return &request->graph->tensors[request->op->in[i]];
}

static inline const struct pst_tensor *request_out(const struct pst_op_request *request)
{
    return &request->graph->tensors[request->op->out[0]];
}

static inline struct pst_op_request request_of(struct pst_device *device,
                                               const struct pst_graph *graph, uint32_t op,
                                               uint32_t pass, uint32_t samples)
{
    struct pst_op_request request = {device, graph, &graph->ops[op], pass, samples, 0};
    const uint32_t kind = request.op->kind; /* losses that devices have kernels for: */
    const bool loss = kind == PST_OP_CROSS_ENTROPY || kind == PST_OP_MSE || kind == PST_OP_BCE ||
                      kind == PST_OP_CE_PART || kind == PST_OP_CE_JOIN;

    request.dtype = loss ? request_in(&request, 0)->dtype : request_out(&request)->dtype;
    return request;
}

/* Length of the last axis, and how many such rows the micro-batch has. */
static inline uint64_t request_columns(const struct pst_tensor *tensor)
{
    return tensor->rank == 0 ? 1 : tensor->dims[tensor->rank - 1];
}

static inline uint64_t request_rows(const struct pst_op_request *request,
                                    const struct pst_tensor *tensor)
{
    return request->samples * (tensor->elems / request_columns(tensor));
}

/* Positions that a text of rotary or attention has. */
static inline uint64_t request_positions(const struct pst_op_request *request)
{
    return request->op->positions > 0 ? request->op->positions : request_in(request, 0)->dims[0];
}

/* Position of row r of a call, of n rows a sample and `positions` in all. */
static inline uint64_t request_row_position(const struct pst_op_request *request,
                                            const struct pst_call *call, uint64_t n,
                                            uint64_t positions, uint64_t r)
{
    return request->graph->slices > 1 ? call->slice * n + r % n
                                      : (call->first_sample * n + r) % positions;
}

/* Operand i of an array that may be missing as a whole. */
static inline void *request_operand(void *const *operands, uint32_t i)
{
    return operands == NULL ? NULL : operands[i];
}

static inline bool request_has_param(const struct pst_op_request *request, uint32_t i)
{
    return i < request->op->n_param && request->op->param[i] != PST_NONE;
}

/* The operator must have parameter i. */
static inline const struct pst_parameter *request_parameter(const struct pst_op_request *request,
                                                            uint32_t i)
{
    return &request->graph->params[request->op->param[i]];
}

/* Parameter i, or the place of its gradient; NULL where the operator has none or nobody wants it.
 */
static inline void *request_param(const struct pst_op_request *request, const struct pst_call *call,
                                  uint32_t i)
{
    return request_has_param(request, i) ? call->p[i] : NULL;
}

static inline void *request_dp(const struct pst_op_request *request, const struct pst_call *call,
                               uint32_t i)
{
    return request_has_param(request, i) ? (void *)call->dp[i] : NULL;
}

/* Rows of a table, or classes, of all parts; `own`: of one. */
static inline uint64_t request_classes(const struct pst_op_request *request, uint64_t own)
{
    return request->op->classes > 0 ? request->op->classes : own;
}

/* Cross-entropy divides the sum over the rows of a sample by this. Targets below 0 do not count.
   With slices of sequences it is the mean over the slices. A mean over tokens is over those of the
   step: the number after the targets of each sample gives it (graph/slice.c). */
static inline double request_counted(const struct pst_op_request *request, const int32_t *targets)
{
    const uint64_t rows = request_in(request, 0)->elems / request_columns(request_in(request, 0));
    const uint64_t over = pst_graph_counts_over(request->graph);
    uint64_t counted = 0;

    if (over > 0) {
        return (double)targets[rows] / (double)over;
    }
    for (uint64_t r = 0; r < rows; r++) {
        counted += targets[r] >= 0;
    }
    return (double)counted;
}

/* --- shapes ----------------------------------------------------------------------------------- */

/* Images of x[0] and y[0]. */
static inline struct pst_window request_window(const struct pst_op_request *request)
{
    const struct pst_op *op = request->op;
    struct pst_window w;

    for (uint32_t axis = 0; axis < 2; axis++) {
        w.in[axis] = (uint32_t)request_in(request, 0)->dims[axis];
        w.out[axis] = (uint32_t)request_out(request)->dims[axis];
        w.kernel[axis] = op->kernel[axis];
        w.stride[axis] = op->stride[axis];
        w.pad[axis] = op->pad[axis];
        w.dilation[axis] = op->dilation[axis] == 0 ? 1 : op->dilation[axis];
    }
    return w;
}

/* Parts of the channels of a convolution that do not see each other. */
static inline uint32_t request_groups(const struct pst_op_request *request)
{
    return request->op->groups == 0 ? 1 : request->op->groups;
}

/* One group, no pixels between those of a window, means over what is no padding. */
static inline bool request_is_plain_window(const struct pst_op_request *request)
{
    const struct pst_window w = request_window(request);

    return request_groups(request) == 1 && w.dilation[0] == 1 && w.dilation[1] == 1 &&
           !request->op->whole;
}

/* Elements of a tensor that concatenation along an axis keeps together. */
static inline uint64_t request_together(const struct pst_op_request *request,
                                        const struct pst_tensor *tensor)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i <= request->op->axis; i++) {
        n *= tensor->dims[tensor->rank - 1 - i];
    }
    return n;
}

/* The shape of attention, in elements. Heads are side by side in a row of y, of queries, of keys,
   of values. */
struct pst_heads {
    uint64_t rows, keys, columns, heads, depth; /* columns: of y */
    uint64_t kv_heads, group;                   /* each key head serves `group` heads */
    uint64_t q_stride, kv_stride, k_at, v_at;   /* from row to row; where they begin in a row */
    bool packed; /* all three in x[0]; else keys and values in x[1] */
    bool causal;
    uint64_t window; /* row i sees keys i - window + 1 ... i; 0: no bound */
    uint64_t
        first;   /* the key of row 0: the rows are a slice, the keys those of the sequence so far */
    float scale; /* of the scores; 0: 1 / sqrt(depth) */
    uint32_t n_buckets, max_distance; /* of the bias; 0: none */
};

static inline struct pst_heads request_heads(const struct pst_op_request *request)
{
    const struct pst_tensor *y = request_out(request);
    struct pst_heads a;

    a.packed = request->op->n_in == 1;
    a.causal = request->op->causal;
    a.window = request->op->window;
    a.heads = request->op->heads;
    a.kv_heads = pst_op_kv_heads(request->op);
    a.group = a.heads / a.kv_heads;
    a.scale = request->op->scale;
    a.max_distance = request->op->max_distance;
    a.columns = request_columns(y);
    a.rows = y->elems / a.columns;
    a.keys = a.packed ? a.rows : request_in(request, 1)->dims[0];
    a.depth = a.columns / a.heads;
    a.kv_stride = (a.packed ? a.heads + 2 * a.kv_heads : 2 * a.kv_heads) * a.depth;
    a.q_stride = a.packed ? a.kv_stride : a.columns;
    a.k_at = a.packed ? a.columns : 0;
    a.v_at = a.k_at + a.kv_heads * a.depth;
    a.first = 0;
    a.n_buckets =
        request_has_param(request, 0) ? (uint32_t)request_parameter(request, 0)->dims[0] : 0;
    return a;
}

/* The shape for a call of one slice; the last slice has the most keys. */
static inline struct pst_heads request_heads_of(const struct pst_op_request *request,
                                                uint32_t slice)
{
    struct pst_heads a = request_heads(request);

    a.first = slice * a.rows;
    a.keys = a.packed ? a.first + a.rows : a.keys;
    return a;
}

static inline uint32_t request_slices(const struct pst_op_request *request)
{
    return request->op->slices > 1 ? request->op->slices : 1;
}

static inline struct pst_heads request_most_heads(const struct pst_op_request *request)
{
    return request_heads_of(request, request_slices(request) - 1);
}

/* Row j of the keys of a slice: which row of which x[0]. */
static inline const void *request_keys_from(const struct pst_heads *heads,
                                            const struct pst_call *call, uint64_t j)
{
    return j < heads->first ? call->past[j / heads->rows] : call->x[heads->packed ? 0 : 1];
}

static inline float request_scale(const struct pst_heads *heads)
{
    return heads->scale > 0 ? heads->scale : 1 / sqrtf((float)heads->depth);
}

#endif
