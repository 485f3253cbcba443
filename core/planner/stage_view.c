/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of operators as strategies see a stage: times and bytes of one micro-batch, what the stage
 * holds in any case, what comes in. Built thousands of times in a search, so everything that
 * depends on the operator alone is tabulated per number of samples.
 */
#include "planner/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/split.h"
#include "plan/gathers.h"
#include "plan/program.h"
#include "host/caps.h"

static uint64_t max_bytes(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Gradients that live while operator v runs backward: of its result, its inputs, its parameters,
   and what B leaves for W. */
static uint64_t backward_bytes(const struct pst_planner *planner, uint32_t v, uint32_t samples)
{
    const struct pst_graph *graph = planner->in.graph;
    const struct pst_op *op = &graph->ops[v];
    struct pst_op_grad grad;
    uint64_t bytes, dp = 0;
    uint32_t i;

    pst_op_grad_info(graph, v, &grad);
    bytes = op->out[0] == graph->loss ? 0 : pst_tensor_bytes(&graph->tensors[op->out[0]], samples);
    for (i = 0; i < op->n_in; i++) {
        if (grad.b_dx >> i & 1) {
            bytes += pst_tensor_bytes(&graph->tensors[op->in[i]], samples);
        }
    }
    for (i = 0; i < grad.n_z; i++) {
        bytes +=
            grad.z_elems[i] * pst_dtype_bytes(grad.z_dtype[i]) * (grad.z_batched[i] ? samples : 1);
    }
    /* Before it is accumulated; with pieces of gradients always, but then `samples` are a part of
       the batch. */
    for (i = 0; grad.has_w && planner->sizes.batch > samples && i < op->n_param; i++) {
        dp += op->param[i] != PST_NONE ? graph->params[op->param[i]].elems * 4 : 0;
    }
    return bytes + max_bytes(pst_cost_workspace(planner->in.cost, v, 1, samples),
                             pst_cost_workspace(planner->in.cost, v, 2, samples) + dp);
}

static void make_node(const struct pst_planner *planner, const struct pst_cost_model *cost,
                      uint32_t v, uint32_t samples, struct pst_stage_node *ret_node)
{
    const struct pst_graph *graph = planner->in.graph;
    const struct pst_node *node = pst_graph_node(planner->view, v);
    const struct pst_op *op = &graph->ops[v];
    struct pst_op_grad grad;
    struct pst_times times;

    pst_cost_op(cost, v, samples, &times);
    pst_op_grad_info(graph, v, &grad);
    *ret_node = (struct pst_stage_node){
        .node = v,
        .layer = node->layer,
        .op = node->op,
        .flags = node->flags,
        .action = PST_ACTION_KEEP,
        .forward_ns = times.forward_ns,
        .backward_ns = times.backward_input_ns + times.backward_weight_ns,
        .forward_work_bytes = pst_cost_workspace(planner->in.cost, v, 0, samples),
        .backward_work_bytes = backward_bytes(planner, v, samples),
        .output_bytes = pst_tensor_bytes(&graph->tensors[op->out[0]], samples),
        .output_saved = (grad.b_reads_y | grad.w_reads_y) & 1,
    };
    for (uint32_t i = 0; i < op->n_out; i++) { /* saved where its own backward reads it */
        bool saved = (grad.b_reads_y | grad.w_reads_y) >> i & 1;

        *(saved ? &ret_node->saved_bytes : &ret_node->forward_work_bytes) +=
            pst_tensor_bytes(&graph->tensors[op->out[i]], samples);
    }
}

/* --- what passes gather and sum ----------------------------------------------------------------*/

static uint64_t gathered_bytes(const struct pst_graph *graph, const struct pst_op *op,
                               uint64_t mask, bool tied, const bool *whole)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < op->n_param; i++) {
        const uint32_t p = op->param[i];

        if (p != PST_NONE && (mask >> i & 1) != 0 && (graph->params[p].n_users > 1) == tied &&
            (whole == NULL || !whole[p])) {
            bytes +=
                pst_value_align(graph->params[p].elems * pst_dtype_bytes(graph->params[p].dtype));
        }
    }
    return bytes;
}

/* The weights of a layer come together (plan/gathers.h). Forward they are all there
   from the first read on, because replays leave them for the backward reads; backward those that
   this operator or earlier ones read. A tied one is there while an operator reads it. */
