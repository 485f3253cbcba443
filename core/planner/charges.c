/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stage is charged beside what its view says: buffers of its transfers, backward passes in
 * two parts, and what layouts of earlier attempts took beyond all that.
 *
 * Transfers: beside the inputs of the micro-batches in flight there is a slot into which the next
 * one arrives, and what the stage sends stays until the send has surely ended, both while other
 * passes run. At most cuts they are few bytes, but after the head of a language model they are
 * logits.
 *
 * Two parts: a micro-batch between its B and its W holds what W reads, gradients among it, and no
 * action changes that. The model of planner/eval.h knows one kind of parked micro-batch; so those
 * that wait for W become bytes of the stage that are there in any case, as many as there are when
 * the scheduler's order holds most.
 */
#include "host/caps.h"
#include "planner/optimizer.h"
#include "planner/state.h"

#include <string.h>

/* --- backward passes in two parts --------------------------------------------------------------*/

static void count_tensor(struct pst_planner *planner, uint32_t tensor, uint32_t n_nodes,
                         uint32_t samples)
{
    struct pst_view_scratch *scratch = &planner->scratch;
    const struct pst_tensor *t = &planner->in.graph->tensors[tensor];
    bool inside = t->producer != PST_NONE && scratch->op_stamp[t->producer] == scratch->stamp;

    if (scratch->late_stamp[tensor] != scratch->late_round) {
        scratch->late_stamp[tensor] = scratch->late_round;
        scratch->late_bytes[inside ? scratch->position[t->producer] : n_nodes] +=
            pst_tensor_bytes(t, samples);
    }
}

static void count_node(struct pst_planner *planner, uint32_t position, uint32_t n_nodes,
                       uint32_t samples)
{
    const struct pst_graph *graph = planner->in.graph;
    uint32_t v = planner->scratch.nodes[position].node, i;
    uint64_t *bytes = &planner->scratch.late_bytes[position];
    const struct pst_op *op = &graph->ops[v];
    struct pst_op_grad grad;

    pst_op_grad_info(graph, v, &grad);
    if (!grad.has_w) {
        return;
    }
    for (i = 0; i < op->n_in; i++) {
        if (grad.w_reads_x >> i & 1) {
            count_tensor(planner, op->in[i], n_nodes, samples);
        }
    }
    for (i = 0; i < op->n_out; i++) {
        if (grad.w_reads_y >> i & 1) {
            count_tensor(planner, op->out[i], n_nodes, samples);
        }
    }
    if (grad.w_reads_dy && op->out[0] != graph->loss) {
        *bytes += pst_tensor_bytes(&graph->tensors[op->out[0]], samples);
    }
    for (i = 0; i < grad.n_z; i++) {
        *bytes +=
            grad.z_elems[i] * pst_dtype_bytes(grad.z_dtype[i]) * (grad.z_batched[i] ? samples : 1);
    }
}

uint64_t pst_view_late_bytes(struct pst_planner *planner, uint32_t n_nodes, uint32_t samples)
{
    uint64_t *late_bytes = planner->scratch.late_bytes, sum = 0;

    planner->scratch.late_round++;
    memset(late_bytes, 0, ((size_t)n_nodes + 1) * sizeof *late_bytes);
    for (uint32_t i = 0; i < n_nodes; i++) {
        count_node(planner, i, n_nodes, samples);
    }
    for (uint32_t i = 0; i <= n_nodes; i++) {
        sum += late_bytes[i];
    }
    return sum;
}

/* The order of the chain, or NULL where it has no backward passes in two parts: by the scheduler's
   words, or because it has no answer to such a chain. */
static pst_status split_order(struct pst_planner *planner, uint32_t n_stages,
                              uint32_t n_microbatches, const struct pst_scheduler_count **ret_count,
                              struct pst_error *err)
{
    const struct pst_place place = {.size = sizeof place,
                                    .n_stages = n_stages,
                                    .n_devices = pst_devices_under(&planner->devices, n_stages),
                                    .n_microbatches = n_microbatches,
                                    .microbatch_size = planner->sizes.batch / n_microbatches,
                                    .k = 1};
    const struct pst_scheduler_count *count = NULL;
    pst_status status;

