/* SPDX-License-Identifier: Apache-2.0
 *
 * The question to a partitioner; the stages of a job, checked as they come.
 */
#include <string.h>

#include "graph/split.h"
#include "planner/stage_rules.h"
#include "planner/state.h"

struct answer {
    struct pst_stage_intake intake;
    const struct pst_planner_devices *devices;
    struct pst_plan *plan;
};

/* The ranks that it named, or all of the logical devices that its place is on, copy by copy. */
static void take_stage(void *self, const struct pst_stage_decl *decl)
{
    struct answer *a = self;
    const uint32_t *ranks = decl->ranks;
    uint32_t n = decl->n_ranks;

    if (!a->devices->chooses) {
        ranks = pst_place_ranks(a->devices, decl->ranks[0]);
        n = a->devices->degree;
    }
    pst_plan_add_stage(a->plan, decl->nodes, decl->n_nodes, ranks, n, decl->microbatch_size,
                       decl->k);
}

static void begin_answer(struct answer *a, const struct pst_planner *planner, struct pst_plan *plan)
{
    *a = (struct answer){
        .intake = {.partitioner = planner->strategies.partitioner->plugin->id,
                   .scheduler = planner->strategies.scheduler->plugin->id,
                   .take = take_stage,
                   .self = a},
        .devices = &planner->devices,
        .plan = plan,
    };
}

/* Capacity of a device for one of the stages that share it. */
static uint64_t capacity_of_stage(const struct pst_planner *planner, uint32_t place)
{
    const struct pst_planner_devices *devices = &planner->devices;
    uint64_t capacity =
        planner->in.cluster->n_kinds == 0
            ? planner->attempt.capacity_bytes
            : pst_planner_capacity(planner, pst_place_ranks(devices, place), devices->degree);

    return capacity == UINT64_MAX || planner->attempt.undivided ? capacity
                                                                : capacity / devices->places.shared;
}

/* Places as partitioners see them. What `speed` tells is what products reach. */
static struct pst_cluster_device *describe_places(const struct pst_planner *planner,
                                                  struct pst_arena *arena)
{
    const struct pst_planner_devices *of = &planner->devices;
    const struct pst_cluster *cluster = planner->in.cluster;
    uint32_t n = of->places.n, n_kinds = 0, k;
    struct pst_cluster_device *devices = pst_arena_array(arena, n, sizeof *devices);
    struct pst_cluster *kinds = NULL, room;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = pst_places_device(&of->places, i) * of->width;

        devices[i] = (struct pst_cluster_device){.memory_bytes = capacity_of_stage(planner, i),
                                                 .node = pst_cost_node(planner->in.cost, rank),
                                                 .speed = 1.0};
        if (cluster->n_kinds == 0) {
            continue;
        }
        kinds = kinds == NULL ? pst_arena_array(arena, n, sizeof *kinds) : kinds;
        kinds[n_kinds] = *pst_cluster_on(cluster, pst_place_ranks(of, i), of->degree, &room);
        for (k = 0; !pst_cluster_equal(&kinds[k], &kinds[n_kinds]); k++) {
        }
        n_kinds += k == n_kinds ? 1 : 0;
        devices[i].kind = k;
        devices[i].speed = kinds[k].flops * kinds[k].efficiency /
                           (kinds[k].stated->flops * kinds[k].stated->efficiency);
    }
    return devices;
}

/* As pst_graph_split has it, and nodes of one size. */
static bool needs_one_degree(const struct pst_planner_in *in)
{
    const struct pst_cluster *cluster = in->cluster;

    return in->job->n_ways > 0 || !pst_ways_mix(in->job->parallel.ways) ||
           (cluster->node_size > 0 && cluster->node_size < cluster->devices);
}

void pst_planner_state(const struct pst_planner *planner, struct pst_arena *arena,
                       struct pst_partition_in *ret_in)
{
    static const uint32_t one = 1;
    const struct pst_planner_devices *of = &planner->devices;
    const uint32_t n_tensors = planner->in.n_tensors;
    uint32_t n = of->places.n, n_degrees = of->chooses ? of->n_degrees : 0;
    struct pst_cluster_device *devices = describe_places(planner, arena);
    struct pst_cluster_view *cluster = pst_arena_array(arena, 1, sizeof *cluster);
    uint64_t capacity = UINT64_MAX;

    for (uint32_t i = 0; i < n; i++) {
        capacity = devices[i].memory_bytes < capacity ? devices[i].memory_bytes : capacity;
    }
    *cluster = (struct pst_cluster_view){.size = sizeof *cluster,
                                         .n_devices = n,
                                         .device_size = sizeof *devices,
                                         .devices = devices};
    *ret_in = (struct pst_partition_in){
        .size = sizeof *ret_in,
        .graph = planner->view,
        .cluster = cluster,
        .batch = planner->sizes.batch,
        .micro_batches = planner->sizes.candidates,
        .degrees = n_degrees > 0 ? of->degrees : &one,
        .n_micro_batches = planner->sizes.n_candidates,
        .n_degrees = n_degrees > 0 ? n_degrees : 1,
        .n_stages = of->places.n_stages,
        .n_devices = n,
        .capacity_bytes = capacity,
        .tensors = n_tensors > 0 ? planner->in.tensors : &one,
        .n_tensors = n_tensors > 0 ? n_tensors : 1,
    };
    if (n_tensors > 1) {
        uint32_t *tied = pst_arena_array(arena, planner->in.graph->n_ops, sizeof *tied);

        pst_graph_tie_degrees(planner->in.graph, needs_one_degree(&planner->in), tied);
        ret_in->tied = tied;
        ret_in->n_tied = planner->in.graph->n_ops;
    }
}

