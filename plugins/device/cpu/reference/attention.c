/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"
#include "graph/distance.h"

struct attention_shape {
    uint64_t n_rows, n_keys, n_columns; /* T, S, C */
    uint64_t n_heads, n_depth;          /* H, D = C / H */
    uint64_t q_stride, kv_stride;       /* from row to row */
    uint64_t k_at, v_at;                /* where they begin in a row of keys and values */
    bool packed, causal;                /* packed: q, k and v are one tensor */
    double scale;                       /* 0: 1 / sqrt(D) */
    uint32_t n_buckets, max_distance;   /* 0: scores do not depend on distance */
};

static struct attention_shape attention_shape(const struct pst_reference *reference)
{
    const struct pst_tensor *y = reference_out(reference);
    const struct pst_op *op = reference->op;
    struct attention_shape shape = {.packed = op->n_in == 1, .n_heads = op->heads};

    shape.n_columns = reference_columns(y);
    shape.n_rows = y->elems / shape.n_columns;
    shape.n_keys = shape.packed ? shape.n_rows : reference_in(reference, 1)->dims[0];
    shape.n_depth = shape.n_columns / shape.n_heads;
    shape.q_stride = (shape.packed ? 3 : 1) * shape.n_columns;
    shape.kv_stride = (shape.packed ? 3 : 2) * shape.n_columns;
    shape.k_at = shape.packed ? shape.n_columns : 0;
    shape.v_at = shape.k_at + shape.n_columns;
    shape.causal = op->causal;
    shape.scale = (double)op->scale;
    if (op->n_param > 0 && op->param[0] != PST_NONE) {
        shape.n_buckets = (uint32_t)reference->graph->params[op->param[0]].dims[0];
        shape.max_distance = op->max_distance;
    }
    return shape;
}

/* How many keys row i sees. */
static uint64_t attention_keys(const struct attention_shape *shape, uint64_t i)
{
    return shape->causal ? i + 1 : shape->n_keys;
}

/* Element of p0 that key j of row i is told apart by. */
static uint64_t attention_bucket(const struct attention_shape *shape, uint64_t head, uint64_t i,
                                 uint64_t j)
{
    return pst_distance_bucket((int64_t)j - (int64_t)i, shape->n_buckets, shape->max_distance,
                               shape->causal) *
               shape->n_heads +
           head;
}

/* F: probabilities of a row, sums of a row. B: probabilities, their slopes, sums of q, k and v. */
static uint64_t attention_workspace(const struct pst_reference *reference)
{
    const struct attention_shape shape = attention_shape(reference);

    return reference->pass == PST_KERNEL_B
               ? 2 * shape.n_keys + (shape.n_rows + 2 * shape.n_keys) * shape.n_depth
               : shape.n_keys + shape.n_depth;
}

#define FAMILY "attention.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_attention = {PST_REFERENCE_F_B_W(attention),
                                                             attention_workspace};
