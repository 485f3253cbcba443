/* SPDX-License-Identifier: Apache-2.0
 *
 * Models in few lines: a function for nearly every kind of operator, with its parameters
 * ("name.weight", "name.bias"), on top of build.h. Source alone: nothing here is part of the binary
 * interface, and a plugin may do without any of it. All return a tensor, or PST_NONE once something
 * has failed; what they do not ask for stands in struct pst_op_decl.
 */
#ifndef PENSTOCK_LAYERS_H
#define PENSTOCK_LAYERS_H

#include <stdio.h>
#include <string.h>

#include "build.h"

/* An operator of that kind, to be completed. */
static inline struct pst_op_decl pst_nn_decl(uint32_t kind, const char *name, uint32_t n_in,
                                             const uint32_t *in, uint32_t n_param,
                                             const uint32_t *param)
{
    struct pst_op_decl op;

    memset(&op, 0, sizeof op);
    op.size = sizeof op;
    op.kind = kind;
    op.name = name;
    op.n_in = n_in;
    op.in = in;
    op.n_param = n_param;
    op.param = param;
    return op;
}

/* Length of the axis that is so many before the last; 0: there is none. */
static inline uint64_t pst_nn_dim(struct pst_builder *b, uint32_t x, uint32_t before)
{
    uint64_t dims[PST_MAX_RANK];
    const uint32_t rank = b->shape(b, x, dims);

    return rank == PST_NONE || before >= rank ? 0 : dims[rank - 1 - before];
}

/* Names that follow are in "h.3" (format "h.%u", i = 3). */
static inline void pst_nn_scope(struct pst_builder *b, const char *format, uint32_t i)
{
    char text[256];

    snprintf(text, sizeof text, format, i);
    b->scope(b, text);
}

/* --- data and parameters -------------------------------------------------------------------- */

static inline uint32_t pst_nn_input(struct pst_builder *b, const char *name, uint32_t field,
                                    uint32_t dtype, uint32_t rank, const uint64_t *dims)
{
    struct pst_input_decl input;

    memset(&input, 0, sizeof input);
    input.size = sizeof input;
    input.field = field;
    input.name = name;
    input.dtype = dtype;
    input.rank = rank;
    input.dims = dims;
    return b->input(b, &input);
}

/* "name.part"; matrices and what has more axes decay, vectors do not. */
static inline uint32_t pst_nn_parameter(struct pst_builder *b, const char *name, const char *part,
                                        uint32_t rank, const uint64_t *dims, uint32_t init,
                                        float value)
{
    struct pst_parameter_decl p;
    char text[512];

    snprintf(text, sizeof text, "%s%s%s", name, name[0] != '\0' ? "." : "", part);
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    p.init = init;
    p.name = text;
    p.rank = rank;
    p.decay = rank > 1;
    p.dims = dims;
    p.value = value;
    return b->parameter(b, &p);
}

/* --- rows of numbers -------------------------------------------------------------------------- */

/* [..., in] -> [..., out]; weight [in, out] normal with that deviation, bias 0 where wanted. */
static inline uint32_t pst_nn_linear(struct pst_builder *b, const char *name, uint32_t x,
                                     uint64_t out, float deviation, bool bias)
{
    const uint64_t dims[2] = {pst_nn_dim(b, x, 0), out};
    uint32_t p[2];
    struct pst_op_decl op = pst_nn_decl(PST_OP_LINEAR, name, 1, &x, 2, p);

    p[0] = pst_nn_parameter(b, name, "weight", 2, dims, PST_INIT_NORMAL, deviation);
    p[1] = bias ? pst_nn_parameter(b, name, "bias", 1, &out, PST_INIT_ZERO, 0) : PST_NONE;
    return b->op(b, &op);
}

/* To the rows of a table [out, in] that embeds them, too. */
static inline uint32_t pst_nn_tied(struct pst_builder *b, const char *name, uint32_t x,
                                   uint32_t table)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_LINEAR, name, 1, &x, 1, &table);

    op.transposed = 1;
    return b->op(b, &op);
}

static inline uint32_t pst_nn_act(struct pst_builder *b, const char *name, uint32_t x, uint32_t act)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_ACT, name, 1, &x, 0, NULL);

    op.act = act;
    return b->op(b, &op);
}

/* Without effect (and without operator) for p = 0. */
static inline uint32_t pst_nn_dropout(struct pst_builder *b, const char *name, uint32_t x, double p)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_DROPOUT, name, 1, &x, 0, NULL);

    op.p = (float)p;
    return p == 0 ? x : b->op(b, &op);
}

