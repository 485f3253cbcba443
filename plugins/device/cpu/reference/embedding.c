/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

struct embedding_shape {
    uint64_t n_tokens;    /* of the micro-batch */
    uint64_t n_positions; /* tokens per sample */
    uint64_t n_entries, n_columns;
    uint64_t n_summed; /* tokens whose rows make one of the result */
};

static struct embedding_shape embedding_shape(const struct pst_op_request *request)
{
    struct embedding_shape shape;

    shape.n_positions = request_in(request, 0)->elems;
    shape.n_tokens = request->samples * shape.n_positions;
    shape.n_columns = request->graph->params[request->op->param[0]].dims[1];
    shape.n_entries = request_parameter(request, 0)->elems / shape.n_columns;
    shape.n_summed = request->op->bag == PST_BAG_SUM ? shape.n_positions : 1;
    return shape;
}

static bool embedding_valid(const struct embedding_shape *shape, int32_t token)
{
    return token >= 0 && (uint64_t)token < shape->n_entries;
}

#define FAMILY "embedding.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_embedding = {PST_REFERENCE_F_W(embedding), NULL};
