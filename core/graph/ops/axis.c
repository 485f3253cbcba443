/* SPDX-License-Identifier: Apache-2.0
 *
 * Along axes: reductions, means, softmax, places, and tensors side by side.
 */
#include "graph/ops/operands.h"

static bool infer_reduce(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    struct pst_shape *y = result_like(c);
    char text[256];

    if (c->op->reduce >= PST_REDUCES || c->op->axes == 0 || c->op->axes >> x->rank != 0) {
        return BAD("%s: nothing to reduce shape %s by (reduction %u over axes of mask 0x%x)",
                   c->op->name, text_of(text, x), c->op->reduce, c->op->axes);
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        if ((c->op->axes >> i & 1) != 0) {
            y->dims[x->rank - 1 - i] = 1;
        }
    }
    return check_dtype(c, 0, c->dtype, err);
}

static bool check_axis(const struct pst_op_case *c, struct pst_error *err)
{
    char text[256];

    return (c->op->axis < input(c, 0)->rank ||
            BAD("%s: shape %s has no axis %u before the last", c->op->name,
                text_of(text, input(c, 0)), c->op->axis)) &&
           check_dtype(c, 0, c->dtype, err);
}

static bool infer_softmax(const struct pst_op_case *c, struct pst_error *err)
{
    result_like(c);
    return check_axis(c, err);
}

static bool infer_gather(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *places = input(c, 1);
    uint64_t dims[2 * PST_MAX_RANK];
    uint32_t before;

    if (!check_axis(c, err) || !check_dtype(c, 1, PST_I32, err)) {
        return false;
    }
    if (x->rank - 1 + places->rank > PST_MAX_RANK) {
        return BAD("%s: the result has %u axes; at most %d are possible", c->op->name,
                   x->rank - 1 + places->rank, PST_MAX_RANK);
    }
    before = x->rank - 1 - c->op->axis;
    memcpy(dims, x->dims, before * sizeof *dims);
    memcpy(dims + before, places->dims, places->rank * sizeof *dims);
    memcpy(dims + before + places->rank, x->dims + before + 1, c->op->axis * sizeof *dims);
    output(c, PST_ROLE_ACTIVATION, x->dtype, x->rank - 1 + places->rank, dims);
    return true;
}

static bool infer_avgpool(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);

    if (!check_rank(c, 2, PST_MAX_RANK, "[..., C]", err)) {
        return false;
    }
    output(c, PST_ROLE_ACTIVATION, c->dtype, 1, &x->dims[x->rank - 1]);
    return true;
}

/* Returns true if the shapes are equal, except perhaps along axis `i`. */
static bool alike_but(const struct pst_tensor *a, const struct pst_tensor *b, uint32_t i)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, i * sizeof *a->dims) == 0 &&
           memcmp(&a->dims[i + 1], &b->dims[i + 1], (a->rank - 1 - i) * sizeof *a->dims) == 0;
}

static bool infer_concat(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *first = input(c, 0);
    const uint32_t least = c->op->axis < PST_MAX_RANK ? c->op->axis + 1 : PST_MAX_RANK + 1;
    const uint32_t axis = first->rank - least;
    char a[256], b[256];
    uint64_t width = 0;

    if (!check_rank(c, least, PST_MAX_RANK, "[..., C]", err)) {
        return false;
    }
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        const struct pst_tensor *x = input(c, i);

        if (x->dtype != first->dtype || !alike_but(x, first, axis)) {
            return BAD("%s: inputs of shape %s and %s differ in more than %s axis", c->op->name,
                       text_of(a, first), text_of(b, x), c->op->axis == 0 ? "the last" : "that");
        }
        width += x->dims[axis];
    }
    result_like(c)->dims[axis] = width;
    return true;
}

static void grad_reduce(const struct pst_op_case *c, struct pst_op_grad *info)
{
    info->b_reads_x = c->op->reduce == PST_REDUCE_MAX;
    info->b_reads_y = c->op->reduce == PST_REDUCE_MAX;
}

const struct pst_op_rules pst_op_reduce = {
    .kind = {"reduce", 1, 1, 0, 0},
    .attributes = PST_ATTR_REDUCE | PST_ATTR_AXES,
    .infer = infer_reduce,
    .passes = {.b_adds = 1},
    .grad = grad_reduce,
    .flops = {1, 1},
    .counts_x = true,
};

const struct pst_op_rules pst_op_softmax = {
    .kind = {"softmax", 1, 1, 0, 0},
    .attributes = PST_ATTR_AXIS | PST_ATTR_LOGARITHM,
    .infer = infer_softmax,
    .passes = {.b_adds = 1, .b_reads_y = 1},
    .flops = {5, 3},
};

const struct pst_op_rules pst_op_gather = {
    .kind = {"gather", 2, 2, 0, 0},
    .attributes = PST_ATTR_AXIS,
    .infer = infer_gather,
    .passes = {.b_adds = 1, .b_reads_x = 2},
};

const struct pst_op_rules pst_op_avgpool = {
    .kind = {"avgpool", 1, 1, 0, 0},
    .infer = infer_avgpool,
    .flops = {1, 1},
    .counts_x = true,
};

const struct pst_op_rules pst_op_concat = {
    .kind = {"concat", 1, PST_MAX_IN, 0, 0},
    .attributes = PST_ATTR_AXIS,
    .infer = infer_concat,
};