static void gather_layer(const struct pst_planner *planner, const uint32_t *ops, uint32_t n_ops,
                         const bool *whole, uint64_t *forward, uint64_t *backward)
{
    const struct pst_graph *graph = planner->in.graph;
    uint64_t all = 0, so_far = 0, read = 0;

    for (uint32_t i = 0; i < n_ops; i++) {
        all += gathered_bytes(graph, &graph->ops[ops[i]], UINT64_MAX, false, whole);
    }
    for (uint32_t i = 0; i < n_ops; i++) {
        const struct pst_op *op = &graph->ops[ops[i]];
        struct pst_op_grad grad;
        uint64_t mask;

        pst_op_grad_info(graph, ops[i], &grad);
        mask = grad.b_reads_p | grad.w_reads_p;
        so_far += gathered_bytes(graph, op, UINT64_MAX, false, whole);
        read += gathered_bytes(graph, op, mask, false, whole);
        forward[i] = (so_far > 0 ? all : 0) + gathered_bytes(graph, op, UINT64_MAX, true, whole);
        backward[i] = read + gathered_bytes(graph, op, mask, true, whole);
    }
}

/* While an operator runs backward the gradients of those after it in the layer wait to be summed
   over the replicas. */
static void await_layer(const struct pst_planner *planner, const uint32_t *ops, uint32_t n_ops,
                        const bool *whole, uint64_t *backward)
{
    const struct pst_graph *graph = planner->in.graph;
    uint64_t waiting = 0;

    for (uint32_t i = n_ops; i-- > 0;) {
        const struct pst_op *op = &graph->ops[ops[i]];

        backward[i] += waiting;
        for (uint32_t k = 0; k < op->n_param; k++) {
            const uint32_t p = op->param[k];

            if (p != PST_NONE && graph->params[p].n_users == 1 && (whole == NULL || !whole[p])) {
                waiting += pst_value_align(graph->params[p].elems * sizeof(float));
            }
        }
    }
}

/* Bytes of a layer that its replicas have in pieces: weights that come together, and of these what
   backward passes read; gradients, of which one sum is open at a time: that of a tied parameter, or
   the rest. */
struct layer {
    uint32_t begin, end;
    uint64_t all, read, summed;
};

/* Returns the parameters that backward passes read, a bit for each. */
static uint64_t reads_backward(const struct pst_graph *graph, uint32_t op)
{
    struct pst_op_grad grad;

    pst_op_grad_info(graph, op, &grad);
    return grad.b_reads_p | grad.w_reads_p;
}

/* Bytes of the largest of an operator's gradients that is summed alone. Adds the others up. */
static uint64_t summed_alone(const struct pst_graph *graph, const struct pst_op *op,
                             const bool *whole, uint64_t *together)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < op->n_param; i++) {
        const uint32_t p = op->param[i];
        const uint64_t bytes = p != PST_NONE && (whole == NULL || !whole[p])
                                   ? pst_value_align(graph->params[p].elems * sizeof(float))
                                   : 0;

        if (bytes > 0 && graph->params[p].n_users == 1) {
            *together += bytes;
        } else {
            most = max_bytes(most, bytes);
        }
    }
    return most;
}

static struct layer measure_layer(const struct pst_graph *graph, const uint32_t *ops,
                                  uint32_t n_ops, uint32_t begin, const bool *whole)
{
    struct layer layer = {.begin = begin, .end = begin};
    uint64_t together = 0;

    while (layer.end < n_ops && graph->ops[ops[layer.end]].layer == graph->ops[ops[begin]].layer) {
        const uint32_t v = ops[layer.end++];
        const struct pst_op *op = &graph->ops[v];

        layer.all += gathered_bytes(graph, op, UINT64_MAX, false, whole);
        layer.read += gathered_bytes(graph, op, reads_backward(graph, v), false, whole);
        layer.summed = max_bytes(layer.summed, summed_alone(graph, op, whole, &together));
    }
    layer.summed = max_bytes(layer.summed, together);
    return layer;
}

/* Bytes that come before an operator because it is the first that reads them. */
struct need {
    uint32_t at;
    uint64_t bytes;
    uint64_t known; /* of these, what gather_layer charges to all operators of the layer */
};

