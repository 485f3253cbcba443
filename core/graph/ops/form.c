/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of a stated form: parameters and constants as tensors, other shapes and places.
 */
#include "graph/ops/operands.h"

static bool infer_parameter(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_parameter *param = param0(c);

    (void)err;
    output(c, PST_ROLE_ACTIVATION, c->dtype, param->rank, param->dims);
    return true;
}

/* The operator has a form, of at most PST_MAX_RANK axes. */
static bool check_form(const struct pst_op_case *c, uint64_t *ret_elems, struct pst_error *err)
{
    const struct pst_form *form = c->op->form;
    char text[256];

    if (form == NULL || form->rank > PST_MAX_RANK) {
        return BAD("%s: it has no form, or one of more than %d axes", c->op->name, PST_MAX_RANK);
    }
    if (!pst_shape_elems(form->rank, form->dims, ret_elems)) {
        return BAD("%s: shape %s has an axis of 0 or more than 2^40 elements", c->op->name,
                   pst_shape_text(text, sizeof text, form->rank, form->dims));
    }
    return true;
}

static bool infer_constant(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_form *form = c->op->form;
    uint64_t elems;

    if (!check_form(c, &elems, err)) {
        return false;
    }
    if (form->data == NULL || (form->dtype != PST_F32 && form->dtype != PST_I32)) {
        return BAD("%s: a constant has numbers of type f32 or i32", c->op->name);
    }
    output(c, PST_ROLE_ACTIVATION, form->dtype == PST_I32 ? (uint32_t)PST_I32 : c->dtype,
           form->rank, form->dims);
    return true;
}

static bool infer_reshape(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    char a[256], b[256];
    uint64_t elems;

    if (!check_form(c, &elems, err)) {
        return false;
    }
    if (elems != x->elems) {
        return BAD("%s: shape %s cannot become %s", c->op->name, text_of(a, x),
                   pst_shape_text(b, sizeof b, c->op->form->rank, c->op->form->dims));
    }
    output(c, PST_ROLE_ACTIVATION, x->dtype, c->op->form->rank, c->op->form->dims);
    return true;
}

/* start + i step stays below 2^41 in magnitude for all i of an axis. */
static bool near_enough(int64_t start, int64_t step, uint64_t n)
{
    const int64_t most = (int64_t)PST_MAX_ELEMS;

    return start >= -most && start <= most && step >= -most && step <= most &&
           (n == 1 || (uint64_t)(step < 0 ? -step : step) <= (uint64_t)most / (n - 1));
}

static bool infer_strided(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const struct pst_form *form = c->op->form;
    char text[256];
    uint64_t elems;
    uint32_t seen = 0;

    if (!check_form(c, &elems, err)) {
        return false;
    }
    for (uint32_t i = 0; i < form->rank; i++) {
        seen |= form->from[i] < 32 ? 1u << form->from[i] : 0;
        if (!near_enough(form->start[i], form->step[i], form->dims[i])) {
            return BAD("%s: axis %u starts at %lld with steps of %lld, which is too far",
                       c->op->name, i, (long long)form->start[i], (long long)form->step[i]);
        }
    }
    if (form->rank != x->rank || seen != (1u << x->rank) - 1) {
        return BAD("%s: not every axis of shape %s comes once", c->op->name, text_of(text, x));
    }
    output(c, PST_ROLE_ACTIVATION, x->dtype, form->rank, form->dims);
    return true;
}

const struct pst_op_rules pst_op_parameter = {
    .kind = {"parameter", 0, 0, 1, 1},
    .infer = infer_parameter,
    .passes = {.w_reads_dy = true},
    .flops = {0, 0, 1},
};

const struct pst_op_rules pst_op_constant = {
    .kind = {"constant", 0, 0, 0, 0},
    .form = PST_FORM_DIMS | PST_FORM_DATA,
    .infer = infer_constant,
};

const struct pst_op_rules pst_op_reshape = {
    .kind = {"reshape", 1, 1, 0, 0},
    .form = PST_FORM_DIMS,
    .infer = infer_reshape,
    .passes = {.b_alias = 1},
};

const struct pst_op_rules pst_op_strided = {
    .kind = {"strided", 1, 1, 0, 0},
    .form = PST_FORM_DIMS | PST_FORM_PLACES,
    .infer = infer_strided,
    .passes = {.b_adds = 1},
};
