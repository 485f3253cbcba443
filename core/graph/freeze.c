/* SPDX-License-Identifier: Apache-2.0
 *
 * From the draft to the frozen graph: closes the gaps that fusion left, numbers tensors (inputs
 * first, then outputs in operator order), links consumers and users, checks the whole.
 */
#include "base/memory.h"
#include "graph/costed.h"
#include "graph/custom.h"
#include "graph/op_rules.h"

#include <stdlib.h>
#include <string.h>

#define BAD(...) pst_fail(err, PST_ERR_BUG, "model.build", __VA_ARGS__)

static pst_status check_ends(const struct pst_graph_builder *builder, uint32_t loss,
                             uint32_t logits, struct pst_error *err)
{
    const struct pst_tensor *tensor;

    if (builder->error.status != PST_OK) {
        return pst_graph_failure(builder, err);
    }
    if (loss >= builder->n_tensors) {
        return BAD("model %s: it has no loss", builder->name);
    }
    tensor = &builder->tensors[loss];
    if (tensor->producer == PST_NONE || !pst_op_is_loss(builder->ops[tensor->producer].kind) ||
        tensor->output != 0) {
        return BAD("model %s: its loss does not come from a loss operator", builder->name);
    }
    if (logits != PST_NONE &&
        (logits >= builder->n_tensors || builder->tensors[logits].role != PST_ROLE_ACTIVATION)) {
        return BAD("model %s: its logits are no activation", builder->name);
    }
    return PST_OK;
}

/* Fills map (new index of each tensor) and the graph's tensors. */
static void move_tensors(const struct pst_graph_builder *builder, struct pst_graph *graph,
                         uint32_t *map)
{
    struct pst_arena *arena = &graph->arena;
    struct pst_tensor *to;

    for (uint32_t i = 0; i < builder->n_tensors; i++) {
        map[i] = PST_NONE;
        if (builder->tensors[i].role == PST_ROLE_INPUT) {
            map[i] = graph->n_tensors;
            graph->tensors[graph->n_tensors++] = builder->tensors[i];
        }
    }
    graph->n_inputs = graph->n_tensors;
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_op *op = &graph->ops[i];

        for (uint32_t k = 0; k < op->n_out; k++) {
            map[op->out[k]] = graph->n_tensors;
            to = &graph->tensors[graph->n_tensors++];
            *to = builder->tensors[op->out[k]];
            to->producer = i;
            to->output = k;
            to->role = k == 0 ? PST_ROLE_ACTIVATION : PST_ROLE_AUX;
            to->name = k == 0 ? op->name
                              : pst_arena_printf(arena, "%s.%s", op->name,
                                                 pst_op_rules_of(op->kind)->aux[k - 1]);
        }
    }
}

static void renumber(struct pst_graph *graph, const uint32_t *map)
{
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        struct pst_op *op = &graph->ops[i];

        for (uint32_t k = 0; k < op->n_in; k++) {
            ((uint32_t *)op->in)[k] = map[op->in[k]];
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            ((uint32_t *)op->out)[k] = map[op->out[k]];
        }
    }
}

/* Consumers of tensors and users of parameters: count, make room, fill in operator order. */
static void link_uses(struct pst_graph *graph)
{
    struct pst_arena *arena = &graph->arena;

    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < graph->n_ops; i++) {
            for (uint32_t k = 0; k < graph->ops[i].n_in; k++) {
                struct pst_tensor *tensor = &graph->tensors[graph->ops[i].in[k]];

                if (pass == 1) {
                    ((uint32_t *)tensor->consumers)[tensor->n_consumers] = i;
                }
                tensor->n_consumers++;
            }
            for (uint32_t k = 0; k < graph->ops[i].n_param; k++) {
                struct pst_parameter *param;

                if (graph->ops[i].param[k] == PST_NONE) {
                    continue;
                }
                param = &graph->params[graph->ops[i].param[k]];
                if (pass == 1) {
                    ((uint32_t *)param->users)[param->n_users] = i;
                    ((uint32_t *)param->user_slots)[param->n_users] = k;
                }
                param->n_users++;
            }
        }
        for (uint32_t i = 0; pass == 0 && i < graph->n_tensors; i++) {
            struct pst_tensor *tensor = &graph->tensors[i];

            tensor->consumers = pst_arena_array(arena, tensor->n_consumers, sizeof(uint32_t));
            tensor->n_consumers = 0;
        }
        for (uint32_t i = 0; pass == 0 && i < graph->n_params; i++) {
            struct pst_parameter *param = &graph->params[i];

            param->users = pst_arena_array(arena, param->n_users, sizeof(uint32_t));
            param->user_slots = pst_arena_array(arena, param->n_users, sizeof(uint32_t));
            param->n_users = 0;
        }
    }
}