/* In the order of forward passes, or of backward ones. */
static uint32_t list_needs(const struct pst_graph *graph, const uint32_t *ops, const bool *whole,
                           const struct layer *layers, uint32_t n, bool backward,
                           struct need *needs)
{
    uint32_t n_needs = 0;

    for (uint32_t k = 0; k < n; k++) {
        const struct layer *layer = &layers[backward ? n - 1 - k : k];
        bool came = false;

        for (uint32_t j = layer->begin; j < layer->end; j++) {
            const uint32_t i = backward ? layer->end - 1 - (j - layer->begin) : j;
            const struct pst_op *op = &graph->ops[ops[i]];
            const uint64_t mask = backward ? reads_backward(graph, ops[i]) : UINT64_MAX;
            const bool comes = !came && gathered_bytes(graph, op, mask, false, whole) > 0;
            const uint64_t tied = gathered_bytes(graph, op, mask, true, whole);

            if (comes || tied > 0) {
                needs[n_needs++] = (struct need){i, tied + (comes ? layer->all : 0),
                                                 comes && backward ? layer->read : 0};
            }
            came = came || comes;
        }
    }
    return n_needs;
}

/* Beside an operator's own weights the next ones that passes gather are there. */
static void add_ahead(const struct layer *layers, uint32_t n, const struct need *needs,
                      uint32_t n_needs, uint32_t ahead, bool backward, uint64_t *bytes)
{
    for (uint32_t l = 0; l < n; l++) {
        for (uint32_t i = layers[l].begin; i < layers[l].end; i++) {
            uint32_t left = ahead;

            for (uint32_t k = 0; k < n_needs && left > 0; k++) {
                const uint32_t at = needs[k].at;

                if (backward ? at < i : at > i) {
                    bytes[i] += needs[k].bytes - (at >= layers[l].begin ? needs[k].known : 0);
                    left--;
                }
            }
        }
    }
}

/* While an operator runs backward the last sum that was posted is open. */
static void add_open_sum(const struct pst_graph *graph, const uint32_t *ops, const bool *whole,
                         const struct layer *layers, uint32_t n, uint64_t *backward)
{
    uint64_t open = 0, together = 0;

    for (uint32_t l = n; l-- > 0;) {
        for (uint32_t i = layers[l].end; i-- > layers[l].begin;) {
            const uint64_t alone = summed_alone(graph, &graph->ops[ops[i]], whole, &together);

            backward[i] += open;
            open = alone > 0 ? alone : open;
        }
        open = layers[l].summed > 0 ? layers[l].summed : open;
    }
}

/* Fills scratch.gathered: of each of the operators what is there while it runs forward, then while
   it runs backward. */
static void find_gathered(struct pst_planner *planner, const uint32_t *ops, uint32_t n_ops,
                          const bool *whole)
{
    const struct pst_graph *graph = planner->in.graph;
    const struct pst_job_parallel *parallel = &planner->in.job->parallel;
    const uint32_t ahead = pst_gathers_prefetch(parallel->zero, parallel->prefetch);
    uint64_t *forward = planner->scratch.gathered, *backward = forward + n_ops;
    struct layer *layers = pst_alloc((size_t)n_ops + 1, sizeof *layers);
    struct need *needs = pst_alloc((size_t)n_ops + 1, sizeof *needs);
    uint32_t n = 0;

    memset(forward, 0, 2 * (size_t)n_ops * sizeof *forward);
    for (uint32_t begin = 0; begin < n_ops; begin = layers[n++].end) {
        const uint32_t n_of =
            (layers[n] = measure_layer(graph, ops, n_ops, begin, whole)).end - begin;

        if (parallel->zero > 2) {
            gather_layer(planner, &ops[begin], n_of, whole, &forward[begin], &backward[begin]);
        }
        await_layer(planner, &ops[begin], n_of, whole, &backward[begin]);
    }
    for (uint32_t back = 0; back < 2 && parallel->zero > 2; back++) {
        const uint32_t n_needs = list_needs(graph, ops, whole, layers, n, back, needs);

        add_ahead(layers, n, needs, n_needs, ahead, back, back ? backward : forward);
    }
    if (ahead > 0) {
        add_open_sum(graph, ops, whole, layers, n, backward);
    }
    free(needs);
    free(layers);
}

/* --- tables and the planning graph -------------------------------------------------------------*/

