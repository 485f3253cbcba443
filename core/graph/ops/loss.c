/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: one number a sample, that nothing reads.
 */
#include "graph/ops/operands.h"

static bool infer_cross_entropy(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *t = input(c, 1);
    char logits[256], targets[256];

    if (!check_rank(c, 1, PST_MAX_RANK, "[..., classes]", err) ||
        !check_dtype(c, 1, PST_I32, err)) {
        return false;
    }
    if (t->rank + 1 != x->rank || memcmp(t->dims, x->dims, t->rank * sizeof *t->dims) != 0) {
        return BAD("%s: targets of shape %s do not go with logits of shape %s", c->op->name,
                   text_of(targets, t), text_of(logits, x));
    }
    output(c, PST_ROLE_ACTIVATION, statistics_dtype(c), 0, NULL);
    output(c, PST_ROLE_AUX, statistics_dtype(c), t->rank, t->dims);
    return true;
}

static bool infer_mse(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *t = input(c, 1);
    char left[256], right[256];

    output(c, PST_ROLE_ACTIVATION, statistics_dtype(c), 0, NULL);
    return check_dtype(c, 0, c->dtype, err) && check_dtype(c, 1, c->dtype, err) &&
           ((t->role == PST_ROLE_INPUT && same_dims(t, x)) ||
            BAD("%s: targets of shape %s do not go with results of shape %s, or are no data",
                c->op->name, text_of(right, t), text_of(left, x)));
}

static double logits_bytes(const struct pst_op_case *c)
{
    return (double)input(c, 0)->elems * sizeof(float);
}

/* y1 log-sum-exp per row. With smoothing s each other class has s / V of the target (Szegedy et
   al., 2016); z_loss times the square of y1 is added to a row (Chowdhery et al., "PaLM", 2022). F
   leaves both out where it does not train. */
const struct pst_op_rules pst_op_cross_entropy = {
    .kind = {"cross-entropy", 2, 2, 0, 0},
    .attributes = PST_ATTR_SMOOTHING | PST_ATTR_Z_LOSS,
    .aux = {"lse"},
    .loss = true,
    .classes = true,
    .infer = infer_cross_entropy,
    .passes = {.b_reads_x = 1 | 2, .b_reads_y = 2},
    .flops = {5, 3},
    .softmax = logits_bytes,
    .by_row = true,
};

const struct pst_op_rules pst_op_mse = {
    .kind = {"mse", 2, 2, 0, 0},
    .loss = true,
    .infer = infer_mse,
    .passes = {.b_reads_x = 1 | 2},
    .flops = {3, 3},
};

const struct pst_op_rules pst_op_bce = {
    .kind = {"binary-cross-entropy", 2, 2, 0, 0},
    .loss = true,
    .infer = infer_mse,
    .passes = {.b_reads_x = 1 | 2},
    .flops = {16, 16},
};
