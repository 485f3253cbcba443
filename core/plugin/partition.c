/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the partitioner, and checking its answer stage by stage as it comes. A stage may read only
 * itself and stages before it: that makes every stage convex and their graph acyclic.
 */
#include "plugin/state.h"

#include <stdlib.h>
#include <string.h>

struct answer {
    struct pst_partition_out out;
    struct pst_planner *planner;
    struct pst_plan *plan;
    uint32_t *owner; /* [n_ops] stage, or PST_NONE */
    bool *taken;     /* [n_places] */
    uint32_t *ranks; /* [degree] of the stage */
    bool refused;    /* a stage broke a rule; pending says which */
};

/* Records the first violation; the plugin is told PST_ERR_BUG. */
#define ILLEGAL(answer, ...)                                                                       \
    pst_planner_illegal(&(answer)->planner->pending, (answer)->planner->partitioner, __VA_ARGS__)

static const char *op_name(const struct answer *a, uint32_t op)
{
    return a->planner->graph->ops[op].name;
}

/* One place, or ranks of its own in a number that is allowed. Claims them. */
static pst_status check_ranks(struct answer *a, const struct pst_stage_decl *decl)
{
    const struct pst_planner *planner = a->planner;
    uint32_t s = a->plan->n_stages, i = 0;

    for (; i < planner->n_degrees && planner->degrees[i] != decl->n_ranks; i++) {
    }
    if (planner->chooses ? i == planner->n_degrees : decl->n_ranks != 1) {
        return ILLEGAL(a, "stage %u has %u replicas, which was not offered", s, decl->n_ranks);
    }
    for (i = 0; i < decl->n_ranks; i++) {
        if (decl->ranks[i] >= planner->n_places) {
            return ILLEGAL(a, "stage %u is on rank %u, but there are %u", s, decl->ranks[i],
                           planner->n_places);
        }
        if (a->taken[decl->ranks[i]]) {
            return ILLEGAL(a, "stage %u is on rank %u, which has a stage already", s,
                           decl->ranks[i]);
        }
        a->taken[decl->ranks[i]] = true;
    }
    if (decl->microbatch_size % decl->n_ranks != 0) {
        return ILLEGAL(a, "stage %u has micro-batches of %u samples for %u replicas", s,
                       decl->microbatch_size, decl->n_ranks);
    }
    return PST_OK;
}

static pst_status check_form(struct answer *a, const struct pst_stage_decl *decl)
{
    const struct pst_planner *planner = a->planner;
    uint32_t s = a->plan->n_stages, i;
    pst_status st;

    if (!PST_HAS(decl, k) || decl->nodes == NULL || decl->n_nodes == 0 || decl->ranks == NULL ||
        decl->n_ranks == 0) {
        return ILLEGAL(a, "stage %u has no nodes or no ranks", s);
    }
    st = check_ranks(a, decl);
    if (st != PST_OK) {
        return st;
    }
    for (i = 0; i < planner->n_candidates && decl->microbatch_size != planner->candidates[i]; i++) {
    }
    if (i == planner->n_candidates || decl->k == 0) {
        return ILLEGAL(a,
                       "stage %u has micro-batches of %u samples and k = %u; sizes are those that "
                       "were offered, and k is at least 1",
                       s, decl->microbatch_size, decl->k);
    }
    return PST_OK;
}

static pst_status own_nodes(struct answer *a, const struct pst_stage_decl *decl)
{
    const struct pst_graph *graph = a->planner->graph;
    uint32_t s = a->plan->n_stages, i;

    for (i = 0; i < decl->n_nodes; i++) {
        uint32_t v = decl->nodes[i];

        if (v >= graph->n_ops) {
            return ILLEGAL(a, "stage %u has node %u, but there are %u", s, v, graph->n_ops);
        }
        if (i > 0 && v <= decl->nodes[i - 1]) {
            return ILLEGAL(a, "the nodes of stage %u do not ascend at \"%s\"", s, op_name(a, v));
        }
        if (a->owner[v] != PST_NONE) {
            return ILLEGAL(a, "node \"%s\" is in stage %u and in stage %u", op_name(a, v),
                           a->owner[v], s);
        }
        a->owner[v] = s;
    }
    return PST_OK;
}

static pst_status check_inputs(struct answer *a, const struct pst_stage_decl *decl)
{
    const struct pst_graph *graph = a->planner->graph;
    uint32_t i, k;

    for (i = 0; i < decl->n_nodes; i++) {
        const struct pst_op *op = &graph->ops[decl->nodes[i]];

        for (k = 0; k < op->n_in; k++) {
            uint32_t producer = graph->tensors[op->in[k]].producer;

            if (producer != PST_NONE && a->owner[producer] == PST_NONE) {
                return ILLEGAL(a,
                               "node \"%s\" of stage %u reads \"%s\", which is in no stage before; "
                               "stages must be convex and come in topological order",
                               op->name, a->plan->n_stages, op_name(a, producer));
            }
        }
    }
    return PST_OK;
}

