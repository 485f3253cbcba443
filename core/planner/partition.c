/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the partitioner, and checking its answer stage by stage as it comes.
 */
#include "base/memory.h"
#include "host/call.h"
#include "planner/stage_rules.h"
#include "planner/state.h"

#include <stdlib.h>

struct answer {
    struct pst_partition_out out;
    struct pst_planner *planner;
    struct pst_plan *plan;
    struct pst_stage_rules rules;
    uint32_t *ranks; /* [degree] of the stage */
    bool refused;    /* pending says why */
};

/* The ranks that it named, or all of the logical device that its place is on. */
static pst_status place_stage(struct answer *a, const struct pst_stage_decl *decl)
{
    const struct pst_planner *planner = a->planner;
    const uint32_t *ranks = decl->ranks;
    uint32_t n = decl->n_ranks, first;

    if (!planner->chooses) {
        first = planner->device_of[decl->ranks[0]] * planner->degree;
        n = planner->degree;
        for (uint32_t i = 0; i < n; i++) {
            a->ranks[i] = first + i;
        }
        ranks = a->ranks;
    }
    pst_plan_add_stage(a->plan, decl->nodes, decl->n_nodes, ranks, n, decl->microbatch_size,
                       decl->k);
    return PST_OK;
}

static pst_status add_stage(struct pst_partition_out *out, const struct pst_stage_decl *decl)
{
    struct answer *a = out->impl;
    struct pst_error *pending = &a->planner->pending;
    pst_status st = PST_OK;

    if (a->refused) {
        return pending->status; /* one violation is enough */
    }
    if (!pst_stage_rules_add(&a->rules, decl)) {
        st = pst_planner_illegal(pending, a->planner->partitioner, "%s", a->rules.fault);
    }
    if (st == PST_OK) {
        st = place_stage(a, decl);
    }
    a->refused = st != PST_OK;
    return st;
}

static pst_status check_whole(struct answer *a, struct pst_error *err)
{
    const struct pst_planner *planner = a->planner;
    uint32_t wanted = planner->topology.n_stages;

    if (!pst_stage_rules_end(&a->rules)) {
        return pst_planner_illegal(err, planner->partitioner, "%s", a->rules.fault);
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
    if (planner->capacity_bytes == UINT64_MAX || planner->undivided) {
        return planner->capacity_bytes;
    }
    return planner->capacity_bytes / pst_planner_sharers(planner);
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

    for (i = 0; i < planner->n_places; i++) {
        devices[i] = (struct pst_cluster_device){
            .memory_bytes = in.capacity_bytes,
            .node = pst_cost_node(planner->cost, planner->device_of[i] * planner->degree),
            .speed = 1.0,
        };
    }
    pst_stage_rules_init(&answer->rules, &in);
    planner->asked = &in;
    st = pst_call_partition(planner->partitioner, &in, &answer->out);
    planner->asked = NULL;
    answer->rules.sizes = answer->rules.degrees = NULL; /* of this call */
    if (st == PST_OK && answer->refused) {
        st = planner->pending.status; /* it went on as though nothing had happened */
    }
    st = pst_instance_blame(planner->partitioner, &planner->pending, st, "partition", err);
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
        .ranks = pst_alloc(planner->degree, sizeof *answer.ranks),
    };
    pst_status st = ask(planner, &answer, err);

    planner->work += 2 * (uint64_t)planner->graph->n_ops * planner->graph->n_ops; /* a search */
    if (st == PST_OK) {
        st = check_whole(&answer, err);
    }
    if (st == PST_OK) {
        st = pst_plan_connect(plan, planner->graph, err);
    }
    pst_stage_rules_finish(&answer.rules);
    free(answer.ranks);
    return st;
}

pst_status pst_planner_suppose(struct pst_planner *planner, const struct pst_stage_decl *stages,
                               uint32_t n_stages, struct pst_plan *plan, struct pst_error *err)
{
    struct answer answer = {
        .out = {.size = sizeof answer.out, .impl = &answer},
        .planner = planner,
        .plan = plan,
        .ranks = pst_alloc(planner->degree, sizeof *answer.ranks),
    };
    const char *at = (const char *)stages;
    pst_status st = PST_OK;

    pst_stage_rules_init(&answer.rules, planner->asked);
    for (uint32_t s = 0; st == PST_OK && s < n_stages; s++, at += stages->size) {
        st = add_stage(&answer.out, (const struct pst_stage_decl *)(const void *)at);
        if (st != PST_OK) {
            *err = planner->pending;
        }
    }
    if (st == PST_OK) {
        st = check_whole(&answer, err);
    }
    if (st == PST_OK) {
        st = pst_plan_connect(plan, planner->graph, err);
    }
    pst_stage_rules_finish(&answer.rules);
    free(answer.ranks);
    return st;
}
