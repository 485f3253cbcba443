/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape inference: what an operator makes of its inputs, and the errors that a person sees when a
 * model's numbers do not fit together. One rule a kind, which appends outputs to the answer; its
 * errors name the operator.
 */
#include "graph/shape_rule.h"

#include <stdio.h>
#include <string.h>

bool pst_shape_elems(uint32_t rank, const uint64_t *dims, uint64_t *ret_elems)
{
    uint64_t elems = 1;

    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0 || dims[i] > PST_MAX_ELEMS / elems) {
            return false;
        }
        elems *= dims[i];
    }
    *ret_elems = elems;
    return true;
}

char *pst_shape_text(char *text, size_t size, uint32_t rank, const uint64_t *dims)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (uint32_t i = 0; i < rank && used + 1 < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%llu", i == 0 ? "" : ", ",
                                 (unsigned long long)dims[i]);
    }
    if (used + 1 < size) {
        snprintf(text + used, size - used, "]");
    }
    return text;
}

/* --- rows of numbers -----------------------------------------------------------------------*/

static pst_status infer_linear(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    uint64_t weight[2], width, out;
    struct pst_shape *y;
    pst_status status = check_rank(c, 1, PST_MAX_RANK, "[..., C]", err);

    if (status == PST_OK) {
        status = check_param_rank(c, 2, c->op->transposed ? "[out, in]" : "[in, out]", err);
    }
    if (status != PST_OK) {
        return status;
    }
    if (c->op->act > PST_ACT_GELU) {
        return BAD("%s: no such activation function (%u)", c->op->name, c->op->act);
    }
    width = x->dims[x->rank - 1];
    out = param0(c)->dims[c->op->transposed ? 0 : 1];
    weight[0] = c->op->transposed ? out : width;
    weight[1] = c->op->transposed ? width : out;
    status = check_param(c, 0, 2, weight, err);
    if (status == PST_OK) {
        status = check_param(c, 1, 1, &out, err);
    }
    y = result_like(c);
    y->dims[y->rank - 1] = out;
    if (c->op->act == PST_ACT_GELU) {
        output(c, PST_ROLE_AUX, y->dtype, y->rank, y->dims);
    }
    return status;
}

static pst_status check_norm(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    pst_status status = check_rank(c, 1, PST_MAX_RANK, "[..., C]", err);

    if (status == PST_OK) {
        status = check_param(c, 0, 1, &x->dims[x->rank - 1], err);
    }
    if (status == PST_OK) {
        status = check_param(c, 1, 1, &x->dims[x->rank - 1], err);
    }
    if (status == PST_OK && !(c->op->eps > 0.0f)) {
        return BAD("%s: eps must be greater than 0", c->op->name);
    }
    return status;
}

/* Mean and standard deviation of a row; of RMS norm the latter alone. */
static pst_status infer_layernorm(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    pst_status status = check_norm(c, err);

    if (status != PST_OK) {
        return status;
    }
    result_like(c);
    for (uint32_t i = 0; i < (c->op->kind == PST_OP_RMSNORM ? 1u : 2u); i++) {
        output(c, PST_ROLE_AUX, statistics_dtype(c), x->rank - 1, x->dims);
    }
    return PST_OK;
}

static pst_status infer_batchnorm(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    pst_status status = check_norm(c, err);

    if (status != PST_OK) {
        return status;
    }
    if (c->op->act != PST_ACT_NONE && c->op->act != PST_ACT_RELU) {
        return BAD("%s: batch norm goes with relu or no activation function", c->op->name);
    }
    if (!(c->op->momentum >= 0.0f && c->op->momentum <= 1.0f)) {
        return BAD("%s: momentum %g is not in [0, 1]", c->op->name, (double)c->op->momentum);
    }
    result_like(c);
    for (uint32_t i = 0; i < 2; i++) {
        output(c, PST_ROLE_AUX, statistics_dtype(c), 1, &x->dims[x->rank - 1])->batched = false;
        c->shapes->state_elems[i] = x->dims[x->rank - 1];
    }
    c->shapes->n_state = 2;
    return PST_OK;
}

