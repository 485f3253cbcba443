/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reference kernels: the kernel object, and what the kernels of all types (*.inc)
 * ask of shapes.
 */
#ifndef PST_DEVICE_CPU_REFERENCE_KERNEL_H
#define PST_DEVICE_CPU_REFERENCE_KERNEL_H

#include "device/common/broadcast.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "graph/split.h"
#include "graph/distance.h"
#include "graph/rotary.h"

struct pst_reference {
    struct pst_kernel base; /* first */
    struct pst_op_request request;
};

typedef void pst_reference_run(const struct pst_kernel *kernel, const struct pst_call *call);

struct pst_reference_family {
    pst_reference_run *run[3][3]; /* [f32, bf16, f64][pass]; NULL: nothing to do */
    /* Elements of the computing type that run() wants as workspace; NULL: none. */
    uint64_t (*workspace)(const struct pst_op_request *request);
};

#define PST_REFERENCE_F_B_W(name)                                                                  \
    {                                                                                              \
        {name##_f_f32, name##_b_f32, name##_w_f32}, {name##_f_bf16, name##_b_bf16, name##_w_bf16}, \
            {name##_f_f64, name##_b_f64, name##_w_f64},                                            \
    }
#define PST_REFERENCE_F_B(name)                                                                    \
    {                                                                                              \
        {name##_f_f32, name##_b_f32, NULL}, {name##_f_bf16, name##_b_bf16, NULL},                  \
            {name##_f_f64, name##_b_f64, NULL},                                                    \
    }
#define PST_REFERENCE_F(name)                                                                      \
    {                                                                                              \
        {name##_f_f32, NULL, NULL}, {name##_f_bf16, NULL, NULL}, {name##_f_f64, NULL, NULL},       \
    }
#define PST_REFERENCE_F_W(name)                                                                    \
    {                                                                                              \
        {name##_f_f32, NULL, name##_w_f32}, {name##_f_bf16, NULL, name##_w_bf16},                  \
            {name##_f_f64, NULL, name##_w_f64},                                                    \
    }

static inline const struct pst_op_request *reference_of(const struct pst_kernel *kernel)
{
    return &((const struct pst_reference *)(const void *)kernel)->request;
}

/* Images that windows slide over; pixels and channels of a sample. */
struct window_shape {
    struct pst_window w;
    uint64_t samples, in_pixels, in_channels, out_pixels, out_channels, taps;
    uint64_t groups, group_in, group_out; /* of a convolution; channels of each */
};

static inline struct window_shape window_shape(const struct pst_op_request *request)
{
    struct window_shape shape = {.w = request_window(request), .samples = request->samples};

    shape.in_channels = request_columns(request_in(request, 0));
    shape.out_channels = request_columns(request_out(request));
    shape.in_pixels = (uint64_t)shape.w.in[0] * shape.w.in[1];
    shape.out_pixels = (uint64_t)shape.w.out[0] * shape.w.out[1];
    shape.taps = (uint64_t)shape.w.kernel[0] * shape.w.kernel[1];
    shape.groups = request_groups(request);
    shape.group_in = shape.in_channels / shape.groups;
    shape.group_out = shape.out_channels / shape.groups;
    return shape;
}

/* Does dropout keep element e of row `sample` of the micro-batch? */
static inline bool reference_keeps(const struct pst_op_request *request,
                                   const struct pst_call *call, uint64_t sample, uint64_t e)
{
    const struct pst_op *op = request->op;
    uint64_t stream = pst_dropout_stream(op->salt, call->first_sample + sample);
    uint32_t word;

    e = pst_part_place(op, call->part, request_out(request)->elems, e);
    word = pst_philox(call->seed, stream, e / 4).v[e % 4];
    return word >= (uint32_t)(op->p * 4294967296.0f);
}

/* --- linear ----------------------------------------------------------------------------------- */

struct linear_shape {
    uint64_t n_rows, n_in, n_out;
};

static inline struct linear_shape linear_shape(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0), *y = request_out(request);
    struct linear_shape shape;

    shape.n_rows = request_rows(request, x);
    shape.n_in = request_columns(x);
    shape.n_out = request_columns(y);
    return shape;
}

/* One row of sums. */
static inline uint64_t linear_workspace(const struct pst_op_request *request)
{
    const struct linear_shape shape = linear_shape(request);

    switch (request->pass) {
    case PST_KERNEL_F:
        return shape.n_out;
    case PST_KERNEL_B:
        return shape.n_in;
    default:
        return 0;
    }
}

/* --- attention -------------------------------------------------------------------------------- */

/* The keys that row i sees: first ... end - 1. */
static inline uint64_t attention_first(const struct pst_heads *shape, uint64_t i)
{
    const uint64_t at = shape->first + i;

    return shape->window != 0 && at >= shape->window ? at + 1 - shape->window : 0;
}

static inline uint64_t attention_end(const struct pst_heads *shape, uint64_t i)
{
    return shape->causal ? shape->first + i + 1 : shape->keys;
}

/* Element of p0 that key j of row i is told apart by. */
static inline uint64_t attention_bucket(const struct pst_heads *shape, uint64_t head, uint64_t i,
                                        uint64_t j)
{
    return pst_distance_bucket((int64_t)j - (int64_t)i, shape->n_buckets, shape->max_distance,
                               shape->causal) *
               shape->heads +
           head;
}

/* F: probabilities of a row, sums of a row. B: probabilities, their slopes, sums of q, k and v. */
static inline uint64_t attention_workspace(const struct pst_op_request *request)
{
    const struct pst_heads shape = request_most_heads(request);

    return request->pass == PST_KERNEL_B
               ? 2 * shape.keys + (shape.rows + 2 * shape.keys) * shape.depth
               : shape.keys + shape.depth;
}

/* --- embedding -------------------------------------------------------------------------------- */

struct embedding_shape {
    uint64_t n_tokens;             /* of the micro-batch */
    uint64_t n_positions;          /* tokens per sample */
    uint64_t n_entries, n_columns; /* of all parts */
    uint64_t first, n_own;         /* rows that the table here has */
    uint64_t n_summed;             /* tokens whose rows make one of the result */
    uint32_t padding;              /* as in struct pst_op */
};

static inline struct embedding_shape embedding_shape(const struct pst_op_request *request,
                                                     const struct pst_call *call)
{
    struct embedding_shape shape;

    shape.n_positions = request_in(request, 0)->elems;
    shape.n_tokens = request->samples * shape.n_positions;
    shape.n_columns = request->graph->params[request->op->param[0]].dims[1];
    shape.n_own = request_parameter(request, 0)->elems / shape.n_columns;
    shape.n_entries = request_classes(request, shape.n_own);
    shape.first = request->op->classes > 0 ? call->part * shape.n_own : 0;
    shape.n_summed = request->op->bag == PST_BAG_SUM ? shape.n_positions : 1;
    shape.padding = request->op->padding;
    return shape;
}

static inline bool embedding_valid(const struct embedding_shape *shape, int32_t token)
{
    return token >= 0 && (uint64_t)token < shape->n_entries;
}

/* Is its row here, and not that of another part? */
static inline bool embedding_owns(const struct embedding_shape *shape, int32_t token)
{
    return (uint64_t)token >= shape->first && (uint64_t)token - shape->first < shape->n_own;
}

static inline bool embedding_has_gradient(const struct embedding_shape *shape, int32_t token)
{
    return embedding_valid(shape, token) && embedding_owns(shape, token) &&
           (uint32_t)token + 1 != shape->padding;
}

/* --- norms ------------------------------------------------------------------------------------ */

static inline bool norm_is_rms(const struct pst_op_request *request)
{
    return request->op->kind == PST_OP_RMSNORM;
}

/* The shape of the rows of x[0]: heads of `depth` columns first, then columns that stay. */
struct qknorm_shape {
    uint64_t n_rows, columns, heads, query_heads, depth;
};

static inline struct qknorm_shape qknorm_shape(const struct pst_op_request *request)
{
    struct qknorm_shape shape;

    shape.n_rows = request_rows(request, request_in(request, 0));
    shape.columns = request_columns(request_in(request, 0));
    shape.query_heads = request->op->heads;
    shape.heads = shape.query_heads + pst_op_kv_heads(request->op);
    shape.depth = request_parameter(request, 0)->elems;
    return shape;
}

/* --- mixture of experts ----------------------------------------------------------------------- */

struct router_shape {
    uint64_t tokens, experts, chosen; /* tokens: of a sample; chosen: by each of them */
    double capacity;                  /* tokens of a sample that an expert takes */
};

static inline struct router_shape router_shape(const struct pst_op_request *request)
{
    const struct pst_op *op = request->op;
    const struct pst_tensor *x = request_in(request, 0);
    struct router_shape s = {x->dims[0], x->dims[1], op->experts_per_token, INFINITY};

    if (op->capacity > 0) {
        s.capacity =
            ceil((double)op->capacity * (double)s.tokens * (double)s.chosen / (double)s.experts);
    }
    return s;
}

/* Numbers for each expert: F three, B five. */
static inline uint64_t router_workspace(const struct pst_op_request *request)
{
    return (request->pass == PST_KERNEL_F ? 3 : 5) * router_shape(request).experts;
}

struct experts_shape {
    uint64_t tokens, columns, experts, chosen, width; /* tokens: of the micro-batch; width: F */
};

static inline struct experts_shape experts_shape(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0);
    const uint64_t *dims = request_parameter(request, 0)->dims;

    return (struct experts_shape){request->samples * x->dims[0], x->dims[1], dims[0],
                                  request->op->experts_per_token, dims[2] / 2};
}

/* Workspace of a token. F: sums of the result, gate|up of a slot. B: sums of both gradients. */
static inline uint64_t experts_workspace(const struct pst_op_request *request)
{
    const struct experts_shape s = experts_shape(request);

    switch (request->pass) {
    case PST_KERNEL_F:
        return s.columns + 2 * s.width;
    case PST_KERNEL_B:
        return s.columns + s.experts;
    default:
        return 0;
    }
}

/* --- convolution ------------------------------------------------------------------------------ */

/* F: sums of one pixel. B: sums of one sample. */
static inline uint64_t conv_workspace(const struct pst_op_request *request)
{
    switch (request->pass) {
    case PST_KERNEL_F:
        return request_columns(request_out(request));
    case PST_KERNEL_B:
        return request_in(request, 0)->elems;
    default:
        return 0;
    }
}

/* --- pooling ---------------------------------------------------------------------------------- */

/* Elements of the window of result pixel i of the micro-batch that a mean is over. */
static inline uint64_t window_counted(const struct window_shape *shape, bool whole, uint64_t i)
{
    const struct pst_window *w = &shape->w;

    return whole ? shape->taps
                 : pst_window_inside(w, 0, i / w->out[1] % w->out[0]) *
                       pst_window_inside(w, 1, i % w->out[1]);
}

/* B: sums of one sample. */
static inline uint64_t pool_workspace(const struct pst_op_request *request)
{
    return request->pass == PST_KERNEL_B ? request_in(request, 0)->elems : 0;
}

/* --- losses ----------------------------------------------------------------------------------- */

struct loss_shape {
    uint64_t n_rows, n_classes; /* per sample */
};

static inline struct loss_shape loss_shape(const struct pst_op_request *request)
{
    const struct pst_tensor *logits = request_in(request, 0);
    struct loss_shape shape;

    shape.n_classes = request_columns(logits);
    shape.n_rows = logits->elems / shape.n_classes;
    return shape;
}

/* Classes of which a part has some. */
struct class_shape {
    uint64_t n_rows;           /* per sample */
    uint64_t n_columns, n_own; /* of a row of logits; those that are classes and no padding */
    uint64_t first;            /* the class of the first column */
};

static inline struct class_shape class_shape(const struct pst_op_request *request,
                                             const struct pst_call *call)
{
    const struct loss_shape logits = loss_shape(request);

    return (struct class_shape){logits.n_rows, logits.n_classes,
                                pst_own_places(request->op->classes, logits.n_classes, call->part),
                                call->part * logits.n_classes};
}

static inline bool class_owns(const struct class_shape *shape, int32_t target)
{
    return target >= 0 && (uint64_t)target >= shape->first &&
           (uint64_t)target - shape->first < shape->n_own;
}

/* Numbers of a sample. */
static inline uint64_t mse_elems(const struct pst_op_request *request)
{
    return request_in(request, 0)->elems;
}

/* --- maps, products, places --------------------------------------------------------------------*/

#define MAP_TILE 256u

/* All maps. */
#define MAP_EACH(X)                                                                                \
    X(AFFINE)                                                                                      \
    X(POWER)                                                                                       \
    X(CLIP)                                                                                        \
    X(LEAKY)                                                                                       \
    X(ELU)                                                                                         \
    X(HARD_SIGMOID)                                                                                \
    X(HARD_SWISH)                                                                                  \
    X(ABS)                                                                                         \
    X(EXP)                                                                                         \
    X(LOG)                                                                                         \
    X(SQRT)                                                                                        \
    X(RECIPROCAL)                                                                                  \
    X(ERF)                                                                                         \
    X(TANH)                                                                                        \
    X(SIGMOID)                                                                                     \
    X(GELU)                                                                                        \
    X(SOFTPLUS)                                                                                    \
    X(SIN)                                                                                         \
    X(COS)                                                                                         \
    X(ADD)                                                                                         \
    X(SUB)                                                                                         \
    X(MUL)                                                                                         \
    X(DIV)                                                                                         \
    X(POW)                                                                                         \
    X(MIN)                                                                                         \
    X(MAX)                                                                                         \
    X(EQUAL)                                                                                       \
    X(LESS)                                                                                        \
    X(LESS_EQUAL)                                                                                  \
    X(SELECT)
#define MAP_ONE(map) +1
_Static_assert(MAP_EACH(MAP_ONE) == PST_MAPS, "every map");

/* Returns how many elements from `first` on of the walk are a tile: within one row of it. */
static inline uint64_t map_tile(const struct pst_spread *spread, uint64_t first)
{
    const uint64_t row = pst_spread_row(spread), left = row - first % row;

    return left < MAP_TILE ? left : MAP_TILE;
}

/* B: sums of one sample of whichever input is largest. */
static inline uint64_t sums_workspace(const struct pst_op_request *request)
{
    uint64_t most = 0;

    for (uint32_t i = 0; request->pass == PST_KERNEL_B && i < request->op->n_in; i++) {
        most = request_in(request, i)->elems > most ? request_in(request, i)->elems : most;
    }
    return most;
}

/* F: one product. */
static inline uint64_t matmul_workspace(const struct pst_op_request *request)
{
    const struct pst_matmul p = request_matmul(request);

    return request->pass == PST_KERNEL_F ? p.m * p.n : sums_workspace(request);
}

static inline bool gather_valid(const struct pst_axis *axis, int32_t place)
{
    return place >= 0 && (uint64_t)place < axis->n;
}

#endif
