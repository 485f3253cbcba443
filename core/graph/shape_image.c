/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape inference of what works on images [height, width, channels].
 */
#include "graph/shape_rules.h"

/* Height and width of what a window of op->kernel leaves of the image. */
static pst_status slide(const struct pst_rule *c, struct pst_shape *y, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const struct pst_op *op = c->op;

    for (uint32_t i = 0; i < 2; i++) {
        uint64_t padded = x->dims[i] + 2 * (uint64_t)op->pad[i];

        if (op->kernel[i] == 0 || op->stride[i] == 0 || op->pad[i] >= op->kernel[i]) {
            return BAD("%s: kernel %u, stride %u, padding %u: kernel and stride must be positive, "
                       "the padding smaller than the kernel",
                       op->name, op->kernel[i], op->stride[i], op->pad[i]);
        }
        if (padded < op->kernel[i]) {
            return BAD("%s: image is %llu high or wide with its padding, the kernel %u", op->name,
                       (unsigned long long)padded, op->kernel[i]);
        }
        y->dims[i] = (padded - op->kernel[i]) / op->stride[i] + 1;
    }
    return PST_OK;
}

pst_status pst_infer_conv2d(const struct pst_rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
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
    weight[2] = x->dims[2];
    weight[3] = param0(c)->dims[3];
    status = check_param(c, 0, 4, weight, err);
    if (status == PST_OK) {
        status = check_param(c, 1, 1, &weight[3], err);
    }
    y = result_like(c);
    y->dims[2] = weight[3];
    return status != PST_OK ? status : slide(c, y, err);
}

pst_status pst_infer_maxpool2d(const struct pst_rule *c, struct pst_error *err)
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

pst_status pst_infer_avgpool(const struct pst_rule *c, struct pst_error *err)
{
    pst_status status = check_rank(c, 2, PST_MAX_RANK, "[..., C]", err);
    const struct pst_tensor *x = input(c, 0);

    if (status == PST_OK) {
        output(c, PST_ROLE_ACTIVATION, c->builder->dtype, 1, &x->dims[x->rank - 1]);
    }
    return status;
}

pst_status pst_infer_avgpool2d(const struct pst_rule *c, struct pst_error *err)
{
    pst_status status = check_rank(c, 3, 3, "[height, width, channels]", err);

    return status != PST_OK ? status : slide(c, result_like(c), err);
}

pst_status pst_infer_shift2d(const struct pst_rule *c, struct pst_error *err)
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