static inline uint32_t pst_nn_add(struct pst_builder *b, const char *name, uint32_t x, uint32_t y)
{
    const uint32_t in[2] = {x, y};
    struct pst_op_decl op = pst_nn_decl(PST_OP_ADD, name, 2, in, 0, NULL);

    return b->op(b, &op);
}

/* Along the axis that is so many before the last. */
static inline uint32_t pst_nn_concat(struct pst_builder *b, const char *name, uint32_t n,
                                     const uint32_t *in, uint32_t axis)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_CONCAT, name, n, in, 0, NULL);

    op.axis = axis;
    return b->op(b, &op);
}

/* --- norms, with gain 1 and bias 0 ------------------------------------------------------------ */

static inline uint32_t pst_nn_norm_(struct pst_builder *b, const char *name, uint32_t x,
                                    struct pst_op_decl op)
{
    const uint64_t width = pst_nn_dim(b, x, 0);
    uint32_t p[2];

    p[0] = pst_nn_parameter(b, name, "weight", 1, &width, PST_INIT_ONE, 0);
    p[1] =
        op.n_param < 2 ? PST_NONE : pst_nn_parameter(b, name, "bias", 1, &width, PST_INIT_ZERO, 0);
    op.param = p;
    return b->op(b, &op);
}

static inline uint32_t pst_nn_layernorm(struct pst_builder *b, const char *name, uint32_t x,
                                        float eps)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_LAYERNORM, name, 1, &x, 2, NULL);

    op.eps = eps;
    return pst_nn_norm_(b, name, x, op);
}

static inline uint32_t pst_nn_rmsnorm(struct pst_builder *b, const char *name, uint32_t x,
                                      float eps)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_RMSNORM, name, 1, &x, 1, NULL);

    op.eps = eps;
    return pst_nn_norm_(b, name, x, op);
}

static inline uint32_t pst_nn_batchnorm(struct pst_builder *b, const char *name, uint32_t x,
                                        float eps, float momentum)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_BATCHNORM, name, 1, &x, 2, NULL);

    op.eps = eps;
    op.momentum = momentum;
    return pst_nn_norm_(b, name, x, op);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Tokens [T] -> [T, width]: rows of "name.weight" [vocab, width], which goes to *ret_table. */
static inline uint32_t pst_nn_embedding(struct pst_builder *b, const char *name, uint32_t tokens,
                                        uint64_t vocab, uint64_t width, float deviation,
                                        uint32_t *ret_table)
{
    const uint64_t dims[2] = {vocab, width};
    struct pst_op_decl op = pst_nn_decl(PST_OP_EMBEDDING, name, 1, &tokens, 1, ret_table);

    *ret_table = pst_nn_parameter(b, name, "weight", 2, dims, PST_INIT_NORMAL, deviation);
    return b->op(b, &op);
}

/* Packed q|k|v [T, (heads + 2 kv_heads) D] -> [T, heads D]. */
static inline uint32_t pst_nn_attention(struct pst_builder *b, const char *name, uint32_t qkv,
                                        uint32_t heads, uint32_t kv_heads, bool causal)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_ATTENTION, name, 1, &qkv, 0, NULL);

    op.heads = heads;
    op.kv_heads = kv_heads;
    op.causal = causal;
    return b->op(b, &op);
}

/* The first heads of head_dim columns are rotated. */
static inline uint32_t pst_nn_rotary(struct pst_builder *b, const char *name, uint32_t x,
                                     uint32_t heads, uint32_t head_dim, float theta)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_ROTARY, name, 1, &x, 0, NULL);

    op.heads = heads;
    op.head_dim = head_dim;
    op.rope.theta = theta;
    return b->op(b, &op);
}

/* "name.q" and "name.k": gains [head_dim]. */
static inline uint32_t pst_nn_qknorm(struct pst_builder *b, const char *name, uint32_t x,
                                     uint32_t heads, uint32_t kv_heads, uint64_t head_dim,
                                     float eps)
{
    uint32_t p[2];
    struct pst_op_decl op = pst_nn_decl(PST_OP_QKNORM, name, 1, &x, 2, p);

    p[0] = pst_nn_parameter(b, name, "q", 1, &head_dim, PST_INIT_ONE, 0);
    p[1] = pst_nn_parameter(b, name, "k", 1, &head_dim, PST_INIT_ONE, 0);
    op.heads = heads;
    op.kv_heads = kv_heads;
    op.eps = eps;
    return b->op(b, &op);
}

/* gate|up [..., 2F] -> act(gate) up [..., F] */
static inline uint32_t pst_nn_glu(struct pst_builder *b, const char *name, uint32_t x, uint32_t act)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_GLU, name, 1, &x, 0, NULL);

    op.act = act;
    return b->op(b, &op);
}

