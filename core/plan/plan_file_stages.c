/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages, edges and ties of a plan file.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/plan_file.h"

struct positions {
    const uint32_t *nodes;
    uint32_t n;
};

/* Sets one action for the named operators; each must be a node of the stage. */
static void read_actions(struct pst_plan_reader *reader, json_t *object, const char *key,
                         struct positions nodes, uint8_t action, uint8_t *actions)
{
    json_t *names = pst_plan_array(reader, object, key);
    size_t mark = pst_plan_enter(reader, key);
    uint32_t at = 0;
    for (size_t i = 0; i < json_array_size(names) && reader->status == PST_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        uint32_t op = name != NULL ? pst_plan_find_op(reader, name) : PST_NONE;
        /* in the order of the nodes, so one walk finds them all */
        while (op != PST_NONE && at < nodes.n && nodes.nodes[at] != op) {
            at++;
        }
        if (op == PST_NONE || at == nodes.n || actions[at] != PST_ACTION_KEEP) {
            pst_plan_fail(reader, NULL,
                          "element %zu: expected an operator of the stage, in the order of nodes, "
                          "with one action",
                          i);
            break;
        }
        actions[at++] = action;
    }
    pst_plan_leave(reader, mark);
}

static uint32_t *read_nodes(struct pst_plan_reader *reader, json_t *object, uint32_t *ret_n)
{
    json_t *names = pst_plan_array(reader, object, "nodes");
    size_t n = json_array_size(names);
    size_t mark = pst_plan_enter(reader, "nodes");
    uint32_t *nodes = NULL;
    if (reader->status == PST_OK && n > reader->graph->n_ops) {
        pst_plan_fail(reader, NULL, "%zu operators, the model has %u", n, reader->graph->n_ops);
    }
    if (reader->status == PST_OK) {
        nodes = malloc((n + 1) * sizeof *nodes);
        if (nodes == NULL) {
            reader->status = pst_fail_nomem(reader->err);
        }
    }
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL) {
            pst_plan_fail(reader, NULL, "element %zu: expected the name of an operator", i);
        } else {
            nodes[i] = pst_plan_find_op(reader, name);
        }
    }
    pst_plan_leave(reader, mark);
    *ret_n = (uint32_t)n;
    return nodes;
}

/* Pairs of a micro-batch and the device that keeps it. */
static void read_guests(struct pst_plan_reader *reader, json_t *object,
                        struct pst_plan_stage *stage)
{
    if (reader->status != PST_OK || json_object_get(object, "guests") == NULL) {
        return;
    }
    json_t *rows = pst_plan_array(reader, object, "guests");
    size_t n = json_array_size(rows), mark = pst_plan_enter(reader, "guests");
    struct pst_plan_guest *guests = NULL;
    if (reader->status == PST_OK && (n == 0 || n > stage->n_microbatches)) {
        pst_plan_fail(reader, NULL, "%zu guests of %u micro-batches; leave the list out for none",
                      n, stage->n_microbatches);
    }
    if (reader->status == PST_OK) {
        guests = pst_arena_array(&reader->plan->arena, n, sizeof *guests);
        reader->status = guests == NULL ? pst_fail_nomem(reader->err) : PST_OK;
    }
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        json_t *row = json_array_get(rows, i);
        if (json_array_size(row) != 2) {
            pst_plan_fail(reader, NULL, "element %zu: expected [micro-batch, device]", i);
            break;
        }
        guests[i].microbatch = pst_plan_u32_at(reader, row, 0);
        guests[i].rank = pst_plan_u32_at(reader, row, 1);
    }
    pst_plan_leave(reader, mark);
    if (reader->status == PST_OK) {
        stage->guests = guests;
        stage->n_guests = (uint32_t)n;
    }
}

static void add_stage(struct pst_plan_reader *reader, json_t *object, const uint32_t *nodes,
                      uint32_t n_nodes, const uint32_t *ranks, uint32_t n_ranks)
{
    struct pst_plan *plan = reader->plan;
    uint32_t size = pst_plan_u32(reader, object, "microbatch_size");
    uint32_t k = pst_plan_u32(reader, object, "k");
    uint32_t in_flight = pst_plan_u32(reader, object, "in_flight");
    uint32_t weight_versions = pst_plan_u32(reader, object, "weight_versions");
    if (reader->status == PST_OK && size == 0) {
        pst_plan_fail(reader, NULL, "microbatch_size: 0, expected at least 1");
    } else if (reader->status == PST_OK && plan->batch / size > PST_PLAN_FILE_MICROBATCHES) {
        pst_plan_fail(reader, "input.limit", "%u micro-batches; at most %u", plan->batch / size,
                      PST_PLAN_FILE_MICROBATCHES);
    }
    if (reader->status != PST_OK) {
        return;
    }
    reader->status = pst_plan_add_stage(plan, nodes, n_nodes, ranks, n_ranks, size, k, reader->err);
    if (reader->status != PST_OK) {
        return;
    }
    struct pst_plan_stage *stage = &plan->stages[plan->n_stages - 1];
    struct positions positions = {stage->nodes, n_nodes};
    uint8_t *actions = pst_arena_array(&plan->arena, n_nodes, 1);
    if (actions == NULL) {
        reader->status = pst_fail_nomem(reader->err);
        return;
    }
    stage->in_flight = in_flight;
    stage->weight_versions = weight_versions;
    stage->actions = actions;
    read_actions(reader, object, "recompute", positions, PST_ACTION_RECOMPUTE, actions);
    read_actions(reader, object, "offload", positions, PST_ACTION_OFFLOAD, actions);
    read_actions(reader, object, "peer", positions, PST_ACTION_PEER, actions);
    read_guests(reader, object, stage);
}

