/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the model layer: the graph while it is being built. Everything lies in one arena, which
 * pst_graph_finish hands to the frozen graph; arrays that outgrow their place are copied to a
 * larger one and left behind.
 */
#ifndef PST_GRAPH_DRAFT_H
#define PST_GRAPH_DRAFT_H

#include "base/text.h"
#include "graph/graph.h"

#define PST_MAX_OUT   3
#define PST_MAX_IN    64 /* bits of the masks in struct pst_op_grad */
#define PST_MAX_PARAM 2
#define PST_MAX_OPS   (1u << 20) /* an operator's random stream has 20 bits */
#define PST_MAX_ELEMS                                                                              \
    (1ull << 40) /* of one tensor or parameter: leaves room for batch and bytes                    \
                  */

struct pst_graph_builder {
    struct pst_arena arena;
    const char *name;
    uint32_t dtype, layer;
    uint32_t n_ops, n_tensors, n_params, n_inputs;
    size_t ops_capacity, tensors_capacity, params_capacity;
    struct pst_op *ops;         /* kind PST_OP_KINDS: removed by fusion */
    struct pst_tensor *tensors; /* consumers are counted only by pst_graph_finish */
    struct pst_parameter *params;
    struct pst_custom *customs;
    struct pst_error error; /* the first failure; status PST_OK: there is none */
};

/* One output as shape inference finds it. */
struct pst_shape {
    uint32_t role, dtype, rank;
    uint64_t dims[PST_MAX_RANK];
    bool batched;
};

struct pst_shapes {
    uint32_t n_out, n_state;
    struct pst_shape out[PST_MAX_OUT];
    uint64_t state_elems[2];
};

/* Product of dims with a check against PST_MAX_ELEMS and zeros; false when it fails. */
bool pst_shape_elems(uint32_t rank, const uint64_t *dims, uint64_t *ret_elems);

/* Merges operators in place; the merged ones get kind PST_OP_KINDS. `keep` are tensors that must
   stay as they are: loss and logits. */
void pst_graph_fuse(struct pst_graph_builder *builder, const uint32_t *keep, uint32_t n_keep);

/* XXH3 over names, operators, tensors, parameters. */
uint64_t pst_graph_digest(const struct pst_graph *graph);

#endif