static const struct pst_size_table *sizes_for(struct pst_planner *planner, uint32_t samples,
                                              const struct pst_stage_question *question)
{
    struct pst_cost_at at;
    const struct pst_cost_model *cost = pst_cost_on(
        planner->in.cost, question->ranks, question->ranks == NULL ? 0 : question->n_ranks, &at);
    struct pst_size_table *table;
    uint32_t v;

    for (table = planner->scratch.tables; table != NULL; table = table->next) {
        if (table->samples == samples &&
            (planner->in.cluster->n_kinds == 0 || pst_cluster_equal(&table->on, cost->cluster))) {
            return table;
        }
    }
    table = pst_arena_array(&planner->arena, 1, sizeof *table);
    table->samples = samples;
    table->on = *cost->cluster;
    table->nodes = pst_arena_array(&planner->arena, planner->in.graph->n_ops, sizeof *table->nodes);
    for (v = 0; v < planner->in.graph->n_ops; v++) {
        make_node(planner, cost, v, samples, &table->nodes[v]);
    }
    table->next = planner->scratch.tables;
    planner->scratch.tables = table;
    return table;
}

/* Work bytes of the planning nodes, at the job's micro-batch size. Of a sample on a logical device
   each rank has its part. */
static void fill_work_bytes(struct pst_planner *planner)
{
    uint32_t share = planner->devices.degree, samples = planner->sizes.microbatch / share;
    const bool gathers = planner->in.job->parallel.zero > 1 && share > 1;
    struct pst_graph_view *view = planner->view;
    uint32_t *all = planner->scratch.position;
    const uint64_t *gathered = planner->scratch.gathered;
    struct pst_node *nodes;
    struct pst_edge *edges;
    uint32_t v, e;

    for (v = 0; v < view->n_nodes; v++) {
        all[v] = v;
    }
    if (gathers) {
        find_gathered(planner, all, view->n_nodes, NULL);
    }
    nodes = pst_arena_array(&planner->arena, view->n_nodes, sizeof *nodes);
    edges = pst_arena_array(&planner->arena, view->n_edges, sizeof *edges);
    for (v = 0; v < view->n_nodes; v++) {
        nodes[v] = *pst_graph_node(view, v);
        nodes[v].saved_bytes = (nodes[v].saved_bytes + share - 1) / share;
        nodes[v].output_bytes = (nodes[v].output_bytes + share - 1) / share;
        nodes[v].forward_work_bytes = pst_cost_workspace(planner->in.cost, v, 0, samples);
        nodes[v].backward_work_bytes = backward_bytes(planner, v, samples);
        if (gathers) {
            nodes[v].forward_work_bytes += gathered[v];
            nodes[v].backward_work_bytes += gathered[view->n_nodes + v];
        }
    }
    for (e = 0; e < view->n_edges; e++) {
        edges[e] = *pst_graph_edge(view, e);
        edges[e].bytes = edges[e].batched ? (edges[e].bytes + share - 1) / share : edges[e].bytes;
    }
    view->nodes = nodes;
    view->node_size = sizeof *nodes;
    view->edges = edges;
    view->edge_size = sizeof *edges;
}

/* Does some backward pass of operator `to` read the first result of `from`? */
static bool keeps_result(const struct pst_graph *graph, uint32_t from, uint32_t to)
{
    const struct pst_op *op = &graph->ops[to];
    struct pst_op_grad grad;
    uint32_t i;

    pst_op_grad_info(graph, to, &grad);
    for (i = 0; i < op->n_in; i++) {
        if (op->in[i] == graph->ops[from].out[0] &&
            ((grad.b_reads_x | grad.w_reads_x) >> i & 1) != 0) {
            return true;
        }
    }
    return false;
}

