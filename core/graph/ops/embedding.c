/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings: rows of a table by tokens.
 */
#include "graph/ops/operands.h"

/* dims: of the rows that go into the bag. */
static bool infer_bag(const struct pst_op_case *c, const uint64_t dims[2], struct pst_error *err)
{
    uint64_t width;

    if (c->op->bag > PST_BAG_SUM || (c->op->n_param > 1 && c->op->param[1] != PST_NONE)) {
        return BAD("%s: a bag is concatenated or summed, and has no positions", c->op->name);
    }
    if (!pst_shape_elems(c->op->bag == PST_BAG_CONCAT ? 2 : 1,
                         c->op->bag == PST_BAG_CONCAT ? dims : &dims[1], &width)) {
        return BAD("%s: the bag has more than 2^40 elements", c->op->name);
    }
    output(c, PST_ROLE_ACTIVATION, c->dtype, 1, &width);
    return true;
}

static bool infer_embedding(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    uint64_t dims[2], rows;
    char text[256];

    if (x->rank != 1) {
        return BAD("%s: tokens have shape %s, expected [T]", c->op->name, text_of(text, x));
    }
    if (!check_dtype(c, 0, PST_I32, err) || !check_param_rank(c, 2, "[vocabulary, C]", err)) {
        return false;
    }
    if (c->op->classes > c->op->parts * param0(c)->dims[0]) {
        return BAD("%s: %u parts have no %u rows", c->op->name, c->op->parts, c->op->classes);
    }
    rows = c->op->classes > 0 ? c->op->classes : param0(c)->dims[0];
    if (c->op->padding > rows) {
        return BAD("%s: row %u has no gradient, but the table has only %llu rows", c->op->name,
                   c->op->padding - 1, (unsigned long long)rows);
    }
    dims[0] = x->dims[0];
    dims[1] = param0(c)->dims[1];
    if (c->op->bag != PST_BAG_NONE) {
        return infer_bag(c, dims, err);
    }
    output(c, PST_ROLE_ACTIVATION, c->dtype, 2, dims);
    return check_param(c, 1, 2, dims, err);
}

static double embedding_flops(const struct pst_op_case *c)
{
    return (double)input(c, 0)->elems * (double)param0(c)->dims[1] /
           (c->op->classes > 0 ? c->op->parts : 1);
}

/* Row by row each token is one of the data. */
static const char *embedding_mixes(const struct pst_op_case *c, bool decode)
{
    return c->op->bag != PST_BAG_NONE || (decode && input(c, 0)->role != PST_ROLE_INPUT)
               ? PST_MIXES_TOKENS
               : NULL;
}

const struct pst_op_rules pst_op_embedding = {
    .kind = {"embedding", 1, 1, 2, 1},
    .attributes = PST_ATTR_BAG | PST_ATTR_PADDING | PST_ATTR_PARTS | PST_ATTR_CLASSES,
    .costly = true,
    .infer = infer_embedding,
    .passes = {.w_reads_x = 1, .w_reads_dy = true},
    .elementwise = embedding_flops,
    .reads_rows = true,
    .by_row = true,
    .mixes = embedding_mixes,
};