static pst_status check_probability(const struct rule *c, struct pst_error *err)
{
    if (!(c->op->p >= 0.0f && c->op->p < 1.0f)) {
        return BAD("%s: dropout probability %g is not in [0, 1)", c->op->name, (double)c->op->p);
    }
    return PST_OK;
}

static pst_status infer_add(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *a = input(c, 0), *b = input(c, 1);
    char left[256], right[256];

    if (a->dtype != b->dtype || a->rank != b->rank ||
        memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) != 0) {
        return BAD("%s: cannot add shapes %s and %s", c->op->name,
                   pst_shape_text(left, sizeof left, a->rank, a->dims),
                   pst_shape_text(right, sizeof right, b->rank, b->dims));
    }
    result_like(c);
    return check_dtype(c, 0, c->builder->dtype, err) != PST_OK ? PST_ERR_CONFIG
                                                               : check_probability(c, err);
}

static pst_status infer_elementwise(const struct rule *c, struct pst_error *err)
{
    result_like(c);
    if (check_dtype(c, 0, c->builder->dtype, err) != PST_OK) {
        return PST_ERR_CONFIG;
    }
    if (c->op->kind == PST_OP_DROPOUT) {
        return check_probability(c, err);
    }
    if (c->op->act != PST_ACT_RELU && c->op->act != PST_ACT_GELU) {
        return BAD("%s: no such activation function (%u)", c->op->name, c->op->act);
    }
    return PST_OK;
}

static pst_status infer_cross_entropy(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *t = input(c, 1);
    char logits[256], targets[256];
    pst_status status = check_rank(c, 1, PST_MAX_RANK, "[..., classes]", err);

    if (status == PST_OK) {
        status = check_dtype(c, 1, PST_I32, err);
    }
    if (status != PST_OK) {
        return status;
    }
    if (t->rank + 1 != x->rank || memcmp(t->dims, x->dims, t->rank * sizeof *t->dims) != 0) {
        return BAD("%s: targets of shape %s do not go with logits of shape %s", c->op->name,
                   pst_shape_text(targets, sizeof targets, t->rank, t->dims),
                   pst_shape_text(logits, sizeof logits, x->rank, x->dims));
    }
    output(c, PST_ROLE_ACTIVATION, statistics_dtype(c), 0, NULL);
    output(c, PST_ROLE_AUX, statistics_dtype(c), t->rank, t->dims);
    return PST_OK;
}

static pst_status infer_mse(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *t = input(c, 1);
    char left[256], right[256];
    pst_status status = check_rank(c, 0, PST_MAX_RANK, "[...]", err);

    if (status == PST_OK) {
        status = check_dtype(c, 1, c->builder->dtype, err);
    }
    if (status != PST_OK) {
        return status;
    }
    if (t->role != PST_ROLE_INPUT || t->rank != x->rank ||
        memcmp(t->dims, x->dims, t->rank * sizeof *t->dims) != 0) {
        return BAD("%s: targets of shape %s do not go with results of shape %s, or are no data",
                   c->op->name, pst_shape_text(right, sizeof right, t->rank, t->dims),
                   pst_shape_text(left, sizeof left, x->rank, x->dims));
    }
    output(c, PST_ROLE_ACTIVATION, statistics_dtype(c), 0, NULL);
    return PST_OK;
}

/* Is axis `i` the only one along which the shapes may differ? */
static bool alike_but(const struct pst_tensor *a, const struct pst_tensor *b, uint32_t i)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, i * sizeof *a->dims) == 0 &&
           memcmp(&a->dims[i + 1], &b->dims[i + 1], (a->rank - 1 - i) * sizeof *a->dims) == 0;
}

