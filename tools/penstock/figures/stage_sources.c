/* SPDX-License-Identifier: Apache-2.0
 *
 * The sources of the figure of stages: a partitioner's answer, or a plan.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ask/problem_partition.h"
#include "base/util.h"
#include "figures/stage_figure.h"
#include "reports/plan_report.h"

static pst_status write_graph(const struct pst_stage_graph *graph, const char *path,
                              enum pst_figure_format format, struct pst_error *err)
{
    unsigned char *bytes = NULL;
    size_t length = 0;
    pst_status status = pst_stage_figure_render(graph, format, &bytes, &length, err);

    if (status == PST_OK) {
        status = pst_file_write(path, bytes, length, err);
        free(bytes);
    }
    return status;
}

pst_status pst_stage_figure_write_partition(const struct pst_problem *problem,
                                            const struct pst_partition_result *result,
                                            const char *path, enum pst_figure_format format,
                                            struct pst_error *err)
{
    struct pst_arena arena = {NULL, 0, 0};
    struct pst_stage_box *boxes = pst_arena_array(&arena, result->n_stages, sizeof *boxes);
    struct pst_stage_graph graph = {
        .n_stages = result->n_stages, .stages = boxes, .limit_bytes = problem->memory_bytes};
    char bottleneck[32];
    uint32_t depth = 0;
    pst_status status;

    for (uint32_t s = 0; s < result->n_stages; s++) {
        const struct pst_partition_stage *stage = &result->stages[s];
        const struct pst_costed_node *nodes = problem->graph->nodes;

        boxes[s] = (struct pst_stage_box){
            .first = nodes[stage->nodes[0]].name,
            .last = nodes[stage->nodes[stage->n_nodes - 1]].name,
            .n_nodes = stage->n_nodes,
            .n_devices = stage->n_ranks,
            .n_successors = stage->n_successors,
            .devices = stage->ranks,
            .successors = stage->successors,
            .microbatch_size = stage->microbatch_size,
            .in_flight_samples = stage->in_flight_samples,
            .time_ns = stage->compute_ns,
            .memory_bytes = stage->memory_bytes,
        };
        depth = stage->depth > depth ? stage->depth : depth;
    }
    pst_format_ns(bottleneck, (uint64_t)llround(fmin(result->bottleneck_ns, 9e18)));
    graph.title = pst_arena_printf(&arena, "%s: %s, %u stages on %u devices", problem->graph->name,
                                   result->id, result->n_stages, problem->n_devices);
    graph.subtitle =
        pst_arena_printf(&arena, "depth %u; slowest stage %s per sample", depth, bottleneck);
    status = write_graph(&graph, path, format, err);
    pst_arena_finish(&arena);
    return status;
}

/* Edges are sorted by the stage in which they begin. */
static void add_successors(const struct pst_plan *plan, uint32_t *ends, struct pst_stage_box *boxes)
{
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        struct pst_stage_box *box = &boxes[plan->edges[e].from];

        ends[e] = plan->edges[e].to;
        box->successors = box->n_successors == 0 ? &ends[e] : box->successors;
        box->n_successors++;
    }
}

void pst_stage_graph_of_plan(const struct pst_session *session, struct pst_arena *arena,
                             struct pst_stage_graph *ret_graph)
{
    const struct pst_plan *plan = session->planned.plan;
    struct pst_stage_report *reports = NULL;
    struct pst_stage_box *boxes = pst_arena_array(arena, plan->n_stages, sizeof *boxes);
    uint32_t *ends = pst_arena_array(arena, plan->n_edges + (size_t)1, sizeof *ends);

    pst_plan_report_stages(session, &reports);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        uint32_t *ranks = pst_arena_array(arena, stage->n_ranks, sizeof *ranks);

        memcpy(ranks, stage->ranks, stage->n_ranks * sizeof *ranks);
        boxes[s] = (struct pst_stage_box){
            .first = pst_arena_printf(arena, "%s", reports[s].first_operator),
            .last = pst_arena_printf(arena, "%s", reports[s].last_operator),
            .n_nodes = stage->n_nodes,
            .n_devices = stage->n_ranks,
            .devices = ranks,
            .microbatch_size = stage->microbatch_size,
            .in_flight_samples = stage->in_flight * stage->microbatch_size,
            .time_ns = (double)reports[s].forward_ns + (double)reports[s].backward_ns,
            .memory_bytes = (double)reports[s].static_bytes + (double)reports[s].activation_bytes,
            .lacks_bytes =
                plan->capacity_bytes == UINT64_MAX ? 0 : (double)pst_plan_lacks(plan, stage),
        };
    }
    free(reports);
    add_successors(plan, ends, boxes);
    *ret_graph = (struct pst_stage_graph){
        .title = pst_arena_printf(arena, "%s: %u stages on %u devices", session->graph->name,
                                  plan->n_stages, plan->n_devices),
        .subtitle =
            pst_arena_printf(arena, "%s, %s%s%s; batch %u", plan->partitioner, plan->scheduler,
                             plan->memopt[0] == '\0' ? "" : ", ", plan->memopt, plan->batch),
        .n_stages = plan->n_stages,
        .stages = boxes,
        .limit_bytes = plan->capacity_bytes == UINT64_MAX ? INFINITY : (double)plan->capacity_bytes,
    };
}

pst_status pst_stage_figure_write_plan(const struct pst_session *session, const char *path,
                                       enum pst_figure_format format, struct pst_error *err)
{
    struct pst_arena arena = {NULL, 0, 0};
    struct pst_stage_graph graph;
    pst_status status;

    pst_stage_graph_of_plan(session, &arena, &graph);
    status = write_graph(&graph, path, format, err);
    pst_arena_finish(&arena);
    return status;
}
