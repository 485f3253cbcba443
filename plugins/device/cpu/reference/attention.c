/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"
#include "graph/distance.h"

/* How many keys row i sees. */
static uint64_t attention_keys(const struct pst_heads *shape, uint64_t i)
{
    return shape->causal ? i + 1 : shape->keys;
}

/* Element of p0 that key j of row i is told apart by. */
static uint64_t attention_bucket(const struct pst_heads *shape, uint64_t head, uint64_t i,
                                 uint64_t j)
{
    return pst_distance_bucket((int64_t)j - (int64_t)i, shape->n_buckets, shape->max_distance,
                               shape->causal) *
               shape->heads +
           head;
}

/* F: probabilities of a row, sums of a row. B: probabilities, their slopes, sums of q, k and v. */
static uint64_t attention_workspace(const struct pst_op_request *request)
{
    const struct pst_heads shape = request_heads(request);

    return request->pass == PST_KERNEL_B
               ? 2 * shape.keys + (shape.rows + 2 * shape.keys) * shape.depth
               : shape.keys + shape.depth;
}

#define FAMILY "attention.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_attention = {PST_REFERENCE_F_B_W(attention),
                                                             attention_workspace};
