/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms of rows, of heads within rows, and of channels over a micro-batch. B finds the
 * parameters' gradients on its way and leaves them in z, which W copies.
 */
#include "graph/ops/operands.h"

static bool check_eps(const struct pst_op_case *c, struct pst_error *err)
{
    return c->op->eps > 0.0f || BAD("%s: eps must be greater than 0", c->op->name);
}

static bool check_norm(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);

    return check_rank(c, 1, PST_MAX_RANK, "[..., C]", err) &&
           check_param(c, 0, 1, &x->dims[x->rank - 1], err) &&
           check_param(c, 1, 1, &x->dims[x->rank - 1], err) && check_eps(c, err);
}

/* Mean and standard deviation of a row; of RMS norm the latter alone. */
static bool infer_layernorm(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);

    if (!check_norm(c, err)) {
        return false;
    }
    result_like(c);
    for (uint32_t i = 0; i < (c->op->kind == PST_OP_RMSNORM ? 1u : 2u); i++) {
        output(c, PST_ROLE_AUX, statistics_dtype(c), x->rank - 1, x->dims);
    }
    return true;
}

static bool infer_batchnorm(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);

    if (!check_norm(c, err)) {
        return false;
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
    return true;
}

static bool infer_qknorm(const struct pst_op_case *c, struct pst_error *err)
{
    const uint64_t heads = (uint64_t)c->op->heads + pst_op_kv_heads(c->op);
    const uint64_t rows[2] = {input(c, 0)->dims[0], heads};

    result_like(c);
    output(c, PST_ROLE_AUX, statistics_dtype(c), 2, rows);
    return check_rank(c, 2, 2, "[T, C]", err) && check_param_rank(c, 1, "[head_dim]", err) &&
           check_param(c, 1, 1, param0(c)->dims, err) &&
           check_leading(c, heads, param0(c)->dims[0], err) && check_eps(c, err);
}

static void grad_norm(const struct pst_op_case *c, struct pst_op_grad *info)
{
    if (c->op->act == PST_ACT_RELU) {
        info->b_reads_y |= 1;
    }
    for (uint32_t i = 0; i < c->op->n_param; i++) {
        leave_scratch(info, param0(c)->elems, aux_of(c)->dtype, false);
    }
}

/* Only the columns of heads are normalised. */
static double qknorm_flops(const struct pst_op_case *c)
{
    static const double each[] = {4.0, 9.0, 0.0};
    const struct pst_op *op = c->op;
    const double elems =
        (double)result_of(c)->elems * (((double)op->heads + pst_op_kv_heads(op)) *
                                       (double)param0(c)->dims[0] / (double)result_of(c)->dims[1]);

    return each[c->pass] * elems;
}

/* y1 mean, y2 1 / deviation, per row. z0, z1: the parameters' gradients of this micro-batch; dx = g
   + add in one kernel. */
const struct pst_op_rules pst_op_layernorm = {
    .kind = {"layernorm", 1, 1, 2, 3},
    .attributes = PST_ATTR_EPS,
    .aux = {"mean", "rstd"},
    .infer = infer_layernorm,
    .passes = {.b_adds = 1, .b_reads_x = 1, .b_reads_p = 1, .b_reads_y = 2 | 4},
    .grad = grad_norm,
    .flops = {8, 12},
    .by_row = true,
};

/* y1 1 / root of mean square; z0 as layernorm. */
const struct pst_op_rules pst_op_rmsnorm = {
    .kind = {"rmsnorm", 1, 1, 1, 1},
    .attributes = PST_ATTR_EPS,
    .aux = {"rstd"},
    .infer = infer_layernorm,
    .passes = {.b_adds = 1, .b_reads_x = 1, .b_reads_p = 1, .b_reads_y = 2},
    .grad = grad_norm,
    .flops = {4, 9},
    .by_row = true,
};

/* y1 mean, y2 1 / deviation, [C] of the micro-batch; state 0, 1: running mean, variance; z as
   layernorm. */
const struct pst_op_rules pst_op_batchnorm = {
    .kind = {"batchnorm", 1, 1, 2, 3},
    .attributes = PST_ATTR_ACT | PST_ATTR_EPS | PST_ATTR_MOMENTUM,
    .aux = {"mean", "rstd"},
    .infer = infer_batchnorm,
    .passes = {.b_reads_x = 1, .b_reads_p = 1, .b_reads_y = 2 | 4},
    .grad = grad_norm,
    .flops = {8, 12},
    .takes_act = 1u << PST_ACT_RELU,
};

/* y1 [T,H+K] as rmsnorm; z0, z1 as layernorm. */
const struct pst_op_rules pst_op_qknorm = {
    .kind = {"qknorm", 1, 1, 2, 3},
    .attributes = PST_ATTR_HEADS | PST_ATTR_KV_HEADS | PST_ATTR_EPS,
    .aux = {"rstd"},
    .infer = infer_qknorm,
    .passes = {.b_reads_x = 1, .b_reads_p = 1 | 2, .b_reads_y = 2},
    .grad = grad_norm,
    .elementwise = qknorm_flops,
    .by_row = true,
};
