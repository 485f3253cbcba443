/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices: linear layers and matmul.
 */
#include "graph/ops/operands.h"

static bool infer_linear(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const uint32_t out_axis = c->op->transposed ? 0 : 1;
    uint64_t weight[2], out;
    struct pst_shape *y;

    if (!check_rank(c, 1, PST_MAX_RANK, "[..., C]", err) ||
        !check_param_rank(c, 2, c->op->transposed ? "[out, in]" : "[in, out]", err)) {
        return false;
    }
    if (c->op->act > PST_ACT_GELU) {
        return BAD("%s: no such activation function (%u)", c->op->name, c->op->act);
    }
    out = param0(c)->dims[out_axis];
    weight[out_axis] = out;
    weight[1 - out_axis] = x->dims[x->rank - 1];
    y = result_like(c);
    y->dims[y->rank - 1] = out;
    if (c->op->act == PST_ACT_GELU) {
        output(c, PST_ROLE_AUX, y->dtype, y->rank, y->dims);
    }
    return check_param(c, 0, 2, weight, err) && check_param(c, 1, 1, &out, err);
}

static void grad_linear(const struct pst_op_case *c, struct pst_op_grad *info)
{
    const struct pst_tensor *y = result_of(c);

    info->w_reads_dy = c->op->act == PST_ACT_NONE;
    if (c->op->act != PST_ACT_NONE) { /* z0: gradient before the activation function */
        info->b_reads_y = c->op->act == PST_ACT_GELU ? 2 : 1;
        leave_scratch(info, y->elems, y->dtype, true);
    }
}

static double linear_products(const struct pst_op_case *c)
{
    const struct pst_tensor *x = input(c, 0);

    return 2.0 * (double)result_of(c)->elems * (double)x->dims[x->rank - 1];
}

/* gelu: y1 = x0 p0 + p1. With act B leaves z0 = dy act'(.), of y's shape and dtype, and W reads it
   in the place of dy; where x0 is data that is all B does. relu's mask is y > 0. */
const struct pst_op_rules pst_op_linear = {
    .kind = {"linear", 1, 1, 2, 1},
    .attributes = PST_ATTR_ACT | PST_ATTR_TRANSPOSED,
    .aux = {"pre"},
    .costly = true,
    .infer = infer_linear,
    .passes = {.b_reads_p = 1, .w_reads_x = 1},
    .grad = grad_linear,
    .products = linear_products,
    .by_row = true,
    .takes_act = 1u << PST_ACT_RELU | 1u << PST_ACT_GELU,
};

/* Rows and columns of a factor as the product sees it. */
static void factor_dims(const struct pst_op_case *c, uint32_t i, uint64_t ret_dims[2])
{
    const struct pst_tensor *x = input(c, i);

    ret_dims[c->op->swapped[i] ? 1 : 0] = x->dims[x->rank - 2];
    ret_dims[c->op->swapped[i] ? 0 : 1] = x->dims[x->rank - 1];
}

static bool infer_matmul(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *left = input(c, 0), *right = input(c, 1);
    char a[256], b[256];
    uint64_t l[2], r[2];
    struct pst_shape *y;

    if (left->rank < 2 || right->rank < 2) {
        return BAD("%s: factors of shape %s and %s; both need rows and columns", c->op->name,
                   text_of(a, left), text_of(b, right));
    }
    if (!check_dtype(c, 0, c->dtype, err) || !check_dtype(c, 1, c->dtype, err)) {
        return false;
    }
    factor_dims(c, 0, l);
    factor_dims(c, 1, r);
    y = result_like(c);
    if (l[1] != r[0] || !pst_spread_shape(y, right, 2)) {
        return BAD("%s: shapes %s%s and %s%s cannot be multiplied", c->op->name, text_of(a, left),
                   c->op->swapped[0] ? " (swapped)" : "", text_of(b, right),
                   c->op->swapped[1] ? " (swapped)" : "");
    }
    y->dims[y->rank - 2] = l[0];
    y->dims[y->rank - 1] = r[1];
    return true;
}

/* Each factor's slope is the other one. */
static void grad_matmul(const struct pst_op_case *c, struct pst_op_grad *info)
{
    for (uint32_t i = 0; i < 2; i++) {
        info->b_reads_x |= input(c, i)->needs_grad ? 1ull << (1 - i) : 0;
    }
}

static double matmul_products(const struct pst_op_case *c)
{
    const struct pst_tensor *x = input(c, 0);
    const double flops =
        2.0 * (double)result_of(c)->elems * (double)x->dims[x->rank - (c->op->swapped[0] ? 2 : 1)];
    const double gradients = (x->needs_grad ? 1.0 : 0.0) + (input(c, 1)->needs_grad ? 1.0 : 0.0);

    return c->pass == 1 ? flops * gradients : flops;
}

const struct pst_op_rules pst_op_matmul = {
    .kind = {"matmul", 2, 2, 0, 0},
    .attributes = PST_ATTR_SWAPPED,
    .costly = true,
    .infer = infer_matmul,
    .grad = grad_matmul,
    .products = matmul_products,
};
