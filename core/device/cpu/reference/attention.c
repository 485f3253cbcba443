/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

struct attention_shape {
    uint64_t n_rows, n_columns; /* T, C */
    uint64_t n_heads, n_depth;  /* H, D = C / H */
    uint64_t stride;            /* 3C: from row to row of q|k|v */
    bool causal;
};

static struct attention_shape attention_shape(const struct pst_reference *reference)
{
    const struct pst_tensor *y = reference_out(reference);
    struct attention_shape shape;

    shape.n_columns = reference_columns(y);
    shape.n_rows = y->elems / shape.n_columns;
    shape.n_heads = reference->op->heads;
    shape.n_depth = shape.n_columns / shape.n_heads;
    shape.stride = 3 * shape.n_columns;
    shape.causal = reference->op->causal;
    return shape;
}

/* How many keys row i sees. */
static uint64_t attention_keys(const struct attention_shape *shape, uint64_t i)
{
    return shape->causal ? i + 1 : shape->n_rows;
}

/* Where element e of the sums [q|k|v][T][D] of a head lies in a packed sample. */
static uint64_t attention_packed(const struct attention_shape *shape, uint64_t head, uint64_t e)
{
    const uint64_t d = e % shape->n_depth, row = e / shape->n_depth;

    return row % shape->n_rows * shape->stride + row / shape->n_rows * shape->n_columns +
           head * shape->n_depth + d;
}

/* F: probabilities of a row, sums of a row. B: probabilities, their slopes, sums of q, k and v. */
static uint64_t attention_workspace(const struct pst_reference *reference)
{
    const struct attention_shape shape = attention_shape(reference);

    return reference->pass == PST_KERNEL_F ? shape.n_rows + shape.n_depth
                                           : 2 * shape.n_rows + 3 * shape.n_rows * shape.n_depth;
}

#define FAMILY "attention.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_attention = {PST_REFERENCE_F_B(attention),
                                                             attention_workspace};