pst_status pst_planner_ask(struct pst_planner *planner, struct pst_instance *partitioner,
                           struct pst_stage_intake *intake, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_partition_in in;
    pst_status status;

    pst_planner_state(planner, &arena, &in);
    planner->asked = &in;
    status = pst_stage_intake_ask(intake, partitioner, &in, &planner->pending, err);
    planner->asked = NULL;
    pst_arena_finish(&arena);
    return status;
}

/* --- stages alone ------------------------------------------------------------------------------*/

struct stages {
    struct pst_stage_decl *decls;
    uint32_t n;
    struct pst_arena *arena;
};

static void keep_stage(void *self, const struct pst_stage_decl *decl)
{
    struct stages *stages = self;
    uint32_t *nodes = pst_arena_array(stages->arena, decl->n_nodes, sizeof *nodes);
    uint32_t *ranks = pst_arena_array(stages->arena, decl->n_ranks, sizeof *ranks);

    memcpy(nodes, decl->nodes, decl->n_nodes * sizeof *nodes);
    memcpy(ranks, decl->ranks, decl->n_ranks * sizeof *ranks);
    stages->decls[stages->n++] = (struct pst_stage_decl){.size = sizeof *decl,
                                                         .nodes = nodes,
                                                         .n_nodes = decl->n_nodes,
                                                         .ranks = ranks,
                                                         .n_ranks = decl->n_ranks,
                                                         .microbatch_size = decl->microbatch_size,
                                                         .k = decl->k,
                                                         .tensor = pst_stage_tensor(decl)};
}

pst_status pst_planner_cut(struct pst_planner *planner, struct pst_arena *arena,
                           struct pst_cuts *ret_cuts, struct pst_error *err)
{
    struct pst_instance *partitioner = planner->strategies.partitioner;
    struct stages stages = {.arena = arena}; /* no two share a rank */
    struct pst_partition_remark *remarks;
    struct answer answer;
    pst_status status;

    stages.decls = pst_arena_array(arena, planner->devices.places.n, sizeof *stages.decls);
    begin_answer(&answer, planner, NULL);
    answer.intake.take = keep_stage;
    answer.intake.self = &stages;
    status = pst_planner_ask(planner, partitioner, &answer.intake, err);
    if (status == PST_OK) {
        *ret_cuts = (struct pst_cuts){
            .stages = stages.decls, .n_stages = stages.n, .remarks.n = partitioner->remarks.n};
        pst_remarks_copy(&partitioner->remarks, arena, &remarks);
        memcpy(ret_cuts->remarks.items, remarks, ret_cuts->remarks.n * sizeof *remarks);
    }
    return status;
}

/* Settled stages go the way of an answer. */
static pst_status take_cuts(struct pst_planner *planner, const struct pst_cuts *cuts,
                            struct pst_plan *plan, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_partition_in in;
    pst_status status;

    pst_planner_state(planner, &arena, &in);
    planner->asked = &in;
    status = pst_planner_suppose(planner, cuts->stages, cuts->n_stages, plan, err);
    planner->asked = NULL;
    pst_arena_finish(&arena);
    return status;
}

/* --- a plan's stages ---------------------------------------------------------------------------*/

pst_status pst_planner_partition(struct pst_planner *planner, struct pst_plan *plan,
                                 struct pst_error *err)
{
    const struct pst_graph *graph = planner->in.graph;
    struct answer answer;
    pst_status status;

    if (planner->in.job->cuts != NULL) {
        return take_cuts(planner, planner->in.job->cuts, plan, err);
    }
    begin_answer(&answer, planner, plan);
    status = pst_planner_ask(planner, planner->strategies.partitioner, &answer.intake, err);
    planner->work += 2 * (uint64_t)graph->n_ops * graph->n_ops; /* a search */
    return status == PST_OK ? pst_plan_connect(plan, graph, err) : status;
}

pst_status pst_planner_suppose(struct pst_planner *planner, const struct pst_stage_decl *stages,
                               uint32_t n_stages, struct pst_plan *plan, struct pst_error *err)
{
    struct answer answer;
    struct pst_partition_out *out = &answer.intake.out;
    const char *at = (const char *)stages;
    pst_status status = PST_OK;

    begin_answer(&answer, planner, plan);
    pst_stage_intake_begin(&answer.intake, planner->asked);
    for (uint32_t s = 0; status == PST_OK && s < n_stages; s++, at += stages->size) {
        status = out->stage(out, (const struct pst_stage_decl *)(const void *)at);
    }
    status = pst_stage_intake_end(&answer.intake, err);
    return status == PST_OK ? pst_plan_connect(plan, planner->in.graph, err) : status;
}
