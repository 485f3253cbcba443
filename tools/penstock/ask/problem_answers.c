/* SPDX-License-Identifier: Apache-2.0
 *
 * A problem file's answers to its plugins: times are those of its graph and links. About stages the
 * reference cost model answers, or the strategies that the file names.
 */
#include <math.h>

#include "ask/problem_state.h"
#include "base/util.h"
#include "planner/optimizer.h"

static const struct pst_problem *problem_of(const struct pst_cost_model *cost)
{
    return ((const struct pst_problem_cost *)(const void *)cost)->problem;
}

/* To the nearest; what passes 63 bits stays there. */
static uint64_t whole(double number)
{
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)llround(number);
}

/* --- times -------------------------------------------------------------------------------------*/

static void compute_nodes(const struct pst_cost_model *cost, const uint32_t *nodes,
                          uint32_t n_nodes, uint32_t samples, struct pst_times *ret_times)
{
    double sum[3] = {0, 0, 0};

    for (uint32_t i = 0; i < n_nodes; i++) {
        double ns[3];

        pst_costed_node_ns(problem_of(cost)->graph, nodes[i], samples, ns);
        for (uint32_t pass = 0; pass < 3; pass++) {
            sum[pass] += ns[pass];
        }
    }
    *ret_times = (struct pst_times){whole(sum[0]), whole(sum[1]), whole(sum[2])};
}

static uint64_t transfer_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t from,
                            uint32_t to)
{
    return from == to ? 0 : whole(pst_rcm_transfer_ns(problem_of(cost), (double)bytes));
}

static uint64_t allreduce_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t n_ranks)
{
    return n_ranks < 2 ? 0 : whole(pst_rcm_allreduce_ns(problem_of(cost), (double)bytes, n_ranks));
}

static void node_ns(const struct pst_cost_model *cost, uint32_t node, uint32_t samples,
                    double ret_ns[3])
{
    pst_costed_node_ns(problem_of(cost)->graph, node, samples, ret_ns);
}

/* --- figures, configs --------------------------------------------------------------------------*/

void pst_problem_figures(struct pst_problem_planner *planner)
{
    const struct pst_problem *problem = planner->cost.problem;
    const struct pst_costed *graph = problem->graph;
    const struct pst_figures figures = {.size = sizeof figures,
                                        .comm_model = problem->comm_model,
                                        .reference = problem->planned ? 0 : 1,
                                        .node_size = problem->node_size,
                                        .weight_multiplier = problem->weight_multiplier,
                                        .p2p_bytes_per_s = problem->p2p_bandwidth,
                                        .allreduce_bytes_per_s = problem->allreduce_bandwidth,
                                        .saved_bytes = graph->saved_bytes,
                                        .edge_bytes = graph->edge_bytes,
                                        .problem = 1};

    pst_lend_figures(&figures, graph->n_nodes, graph->n_edges, &planner->planner.figures);
}

static uint32_t node_config(const struct pst_cost_model *cost, uint32_t node, uint32_t index,
                            struct pst_node_config *ret_config)
{
    const struct pst_costed *graph = problem_of(cost)->graph;

    if (index < graph->nodes[node].n_configs) {
        const struct pst_costed_config *config = &graph->nodes[node].configs[index];

        ret_config->tensor_degree = config->tensor_degree;
        ret_config->name = config->name;
        ret_config->ns_per_sample = config->ns / graph->batch;
        ret_config->param_bytes = config->param_bytes;
        ret_config->in_flight_bytes = config->in_flight_bytes / graph->batch;
        ret_config->fixed_bytes = config->fixed_bytes;
    }
    return graph->nodes[node].n_configs;
}

/* --- the reference cost model ------------------------------------------------------------------*/

static pst_status reference_in_flight(struct pst_planner *planner, const struct pst_place *place,
                                      struct pst_held *ret_held)
{
    (void)planner;
    ret_held->microbatches = (uint32_t)(pst_rcm_in_flight(place) / place->microbatch_size);
    ret_held->weight_versions = 1;
    return PST_OK;
}