static pst_status add_stage(struct pst_partition_out *out, const struct pst_stage_decl *decl)
{
    struct answer *a = out->impl;
    pst_status st;

    if (a->refused) {
        return a->planner->pending.status; /* one violation is enough */
    }
    st = check_form(a, decl);
    if (st == PST_OK) {
        st = own_nodes(a, decl);
    }
    if (st == PST_OK) {
        st = check_inputs(a, decl);
    }
    if (st == PST_OK && a->planner->chooses) {
        st = pst_plan_add_stage(a->plan, decl->nodes, decl->n_nodes, decl->ranks, decl->n_ranks,
                                decl->microbatch_size, decl->k, &a->planner->pending);
    } else if (st == PST_OK) {
        for (uint32_t i = 0; i < a->planner->degree; i++) {
            a->ranks[i] = a->planner->device_of[decl->ranks[0]] * a->planner->degree + i;
        }
        st = pst_plan_add_stage(a->plan, decl->nodes, decl->n_nodes, a->ranks, a->planner->degree,
                                decl->microbatch_size, decl->k, &a->planner->pending);
    }
    a->refused = st != PST_OK;
    return st;
}

static pst_status check_whole(struct answer *a, struct pst_error *err)
{
    const struct pst_planner *planner = a->planner;
    uint32_t v, wanted = planner->topology.n_stages;

    for (v = 0; v < planner->graph->n_ops; v++) {
        if (a->owner[v] == PST_NONE) {
            return pst_planner_illegal(err, planner->partitioner, "node \"%s\" is in no stage",
                                       op_name(a, v));
        }
    }
    if (wanted != 0 && a->plan->n_stages != wanted) {
        return pst_planner_illegal(err, planner->partitioner,
                                   "it has %u stages, but scheduler \"%s\" wants %u",
                                   a->plan->n_stages, planner->scheduler->plugin->id, wanted);
    }
    return PST_OK;
}

/* Capacity of a device for one of the stages that share it. */
static uint64_t capacity_of_stage(const struct pst_planner *planner)
{
    uint32_t s, t, most = 1;

    if (planner->capacity_bytes == UINT64_MAX) {
        return UINT64_MAX;
    }
    for (s = 0; s < planner->n_places; s++) {
        uint32_t n = 0;

        for (t = 0; t < planner->n_places; t++) {
            n += planner->device_of[t] == planner->device_of[s];
        }
        most = n > most ? n : most;
    }
    return planner->capacity_bytes / most;
}

static pst_status ask(struct pst_planner *planner, struct answer *answer, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_cluster_device *devices =
        pst_arena_array(&arena, planner->n_places, sizeof *devices);
    const uint32_t one = 1;
    struct pst_cluster_view cluster = {
        .size = sizeof cluster,
        .n_devices = planner->n_places,
        .device_size = sizeof *devices,
        .devices = devices,
    };
    struct pst_partition_in in = {
        .size = sizeof in,
        .graph = planner->view,
        .cluster = &cluster,
        .batch = planner->batch,
        .micro_batches = planner->candidates,
        .degrees = planner->chooses ? planner->degrees : &one,
        .n_micro_batches = planner->n_candidates,
        .n_degrees = planner->chooses ? planner->n_degrees : 1,
        .n_stages = planner->topology.n_stages,
        .n_devices = planner->n_places,
        .capacity_bytes = capacity_of_stage(planner),
    };
    uint32_t i;
    pst_status st;

    if (devices == NULL) {
        return pst_fail_nomem(err);
    }
    for (i = 0; i < planner->n_places; i++) {
        devices[i] = (struct pst_cluster_device){
            .memory_bytes = in.capacity_bytes,
            .node = pst_cost_node(planner->cost, planner->device_of[i] * planner->degree),
            .speed = 1.0,
        };
    }
    pst_breadcrumb_enter(planner->partitioner->crumb, PST_CRUMB_PARTITION);
    st = planner->partitioner_if->partition(planner->partitioner->self, &in, &answer->out);
    pst_breadcrumb_leave();
    if (st == PST_OK && answer->refused) {
        st = planner->pending.status; /* it went on as though nothing had happened */
    }
    st = pst_planner_blame(planner, planner->partitioner, st, "partition", err);
    pst_arena_finish(&arena);
    return st;
}

pst_status pst_planner_partition(struct pst_planner *planner, struct pst_plan *plan,
                                 struct pst_error *err)
{
    struct answer answer = {
        .out = {.size = sizeof answer.out, .impl = &answer, .stage = add_stage},
        .planner = planner,
        .plan = plan,
        .owner = malloc((planner->graph->n_ops + 1) * sizeof *answer.owner),
        .taken = calloc(planner->n_places, sizeof *answer.taken),
        .ranks = calloc(planner->degree, sizeof *answer.ranks),
    };
    pst_status st;

    if (answer.owner == NULL || answer.taken == NULL || answer.ranks == NULL) {
        st = pst_fail_nomem(err);
    } else {
        memset(answer.owner, 0xFF, (planner->graph->n_ops + 1) * sizeof *answer.owner);
        st = ask(planner, &answer, err);
    }
    if (st == PST_OK) {
        st = check_whole(&answer, err);
    }
    if (st == PST_OK) {
        st = pst_plan_connect(plan, planner->graph, err);
    }
    free(answer.owner);
    free(answer.taken);
    free(answer.ranks);
    return st;
}
