/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape inference of what works on rows of tokens.
 */
#include "graph/shape_rules.h"

/* dims: of the rows that go into the bag. */
static pst_status infer_bag(const struct pst_rule *c, const uint64_t dims[2], struct pst_error *err)
{
    uint64_t width;

    if (c->op->bag > PST_BAG_SUM || (c->op->n_param > 1 && c->op->param[1] != PST_NONE)) {
        return BAD("%s: a bag is concatenated or summed, and has no positions", c->op->name);
    }
    if (!pst_shape_elems(c->op->bag == PST_BAG_CONCAT ? 2 : 1,
                         c->op->bag == PST_BAG_CONCAT ? dims : &dims[1], &width)) {
        return BAD("%s: the bag has more than 2^40 elements", c->op->name);
    }
    output(c, PST_ROLE_ACTIVATION, c->builder->dtype, 1, &width);
    return PST_OK;
}

pst_status pst_infer_embedding(const struct pst_rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    uint64_t dims[2];
    char text[256];
    pst_status status;

    if (x->rank != 1) {
        return BAD("%s: tokens have shape %s, expected [T]", c->op->name,
                   pst_shape_text(text, sizeof text, x->rank, x->dims));
    }
    status = check_dtype(c, 0, PST_I32, err);
    if (status == PST_OK) {
        status = check_param_rank(c, 2, "[vocabulary, C]", err);
    }
    if (status != PST_OK) {
        return status;
    }
    dims[0] = x->dims[0];
    dims[1] = param0(c)->dims[1];
    if (c->op->bag != PST_BAG_NONE) {
        return infer_bag(c, dims, err);
    }
    output(c, PST_ROLE_ACTIVATION, c->builder->dtype, 2, dims);
    return check_param(c, 1, 2, dims, err);
}

/* Buckets of relative positions (distance.h), one column per head. */
static pst_status check_buckets(const struct pst_rule *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    uint64_t dims[2], n;
    pst_status status;

    if (op->n_param == 0 || op->param[0] == PST_NONE) {
        return PST_OK;
    }
    status = check_param_rank(c, 2, "[buckets, heads]", err);
    if (status != PST_OK) {
        return status;
    }
    dims[0] = param0(c)->dims[0];
    dims[1] = op->heads;
    n = op->causal ? dims[0] : dims[0] / 2;
    if (n < 2 || (!op->causal && dims[0] % 2 != 0) || op->max_distance <= n / 2) {
        return BAD("%s: %llu buckets up to a distance of %u; there must be 2 or more a direction, "
                   "and the distance above half of them",
                   op->name, (unsigned long long)dims[0], op->max_distance);
    }
    return check_param(c, 0, 2, dims, err);
}

/* Keys and values of another sequence. */
static pst_status check_keys(const struct pst_rule *c, uint64_t width, struct pst_error *err)
{
    const struct pst_tensor *keys = input(c, 1);
    char text[256];

    if (keys->rank != 2 || keys->dims[1] != 2 * width || c->op->causal) {
        return BAD("%s: keys and values have shape %s, expected [S, %llu] and no causal mask",
                   c->op->name, pst_shape_text(text, sizeof text, keys->rank, keys->dims),
                   (unsigned long long)(2 * width));
    }
    return check_dtype(c, 1, c->builder->dtype, err);
}

pst_status pst_infer_attention(const struct pst_rule *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    const uint32_t parts = c->op->n_in == 2 ? 1 : 3;
    uint64_t lse[2], width;
    pst_status status =
        check_rank(c, 2, 2, parts == 3 ? "[T, 3C] (queries, keys, values)" : "[T, C]", err);

    if (status != PST_OK) {
        return status;
    }
    width = x->dims[1] / parts;
    if (x->dims[1] % parts != 0) {
        return BAD("%s: input has last axis %llu, which is not three parts of equal width",
                   c->op->name, (unsigned long long)x->dims[1]);
    }
    if (c->op->heads == 0 || width % c->op->heads != 0) {
        return BAD("%s: input has last axis %llu (%u x %llu), heads %u do not divide it",
                   c->op->name, (unsigned long long)x->dims[1], parts, (unsigned long long)width,
                   c->op->heads);
    }
    if (parts == 1) {
        status = check_keys(c, width, err);
    }
    if (status == PST_OK) {
        status = check_buckets(c, err);
    }
    result_like(c)->dims[1] = width;
    lse[0] = c->op->heads;
    lse[1] = x->dims[0];
    output(c, PST_ROLE_AUX, statistics_dtype(c), 2, lse);
    return status;
}