static double reference_ns(struct pst_planner *planner, const struct pst_stage_question *q,
                           struct pst_rcm_cost *ret_cost)
{
    const struct pst_rcm_stage stage = {.nodes = q->nodes,
                                        .n_nodes = q->n_nodes,
                                        .n_ranks = q->n_ranks,
                                        .microbatch_size = q->microbatch_size};

    pst_rcm_cost(&((struct pst_problem_planner *)(void *)planner)->rcm, &stage, ret_cost);
    return ret_cost->pass_ns[0] + ret_cost->pass_ns[1] + ret_cost->pass_ns[2];
}

static pst_status reference_price(struct pst_planner *planner, const struct pst_stage_question *q,
                                  struct pst_stage_price *ret_price)
{
    double capacity, bytes;
    struct pst_rcm_cost cost;

    ret_price->period_ns = whole(reference_ns(planner, q, &cost));
    bytes = pst_rcm_memory(problem_of(planner->in.cost), &cost, q->n_ranks,
                           (uint64_t)q->in_flight * q->microbatch_size, q->weight_versions);
    capacity = q->capacity_bytes == UINT64_MAX ? (double)INFINITY : (double)q->capacity_bytes;
    ret_price->fits = pst_rcm_fits(capacity, bytes);
    ret_price->peak_bytes =
        ret_price->fits && bytes > capacity ? q->capacity_bytes : whole(ceil(bytes));
    return PST_OK;
}

static pst_status reference_bound(struct pst_planner *planner, const struct pst_stage_question *q,
                                  uint64_t *ret_period_ns)
{
    struct pst_rcm_cost cost;

    *ret_period_ns = whole(reference_ns(planner, q, &cost));
    return PST_OK;
}

/* --- a stage for the memory optimizer of the file ----------------------------------------------*/

static pst_status view_stage(struct pst_planner *planner, const struct pst_stage_question *q,
                             struct pst_stage_node **ret_nodes, struct pst_stage_view *ret_view,
                             struct pst_error *err)
{
    (void)err;
    *ret_nodes = pst_costed_stage_build(&((struct pst_problem_planner *)(void *)planner)->costed,
                                        q->nodes, q->n_nodes, q->microbatch_size / q->n_ranks,
                                        q->weight_versions, ret_view);
    pst_view_state(q, ret_view);
    return PST_OK;
}

static pst_status refuse_stage(const struct pst_planner *planner,
                               const struct pst_stage_question *q, uint64_t bytes,
                               struct pst_error *err)
{
    const struct pst_graph_view *graph = planner->view;
    char needed[32], capacity[32];

    return pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                    "stage %u (\"%s\" to \"%s\") with %u micro-batches of %u samples in flight "
                    "takes %s, more than the %s that are left on its device",
                    q->stage, pst_graph_node(graph, q->nodes[0])->name,
                    pst_graph_node(graph, q->nodes[q->n_nodes - 1])->name, q->in_flight,
                    q->microbatch_size, pst_format_bytes(needed, bytes),
                    pst_format_bytes(capacity, q->capacity_bytes));
}

const struct pst_answers pst_reference_answers = {
    .in_samples = true,
    .compute = compute_nodes,
    .transfer = transfer_ns,
    .allreduce = allreduce_ns,
    .in_flight = reference_in_flight,
    .price = reference_price,
    .bound = reference_bound,
    .node_ns = node_ns,
    .config = node_config,
};

const struct pst_answers pst_planned_answers = {
    .in_samples = true,
    .compute = compute_nodes,
    .transfer = transfer_ns,
    .allreduce = allreduce_ns,
    .in_flight = pst_strategies_in_flight,
    .price = pst_strategies_price,
    .bound = pst_strategies_bound,
    .node_ns = node_ns,
    .config = node_config,
    .view = view_stage,
    .refuse = refuse_stage,
};