/* Logits [T, E] -> weights [T, E], of which `chosen` of a token are not 0 and sum to 1; no token is
   dropped. */
static inline uint32_t pst_nn_router(struct pst_builder *b, const char *name, uint32_t logits,
                                     uint32_t chosen, float aux_loss)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_ROUTER, name, 1, &logits, 0, NULL);

    op.experts_per_token = chosen;
    op.normalize = 1;
    op.aux_loss = aux_loss;
    return b->op(b, &op);
}

/* Rows [T, C] through the experts that weights [T, E] name: SwiGLU of that width, weights
   "name.up" [E, C, 2 width] and "name.down" [E, width, C]. */
static inline uint32_t pst_nn_experts(struct pst_builder *b, const char *name, uint32_t x,
                                      uint32_t weights, uint32_t chosen, uint64_t width,
                                      float deviation)
{
    const uint64_t n = pst_nn_dim(b, weights, 0), columns = pst_nn_dim(b, x, 0);
    const uint64_t up[3] = {n, columns, 2 * width}, down[3] = {n, width, columns};
    const uint32_t in[2] = {x, weights};
    uint32_t p[2];
    struct pst_op_decl op = pst_nn_decl(PST_OP_EXPERTS, name, 2, in, 2, p);

    p[0] = pst_nn_parameter(b, name, "up", 3, up, PST_INIT_NORMAL, deviation);
    p[1] = pst_nn_parameter(b, name, "down", 3, down, PST_INIT_NORMAL, deviation);
    op.experts_per_token = chosen;
    op.act = PST_ACT_SILU;
    return b->op(b, &op);
}

/* --- images [height, width, channels] --------------------------------------------------------- */

static inline struct pst_op_decl pst_nn_window_(struct pst_op_decl op, uint32_t kernel,
                                                uint32_t stride, uint32_t pad)
{
    op.kernel[0] = op.kernel[1] = kernel;
    op.stride[0] = op.stride[1] = stride;
    op.pad[0] = op.pad[1] = pad;
    return op;
}

/* Square, without bias; weight [kernel, kernel, in, out]. He et al. (ICCV 2015) begin with the
   deviation sqrt(2 / (kernel^2 out)). */
static inline uint32_t pst_nn_conv2d(struct pst_builder *b, const char *name, uint32_t x,
                                     uint64_t out, uint32_t kernel, uint32_t stride, uint32_t pad,
                                     float deviation)
{
    const uint64_t dims[4] = {kernel, kernel, pst_nn_dim(b, x, 0), out};
    uint32_t p;
    struct pst_op_decl op =
        pst_nn_window_(pst_nn_decl(PST_OP_CONV2D, name, 1, &x, 1, &p), kernel, stride, pad);

    p = pst_nn_parameter(b, name, "weight", 4, dims, PST_INIT_NORMAL, deviation);
    return b->op(b, &op);
}

/* kind: PST_OP_MAXPOOL2D or PST_OP_AVGPOOL2D; square. */
static inline uint32_t pst_nn_pool2d(struct pst_builder *b, const char *name, uint32_t kind,
                                     uint32_t x, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    struct pst_op_decl op =
        pst_nn_window_(pst_nn_decl(kind, name, 1, &x, 0, NULL), kernel, stride, pad);

    return b->op(b, &op);
}

/* Mean over all axes but the last. */
static inline uint32_t pst_nn_avgpool(struct pst_builder *b, const char *name, uint32_t x)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_AVGPOOL, name, 1, &x, 0, NULL);

    return b->op(b, &op);
}

/* --- general ---------------------------------------------------------------------------------- */

/* A parameter as a tensor, for the operators that take tensors alone. */
static inline uint32_t pst_nn_value(struct pst_builder *b, const char *name, uint32_t parameter)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_PARAMETER, name, 0, NULL, 1, &parameter);

    return b->op(b, &op);
}

/* dtype: PST_F32 or PST_I32, of `data`. */
static inline uint32_t pst_nn_constant(struct pst_builder *b, const char *name, uint32_t dtype,
                                       uint32_t rank, const uint64_t *dims, const void *data)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_CONSTANT, name, 0, NULL, 0, NULL);

    op.dtype = dtype;
    op.rank = rank;
    op.dims = dims;
    op.data = data;
    return b->op(b, &op);
}

/* map (x, s, t) by element: enum pst_map. */
static inline uint32_t pst_nn_map(struct pst_builder *b, const char *name, uint32_t map, uint32_t x,
                                  float s, float t)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_MAP, name, 1, &x, 0, NULL);

    op.map = map;
    op.constants[0] = s;
    op.constants[1] = t;
    return b->op(b, &op);
}