void pst_views_init(struct pst_planner *planner)
{
    const struct pst_graph *graph = planner->in.graph;
    struct pst_view_scratch *scratch = &planner->scratch;
    struct pst_arena *arena = &planner->arena;
    struct pst_graph_view *made = NULL;
    uint32_t e;

    pst_graph_make_view(planner->in.graph, planner->sizes.microbatch, &made);
    planner->view = pst_arena_array(arena, 1, sizeof *planner->view);
    scratch->nodes = pst_arena_array(arena, graph->n_ops, sizeof *scratch->nodes);
    scratch->gathered = pst_arena_array(arena, 2 * (size_t)graph->n_ops, sizeof *scratch->gathered);
    scratch->producers = pst_arena_array(arena, made->n_edges, sizeof *scratch->producers);
    scratch->position = pst_arena_array(arena, graph->n_ops, sizeof *scratch->position);
    scratch->op_stamp = pst_arena_array(arena, graph->n_ops, sizeof *scratch->op_stamp);
    scratch->tensor_stamp = pst_arena_array(arena, graph->n_tensors, sizeof *scratch->tensor_stamp);
    scratch->param_stamp = pst_arena_array(arena, graph->n_params, sizeof *scratch->param_stamp);
    scratch->late_stamp = pst_arena_array(arena, graph->n_tensors, sizeof *scratch->late_stamp);
    scratch->late_bytes =
        pst_arena_array(arena, (size_t)graph->n_ops + 1, sizeof *scratch->late_bytes);
    scratch->keeps_result = pst_arena_array(arena, made->n_edges, sizeof *scratch->keeps_result);
    *planner->view = *made;
    for (e = 0; e < made->n_edges; e++) {
        const struct pst_edge *edge = pst_graph_edge(made, e);

        scratch->keeps_result[e] = keeps_result(graph, edge->from, edge->to);
    }
    fill_work_bytes(planner);
}

static void add_bytes(void *bytes, uint8_t kind, uint32_t slot, uint64_t part_bytes)
{
    (void)kind;
    (void)slot;
    *(uint64_t *)bytes += pst_value_align(part_bytes);
}

/* Weights, gradients, optimizer state and the like of one operator's parameters, on each of the
   ranks that share it. */
static void add_static_bytes(struct pst_planner *planner, const struct pst_op *op,
                             uint32_t versions, const struct pst_shards *shards, uint64_t *bytes)
{
    struct pst_view_scratch *scratch = &planner->scratch;

    for (uint32_t m = 0; m < shards->n; m++) {
        for (uint32_t i = 0; i < op->n_state; i++) {
            bytes[m] += pst_value_align(op->state_elems[i] * 4);
        }
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        const uint32_t p = op->param[i];
        const struct pst_parameter *parameter = &planner->in.graph->params[p];

        for (uint32_t m = 0; p != PST_NONE && m < shards->n; m++) {
            const uint64_t shard = pst_shard_of(shards, planner->in.graph, p, m).elems;
            const bool whole = planner->in.job->parallel.zero < 2;

            /* accumulator: one per using operator */
            bytes[m] += pst_value_align((whole ? parameter->elems : shard) * 4);
            if (scratch->param_stamp[p] != scratch->stamp) {
                pst_static_parts(parameter, shard,
                                 planner->in.job->parallel.zero < 3 ? parameter->elems : shard,
                                 versions, planner->in.optimizer_slots, add_bytes, &bytes[m]);
            }
        }
        if (p != PST_NONE) {
            scratch->param_stamp[p] = scratch->stamp;
        }
    }
}

/* Parameters that may be whole on all ranks: tied ones with uses elsewhere, where stages differ in
   width, or two copies of a stage have the ranks in other orders. */
static bool *find_whole(const struct pst_planner *planner, struct pst_arena *arena)
{
    const struct pst_planner_devices *devices = &planner->devices;
    const struct pst_view_scratch *scratch = &planner->scratch;
    const struct pst_graph *graph = planner->in.graph;
    const bool differs =
        pst_topology_copies(&devices->topology) > 1 || (devices->chooses && devices->n_degrees > 1);
    bool *whole = pst_arena_array(arena, graph->n_params, sizeof *whole);

    for (uint32_t p = 0; p < graph->n_params && differs; p++) {
        for (uint32_t u = 0; u < graph->params[p].n_users; u++) {
            whole[p] |= scratch->op_stamp[graph->params[p].users[u]] != scratch->stamp;
        }
    }
    return whole;
}