    *ret_count = NULL;
    if (!pst_caps_has(planner->strategies.scheduler->plugin->provides, "split-backward")) {
        return PST_OK;
    }
    status = pst_planner_count(planner, &place, &count, err);
    if (status == PST_OK && count->status == PST_OK && count->split) {
        *ret_count = count;
    }
    return status;
}

pst_status pst_planner_splits(struct pst_planner *planner, uint32_t n_stages,
                              uint32_t n_microbatches, bool *ret_splits, struct pst_error *err)
{
    const struct pst_scheduler_count *count;
    pst_status status = split_order(planner, n_stages, n_microbatches, &count, err);

    if (status == PST_OK) {
        *ret_splits = count != NULL;
    }
    return status;
}

/* Charges the view that was built last, whose stage, n_stages and in_flight are set. Micro-batches
   that wait for W alone leave in_flight, and what they hold is static; while B runs, the work
   includes what W of later nodes reads. */
static pst_status charge_split(struct pst_planner *planner, uint32_t samples,
                               uint32_t n_microbatches, struct pst_stage_view *view,
                               struct pst_error *err)
{
    const struct pst_scheduler_count *count;
    struct pst_stage_node *nodes = planner->scratch.nodes;
    uint64_t bytes, behind = 0;
    uint32_t late;
    pst_status status;

    if (planner->attempt.uncharged) {
        return PST_OK;
    }
    status = split_order(planner, view->n_stages, n_microbatches, &count, err);
    if (status != PST_OK || count == NULL) {
        return status;
    }
    planner->attempt.charged = true;
    bytes = pst_view_late_bytes(planner, view->n_nodes, samples);
    late = count->late[view->stage];
    late = late < view->in_flight ? late : view->in_flight - 1;
    view->in_flight -= late;
    view->static_bytes += late * bytes;
    for (uint32_t i = view->n_nodes; i-- > 0;) {
        nodes[i].backward_work_bytes += behind;
        behind += planner->scratch.late_bytes[i];
    }
    return PST_OK;
}

/* --- transfers ---------------------------------------------------------------------------------*/

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
            bytes += pst_tensor_bytes(&planner->in.graph->tensors[planner->in.graph->ops[v].out[0]],
                                      samples);
        }
    }
    return bytes;
}

void pst_view_transfers(const struct pst_planner *planner, uint32_t samples,
                        uint32_t n_microbatches, struct pst_stage_view *view)
{
    if (planner->devices.places.shared > 1) {
        return; /* a neighbour may be on the same device */
    }
    view->static_bytes += sent_bytes(planner, view->n_nodes, samples);
    if (view->stage > 0 && view->in_flight < n_microbatches) {
        view->static_bytes += view->input_bytes;
    }
}

/* --- the whole ---------------------------------------------------------------------------------*/

/* Charges a stage for what earlier attempts found the evaluator to be wrong by. */
static void correct(const struct pst_planner *planner, struct pst_stage_view *view)
{
    int64_t bias = view->stage < planner->in.graph->n_ops ? planner->attempt.bias[view->stage] : 0;

    if (bias >= 0) {
        view->static_bytes += (uint64_t)bias;
    } else if (view->static_bytes > (uint64_t)-bias) {
        view->static_bytes -= (uint64_t)-bias;
    } else {
        view->static_bytes = 0;
    }
}

pst_status pst_view_charge(struct pst_planner *planner, const struct pst_stage_question *question,
                           struct pst_stage_node **ret_nodes, struct pst_stage_view *view,
                           struct pst_error *err)
{
    uint32_t samples = question->microbatch_size / question->n_ranks;
    uint32_t n_microbatches = planner->sizes.batch / question->microbatch_size;

    *ret_nodes = pst_view_build(planner, question, view);
    pst_view_state(question, view);
    correct(planner, view);
    pst_view_transfers(planner, samples, n_microbatches, view);
    return charge_split(planner, samples, n_microbatches, view, err);
}
