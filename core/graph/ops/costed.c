/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of a costed graph, whose work and shapes a file states. No device can run them.
 */
#include "graph/ops/operands.h"

static bool infer_costed(const struct pst_op_case *c, struct pst_error *err)
{
    const uint64_t *sizes = c->op->form->dims;

    (void)err; /* what is too large is told where tensors are made */
    output(c, PST_ROLE_ACTIVATION, c->dtype, 1, &sizes[PST_COSTED_RESULT]);
    if (sizes[PST_COSTED_KEPT] > 0) {
        output(c, PST_ROLE_AUX, c->dtype, 1, &sizes[PST_COSTED_KEPT]);
    }
    return true;
}

static bool infer_costed_loss(const struct pst_op_case *c, struct pst_error *err)
{
    (void)err;
    output(c, PST_ROLE_ACTIVATION, statistics_dtype(c), 0, NULL);
    return true;
}

/* The file does not say which backward pass reads a kept tensor, so both do. */
static void grad_costed(const struct pst_op_case *c, struct pst_op_grad *info)
{
    const struct pst_op *op = c->op;

    info->b_reads_y = (op->n_out > 1 ? 2u : 0u) | op->form->dims[PST_COSTED_KEEPS_RESULT];
    for (uint32_t i = 0; i < op->n_in; i++) {
        const struct pst_op *maker = &c->ops[input(c, i)->producer];

        info->b_reads_x |= maker->form->dims[PST_COSTED_KEEPS_RESULT] << i;
    }
    info->w_reads_x = info->b_reads_x;
    info->w_reads_y = info->b_reads_y;
}

const struct pst_op_rules pst_op_costed = {
    .kind = {"costed", 0, PST_MAX_IN, 1, 0},
    .aux = {"kept"},
    .costly = true,
    .infer = infer_costed,
    .passes = {.b_reads_p = 1, .w_reads_dy = true},
    .grad = grad_costed,
};

const struct pst_op_rules pst_op_costed_loss = {
    .kind = {"costed-loss", 1, PST_MAX_IN, 0, 0},
    .loss = true,
    .infer = infer_costed_loss,
};