/* The most of what one of the ranks holds for the whole run. */
static uint64_t stage_static_bytes(struct pst_planner *planner,
                                   const struct pst_stage_question *question)
{
    const struct pst_graph *graph = planner->in.graph;
    const bool cuts = planner->in.job->parallel.zero > 0 && question->n_ranks > 1;
    struct pst_arena arena = {0};
    struct pst_shards shards;
    uint64_t one = 0, *bytes = &one, most = 0;

    pst_shards_make(graph, question->nodes, question->n_nodes, cuts ? question->n_ranks : 1,
                    cuts ? find_whole(planner, &arena) : NULL, &arena, &shards);
    if (shards.n > 1) {
        bytes = pst_arena_array(&arena, shards.n, sizeof *bytes);
    }
    for (uint32_t i = 0; i < question->n_nodes; i++) {
        add_static_bytes(planner, &graph->ops[question->nodes[i]], question->weight_versions,
                         &shards, bytes);
    }
    for (uint32_t m = 0; m < shards.n; m++) {
        most = bytes[m] > most ? bytes[m] : most;
    }
    pst_arena_finish(&arena);
    return most;
}

static void add_gathered(struct pst_planner *planner, const struct pst_stage_question *question)
{
    const uint32_t n = question->n_nodes;
    struct pst_stage_node *nodes = planner->scratch.nodes;
    struct pst_arena arena = {0};

    if (planner->in.job->parallel.zero > 1 && question->n_ranks > 1) {
        find_gathered(planner, question->nodes, n, find_whole(planner, &arena));
        for (uint32_t i = 0; i < n; i++) {
            nodes[i].forward_work_bytes += planner->scratch.gathered[i];
            nodes[i].backward_work_bytes += planner->scratch.gathered[n + i];
        }
    }
    pst_arena_finish(&arena);
}

/* Gradients of keys and values of all slices but the last, of the sequences whose backward passes
   run. */
static uint64_t op_past_bytes(const struct pst_planner *planner, uint32_t v, uint32_t samples)
{
    const struct pst_op *op = &planner->in.graph->ops[v];

    return op->slices > 1 ? (op->slices - 1) *
                                pst_value_align(pst_op_past_bytes(planner->in.graph, v) * samples)
                          : 0;
}

/* Scratch bytes for updating the operator's parameters; a stage needs the most of its operators. */
static uint64_t op_room_bytes(const struct pst_planner *planner, const struct pst_op *op)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE) {
            const uint64_t room = pst_parameter_room(&planner->in.graph->params[op->param[i]]);

            most = room > most ? room : most;
        }
    }
    return most;
}

/* Tensors that the operator reads and that no operator of the set makes; each once. */
static uint64_t op_input_bytes(struct pst_planner *planner, const struct pst_op *op,
                               uint32_t samples)
{
    struct pst_view_scratch *scratch = &planner->scratch;
    uint64_t bytes = 0;
    uint32_t i;

    for (i = 0; i < op->n_in; i++) {
        const struct pst_tensor *tensor = &planner->in.graph->tensors[op->in[i]];
        bool inside =
            tensor->producer != PST_NONE && scratch->op_stamp[tensor->producer] == scratch->stamp;

        if (!inside && scratch->tensor_stamp[op->in[i]] != scratch->stamp) {
            scratch->tensor_stamp[op->in[i]] = scratch->stamp;
            bytes += pst_tensor_bytes(tensor, samples);
        }
    }
    return bytes;
}

/* A reader in the stage wants the result again: it is saved, and no longer transient. */
static void keep_result(struct pst_stage_node *producer)
{
    if (!producer->output_saved) {
        producer->saved_bytes += producer->output_bytes;
        producer->forward_work_bytes -= producer->output_bytes;
        producer->output_saved = 1;
    }
}

static void find_producers(struct pst_planner *planner, struct pst_stage_node *to,
                           uint32_t *n_producers)
{
    struct pst_view_scratch *scratch = &planner->scratch;
    const struct pst_node *node = pst_graph_node(planner->view, to->node);

    to->first_producer = *n_producers;
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t e = planner->view->in_edges[node->first_in + i];
        uint32_t from = pst_graph_edge(planner->view, e)->from;

        if (scratch->op_stamp[from] != scratch->stamp) {
            continue;
        }
        scratch->producers[(*n_producers)++] = scratch->position[from];
        to->n_producers++;
        if (scratch->keeps_result[e]) {
            keep_result(&scratch->nodes[scratch->position[from]]);
        }
    }
}