static pst_status infer_concat(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *first = input(c, 0);
    const uint32_t axis = first->rank - 1 - c->op->axis;
    char a[256], b[256];
    uint64_t width = 0;
    pst_status status = check_rank(c, c->op->axis + 1, PST_MAX_RANK, "[..., C]", err);

    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        const struct pst_tensor *x = input(c, i);

        if (x->dtype != first->dtype || !alike_but(x, first, axis)) {
            return BAD("%s: inputs of shape %s and %s differ in more than %s axis", c->op->name,
                       pst_shape_text(a, sizeof a, first->rank, first->dims),
                       pst_shape_text(b, sizeof b, x->rank, x->dims),
                       c->op->axis == 0 ? "the last" : "that");
        }
        width += x->dims[axis];
    }
    result_like(c)->dims[axis] = width;
    return PST_OK;
}

/* --- images [height, width, channels] ------------------------------------------------------*/

/* Height and width of what a window of op->kernel leaves of the image. */
static pst_status slide(const struct rule *c, struct pst_shape *y, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const struct pst_op *op = c->op;

    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t dilation = op->dilation[i] == 0 ? 1 : op->dilation[i];
        const uint64_t kernel = op->kernel[i] == 0 ? 0 : (op->kernel[i] - 1) * dilation + 1;
        const int64_t end = (int64_t)op->pad[i] + op->pad_more[i];
        const uint64_t padded = x->dims[i] + op->pad[i] + (end < 0 ? 0 : (uint64_t)end);

        if (kernel == 0 || op->stride[i] == 0 || op->pad[i] >= kernel || end < 0 ||
            (uint64_t)end >= kernel) {
            return BAD("%s: kernel %llu, stride %u, padding %u and %lld: kernel and stride must be "
                       "positive, the padding smaller than the kernel",
                       op->name, (unsigned long long)kernel, op->stride[i], op->pad[i],
                       (long long)end);
        }
        if (padded < kernel) {
            return BAD("%s: image is %llu high or wide with its padding, the kernel %llu", op->name,
                       (unsigned long long)padded, (unsigned long long)kernel);
        }
        y->dims[i] = (padded - kernel) / op->stride[i] + 1;
    }
    return PST_OK;
}

static pst_status infer_conv2d(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const uint64_t groups = c->op->groups == 0 ? 1 : c->op->groups;
    uint64_t weight[4];
    struct pst_shape *y;
    pst_status status = check_rank(c, 3, 3, "[height, width, channels]", err);

    if (status == PST_OK) {
        status = check_param_rank(c, 4, "[kernel height, kernel width, in, out]", err);
    }
    if (status != PST_OK) {
        return status;
    }
    weight[0] = c->op->kernel[0];
    weight[1] = c->op->kernel[1];
    weight[2] = x->dims[2] / groups;
    weight[3] = param0(c)->dims[3];
    if (x->dims[2] % groups != 0 || weight[3] % groups != 0) {
        return BAD("%s: %llu groups do not divide %llu channels to %llu", c->op->name,
                   (unsigned long long)groups, (unsigned long long)x->dims[2],
                   (unsigned long long)weight[3]);
    }
    status = check_param(c, 0, 4, weight, err);
    if (status == PST_OK) {
        status = check_param(c, 1, 1, &weight[3], err);
    }
    y = result_like(c);
    y->dims[2] = weight[3];
    return status != PST_OK ? status : slide(c, y, err);
}

static pst_status infer_maxpool2d(const struct rule *c, struct pst_error *err)
{
    pst_status status = check_rank(c, 3, 3, "[height, width, channels]", err);
    struct pst_shape *y;

    if (status != PST_OK) {
        return status;
    }
    y = result_like(c);
    status = slide(c, y, err);
    output(c, PST_ROLE_AUX, PST_I32, y->rank, y->dims);
    return status;
}

static pst_status infer_avgpool(const struct rule *c, struct pst_error *err)
{
    pst_status status = check_rank(c, 2, PST_MAX_RANK, "[..., C]", err);
    const struct pst_tensor *x = input(c, 0);

    if (status == PST_OK) {
        output(c, PST_ROLE_ACTIVATION, c->builder->dtype, 1, &x->dims[x->rank - 1]);
    }
    return status;
}

