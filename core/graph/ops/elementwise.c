/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions by element: sums with dropout, activation functions, maps. What fusion makes of them.
 */
#include "graph/ops/operands.h"

static bool check_probability(const struct pst_op_case *c, struct pst_error *err)
{
    return (c->op->p >= 0.0f && c->op->p < 1.0f) ||
           BAD("%s: dropout probability %g is not in [0, 1)", c->op->name, (double)c->op->p);
}

static bool infer_add(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *a = input(c, 0), *b = input(c, 1);
    char left[256], right[256];

    if (a->dtype != b->dtype || !same_dims(a, b)) {
        return BAD("%s: cannot add shapes %s and %s", c->op->name, text_of(left, a),
                   text_of(right, b));
    }
    result_like(c);
    return check_dtype(c, 0, c->dtype, err) && check_probability(c, err);
}

static bool infer_elementwise(const struct pst_op_case *c, struct pst_error *err)
{
    const uint32_t act = c->op->act;

    result_like(c);
    return check_dtype(c, 0, c->dtype, err) &&
           (c->op->kind == PST_OP_DROPOUT
                ? check_probability(c, err)
                : (act >= PST_ACT_RELU && act <= PST_ACT_SILU) ||
                      BAD("%s: no such activation function (%u)", c->op->name, act));
}

/* The gradients are dy itself, except the dropped one. */
static void grad_add(const struct pst_op_case *c, struct pst_op_grad *info)
{
    info->b_alias = c->op->p > 0.0f ? 1 : 3;
}

static void grad_act(const struct pst_op_case *c, struct pst_op_grad *info)
{
    info->b_reads_x = c->op->act != PST_ACT_RELU;
    info->b_reads_y = c->op->act == PST_ACT_RELU;
}

double pst_act_flops(uint32_t act)
{
    return act == PST_ACT_GELU ? 12.0 : act == PST_ACT_SILU ? 4.0 : 1.0;
}

static double act_flops(const struct pst_op_case *c)
{
    return pst_act_flops(c->op->act) * (double)result_of(c)->elems;
}

/* The maker of an input; NULL: it is data, or something else reads it. */
static struct pst_op *maker_of(const struct pst_fusion *fusion, uint32_t tensor)
{
    const uint32_t op = fusion->builder->tensors[tensor].producer;

    return op == PST_NONE || fusion->uses[tensor] != 1 ? NULL : &fusion->builder->ops[op];
}

/* act(x) where x comes from a linear layer (relu, gelu) or batch norm (relu) without act: the
   result moves there. */
static void fuse_act(const struct pst_fusion *fusion, struct pst_op *act)
{
    struct pst_op *host = maker_of(fusion, act->in[0]);
    uint32_t *out;

    if (host == NULL || host->act != PST_ACT_NONE ||
        (pst_op_rules_of(host->kind)->takes_act >> act->act & 1) == 0) {
        return;
    }
    out = (uint32_t *)host->out;
    host->act = act->act;
    if (act->act == PST_ACT_GELU) { /* what was the result is now saved for the backward pass */
        out[1] = out[0];
        host->n_out = 2;
    }
    out[0] = act->out[0];
    fusion->builder->tensors[out[0]].producer = (uint32_t)(host - fusion->builder->ops);
    act->kind = PST_OP_KINDS;
}

/* add(x, dropout(z)): the add drops z, with the dropout's random stream. */
static void fuse_dropout(const struct pst_fusion *fusion, struct pst_op *add)
{
    struct pst_op *dropout = maker_of(fusion, add->in[1]);

    if (dropout == NULL || dropout->kind != PST_OP_DROPOUT || add->p > 0.0f ||
        !(dropout->p > 0.0f)) {
        return;
    }
    ((uint32_t *)add->in)[1] = dropout->in[0];
    add->p = dropout->p;
    add->salt = dropout->salt;
    dropout->kind = PST_OP_KINDS;
}

const struct pst_op_rules pst_op_add = {
    .kind = {"add", 2, 2, 0, 0},
    .attributes = PST_ATTR_P | PST_ATTR_PARTS,
    .infer = infer_add,
    .grad = grad_add,
    .flops = {1, 1},
    .by_row = true,
    .fuse = fuse_dropout,
};

const struct pst_op_rules pst_op_dropout = {
    .kind = {"dropout", 1, 1, 0, 0},
    .attributes = PST_ATTR_P | PST_ATTR_PARTS | PST_ATTR_ROW,
    .flags = PST_NODE_RNG,
    .infer = infer_elementwise,
    .flops = {1, 1},
    .by_row = true,
};

const struct pst_op_rules pst_op_act = {
    .kind = {"act", 1, 1, 0, 0},
    .attributes = PST_ATTR_ACT,
    .infer = infer_elementwise,
    .grad = grad_act,
    .elementwise = act_flops,
    .by_row = true,
    .fuse = fuse_act,
};

/* --- maps ----------------------------------------------------------------------------------*/

#define Y PST_MAP_READS_Y

