/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the partitioner, and checking its answer stage by stage as it comes.
 */
#include "base/memory.h"
#include "planner/stage_rules.h"
#include "planner/state.h"

#include <stdlib.h>

struct answer {
    struct pst_stage_intake intake;
    struct pst_planner *planner;
    struct pst_plan *plan;
    uint32_t *ranks; /* [degree] of the stage */
};

/* The ranks that it named, or all of the logical device that its place is on. */
static void take_stage(void *self, const struct pst_stage_decl *decl)
{
    struct answer *a = self;
    const struct pst_planner *planner = a->planner;
    const uint32_t *ranks = decl->ranks;
    uint32_t n = decl->n_ranks, first;

    if (!planner->chooses) {
        first = pst_places_device(&planner->places, decl->ranks[0]) * planner->degree;
        n = planner->degree;
        for (uint32_t i = 0; i < n; i++) {
            a->ranks[i] = first + i;
        }
        ranks = a->ranks;
    }
    pst_plan_add_stage(a->plan, decl->nodes, decl->n_nodes, ranks, n, decl->microbatch_size,
                       decl->k);
}

static void init(struct answer *a, struct pst_planner *planner, struct pst_plan *plan)
{
    *a = (struct answer){
        .intake = {.partitioner = planner->partitioner,
                   .scheduler = planner->scheduler,
                   .take = take_stage,
                   .self = a},
        .planner = planner,
        .plan = plan,
        .ranks = pst_alloc(planner->degree, sizeof *a->ranks),
    };
}

/* Capacity of a device for one of the stages that share it. */
static uint64_t capacity_of_stage(const struct pst_planner *planner)
{
    if (planner->capacity_bytes == UINT64_MAX || planner->undivided) {
        return planner->capacity_bytes;
    }
    return planner->capacity_bytes / planner->places.shared;
}

static pst_status ask(struct pst_planner *planner, struct answer *answer, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_cluster_device *devices =
        pst_arena_array(&arena, planner->places.n, sizeof *devices);
    const uint32_t one = 1;
    struct pst_cluster_view cluster = {
        .size = sizeof cluster,
        .n_devices = planner->places.n,
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
        .n_devices = planner->places.n,
        .capacity_bytes = capacity_of_stage(planner),
    };
    uint32_t i;
    pst_status st;

    for (i = 0; i < planner->places.n; i++) {
        devices[i] = (struct pst_cluster_device){
            .memory_bytes = in.capacity_bytes,
            .node = pst_cost_node(planner->cost,
                                  pst_places_device(&planner->places, i) * planner->degree),
            .speed = 1.0,
        };
    }
    planner->asked = &in;
    st = pst_stage_intake_ask(&answer->intake, &in, &planner->pending, err);
    planner->asked = NULL;
    pst_arena_finish(&arena);
    return st;
}

pst_status pst_planner_partition(struct pst_planner *planner, struct pst_plan *plan,
                                 struct pst_error *err)
{
    struct answer answer;
    pst_status st;

    init(&answer, planner, plan);
    st = ask(planner, &answer, err);
    planner->work += 2 * (uint64_t)planner->graph->n_ops * planner->graph->n_ops; /* a search */
    free(answer.ranks);
    return st == PST_OK ? pst_plan_connect(plan, planner->graph, err) : st;
}

pst_status pst_planner_suppose(struct pst_planner *planner, const struct pst_stage_decl *stages,
                               uint32_t n_stages, struct pst_plan *plan, struct pst_error *err)
{
    struct answer answer;
    struct pst_partition_out *out = &answer.intake.out;
    const char *at = (const char *)stages;
    pst_status st = PST_OK;

    init(&answer, planner, plan);
    pst_stage_intake_begin(&answer.intake, planner->asked);
    for (uint32_t s = 0; st == PST_OK && s < n_stages; s++, at += stages->size) {
        st = out->stage(out, (const struct pst_stage_decl *)(const void *)at);
    }
    st = pst_stage_intake_end(&answer.intake, err);
    free(answer.ranks);
    return st == PST_OK ? pst_plan_connect(plan, planner->graph, err) : st;
}
