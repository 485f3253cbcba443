/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape inference of the general operators (general.h).
 */
#include "graph/shape_rule.h"

static const char *shape_text(char *text, const struct pst_tensor *tensor)
{
    return pst_shape_text(text, 256, tensor->rank, tensor->dims);
}

pst_status pst_infer_parameter(const struct rule *c, struct pst_error *err)
{
    const struct pst_parameter *param = param0(c);

    (void)err;
    output(c, PST_ROLE_ACTIVATION, c->builder->dtype, param->rank, param->dims);
    return PST_OK;
}

/* The operator has a form, of at most PST_MAX_RANK axes. */
static pst_status check_form(const struct rule *c, uint64_t *ret_elems, struct pst_error *err)
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
    return PST_OK;
}

pst_status pst_infer_constant(const struct rule *c, struct pst_error *err)
{
    const struct pst_form *form = c->op->form;
    uint64_t elems;
    pst_status status = check_form(c, &elems, err);

    if (status != PST_OK) {
        return status;
    }
    if (form->data == NULL || (form->dtype != PST_F32 && form->dtype != PST_I32)) {
        return BAD("%s: a constant has numbers of type f32 or i32", c->op->name);
    }
    output(c, PST_ROLE_ACTIVATION, form->dtype == PST_I32 ? (uint32_t)PST_I32 : c->builder->dtype,
           form->rank, form->dims);
    return PST_OK;
}

/* --- broadcasting --------------------------------------------------------------------------*/

/* Widens y, by numpy's rules, to hold the first `rank` axes of x beside its own; false: they do not
   go together. `skip` last axes of both stay out of it. */
static bool spread(struct pst_shape *y, const struct pst_tensor *x, uint32_t skip)
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

pst_status pst_infer_map(const struct rule *c, struct pst_error *err)
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

        if (x->dtype != PST_I32 && x->dtype != c->builder->dtype) {
            return check_dtype(c, i, c->builder->dtype, err);
        }
        if (!spread(y, x, 0)) {
            return BAD("%s: shapes %s and %s do not go together (%s)", c->op->name,
                       pst_shape_text(a, sizeof a, y->rank, y->dims), shape_text(b, x), row->name);
        }
    }
    return PST_OK;
}

/* Rows and columns of a factor as the product sees it. */
static void factor(const struct rule *c, uint32_t i, uint64_t ret_dims[2])
{
    const struct pst_tensor *x = input(c, i);

    ret_dims[c->op->swapped[i] ? 1 : 0] = x->dims[x->rank - 2];
    ret_dims[c->op->swapped[i] ? 0 : 1] = x->dims[x->rank - 1];
}

pst_status pst_infer_matmul(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *left = input(c, 0), *right = input(c, 1);
    char a[256], b[256];
    uint64_t l[2], r[2];
    struct pst_shape *y;

    if (left->rank < 2 || right->rank < 2) {
        return BAD("%s: factors of shape %s and %s; both need rows and columns", c->op->name,
                   shape_text(a, left), shape_text(b, right));
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (check_dtype(c, i, c->builder->dtype, err) != PST_OK) {
            return PST_ERR_CONFIG;
        }
    }
    factor(c, 0, l);
    factor(c, 1, r);
    y = result_like(c);
    if (l[1] != r[0] || !spread(y, right, 2)) {
        return BAD("%s: shapes %s%s and %s%s cannot be multiplied", c->op->name,
                   shape_text(a, left), c->op->swapped[0] ? " (swapped)" : "", shape_text(b, right),
                   c->op->swapped[1] ? " (swapped)" : "");
    }
    y->dims[y->rank - 2] = l[0];
    y->dims[y->rank - 1] = r[1];
    return PST_OK;
}

/* --- along axes ----------------------------------------------------------------------------*/