static const struct pst_map_row rows[PST_MAPS] = {
    [PST_MAP_AFFINE] = {"affine", 1, {0}, {2, 1}},
    [PST_MAP_POWER] = {"power", 1, {1}, {12, 14}},
    [PST_MAP_CLIP] = {"clip", 1, {1}, {2, 3}},
    [PST_MAP_LEAKY] = {"leaky-relu", 1, {1}, {2, 2}},
    [PST_MAP_ELU] = {"elu", 1, {1}, {10, 10}},
    [PST_MAP_HARD_SIGMOID] = {"hard-sigmoid", 1, {1}, {4, 4}},
    [PST_MAP_HARD_SWISH] = {"hard-swish", 1, {1}, {5, 5}},
    [PST_MAP_ABS] = {"abs", 1, {1}, {1, 2}},
    [PST_MAP_EXP] = {"exp", 1, {Y}, {8, 1}},
    [PST_MAP_LOG] = {"log", 1, {1}, {8, 1}},
    [PST_MAP_SQRT] = {"sqrt", 1, {Y}, {1, 2}},
    [PST_MAP_RECIPROCAL] = {"reciprocal", 1, {Y}, {1, 2}},
    [PST_MAP_ERF] = {"erf", 1, {1}, {12, 10}},
    [PST_MAP_TANH] = {"tanh", 1, {Y}, {10, 3}},
    [PST_MAP_SIGMOID] = {"sigmoid", 1, {Y}, {10, 3}},
    [PST_MAP_GELU] = {"gelu-erf", 1, {1}, {15, 24}},
    [PST_MAP_SOFTPLUS] = {"softplus", 1, {1}, {16, 10}},
    [PST_MAP_SIN] = {"sin", 1, {1}, {10, 11}},
    [PST_MAP_COS] = {"cos", 1, {1}, {10, 11}},
    [PST_MAP_ADD] = {"sum", 2, {0, 0}, {1, 2}},
    [PST_MAP_SUB] = {"difference", 2, {0, 0}, {1, 2}},
    [PST_MAP_MUL] = {"product", 2, {2, 1}, {1, 2}},
    [PST_MAP_DIV] = {"quotient", 2, {2, 2 | Y}, {1, 4}},
    [PST_MAP_POW] = {"pow", 2, {1 | 2, 1 | Y}, {12, 26}},
    [PST_MAP_MIN] = {"min", 2, {1 | 2, 1 | 2}, {1, 4}},
    [PST_MAP_MAX] = {"max", 2, {1 | 2, 1 | 2}, {1, 4}},
    [PST_MAP_EQUAL] = {"equal", 2, {0, 0}, {1, 0}},
    [PST_MAP_LESS] = {"less", 2, {0, 0}, {1, 0}},
    [PST_MAP_LESS_EQUAL] = {"less-equal", 2, {0, 0}, {1, 0}},
    [PST_MAP_SELECT] = {"select", 3, {0, 1, 1}, {1, 2}},
};

const struct pst_map_row *pst_map_row(uint32_t map)
{
    return map < PST_MAPS ? &rows[map] : NULL;
}

/* Widens y, by numpy's rules, to hold the first `rank` axes of x beside its own; false: they do not
   go together. `skip` last axes of both stay out of it. */
bool pst_spread_shape(struct pst_shape *y, const struct pst_tensor *x, uint32_t skip)
{
    const uint32_t rank = x->rank > y->rank ? x->rank : y->rank;
    uint64_t dims[PST_MAX_RANK];

    for (uint32_t i = 0; i < rank; i++) { /* from the last axis */
        const uint64_t a = i < y->rank ? y->dims[y->rank - 1 - i] : 1;
        const uint64_t b = i < x->rank ? x->dims[x->rank - 1 - i] : 1;

        if (i >= skip && a != b && a != 1 && b != 1) {
            return false;
        }
        dims[rank - 1 - i] = i < skip || a != 1 ? a : b;
    }
    y->rank = rank;
    memcpy(y->dims, dims, rank * sizeof *dims);
    return true;
}

static bool infer_map(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_map_row *row = pst_map_row(c->op->map);
    struct pst_shape *y;
    char a[256], b[256];

    if (row == NULL || row->n_in != c->op->n_in) {
        return BAD("%s: map %u (%s) does not go with %u inputs", c->op->name, c->op->map,
                   row == NULL ? "there is none" : row->name, c->op->n_in);
    }
    y = result_like(c);
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        const struct pst_tensor *x = input(c, i);

        if (x->dtype != PST_I32 && x->dtype != c->dtype) {
            return check_dtype(c, i, c->dtype, err);
        }
        if (!pst_spread_shape(y, x, 0)) {
            return BAD("%s: shapes %s and %s do not go together (%s)", c->op->name,
                       pst_shape_text(a, sizeof a, y->rank, y->dims), text_of(b, x), row->name);
        }
    }
    return true;
}

/* Only the slopes of inputs that need a gradient read anything. */
static void grad_map(const struct pst_op_case *c, struct pst_op_grad *info)
{
    const struct pst_map_row *row = pst_map_row(c->op->map);

    for (uint32_t i = 0; i < c->op->n_in; i++) {
        if (input(c, i)->needs_grad) {
            info->b_reads_x |= row->slope_reads[i] & ~PST_MAP_READS_Y;
            info->b_reads_y |= (row->slope_reads[i] & PST_MAP_READS_Y) != 0;
        }
    }
}

static double map_flops(const struct pst_op_case *c)
{
    return pst_map_row(c->op->map)->flops[c->pass == 0 ? 0 : 1] * (double)result_of(c)->elems;
}

const struct pst_op_rules pst_op_map = {
    .kind = {"map", 1, 3, 0, 0},
    .attributes = PST_ATTR_MAP | PST_ATTR_CONSTANTS,
    .infer = infer_map,
    .passes = {.b_adds = UINT64_MAX},
    .grad = grad_map,
    .elementwise = map_flops,
};
