/* SPDX-License-Identifier: Apache-2.0
 *
 * Images [height, width, channels]: convolutions, pools and shifts.
 */
#include "graph/ops/operands.h"

static bool check_image(const struct pst_op_case *c, struct pst_error *err)
{
    return check_rank(c, 3, 3, "[height, width, channels]", err);
}

/* Height and width of what a window of op->kernel leaves of the image. */
static bool slide_window(const struct pst_op_case *c, struct pst_shape *y, struct pst_error *err)
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
    return true;
}

static bool infer_conv2d(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const uint64_t groups = c->op->groups == 0 ? 1 : c->op->groups;
    uint64_t weight[4] = {c->op->kernel[0], c->op->kernel[1]};
    struct pst_shape *y;

    if (!check_image(c, err) ||
        !check_param_rank(c, 4, "[kernel height, kernel width, in, out]", err)) {
        return false;
    }
    weight[2] = x->dims[2] / groups;
    weight[3] = param0(c)->dims[3];
    if (x->dims[2] % groups != 0 || weight[3] % groups != 0) {
        return BAD("%s: %llu groups do not divide %llu channels to %llu", c->op->name,
                   (unsigned long long)groups, (unsigned long long)x->dims[2],
                   (unsigned long long)weight[3]);
    }
    y = result_like(c);
    y->dims[2] = weight[3];
    return check_param(c, 0, 4, weight, err) && check_param(c, 1, 1, &weight[3], err) &&
           slide_window(c, y, err);
}

static bool infer_maxpool2d(const struct pst_op_case *c, struct pst_error *err)
{
    struct pst_shape *y = result_like(c);

    if (!check_image(c, err) || !slide_window(c, y, err)) {
        return false;
    }
    output(c, PST_ROLE_AUX, PST_I32, y->rank, y->dims);
    return true;
}

static bool infer_avgpool2d(const struct pst_op_case *c, struct pst_error *err)
{
    return check_image(c, err) && slide_window(c, result_like(c), err);
}

static bool infer_shift2d(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);

    result_like(c);
    return check_image(c, err) &&
           ((c->op->pad[0] < x->dims[0] && c->op->pad[1] < x->dims[1]) ||
            BAD("%s: nothing is left of an image of %llu x %llu that moves by %u and %u",
                c->op->name, (unsigned long long)x->dims[0], (unsigned long long)x->dims[1],
                c->op->pad[0], c->op->pad[1]));
}

static double conv_products(const struct pst_op_case *c)
{
    const struct pst_op *op = c->op;

    return 2.0 * (double)result_of(c)->elems * (double)op->kernel[0] * (double)op->kernel[1] *
           (double)(input(c, 0)->dims[2] / (op->groups == 0 ? 1 : op->groups));
}

static double pool_flops(const struct pst_op_case *c)
{
    const double window = (double)c->op->kernel[0] * (double)c->op->kernel[1];

    return (c->pass == 0 ? window : 1.0) * (double)result_of(c)->elems;
}

const struct pst_op_rules pst_op_conv2d = {
    .kind = {"conv2d", 1, 1, 2, 1},
    .attributes = PST_ATTR_KERNEL | PST_ATTR_STRIDE | PST_ATTR_PAD | PST_ATTR_PAD_MORE |
                  PST_ATTR_DILATION | PST_ATTR_GROUPS,
    .costly = true,
    .infer = infer_conv2d,
    .passes = {.b_reads_p = 1, .w_reads_x = 1, .w_reads_dy = true},
    .products = conv_products,
};

/* y1: i32 index of the maximum in its window. */
const struct pst_op_rules pst_op_maxpool2d = {
    .kind = {"maxpool2d", 1, 1, 0, 0},
    .attributes =
        PST_ATTR_KERNEL | PST_ATTR_STRIDE | PST_ATTR_PAD | PST_ATTR_PAD_MORE | PST_ATTR_DILATION,
    .aux = {"index"},
    .infer = infer_maxpool2d,
    .passes = {.b_reads_y = 2},
    .elementwise = pool_flops,
};

const struct pst_op_rules pst_op_avgpool2d = {
    .kind = {"avgpool2d", 1, 1, 0, 0},
    .attributes =
        PST_ATTR_KERNEL | PST_ATTR_STRIDE | PST_ATTR_PAD | PST_ATTR_PAD_MORE | PST_ATTR_WHOLE,
    .infer = infer_avgpool2d,
    .elementwise = pool_flops,
};

const struct pst_op_rules pst_op_shift2d = {
    .kind = {"shift2d", 1, 1, 0, 0},
    .attributes = PST_ATTR_PAD,
    .infer = infer_shift2d,
};