static void mark_gradients(struct pst_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_op *op = &graph->ops[i];
        bool needs = false;

        for (uint32_t k = 0; k < op->n_param; k++) {
            needs = needs || op->param[k] != PST_NONE;
        }
        for (uint32_t k = 0; k < op->n_in; k++) {
            needs = needs || graph->tensors[op->in[k]].needs_grad;
        }
        graph->tensors[op->out[0]].needs_grad = needs && !pst_op_rules_of(op->kind)->apart;
    }
}

static pst_status index_names(struct pst_graph *graph, struct pst_error *err)
{
    pst_names_init(&graph->op_names, &graph->arena, graph->n_ops);
    pst_names_init(&graph->param_names, &graph->arena, graph->n_params);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        if (pst_names_add(&graph->op_names, graph->ops[i].name, i) != PST_NONE) {
            return BAD("two operators are called %s", graph->ops[i].name);
        }
    }
    for (uint32_t i = 0; i < graph->n_params; i++) {
        if (pst_names_add(&graph->param_names, graph->params[i].name, i) != PST_NONE) {
            return BAD("two parameters are called %s", graph->params[i].name);
        }
    }
    return PST_OK;
}

static pst_status check_graph(struct pst_graph *graph, struct pst_error *err)
{
    for (uint32_t i = 1; i < graph->n_ops; i++) {
        if (graph->ops[i].layer < graph->ops[i - 1].layer) {
            return BAD("%s: layer %u comes after layer %u", graph->ops[i].name, graph->ops[i].layer,
                       graph->ops[i - 1].layer);
        }
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const struct pst_tensor *tensor = &graph->tensors[i];

        if (tensor->role != PST_ROLE_AUX && tensor->n_consumers == 0 && i != graph->loss) {
            return BAD("%s: nothing reads it", tensor->name);
        }
    }
    for (uint32_t i = 0; i < graph->n_params; i++) {
        if (graph->params[i].n_users == 0) {
            return BAD("parameter %s: no operator uses it", graph->params[i].name);
        }
    }
    return index_names(graph, err);
}

/* Everything into the graph's arrays, which the builder's arena holds. */
static void assemble(const struct pst_graph_builder *builder, struct pst_graph *graph,
                     uint32_t loss, uint32_t logits)
{
    struct pst_arena *arena = &graph->arena;
    uint32_t *map = pst_arena_array(arena, builder->n_tensors, sizeof *map);

    graph->name = builder->name;
    graph->ops = pst_arena_array(arena, builder->n_ops, sizeof *graph->ops);
    graph->tensors = pst_arena_array(arena, builder->n_tensors, sizeof *graph->tensors);
    for (uint32_t i = 0; i < builder->n_ops; i++) {
        if (builder->ops[i].kind != PST_OP_KINDS) {
            graph->ops[graph->n_ops++] = builder->ops[i];
        }
    }
    graph->params = builder->params;
    graph->n_params = builder->n_params;
    move_tensors(builder, graph, map);
    renumber(graph, map);
    graph->loss = map[loss];
    graph->logits = logits == PST_NONE ? PST_NONE : map[logits];
    link_uses(graph);
}

pst_status pst_graph_finish(struct pst_graph_builder *builder, uint32_t loss, uint32_t logits,
                            struct pst_graph **ret_graph, struct pst_error *err)
{
    uint32_t keep[2] = {loss, logits};
    struct pst_graph *graph;
    pst_status status = check_ends(builder, loss, logits, err);

    if (status != PST_OK) {
        return status;
    }
    pst_graph_fuse(builder, keep, 2);
    graph = pst_alloc(1, sizeof *graph);
    graph->slices = 1;
    graph->parts = 1;
    graph->arena = builder->arena;
    graph->customs = builder->customs;
    builder->customs = NULL;
    memset(&builder->arena, 0, sizeof builder->arena);
    assemble(builder, graph, loss, logits);
    status = check_graph(graph, err);
    if (status != PST_OK) {
        goto out;
    }
    mark_gradients(graph);
    graph->digest = pst_graph_digest(graph);
    *ret_graph = graph;
    graph = NULL;
out:
    /* The arena is gone either way: the builder has nothing left but to be destroyed. */
    memset(builder, 0, sizeof *builder);
    pst_fail(&builder->error, PST_ERR_BUG, "model.build", "already finished");
    pst_graph_destroy(graph);
    return status;
}

void pst_graph_destroy(struct pst_graph *graph)
{
    if (graph != NULL) {
        if (graph->initial.destroy != NULL) {
            graph->initial.destroy(graph->initial.context);
        }
        pst_graph_destroy(graph->whole);
        pst_costed_destroy(graph->costed);
        pst_customs_destroy(graph->customs);
        pst_arena_finish(&graph->arena);
        free(graph);
    }
}
