/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/stage_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "host/call.h"
#include "planner/blame.h"

static bool refuse(struct pst_stage_rules *rules, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(struct pst_stage_rules *rules, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(rules->fault, sizeof rules->fault, format, args);
    va_end(args);
    return false;
}

void pst_stage_rules_init(struct pst_stage_rules *rules, const struct pst_partition_in *in)
{
    memset(rules, 0, sizeof *rules);
    rules->graph = in->graph;
    rules->sizes = in->micro_batches;
    rules->n_sizes = in->n_micro_batches;
    rules->degrees = in->degrees;
    rules->n_degrees = in->n_degrees;
    rules->n_ranks = in->n_devices;
    rules->batch = in->batch;
    rules->owner = pst_alloc(in->graph->n_nodes, sizeof *rules->owner);
    rules->holder = pst_alloc(in->n_devices, sizeof *rules->holder);
    memset(rules->owner, 0xFF, in->graph->n_nodes * sizeof *rules->owner);
    memset(rules->holder, 0xFF, in->n_devices * sizeof *rules->holder);
}

void pst_stage_rules_finish(struct pst_stage_rules *rules)
{
    free(rules->owner);
    free(rules->holder);
    rules->owner = rules->holder = NULL;
}

static const char *name_of(const struct pst_stage_rules *rules, uint32_t node)
{
    return pst_graph_node(rules->graph, node)->name;
}

static bool has(const uint32_t *list, uint32_t n, uint32_t value)
{
    uint32_t i = 0;

    while (i < n && list[i] != value) {
        i++;
    }
    return i < n;
}

static bool allows_degree(const struct pst_stage_rules *rules, uint32_t degree)
{
    bool unsaid = rules->n_degrees == 1 && rules->degrees[0] == 1;

    return (rules->own_width && unsaid) || has(rules->degrees, rules->n_degrees, degree);
}

static bool take_ranks(struct pst_stage_rules *rules, const struct pst_stage_decl *decl)
{
    uint32_t s = rules->n_stages;

    if (!allows_degree(rules, decl->n_ranks)) {
        return refuse(rules, "stage %u has %u replicas; degrees are those that were offered", s,
                      decl->n_ranks);
    }
    for (uint32_t i = 0; i < decl->n_ranks; i++) {
        uint32_t rank = decl->ranks[i];

        if (rank >= rules->n_ranks) {
            return refuse(rules, "stage %u is on rank %u, but there are %u", s, rank,
                          rules->n_ranks);
        }
        if (rules->holder[rank] != PST_NONE) {
            return refuse(rules, "stage %u is on rank %u, which has a stage already", s, rank);
        }
        rules->holder[rank] = s;
    }
    return true;
}

static bool is_size(const struct pst_stage_rules *rules, uint32_t size)
{
    if (has(rules->sizes, rules->n_sizes, size)) {
        return true;
    }
    for (uint32_t i = 0; rules->multiples_of != 0 && size != 0 && i < rules->n_sizes; i++) {
        if (size % rules->sizes[i] == 0 && rules->multiples_of % size == 0) {
            return true;
        }
    }
    return false;
}

static bool check_size(struct pst_stage_rules *rules, const struct pst_stage_decl *decl)
{
    uint32_t s = rules->n_stages;
    uint32_t size = decl->microbatch_size / (rules->own_width ? decl->n_ranks : 1);

    if (!is_size(rules, size)) {
        return refuse(rules,
                      "stage %u has micro-batches of %u samples; sizes are those that were offered",
                      s, decl->microbatch_size);
    }
    if (decl->k == 0 || (decl->k - 1) * (uint64_t)decl->microbatch_size >= rules->batch) {
        return refuse(rules,
                      "stage %u has k = %u; it is at least 1, and k micro-batches of %u samples "
                      "begin in a batch of %u",
                      s, decl->k, decl->microbatch_size, rules->batch);
    }
    if (decl->microbatch_size % decl->n_ranks != 0) {
        return refuse(rules, "stage %u splits micro-batches of %u samples over %u replicas", s,
                      decl->microbatch_size, decl->n_ranks);
    }
    return true;
}

static bool take_nodes(struct pst_stage_rules *rules, const struct pst_stage_decl *decl)
{
    uint32_t s = rules->n_stages;

    if (decl->n_nodes > rules->graph->n_nodes) {
        return refuse(rules, "stage %u has %u nodes, but there are %u", s, decl->n_nodes,
                      rules->graph->n_nodes);
    }
    for (uint32_t i = 0; i < decl->n_nodes; i++) {
        uint32_t v = decl->nodes[i];

        if (v >= rules->graph->n_nodes) {
            return refuse(rules, "stage %u has node %u, but there are %u", s, v,
                          rules->graph->n_nodes);
        }
        if (i > 0 && v <= decl->nodes[i - 1]) {
            return refuse(rules, "the nodes of stage %u do not ascend at \"%s\"", s,
                          name_of(rules, v));
        }
        if (rules->owner[v] != PST_NONE) {
            return refuse(rules, "node \"%s\" is in stage %u and in stage %u", name_of(rules, v),
                          rules->owner[v], s);
        }
        rules->owner[v] = s;
    }
    return true;
}

static bool check_inputs(struct pst_stage_rules *rules, const struct pst_stage_decl *decl)
{
    const struct pst_graph_view *graph = rules->graph;

    for (uint32_t i = 0; i < decl->n_nodes; i++) {
        const struct pst_node *node = pst_graph_node(graph, decl->nodes[i]);

        for (uint32_t k = 0; k < node->n_in; k++) {
            uint32_t from = pst_graph_edge(graph, graph->in_edges[node->first_in + k])->from;

            if (rules->owner[from] == PST_NONE) {
                return refuse(rules,
                              "node \"%s\" of stage %u reads \"%s\", which is in no stage before; "
                              "stages must be convex and come in topological order",
                              node->name, rules->n_stages, name_of(rules, from));
            }
        }
    }
    return true;
}

bool pst_stage_rules_add(struct pst_stage_rules *rules, const struct pst_stage_decl *decl)
{
    if (rules->fault[0] != '\0') {
        return false; /* one violation is enough */
    }
    if (!PST_HAS(decl, k) || decl->nodes == NULL || decl->n_nodes == 0 || decl->ranks == NULL ||
        decl->n_ranks == 0) {
        return refuse(rules, "stage %u has no nodes or no ranks", rules->n_stages);
    }
    if (!take_ranks(rules, decl) || !check_size(rules, decl) || !take_nodes(rules, decl) ||
        !check_inputs(rules, decl)) {
        return false;
    }
    rules->n_stages++;
    return true;
}

bool pst_stage_rules_end(struct pst_stage_rules *rules)
{
    for (uint32_t v = 0; rules->fault[0] == '\0' && v < rules->graph->n_nodes; v++) {
        if (rules->owner[v] == PST_NONE) {
            refuse(rules, "node \"%s\" is in no stage", name_of(rules, v));
        }
    }
    return rules->fault[0] == '\0';
}

/* --- an answer on its way in -------------------------------------------------------------------*/

static pst_status add_stage(struct pst_partition_out *out, const struct pst_stage_decl *decl)
{
    struct pst_stage_intake *intake = out->impl;
    const struct pst_remarks *remarks = intake->remarks;

    intake->rules.own_width =
        remarks != NULL && pst_remarks_flag(remarks->items, remarks->n, "own_width");
    if (!pst_stage_rules_add(&intake->rules, decl)) {
        return PST_ERR_BUG;
    }
    intake->take(intake->self, decl);
    return PST_OK;
}

void pst_stage_intake_begin(struct pst_stage_intake *intake, const struct pst_partition_in *in)
{
    intake->out =
        (struct pst_partition_out){.size = sizeof intake->out, .impl = intake, .stage = add_stage};
    pst_stage_rules_init(&intake->rules, in);
    intake->rules.multiples_of = intake->multiples_of;
    intake->n_stages = in->n_stages;
}

pst_status pst_stage_intake_end(struct pst_stage_intake *intake, struct pst_error *err)
{
    struct pst_stage_rules *rules = &intake->rules;
    const struct pst_instance *partitioner = intake->partitioner, *scheduler = intake->scheduler;
    uint32_t n = rules->n_stages, wanted = intake->n_stages;
    pst_status st = PST_OK;

    if (!pst_stage_rules_end(rules)) {
        st = pst_planner_illegal(err, partitioner, "%s", rules->fault);
    } else if (wanted != 0 && n != wanted && scheduler == NULL) {
        st =
            pst_planner_illegal(err, partitioner, "it has %u stages, but %u are wanted", n, wanted);
    } else if (wanted != 0 && n != wanted) {
        st =
            pst_planner_illegal(err, partitioner, "it has %u stages, but scheduler \"%s\" wants %u",
                                n, scheduler->plugin->id, wanted);
    }
    pst_stage_rules_finish(rules);
    return st;
}

pst_status pst_stage_intake_ask(struct pst_stage_intake *intake, const struct pst_partition_in *in,
                                struct pst_error *pending, struct pst_error *err)
{
    pst_status st;

    pst_stage_intake_begin(intake, in);
    st = pst_call_partition(intake->partitioner, in, &intake->out);
    if (intake->rules.fault[0] != '\0') { /* whatever it made of that */
        memset(pending, 0, sizeof *pending);
        return pst_stage_intake_end(intake, err);
    }
    st = pst_instance_blame(intake->partitioner, pending, st, "partition", err);
    if (st != PST_OK) {
        pst_stage_rules_finish(&intake->rules);
        return st;
    }
    return pst_stage_intake_end(intake, err);
}
