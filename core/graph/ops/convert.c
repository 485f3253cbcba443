/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between the layouts of a tensor over the parts of a replica.
 */
#include "graph/split.h"

#include "graph/ops/operands.h"

static bool infer_convert(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    const struct pst_tensor *x = input(c, 0);
    struct pst_shape *y = result_like(c);
    bool grows, exchanges;

    y->dtype = x->dtype;

    if (op->convert >= PST_CONVERTS || op->parts < 2) {
        return BAD("%s: no such conversion (%u), or no parts (%u)", op->name, op->convert,
                   op->parts);
    }
    if (op->convert == PST_CONVERT_FAN || op->convert == PST_CONVERT_SUM) {
        return true;
    }
    exchanges = op->convert == PST_CONVERT_EXCHANGE;
    grows = op->convert == PST_CONVERT_JOIN || op->convert == PST_CONVERT_GATHER;
    if (x->rank == 0) {
        return BAD("%s: a number has no axis that parts could divide", op->name);
    }
    if (!grows && x->dims[0] % op->parts != 0) {
        return BAD("%s: %u parts do not divide the first axis of the input", op->name, op->parts);
    }
    y->dims[0] = grows ? x->dims[0] * op->parts : exchanges ? x->dims[0] : x->dims[0] / op->parts;
    return true;
}

static void grad_convert(const struct pst_op_case *c, struct pst_op_grad *info)
{
    info->b_alias = pst_convert_work(c->op, 1) == PST_WORK_NONE ? 1 : 0;
}

/* A copy is cheap to make again; a meeting is not. */
static uint32_t convert_flags(const struct pst_op *op)
{
    return pst_op_meets(op, 0) ? 0 : PST_NODE_CHEAP;
}

const struct pst_op_rules pst_op_convert = {
    .kind = {"convert", 1, 1, 0, 0},
    .attributes = PST_ATTR_CONVERT | PST_ATTR_PARTS,
    .converts = true,
    .costly = true,
    .more_flags = convert_flags,
    .infer = infer_convert,
    .grad = grad_convert,
};