pst_status pst_infer_reduce(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    struct pst_shape *y = result_like(c);
    char text[256];

    if (c->op->reduce >= PST_REDUCES || c->op->axes == 0 || c->op->axes >> x->rank != 0) {
        return BAD("%s: nothing to reduce shape %s by (reduction %u over axes of mask 0x%x)",
                   c->op->name, shape_text(text, x), c->op->reduce, c->op->axes);
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        if ((c->op->axes >> i & 1) != 0) {
            y->dims[x->rank - 1 - i] = 1;
        }
    }
    return check_dtype(c, 0, c->builder->dtype, err);
}

static pst_status check_axis(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    char text[256];

    if (c->op->axis >= x->rank) {
        return BAD("%s: shape %s has no axis %u before the last", c->op->name, shape_text(text, x),
                   c->op->axis);
    }
    return check_dtype(c, 0, c->builder->dtype, err);
}

pst_status pst_infer_softmax(const struct rule *c, struct pst_error *err)
{
    result_like(c);
    return check_axis(c, err);
}

pst_status pst_infer_gather(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *places = input(c, 1);
    uint64_t dims[2 * PST_MAX_RANK];
    uint32_t before;
    pst_status status = check_axis(c, err);

    if (status == PST_OK) {
        status = check_dtype(c, 1, PST_I32, err);
    }
    if (status != PST_OK) {
        return status;
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
    return PST_OK;
}

/* --- places --------------------------------------------------------------------------------*/

pst_status pst_infer_reshape(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    char a[256], b[256];
    uint64_t elems;
    pst_status status = check_form(c, &elems, err);

    if (status != PST_OK) {
        return status;
    }
    if (elems != x->elems) {
        return BAD("%s: shape %s cannot become %s", c->op->name, shape_text(a, x),
                   pst_shape_text(b, sizeof b, c->op->form->rank, c->op->form->dims));
    }
    output(c, PST_ROLE_ACTIVATION, x->dtype, c->op->form->rank, c->op->form->dims);
    return PST_OK;
}

/* start + i step stays below 2^41 in magnitude for all i of an axis. */
static bool near_enough(int64_t start, int64_t step, uint64_t n)
{
    const int64_t most = (int64_t)PST_MAX_ELEMS;

    return start >= -most && start <= most && step >= -most && step <= most &&
           (n == 1 || (uint64_t)(step < 0 ? -step : step) <= (uint64_t)most / (n - 1));
}

pst_status pst_infer_strided(const struct rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const struct pst_form *form = c->op->form;
    char text[256];
    uint64_t elems;
    uint32_t seen = 0;
    pst_status status = check_form(c, &elems, err);

    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; i < form->rank; i++) {
        seen |= form->from[i] < 32 ? 1u << form->from[i] : 0;
        if (!near_enough(form->start[i], form->step[i], form->dims[i])) {
            return BAD("%s: axis %u starts at %lld and goes on in steps of %lld; that is too far",
                       c->op->name, i, (long long)form->start[i], (long long)form->step[i]);
        }
    }
    if (form->rank != x->rank || seen != (1u << x->rank) - 1) {
        return BAD("%s: not every axis of shape %s comes once", c->op->name, shape_text(text, x));
    }
    output(c, PST_ROLE_ACTIVATION, x->dtype, form->rank, form->dims);
    return PST_OK;
}

/* --- costed graphs -------------------------------------------------------------------------*/

pst_status pst_infer_costed(const struct rule *c, struct pst_error *err)
{
    const uint64_t *sizes = c->op->form->dims;

    (void)err; /* what is too large is told where tensors are made */
    output(c, PST_ROLE_ACTIVATION, c->builder->dtype, 1, &sizes[PST_COSTED_RESULT]);
    if (sizes[PST_COSTED_KEPT] > 0) {
        output(c, PST_ROLE_AUX, c->builder->dtype, 1, &sizes[PST_COSTED_KEPT]);
    }
    return PST_OK;
}

pst_status pst_infer_costed_loss(const struct rule *c, struct pst_error *err)
{
    (void)err;
    output(c, PST_ROLE_ACTIVATION, statistics_dtype(c), 0, NULL);
    return PST_OK;
}
