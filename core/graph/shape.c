/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape inference: what an operator makes of its inputs, and the errors that a person sees when a
 * model's numbers do not fit together. One rule a kind, which appends outputs to the answer; its
 * errors name the operator.
 */
#include "graph/shape_rule.h"

#include <float.h>
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

static pst_status check_eps(const struct rule *c, struct pst_error *err)
{
    return c->op->eps > 0.0f ? PST_OK : BAD("%s: eps must be greater than 0", c->op->name);
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
    return status != PST_OK ? status : check_eps(c, err);
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
    if (c->op->act < PST_ACT_RELU || c->op->act > PST_ACT_SILU) {
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

/* Returns true if the shapes are equal, except perhaps along axis `i`. */
static bool alike_but(const struct pst_tensor *a, const struct pst_tensor *b, uint32_t i)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, i * sizeof *a->dims) == 0 &&
           memcmp(&a->dims[i + 1], &b->dims[i + 1], (a->rank - 1 - i) * sizeof *a->dims) == 0;
}

static pst_status infer_concat(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *first = input(c, 0);
    const uint32_t least = c->op->axis < PST_MAX_RANK ? c->op->axis + 1 : PST_MAX_RANK + 1;
    const uint32_t axis = first->rank - least;
    char a[256], b[256];
    uint64_t width = 0;
    pst_status status = check_rank(c, least, PST_MAX_RANK, "[..., C]", err);

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
    if (c->op->padding > param0(c)->dims[0]) {
        return BAD("%s: row %u of a table of %llu has no gradient", c->op->name, c->op->padding - 1,
                   (unsigned long long)param0(c)->dims[0]);
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

/* Keys and values of another sequence; width: of the keys. */
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

/* Heads, their columns, the mask. x0 has `columns`. */
static pst_status check_heads(const struct rule *c, bool packed, uint64_t columns,
                              uint64_t *ret_depth, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    const uint32_t kv_heads = pst_op_kv_heads(op);
    const uint64_t heads = op->heads + (packed ? 2 * (uint64_t)kv_heads : 0);
    const bool grouped = packed && kv_heads != op->heads;

    if (packed && !grouped && columns % 3 != 0) {
        return BAD("%s: input has last axis %llu, which is not three parts of equal width",
                   op->name, (unsigned long long)columns);
    }
    if (op->heads == 0 || (!grouped && columns % heads != 0)) {
        return BAD("%s: input has last axis %llu (%u x %llu), heads %u do not divide it", op->name,
                   (unsigned long long)columns, packed ? 3u : 1u,
                   (unsigned long long)(columns / (packed ? 3 : 1)), op->heads);
    }
    if (op->heads % kv_heads != 0) {
        return BAD("%s: %u key heads do not divide %u heads, which share them evenly", op->name,
                   kv_heads, op->heads);
    }
    if (columns % heads != 0) {
        return BAD("%s: input has last axis %llu, which is not %u heads of queries, %u of keys and "
                   "as many of values, all of equal width",
                   op->name, (unsigned long long)columns, op->heads, kv_heads);
    }
    if (op->window != 0 && !op->causal) {
        return BAD("%s: a window of %u keys takes a causal mask", op->name, op->window);
    }
    *ret_depth = columns / heads;
    return PST_OK;
}

static pst_status infer_attention(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const struct pst_op *op = c->op;
    const bool packed = op->n_in == 1;
    uint64_t lse[2], depth = 0;
    pst_status status =
        check_rank(c, 2, 2, packed ? "[T, 3C] (queries, keys, values)" : "[T, C]", err);

    if (status == PST_OK) {
        status = check_heads(c, packed, x->dims[1], &depth, err);
    }
    if (status == PST_OK && !packed) {
        status = check_keys(c, depth * pst_op_kv_heads(op), err);
    }
    if (status == PST_OK) {
        status = check_buckets(c, err);
    }
    if (status != PST_OK) {
        return status;
    }
    result_like(c)->dims[1] = depth * op->heads;
    lse[0] = op->heads;
    lse[1] = x->dims[0];
    output(c, PST_ROLE_AUX, statistics_dtype(c), 2, lse);
    return PST_OK;
}

static pst_status check_rope(const struct rule *c, struct pst_error *err)
{
    const struct pst_rope *rope = &c->op->rope;
    const bool llama3 = rope->scaling == PST_ROPE_LLAMA3;

    if (rope->scaling > PST_ROPE_LLAMA3 || !(rope->theta > 1.0f && rope->theta <= FLT_MAX)) {
        return BAD("%s: theta %g is not a number above 1, or there is no such scaling (%u)",
                   c->op->name, (double)rope->theta, rope->scaling);
    }
    if (rope->scaling != PST_ROPE_NONE && !(rope->factor >= 1.0f && rope->factor <= FLT_MAX)) {
        return BAD("%s: positions cannot be scaled by %g; the factor is 1 or more", c->op->name,
                   (double)rope->factor);
    }
    if (llama3 &&
        !(rope->context > 0 && rope->low_freq_factor > 0.0f &&
          rope->high_freq_factor > rope->low_freq_factor && rope->high_freq_factor <= FLT_MAX)) {
        return BAD("%s: scaling llama3 takes 0 < low_freq_factor (%g) < high_freq_factor (%g) and "
                   "the context of the first training (%u)",
                   c->op->name, (double)rope->low_freq_factor, (double)rope->high_freq_factor,
                   rope->context);
    }
    return PST_OK;
}

/* Checks that x0 has at least this many heads of `depth` columns. */
static pst_status check_leading(const struct rule *c, uint64_t heads, uint64_t depth,
                                struct pst_error *err)
{
    const uint64_t columns = input(c, 0)->dims[1];

    if (heads == 0 || depth == 0 || depth > columns / heads) {
        return BAD("%s: input has last axis %llu, which does not begin with %llu heads of %llu",
                   c->op->name, (unsigned long long)columns, (unsigned long long)heads,
                   (unsigned long long)depth);
    }
    return PST_OK;
}

static pst_status infer_rotary(const struct rule *c, struct pst_error *err)
{
    pst_status status = check_rank(c, 2, 2, "[T, C]", err);

    if (status == PST_OK) {
        status = check_leading(c, c->op->heads, c->op->head_dim, err);
    }
    if (status == PST_OK && c->op->head_dim % 2 != 0) {
        return BAD("%s: heads of %u columns are not made of pairs; their number must be even",
                   c->op->name, c->op->head_dim);
    }
    if (status == PST_OK) {
        status = check_rope(c, err);
    }
    if (status == PST_OK) {
        result_like(c);
    }
    return status;
}

static pst_status infer_qknorm(const struct rule *c, struct pst_error *err)
{
    const uint64_t heads = (uint64_t)c->op->heads + pst_op_kv_heads(c->op);
    uint64_t rows[2];
    pst_status status = check_rank(c, 2, 2, "[T, C]", err);

    if (status == PST_OK) {
        status = check_param_rank(c, 1, "[head_dim]", err);
    }
    if (status == PST_OK) {
        status = check_param(c, 1, 1, param0(c)->dims, err);
    }
    if (status == PST_OK) {
        status = check_leading(c, heads, param0(c)->dims[0], err);
    }
    if (status == PST_OK) {
        status = check_eps(c, err);
    }
    if (status == PST_OK) {
        result_like(c);
        rows[0] = input(c, 0)->dims[0];
        rows[1] = heads;
        output(c, PST_ROLE_AUX, statistics_dtype(c), 2, rows);
    }
    return status;
}

static pst_status check_gate(const struct rule *c, struct pst_error *err)
{
    return c->op->act == PST_ACT_SILU || c->op->act == PST_ACT_GELU
               ? PST_OK
               : BAD("%s: gates go with silu or gelu", c->op->name);
}

static pst_status infer_glu(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    pst_status status = check_rank(c, 1, PST_MAX_RANK, "[..., 2F] (gate, up)", err);

    if (status != PST_OK) {
        return status;
    }
    if (x->dims[x->rank - 1] % 2 != 0) {
        return BAD("%s: input has last axis %llu, which is not a gate and as much to be gated",
                   c->op->name, (unsigned long long)x->dims[x->rank - 1]);
    }
    result_like(c)->dims[x->rank - 1] = x->dims[x->rank - 1] / 2;
    return check_gate(c, err);
}

/* --- mixture of experts --------------------------------------------------------------------*/

static pst_status check_chosen(const struct rule *c, uint64_t experts, struct pst_error *err)
{
    if (c->op->experts_per_token == 0 || c->op->experts_per_token > experts) {
        return BAD("%s: a token has %u of %llu experts", c->op->name, c->op->experts_per_token,
                   (unsigned long long)experts);
    }
    return PST_OK;
}

static pst_status infer_router(const struct rule *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    pst_status status = check_rank(c, 2, 2, "[T, experts]", err);

    if (status == PST_OK) {
        status = check_chosen(c, input(c, 0)->dims[1], err);
    }
    if (status == PST_OK && !(op->capacity >= 0.0f && op->capacity <= FLT_MAX &&
                              op->aux_loss >= 0.0f && op->aux_loss <= FLT_MAX)) {
        return BAD("%s: capacity %g and weight %g of the load balancing loss must be 0 or more",
                   op->name, (double)op->capacity, (double)op->aux_loss);
    }
    if (status == PST_OK) {
        result_like(c);
    }
    return status;
}

static pst_status infer_experts(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *weights = input(c, 1);
    uint64_t up[3], down[3], pairs[3];
    char text[256];
    pst_status status = check_rank(c, 2, 2, "[T, C]", err);

    if (status == PST_OK) {
        status = check_param_rank(c, 3, "[experts, C, 2F] (gate, up)", err);
    }
    if (status == PST_OK) {
        status = check_dtype(c, 1, c->builder->dtype, err);
    }
    if (status != PST_OK) {
        return status;
    }
    memcpy(up, param0(c)->dims, sizeof up);
    if (weights->rank != 2 || weights->dims[0] != x->dims[0] || weights->dims[1] != up[0]) {
        return BAD("%s: weights have shape %s, expected [%llu, %llu]", c->op->name,
                   pst_shape_text(text, sizeof text, weights->rank, weights->dims),
                   (unsigned long long)x->dims[0], (unsigned long long)up[0]);
    }
    up[1] = x->dims[1];
    up[2] = up[2] / 2 * 2;
    down[0] = up[0];
    down[1] = up[2] / 2;
    down[2] = x->dims[1];
    pairs[0] = x->dims[0];
    pairs[1] = c->op->experts_per_token;
    pairs[2] = up[2];
    status = check_param(c, 0, 3, up, err);
    if (status == PST_OK) {
        status = check_param(c, 1, 3, down, err);
    }
    if (status == PST_OK) {
        status = check_chosen(c, up[0], err);
    }
    if (status == PST_OK) {
        status = check_gate(c, err);
    }
    result_like(c);
    output(c, PST_ROLE_AUX, c->builder->dtype, 3, pairs);
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
        [PST_OP_ROTARY] = infer_rotary,
        [PST_OP_GLU] = infer_glu,
        [PST_OP_QKNORM] = infer_qknorm,
        [PST_OP_ROUTER] = infer_router,
        [PST_OP_EXPERTS] = infer_experts,
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
        [PST_OP_COSTED] = pst_infer_costed,
        [PST_OP_COSTED_LOSS] = pst_infer_costed_loss,
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
    case PST_OP_EXPERTS:
        return "pre";
    case PST_OP_MAXPOOL2D:
        return "index";
    case PST_OP_RMSNORM:
    case PST_OP_QKNORM:
        return "rstd";
    case PST_OP_COSTED:
        return "kept";
    default:
        return "lse";
    }
}