/* By default backward passes of the stage gather again what they read of a gather. */
static void preset_gathers(struct pst_planner *planner, uint32_t n_nodes)
{
    for (uint32_t i = 0; i < n_nodes; i++) {
        struct pst_stage_node *node = &planner->scratch.nodes[i];
        const struct pst_op *op = &planner->in.graph->ops[node->node];

        if (pst_op_is_convert(op->kind) && op->convert == PST_CONVERT_GATHER &&
            node->output_saved && (node->flags & PST_NODE_NO_RECOMPUTE) == 0) {
            node->action = PST_ACTION_RECOMPUTE;
            node->flags |= PST_NODE_PRESET;
        }
    }
}

/* Reads the cluster, not the cost model, in which a search may slow the link down. */
static uint64_t host_link(const struct pst_planner *planner,
                          const struct pst_stage_question *question)
{
    struct pst_cluster room;

    return pst_cluster_on(planner->in.cluster, question->ranks,
                          question->ranks == NULL ? 0 : question->n_ranks, &room)
        ->host_bandwidth;
}

/* Where the host takes longer than the device, operators take their share of that. */
static void stretch_to_host(struct pst_planner *planner, const struct pst_stage_question *question,
                            uint32_t samples)
{
    struct pst_stage_node *nodes = planner->scratch.nodes;
    struct pst_cost_at at;
    const struct pst_cost_model *cost = pst_cost_on(
        planner->in.cost, question->ranks, question->ranks == NULL ? 0 : question->n_ranks, &at);
    const struct pst_pass_scale scale =
        pst_cost_host_scale(cost, question->nodes, question->n_nodes, samples);

    if (scale.of[0] > 1 || scale.of[1] > 1 || scale.of[2] > 1) {
        for (uint32_t i = 0; i < question->n_nodes; i++) {
            struct pst_times times;

            pst_cost_share(cost, &scale, question->nodes[i], samples, &times);
            nodes[i].forward_ns = times.forward_ns;
            nodes[i].backward_ns = times.backward_input_ns + times.backward_weight_ns;
        }
    }
}

struct pst_stage_node *pst_view_build(struct pst_planner *planner,
                                      const struct pst_stage_question *question,
                                      struct pst_stage_view *ret_view)
{
    struct pst_view_scratch *scratch = &planner->scratch;
    const uint32_t *nodes = question->nodes, n_nodes = question->n_nodes;
    uint32_t samples = question->microbatch_size / question->n_ranks;
    uint32_t versions = question->weight_versions;
    const struct pst_size_table *table = sizes_for(planner, samples, question);
    uint64_t room = 0;
    uint32_t i, n_producers = 0;

    planner->work +=
        n_nodes + (uint64_t)n_nodes * n_nodes / 16; /* searches are worse than linear */
    scratch->stamp++;
    for (i = 0; i < n_nodes; i++) {
        scratch->op_stamp[nodes[i]] = scratch->stamp;
        scratch->position[nodes[i]] = i;
    }
    *ret_view = (struct pst_stage_view){
        .size = sizeof *ret_view,
        .n_stages = 1,
        .n_nodes = n_nodes,
        .node_size = sizeof *scratch->nodes,
        .nodes = scratch->nodes,
        .producers = scratch->producers,
        .in_flight = 1,
        .weight_versions = versions,
        .staging_copies = 2,
        .link_directions = (uint32_t)planner->in.cluster->link_directions,
        .capacity_bytes = UINT64_MAX,
        .host_capacity_bytes = pst_planner_host_share(planner),
    };
    /* Where nothing can be offloaded there is no link. */
    if (pst_caps_executor("offload")) {
        ret_view->link_bytes_per_s = host_link(planner, question);
    }
    for (i = 0; i < n_nodes; i++) {
        const struct pst_op *op = &planner->in.graph->ops[nodes[i]];

        scratch->nodes[i] = table->nodes[nodes[i]];
        find_producers(planner, &scratch->nodes[i], &n_producers);
        ret_view->input_bytes += op_input_bytes(planner, op, samples);
        ret_view->static_bytes += op_past_bytes(planner, nodes[i], samples);
        room = op_room_bytes(planner, op) > room ? op_room_bytes(planner, op) : room;
    }
    if (planner->in.job->parallel.gathered == PST_GATHERED_REPLAY) {
        preset_gathers(planner, n_nodes);
    }
    add_gathered(planner, question);
    stretch_to_host(planner, question, samples);
    ret_view->static_bytes += stage_static_bytes(planner, question) + pst_value_align(room);
    return scratch->nodes;
}