/* map (x, y) by element, shapes as in numpy. */
static inline uint32_t pst_nn_map2(struct pst_builder *b, const char *name, uint32_t map,
                                   uint32_t x, uint32_t y)
{
    const uint32_t in[2] = {x, y};
    struct pst_op_decl op = pst_nn_decl(PST_OP_MAP, name, 2, in, 0, NULL);

    op.map = map;
    return b->op(b, &op);
}

/* axes: bit i is the axis i before the last. */
static inline uint32_t pst_nn_reduce(struct pst_builder *b, const char *name, uint32_t reduce,
                                     uint32_t x, uint32_t axes)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_REDUCE, name, 1, &x, 0, NULL);

    op.reduce = reduce;
    op.axes = axes;
    return b->op(b, &op);
}

/* Over the axis that is so many before the last. */
static inline uint32_t pst_nn_softmax(struct pst_builder *b, const char *name, uint32_t x,
                                      uint32_t axis)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_SOFTMAX, name, 1, &x, 0, NULL);

    op.axis = axis;
    return b->op(b, &op);
}

/* The last two axes of y are the other way round where `swapped`. */
static inline uint32_t pst_nn_matmul(struct pst_builder *b, const char *name, uint32_t x,
                                     uint32_t y, bool swapped)
{
    const uint32_t in[2] = {x, y};
    struct pst_op_decl op = pst_nn_decl(PST_OP_MATMUL, name, 2, in, 0, NULL);

    op.swapped[1] = swapped;
    return b->op(b, &op);
}

static inline uint32_t pst_nn_reshape(struct pst_builder *b, const char *name, uint32_t x,
                                      uint32_t rank, const uint64_t *dims)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_RESHAPE, name, 1, &x, 0, NULL);

    op.rank = rank;
    op.dims = dims;
    return b->op(b, &op);
}

/* Axis i of the result is axis from[i] of x. */
static inline uint32_t pst_nn_transpose(struct pst_builder *b, const char *name, uint32_t x,
                                        const uint32_t *from)
{
    static const int64_t zero[PST_MAX_RANK] = {0, 0, 0, 0, 0, 0, 0, 0};
    static const int64_t one[PST_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct pst_op_decl op = pst_nn_decl(PST_OP_STRIDED, name, 1, &x, 0, NULL);
    uint64_t dims[PST_MAX_RANK], result[PST_MAX_RANK];

    op.rank = b->shape(b, x, dims);
    for (uint32_t i = 0; op.rank != PST_NONE && i < op.rank; i++) {
        result[i] = from[i] < op.rank ? dims[from[i]] : 0;
    }
    op.dims = result;
    op.from = from;
    op.start = zero;
    op.step = one;
    return op.rank == PST_NONE ? PST_NONE : b->op(b, &op);
}

/* x [..., n, ...] at places [...] (i32) along the axis that is so many before the last. */
static inline uint32_t pst_nn_gather(struct pst_builder *b, const char *name, uint32_t x,
                                     uint32_t places, uint32_t axis)
{
    const uint32_t in[2] = {x, places};
    struct pst_op_decl op = pst_nn_decl(PST_OP_GATHER, name, 2, in, 0, NULL);

    op.axis = axis;
    return b->op(b, &op);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* kind: PST_OP_CROSS_ENTROPY, PST_OP_MSE or PST_OP_BCE; called "loss". */
static inline uint32_t pst_nn_loss(struct pst_builder *b, uint32_t kind, uint32_t logits,
                                   uint32_t targets)
{
    const uint32_t in[2] = {logits, targets};
    struct pst_op_decl op = pst_nn_decl(kind, "loss", 2, in, 0, NULL);

    b->scope(b, "");
    return b->op(b, &op);
}

/* --- operators of plugins --------------------------------------------------------------------- */

/* The operator that a plugin has; attributes: "key=value,...", or NULL. PST_NONE where the host is
   older than 1.7: build() fails then. */
static inline uint32_t pst_nn_custom(struct pst_builder *b, const char *plugin, const char *name,
                                     uint32_t n_in, const uint32_t *in, uint32_t n_param,
                                     const uint32_t *param, const char *attributes)
{
    struct pst_custom_decl custom;

    memset(&custom, 0, sizeof custom);
    custom.size = sizeof custom;
    custom.n_in = n_in;
    custom.n_param = n_param;
    custom.plugin = plugin;
    custom.name = name;
    custom.attributes = attributes;
    custom.in = in;
    custom.param = param;
    return PST_CAN(b, custom) ? b->custom(b, &custom) : PST_NONE;
}

#endif
