/* SPDX-License-Identifier: Apache-2.0 */
#include "models/costed/costed_profile.h"

#include <math.h>
#include <string.h>

#include "base/names.h"

static uint64_t param_bytes(const struct pst_graph *graph, const struct pst_op *op)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < op->n_param; i++) {
        bytes += op->param[i] == PST_NONE ? 0 : graph->params[op->param[i]].elems * sizeof(float);
    }
    return bytes;
}

/* Returns how a node differs from an operator, or NULL. */
static const char *difference(const struct pst_costed *profile, const struct pst_costed_node *node,
                              const struct pst_graph *graph, const struct pst_op *op)
{
    const struct pst_tensor *result = &graph->tensors[op->out[0]];
    double samples = result->batched ? profile->batch : 1;

    if (strcmp(node->op, pst_op_title(op)) != 0) {
        return "is another kind of operator";
    }
    if (fabs(node->param_bytes - (double)param_bytes(graph, op)) > 0.5) {
        return "has parameters of another size";
    }
    if (fabs(node->output_bytes - samples * (double)result->bytes) > 0.5) {
        return "has a result of another size";
    }
    return NULL;
}

pst_status pst_profile_bind(const struct pst_costed *profile, const struct pst_graph *graph,
                            struct pst_arena *arena, const uint32_t **ret_nodes,
                            struct pst_error *err)
{
    uint32_t *nodes = pst_arena_array(arena, graph->n_ops + 1, sizeof *nodes);
    struct pst_names names;

    pst_names_init(&names, arena, profile->n_nodes);
    for (uint32_t i = 0; i < profile->n_nodes; i++) {
        pst_names_add(&names, profile->nodes[i].name, i);
    }
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        const struct pst_op *op = &graph->ops[o];
        const uint32_t node = pst_names_find(&names, op->name);
        const char *why = node == PST_NONE ? "is not in it"
                                           : difference(profile, &profile->nodes[node], graph, op);

        if (why != NULL) {
            pst_fail(err, PST_ERR_CONFIG, "config.value",
                     "the profile is not one of this model: operator \"%s\" %s", op->name, why);
            pst_error_hint(err, "measure this model%s: penstock profile CONFIG -o FILE",
                           graph->parts > 1 ? " with this parallel.tensor" : "");
            return PST_ERR_CONFIG;
        }
        nodes[o] = node;
    }
    *ret_nodes = nodes;
    return PST_OK;
}
