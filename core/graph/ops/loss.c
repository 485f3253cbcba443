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

/* All have a part of the classes, in their order; the last may have fewer, or none. */
static bool check_classes(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const uint64_t own = x->rank > 0 ? x->dims[x->rank - 1] : 0;

    return (c->op->parts > 1 && c->op->classes > 0 && c->op->classes <= c->op->parts * own) ||
           BAD("%s: %u parts of %llu classes have no %u", c->op->name, c->op->parts,
               (unsigned long long)own, c->op->classes);
}

static bool infer_ce_part(const struct pst_op_case *c, struct pst_error *err)
{
    uint64_t dims[2] = {0, PST_CE_NUMBERS};

    if (!infer_cross_entropy(c, err) || !check_classes(c, err)) {
        return false;
    }
    c->shapes->n_out = 0;
    dims[0] = input(c, 1)->elems;
    output(c, PST_ROLE_ACTIVATION, statistics_dtype(c), 2, dims);
    return true;
}

static bool infer_ce_join(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *numbers = input(c, 2);

    return infer_cross_entropy(c, err) && check_classes(c, err) &&
           check_dtype(c, 2, statistics_dtype(c), err) &&
           ((numbers->rank == 2 && numbers->dims[0] == c->op->parts * input(c, 1)->elems &&
             numbers->dims[1] == PST_CE_NUMBERS) ||
            BAD("%s: input 2 is not four numbers for each row of %u parts", c->op->name,
                c->op->parts));
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

/* Computes four numbers per row, over the part's classes: the greatest logit (-infinity where a
   part has none), the sum of exp(logit - greatest), the target's logit or 0, the sum of the logits.
 */
const struct pst_op_rules pst_op_ce_part = {
    .kind = {"cross-entropy-part", 2, 2, 0, 0},
    .attributes = PST_ATTR_PARTS | PST_ATTR_CLASSES,
    .classes = true,
    .apart = true,
    .infer = infer_ce_part,
    .flops = {5},
    .counts_x = true,
    .softmax = logits_bytes,
};

/* Computes cross-entropy from the logits of a part and x2, the numbers of all parts in their order.
   B computes the gradient of the part's logits. */
const struct pst_op_rules pst_op_ce_join = {
    .kind = {"cross-entropy-join", 3, 3, 0, 0},
    .attributes = PST_ATTR_SMOOTHING | PST_ATTR_Z_LOSS | PST_ATTR_PARTS | PST_ATTR_CLASSES,
    .aux = {"lse"},
    .loss = true,
    .classes = true,
    .infer = infer_ce_join,
    .passes = {.b_reads_x = 1 | 2, .b_reads_y = 2},
    .f_skips_x = 1,
    .flops = {0, 3},
    .softmax = logits_bytes,
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
