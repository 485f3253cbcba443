/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/stage_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "host/call.h"
#include "planner/blame.h"

static bool refuse(struct pst_stage_intake *rules, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(struct pst_stage_intake *rules, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(rules->fault, sizeof rules->fault, format, args);
    va_end(args);
    return false;
}

static const char *name_of(const struct pst_stage_intake *rules, uint32_t node)
{
    return pst_graph_node(rules->in->graph, node)->name;
}

static bool has_number(const uint32_t *list, uint32_t n, uint32_t value)
{
    uint32_t i = 0;

    while (i < n && list[i] != value) {
        i++;
    }
    return i < n;
}

/* Returns true if the partitioner made the remark "own_width" (ext/remark.h). */
static bool own_width(const struct pst_stage_intake *rules)
{
    const struct pst_remarks *remarks = rules->remarks;

    return remarks != NULL && pst_remarks_flag(remarks->items, remarks->n, "own_width");
}

static bool allows_degree(const struct pst_stage_intake *rules, uint32_t degree)
{
    bool unsaid = rules->in->n_degrees == 1 && rules->in->degrees[0] == 1;

    return (own_width(rules) && unsaid) ||
           has_number(rules->in->degrees, rules->in->n_degrees, degree);
}

static uint32_t replicas_of(const struct pst_stage_decl *decl)
{
    return decl->n_ranks / pst_stage_tensor(decl);
}

static bool check_tensor(struct pst_stage_intake *rules, const struct pst_stage_decl *decl)
{
    const uint32_t s = rules->n_stages, tensor = pst_stage_tensor(decl);

    if (!has_number(rules->in->tensors, rules->in->n_tensors, tensor)) {
        rules->unoffered = true;
        return refuse(rules, "the tensor degree of stage %u is %u, which was not offered", s,
                      tensor);
    }
    return decl->n_ranks % tensor == 0 ||
           refuse(rules, "stage %u has %u ranks, which its tensor degree %u does not divide", s,
                  decl->n_ranks, tensor);
}

static bool take_ranks(struct pst_stage_intake *rules, const struct pst_stage_decl *decl)
{
    const uint32_t s = rules->n_stages, tensor = pst_stage_tensor(decl);

    if (!check_tensor(rules, decl)) {
        return false;
    }
    if (!allows_degree(rules, replicas_of(decl))) {
        return refuse(rules, "stage %u has %u replicas; degrees are those that were offered", s,
                      replicas_of(decl));
    }
    for (uint32_t i = 0; i < decl->n_ranks; i++) {
        uint32_t rank = decl->ranks[i];

        if (rank >= rules->in->n_devices) {
            return refuse(rules, "stage %u is on rank %u, but there are %u", s, rank,
                          rules->in->n_devices);
        }
        if (rules->holder[rank] != PST_NONE) {
            return refuse(rules, "stage %u is on rank %u, which has a stage already", s, rank);
        }
        if (rank != decl->ranks[i / tensor * tensor] + i % tensor) {
            return refuse(rules, "stage %u has rank %u, but the %u ranks of a replica are in a row",
                          s, rank, tensor);
        }
        rules->holder[rank] = s;
    }
    return true;
}

static bool is_size(const struct pst_stage_intake *rules, uint32_t size)
{
    if (has_number(rules->in->micro_batches, rules->in->n_micro_batches, size)) {
        return true;
    }
    for (uint32_t i = 0; rules->multiples_of != 0 && size != 0 && i < rules->in->n_micro_batches;
         i++) {
        if (size % rules->in->micro_batches[i] == 0 && rules->multiples_of % size == 0) {
            return true;
        }
    }
    return false;
}

static bool check_size(struct pst_stage_intake *rules, const struct pst_stage_decl *decl)
{
    uint32_t s = rules->n_stages;
    uint32_t size = decl->microbatch_size / (own_width(rules) ? replicas_of(decl) : 1);

    if (!is_size(rules, size)) {
        return refuse(rules,
                      "stage %u has micro-batches of %u samples; sizes are those that were offered",
                      s, decl->microbatch_size);
    }
    if (decl->k == 0 || (decl->k - 1) * (uint64_t)decl->microbatch_size >= rules->in->batch) {
        return refuse(rules,
                      "stage %u has k = %u; it is at least 1, and k micro-batches of %u samples "
                      "begin in a batch of %u",
                      s, decl->k, decl->microbatch_size, rules->in->batch);
    }
    if (decl->microbatch_size % replicas_of(decl) != 0) {
        return refuse(rules, "stage %u splits micro-batches of %u samples over %u replicas", s,
                      decl->microbatch_size, replicas_of(decl));
    }
    return true;
}

static bool take_nodes(struct pst_stage_intake *rules, const struct pst_stage_decl *decl)
{
    uint32_t s = rules->n_stages;

    if (decl->n_nodes > rules->in->graph->n_nodes) {
        return refuse(rules, "stage %u has %u nodes, but there are %u", s, decl->n_nodes,
                      rules->in->graph->n_nodes);
    }
    for (uint32_t i = 0; i < decl->n_nodes; i++) {
        uint32_t v = decl->nodes[i];

        if (v >= rules->in->graph->n_nodes) {
            return refuse(rules, "stage %u has node %u, but there are %u", s, v,
                          rules->in->graph->n_nodes);
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

static bool check_inputs(struct pst_stage_intake *rules, const struct pst_stage_decl *decl)
{
    const struct pst_graph_view *graph = rules->in->graph;

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

static bool keeps_rules(struct pst_stage_intake *rules, const struct pst_stage_decl *decl)
{
    if (rules->fault[0] != '\0') {
        return false; /* one violation is enough */
    }
    if (!PST_HAS(decl, k) || decl->nodes == NULL || decl->n_nodes == 0 || decl->ranks == NULL ||
        decl->n_ranks == 0) {
        return refuse(rules, "stage %u has no nodes or no ranks", rules->n_stages);
    }
    return take_ranks(rules, decl) && check_size(rules, decl) && take_nodes(rules, decl) &&
           check_inputs(rules, decl);
}

static pst_status add_stage(struct pst_partition_out *out, const struct pst_stage_decl *decl)
{
    struct pst_stage_intake *intake = out->impl;

    if (!keeps_rules(intake, decl)) {
        return PST_ERR_BUG;
    }
    intake->n_stages++;
    if (intake->take != NULL) {
        intake->take(intake->self, decl);
    }
    return PST_OK;
}

void pst_stage_intake_begin(struct pst_stage_intake *intake, const struct pst_partition_in *in)
{
    intake->out =
        (struct pst_partition_out){.size = sizeof intake->out, .impl = intake, .stage = add_stage};
    intake->in = in;
    intake->owner = pst_alloc(in->graph->n_nodes, sizeof *intake->owner);
    intake->holder = pst_alloc(in->n_devices, sizeof *intake->holder);
    memset(intake->owner, 0xFF, in->graph->n_nodes * sizeof *intake->owner);
    memset(intake->holder, 0xFF, in->n_devices * sizeof *intake->holder);
}

static void finish_intake(struct pst_stage_intake *intake)
{
    free(intake->owner);
    free(intake->holder);
}

/* All stages came: is every node in one? */
pst_status pst_stage_intake_end(struct pst_stage_intake *intake, struct pst_error *err)
{
    static const char kind[] = "partitioner";
    uint32_t n = intake->n_stages, wanted = intake->in->n_stages;
    pst_status status = PST_OK;

    for (uint32_t v = 0; intake->fault[0] == '\0' && v < intake->in->graph->n_nodes; v++) {
        if (intake->owner[v] == PST_NONE) {
            refuse(intake, "node \"%s\" is in no stage", name_of(intake, v));
        }
    }
    if (intake->unoffered) {
        status = pst_fail(err, PST_ERR_BUG, "plugin.contract", "partitioner \"%s\": %s",
                          intake->partitioner, intake->fault);
    } else if (intake->fault[0] != '\0') {
        status = pst_plan_illegal(err, kind, intake->partitioner, "%s", intake->fault);
    } else if (wanted != 0 && n != wanted && intake->scheduler == NULL) {
        status = pst_plan_illegal(err, kind, intake->partitioner,
                                  "it has %u stages, but %u are needed", n, wanted);
    } else if (wanted != 0 && n != wanted) {
        status = pst_plan_illegal(err, kind, intake->partitioner,
                                  "it has %u stages, but scheduler \"%s\" needs %u", n,
                                  intake->scheduler, wanted);
    }
    finish_intake(intake);
    return status;
}

pst_status pst_stage_intake_ask(struct pst_stage_intake *intake, struct pst_instance *partitioner,
                                const struct pst_partition_in *in, struct pst_error *pending,
                                struct pst_error *err)
{
    pst_status status;

    pst_stage_intake_begin(intake, in);
    status = pst_call_partition(partitioner, in, &intake->out);
    if (intake->fault[0] != '\0') { /* whatever it made of that */
        memset(pending, 0, sizeof *pending);
        return pst_stage_intake_end(intake, err);
    }
    status = pst_instance_blame(partitioner, pending, status, "partition", err);
    if (status != PST_OK) {
        finish_intake(intake);
        return status;
    }
    return pst_stage_intake_end(intake, err);
}