static void check_id(struct pst_plan_reader *reader, json_t *object, const char *key,
                     size_t expected)
{
    uint32_t id = pst_plan_u32(reader, object, key);
    if (reader->status == PST_OK && id != expected) {
        pst_plan_fail(reader, NULL, "%s: %u, expected %zu: they are numbered in order", key, id,
                      expected);
    }
}

static void read_stage(struct pst_plan_reader *reader, json_t *object, size_t index)
{
    static const char *const keys[] = {"id",      "nodes",     "devices",         "microbatch_size",
                                       "k",       "in_flight", "weight_versions", "recompute",
                                       "offload", "peer",      "guests",          "peak_bytes",
                                       NULL};
    uint32_t n_nodes = 0;
    pst_plan_known_keys(reader, object, keys);
    check_id(reader, object, "id", index);
    pst_plan_u64(reader, object, "peak_bytes"); /* follows from the devices */
    uint32_t *nodes = read_nodes(reader, object, &n_nodes);
    json_t *devices = pst_plan_array(reader, object, "devices");
    size_t mark = pst_plan_enter(reader, "devices");
    uint32_t *ranks = NULL;
    if (reader->status == PST_OK && json_array_size(devices) > reader->plan->n_devices) {
        pst_plan_fail(reader, NULL, "more devices than there are");
    } else if (reader->status == PST_OK) {
        ranks = pst_plan_u32_array(reader, devices);
    }
    pst_plan_leave(reader, mark);
    if (reader->status == PST_OK) {
        add_stage(reader, object, nodes, n_nodes, ranks, (uint32_t)json_array_size(devices));
    }
    free(nodes);
}

void pst_plan_read_stages(struct pst_plan_reader *reader, json_t *root)
{
    json_t *stages = pst_plan_array(reader, root, "stages");
    size_t mark = pst_plan_enter(reader, "stages");
    for (size_t s = 0; s < json_array_size(stages) && reader->status == PST_OK; s++) {
        size_t inner = pst_plan_enter_index(reader, s);
        read_stage(reader, json_array_get(stages, s), s);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
}

static void read_edge(struct pst_plan_reader *reader, json_t *object, size_t index,
                      struct pst_plan_edge *ret_edge)
{
    static const char *const keys[] = {"id", "from", "to", "tensors", "bytes_per_sample", NULL};
    pst_plan_known_keys(reader, object, keys);
    check_id(reader, object, "id", index);
    ret_edge->from = pst_plan_u32(reader, object, "from");
    ret_edge->to = pst_plan_u32(reader, object, "to");
    ret_edge->bytes_per_sample = pst_plan_u64(reader, object, "bytes_per_sample");
    json_t *names = pst_plan_array(reader, object, "tensors");
    size_t n = json_array_size(names);
    uint32_t *tensors = pst_arena_array(&reader->plan->arena, n, sizeof *tensors);
    if (tensors == NULL) {
        reader->status = pst_fail_nomem(reader->err);
        return;
    }
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL) {
            pst_plan_fail(reader, NULL, "tensors[%zu]: expected a name", i);
        } else {
            tensors[i] = pst_plan_find_result(reader, name);
        }
    }
    ret_edge->tensors = tensors;
    ret_edge->n_tensors = (uint32_t)n;
}

static void read_tie(struct pst_plan_reader *reader, json_t *object, struct pst_plan_tie *ret_tie)
{
    static const char *const keys[] = {"parameter", "stages", NULL};
    pst_plan_known_keys(reader, object, keys);
    const char *name = pst_plan_string(reader, object, "parameter");
    ret_tie->parameter = name != NULL ? pst_plan_find_param(reader, name) : PST_NONE;
    json_t *stages = pst_plan_array(reader, object, "stages");
    size_t mark = pst_plan_enter(reader, "stages");
    if (reader->status == PST_OK) {
        ret_tie->stages = pst_plan_u32_array(reader, stages);
        ret_tie->n_stages = (uint32_t)json_array_size(stages);
    }
    pst_plan_leave(reader, mark);
}

void pst_plan_read_edges(struct pst_plan_reader *reader, json_t *root)
{
    struct pst_plan *plan = reader->plan;
    json_t *edges = pst_plan_array(reader, root, "edges"),
           *ties = pst_plan_array(reader, root, "ties");
    if (reader->status != PST_OK) {
        return;
    }
    plan->edges = pst_arena_array(&plan->arena, json_array_size(edges), sizeof *plan->edges);
    plan->ties = pst_arena_array(&plan->arena, json_array_size(ties), sizeof *plan->ties);
    if (plan->edges == NULL || plan->ties == NULL) {
        reader->status = pst_fail_nomem(reader->err);
        return;
    }
    size_t mark = pst_plan_enter(reader, "edges");
    for (size_t e = 0; e < json_array_size(edges) && reader->status == PST_OK; e++) {
        size_t inner = pst_plan_enter_index(reader, e);
        read_edge(reader, json_array_get(edges, e), e, &plan->edges[plan->n_edges++]);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
    mark = pst_plan_enter(reader, "ties");
    for (size_t t = 0; t < json_array_size(ties) && reader->status == PST_OK; t++) {
        size_t inner = pst_plan_enter_index(reader, t);
        read_tie(reader, json_array_get(ties, t), &plan->ties[plan->n_ties++]);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
}