static pst_status infer_avgpool2d(const struct rule *c, struct pst_error *err)
{
    pst_status status = check_rank(c, 3, 3, "[height, width, channels]", err);

    if (c->op->dilation[0] > 1 || c->op->dilation[1] > 1) {
        return BAD("%s: means over dilated windows are not there", c->op->name);
    }
    return status != PST_OK ? status : slide(c, result_like(c), err);
}

static pst_status infer_shift2d(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    pst_status status = check_rank(c, 3, 3, "[height, width, channels]", err);

    if (status == PST_OK && (c->op->pad[0] >= x->dims[0] || c->op->pad[1] >= x->dims[1])) {
        return BAD("%s: nothing is left of an image of %llu x %llu that moves by %u and %u",
                   c->op->name, (unsigned long long)x->dims[0], (unsigned long long)x->dims[1],
                   c->op->pad[0], c->op->pad[1]);
    }
    if (status == PST_OK) {
        result_like(c);
    }
    return status;
}

/* --- rows of tokens ------------------------------------------------------------------------*/

/* dims: of the rows that go into the bag. */
static pst_status infer_bag(const struct rule *c, const uint64_t dims[2], struct pst_error *err)
{
    uint64_t width;

    if (c->op->bag > PST_BAG_SUM || (c->op->n_param > 1 && c->op->param[1] != PST_NONE)) {
        return BAD("%s: a bag is concatenated or summed, and has no positions", c->op->name);
    }
    if (!pst_shape_elems(c->op->bag == PST_BAG_CONCAT ? 2 : 1,
                         c->op->bag == PST_BAG_CONCAT ? dims : &dims[1], &width)) {
        return BAD("%s: the bag has more than 2^40 elements", c->op->name);
    }
    output(c, PST_ROLE_ACTIVATION, c->builder->dtype, 1, &width);
    return PST_OK;
}

static pst_status infer_embedding(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    uint64_t dims[2];
    char text[256];
    pst_status status;

    if (x->rank != 1) {
        return BAD("%s: tokens have shape %s, expected [T]", c->op->name,
                   pst_shape_text(text, sizeof text, x->rank, x->dims));
    }
    status = check_dtype(c, 0, PST_I32, err);
    if (status == PST_OK) {
        status = check_param_rank(c, 2, "[vocabulary, C]", err);
    }
    if (status != PST_OK) {
        return status;
    }
    dims[0] = x->dims[0];
    dims[1] = param0(c)->dims[1];
    if (c->op->bag != PST_BAG_NONE) {
        return infer_bag(c, dims, err);
    }
    output(c, PST_ROLE_ACTIVATION, c->builder->dtype, 2, dims);
    return check_param(c, 1, 2, dims, err);
}

/* Buckets of relative positions (distance.h), one column per head. */
static pst_status check_buckets(const struct rule *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    uint64_t dims[2], n;
    pst_status status;

    if (op->n_param == 0 || op->param[0] == PST_NONE) {
        return PST_OK;
    }
    status = check_param_rank(c, 2, "[buckets, heads]", err);
    if (status != PST_OK) {
        return status;
    }
    dims[0] = param0(c)->dims[0];
    dims[1] = op->heads;
    n = op->causal ? dims[0] : dims[0] / 2;
    if (n < 2 || (!op->causal && dims[0] % 2 != 0) || op->max_distance <= n / 2) {
        return BAD("%s: %llu buckets up to a distance of %u; there must be 2 or more a direction, "
                   "and the distance above half of them",
                   op->name, (unsigned long long)dims[0], op->max_distance);
    }
    return check_param(c, 0, 2, dims, err);
}

/* Keys and values of another sequence. */
static pst_status check_keys(const struct rule *c, uint64_t width, struct pst_error *err)
{
    const struct pst_tensor *keys = input(c, 1);
    char text[256];

    if (keys->rank != 2 || keys->dims[1] != 2 * width || c->op->causal) {
        return BAD("%s: keys and values have shape %s, expected [S, %llu] and no causal mask",
                   c->op->name, pst_shape_text(text, sizeof text, keys->rank, keys->dims),
                   (unsigned long long)(2 * width));
    }
    return check_dtype(c, 1, c->builder->dtype, err);
}

