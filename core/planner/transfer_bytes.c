/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stage pays for its borders. Beside the inputs of the micro-batches in flight there is a
 * slot into which the next one arrives, and what the stage sends stays until the send has surely
 * ended, both while other passes run: bytes of the stage that are there in any case. At most cuts
 * they are few, but behind the head of a language model they are logits.
 */
#include "planner/state.h"

/* Results that other stages read and no backward pass of this one: those are held anyway. */
static uint64_t sent_bytes(const struct pst_planner *planner, uint32_t n_nodes, uint32_t samples)
{
    const struct pst_view_scratch *scratch = &planner->scratch;
    const struct pst_graph_view *graph = planner->view;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n_nodes; i++) {
        uint32_t v = scratch->nodes[i].node;
        const struct pst_node *node = pst_graph_node(graph, v);
        bool leaves = false;

        for (uint32_t e = 0; e < node->n_out && !leaves; e++) {
            uint32_t to = pst_graph_edge(graph, graph->out_edges[node->first_out + e])->to;

            leaves = scratch->op_stamp[to] != scratch->stamp;
        }
        if (leaves && !scratch->nodes[i].output_saved) {
            bytes += pst_view_tensor_bytes(&planner->graph->tensors[planner->graph->ops[v].out[0]],
                                           samples);
        }
    }
    return bytes;
}

void pst_view_transfers(const struct pst_planner *planner, uint32_t samples,
                        uint32_t n_microbatches, struct pst_stage_view *view)
{
    if (pst_planner_sharers(planner) > 1) {
        return; /* a neighbour may be on the same device */
    }
    view->static_bytes += sent_bytes(planner, view->n_nodes, samples);
    if (view->stage > 0 && view->in_flight < n_microbatches) {
        view->static_bytes += view->input_bytes;
    }
}
