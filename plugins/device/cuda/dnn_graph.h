/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of elementary operations that cuDNN compiles into one kernel, as plain data: nothing here
 * needs the library. A graph is also the key of its plan, so two are the same where their bytes
 * are; always start from pst_dnn_graph_init(). Tensors have four axes. Attention: batch, head, row,
 * column. Images: batch, channel, height, width; filters: output channel, input channel, height,
 * width.
 */
#ifndef PST_DEVICE_CUDA_DNN_GRAPH_H
#define PST_DEVICE_CUDA_DNN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/common/conv_window.h"

#define PST_DNN_TENSORS 64
#define PST_DNN_OPS     32
#define PST_DNN_NONE    UINT32_MAX

enum pst_dnn_type { PST_DNN_F32 = 0, PST_DNN_BF16 = 1, PST_DNN_I32 = 2, PST_DNN_BOOL = 3 };

/* Where the values of a tensor are: nowhere outside of the kernel, in memory, in the graph. */
enum pst_dnn_place { PST_DNN_INSIDE = 0, PST_DNN_MEMORY = 1, PST_DNN_VALUE = 2 };

struct pst_dnn_tensor {
    int64_t dims[4], strides[4]; /* in elements */
    uint32_t type, place;
    float value; /* PST_DNN_VALUE */
    uint32_t zero;
};

enum pst_dnn_kind {
    PST_DNN_MATMUL = 0, /* y = x b, over the last two axes; heads of x may share those of b */
    PST_DNN_MUL = 1,
    PST_DNN_ADD = 2,
    PST_DNN_SUB = 3,
    PST_DNN_DIV = 4,
    PST_DNN_EXP = 5,
    PST_DNN_LOG = 6,
    PST_DNN_IDENTITY = 7,
    PST_DNN_INDEX = 8,       /* y = the index of an element along an axis; x gives the shape */
    PST_DNN_GE = 9,          /* y = x >= b */
    PST_DNN_GT = 10,         /* y = x > b */
    PST_DNN_SELECT = 11,     /* y = t ? x : b */
    PST_DNN_REDUCE_MAX = 12, /* over the axes where y has one element, or over heads that share */
    PST_DNN_REDUCE_ADD = 13,
    PST_DNN_RESHAPE = 14, /* the same elements, seen through other strides */
    PST_DNN_CONV = 15,    /* y = x * b, the window slides as `window` says */
    PST_DNN_CONV_X = 16,  /* gradient by its input: x is dy, b the filter, y is dx */
    PST_DNN_CONV_B = 17   /* gradient by its filter: x is the input, b is dy, y is dfilter */
};

struct pst_dnn_op {
    uint32_t kind, axis; /* axis: PST_DNN_INDEX */
    uint32_t x, b, t, y; /* tensors; PST_DNN_NONE */
};

/* Operands in memory, by what they are for. */
enum pst_dnn_role {
    PST_DNN_Q = 0,
    PST_DNN_K = 1,
    PST_DNN_V = 2,
    PST_DNN_O = 3,
    PST_DNN_STATS = 4, /* log-sum-exp of each row */
    PST_DNN_DO = 5,
    PST_DNN_DELTA = 6,  /* scratch, f32 [batch, heads, rows] */
    PST_DNN_DQ_SUM = 7, /* scratch, f32 [batch, heads, rows, depth]; not where sums are ordered */
    PST_DNN_DQ = 8,
    PST_DNN_DK = 9,
    PST_DNN_DV = 10,
    PST_DNN_X = 0, /* of a convolution: x, filter, y, or their gradients */
    PST_DNN_FILTER = 1,
    PST_DNN_Y = 2,
    PST_DNN_BIAS = 3, /* f32, one per output channel */
    PST_DNN_ROLES = 11
};

struct pst_dnn_graph {
    uint32_t n_tensors, n_ops;
    uint32_t of_role[PST_DNN_ROLES]; /* tensors; PST_DNN_NONE */
    uint32_t ordered;                /* only kernels whose sums have one order may serve */
    uint32_t tf32;                   /* f32 operands of products may be rounded */
    struct pst_dnn_tensor tensors[PST_DNN_TENSORS];
    struct pst_dnn_op ops[PST_DNN_OPS];
    struct pst_window window;
};

/* --- dnn_graph.c: building ---------------------------------------------------------------------*/

void pst_dnn_graph_init(struct pst_dnn_graph *ret_graph);
/* Each returns the new tensor. */
uint32_t pst_dnn_memory(struct pst_dnn_graph *graph, uint32_t role, uint32_t type,
                        const int64_t dims[4], const int64_t strides[4]);
uint32_t pst_dnn_inside(struct pst_dnn_graph *graph, uint32_t type, const int64_t dims[4]);
uint32_t pst_dnn_value(struct pst_dnn_graph *graph, float value);
/* An operation with the result y, which it returns. */
uint32_t pst_dnn_op(struct pst_dnn_graph *graph, uint32_t kind, uint32_t x, uint32_t b, uint32_t y);
/* pst_dnn_op with a new inner tensor as result: f32, the shape of x. */
uint32_t pst_dnn_map(struct pst_dnn_graph *graph, uint32_t kind, uint32_t x, uint32_t b);

/* --- dnn_name.c --------------------------------------------------------------------------------*/

/* Describes a graph and its shape, for a message. */
void pst_dnn_graph_name(const struct pst_dnn_graph *graph, char *ret_text, size_t size);

/* --- dnn_attention_graph.c ---------------------------------------------------------------------*/

/* bf16. Strides: elements from row to row; heads lie side by side in a row. kv_heads: of keys, each
   for as many heads of queries. window: causal, row t sees t - window + 1 ... t; 0: all up to t. */
struct pst_dnn_attention {
    uint64_t batch, heads, kv_heads, rows, keys, depth, window;
    uint64_t q_stride, kv_stride, o_stride;
    float scale;
    bool causal, ordered;
};

/*
 * softmax(scale Q K^T) V, with the log-sum-exp of each row of scores as statistics; backward from
 * those (Dao et al., "FlashAttention", NeurIPS 2022, section 3; Dao, "FlashAttention-2", ICLR 2024,
 * section 3.1). ordered: gradients of Q are a product of stored slopes, not sums in memory that
 * blocks add to as they come. Sums of forward have one order in any case.
 */
void pst_dnn_attention_forward(const struct pst_dnn_attention *shape,
                               struct pst_dnn_graph *ret_graph);
void pst_dnn_attention_backward(const struct pst_dnn_attention *shape,
                                struct pst_dnn_graph *ret_graph);

/* --- dnn_conv_graph.c --------------------------------------------------------------------------*/

struct pst_dnn_conv {
    struct pst_window window;
    uint64_t samples, in, out; /* channels */
    bool bf16;                 /* images and filters; else f32 */
    bool tf32;                 /* f32 may be rounded */
    bool bias;                 /* of forward: added before rounding */
};

/* NHWC images; filters [out, height, width, in]. kind: PST_DNN_CONV, ..._X, ..._B; the last leaves
   f32, whatever the type of the images. */
void pst_dnn_conv_graph(const struct pst_dnn_conv *shape, uint32_t kind,
                        struct pst_dnn_graph *ret_graph);

#endif