static pst_status infer_attention(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const uint32_t parts = c->op->n_in == 2 ? 1 : 3;
    uint64_t lse[2], width;
    pst_status status =
        check_rank(c, 2, 2, parts == 3 ? "[T, 3C] (queries, keys, values)" : "[T, C]", err);

    if (status != PST_OK) {
        return status;
    }
    width = x->dims[1] / parts;
    if (x->dims[1] % parts != 0) {
        return BAD("%s: input has last axis %llu, which is not three parts of equal width",
                   c->op->name, (unsigned long long)x->dims[1]);
    }
    if (c->op->heads == 0 || width % c->op->heads != 0) {
        return BAD("%s: input has last axis %llu (%u x %llu), heads %u do not divide it",
                   c->op->name, (unsigned long long)x->dims[1], parts, (unsigned long long)width,
                   c->op->heads);
    }
    if (parts == 1) {
        status = check_keys(c, width, err);
    }
    if (status == PST_OK) {
        status = check_buckets(c, err);
    }
    result_like(c)->dims[1] = width;
    lse[0] = c->op->heads;
    lse[1] = x->dims[0];
    output(c, PST_ROLE_AUX, statistics_dtype(c), 2, lse);
    return status;
}

/* --- all kinds -----------------------------------------------------------------------------*/

pst_status pst_shape_infer(const struct pst_graph_builder *builder, const struct pst_op *op,
                           struct pst_shapes *ret_shapes, struct pst_error *err)
{
    static shape_rule *const rules[PST_OP_KINDS] = {
        [PST_OP_EMBEDDING] = infer_embedding,
        [PST_OP_LINEAR] = infer_linear,
        [PST_OP_LAYERNORM] = infer_layernorm,
        [PST_OP_ATTENTION] = infer_attention,
        [PST_OP_ADD] = infer_add,
        [PST_OP_DROPOUT] = infer_elementwise,
        [PST_OP_ACT] = infer_elementwise,
        [PST_OP_CROSS_ENTROPY] = infer_cross_entropy,
        [PST_OP_CONV2D] = infer_conv2d,
        [PST_OP_BATCHNORM] = infer_batchnorm,
        [PST_OP_MAXPOOL2D] = infer_maxpool2d,
        [PST_OP_AVGPOOL] = infer_avgpool,
        [PST_OP_CONCAT] = infer_concat,
        [PST_OP_MSE] = infer_mse,
        [PST_OP_RMSNORM] = infer_layernorm,
        [PST_OP_AVGPOOL2D] = infer_avgpool2d,
        [PST_OP_SHIFT2D] = infer_shift2d,
        [PST_OP_PARAMETER] = pst_infer_parameter,
        [PST_OP_CONSTANT] = pst_infer_constant,
        [PST_OP_MAP] = pst_infer_map,
        [PST_OP_REDUCE] = pst_infer_reduce,
        [PST_OP_SOFTMAX] = pst_infer_softmax,
        [PST_OP_MATMUL] = pst_infer_matmul,
        [PST_OP_RESHAPE] = pst_infer_reshape,
        [PST_OP_STRIDED] = pst_infer_strided,
        [PST_OP_BCE] = infer_mse,
        [PST_OP_GATHER] = pst_infer_gather,
    };
    struct pst_shapes shapes;
    struct rule c = {.builder = builder, .op = op, .shapes = &shapes};
    pst_status status;

    memset(&shapes, 0, sizeof shapes);
    status = rules[op->kind](&c, err);
    if (status == PST_OK) {
        *ret_shapes = shapes;
    }
    return status;
}

const char *pst_output_suffix(const struct pst_op *op, uint32_t output_index)
{
    switch (op->kind) {
    case PST_OP_LAYERNORM:
    case PST_OP_BATCHNORM:
        return output_index == 1 ? "mean" : "rstd";
    case PST_OP_LINEAR:
        return "pre";
    case PST_OP_MAXPOOL2D:
        return "index";
    case PST_OP_RMSNORM:
        return "rstd";
    default:
        return "lse";
    }
}
