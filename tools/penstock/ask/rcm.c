/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/rcm.h"

#include <string.h>

#include <penstock/ext/profile.h>

void pst_rcm_init(struct pst_rcm *rcm, const struct pst_problem *problem, struct pst_arena *arena)
{
    *rcm = (struct pst_rcm){
        .problem = problem,
        .stamps = pst_arena_array(arena, problem->graph->n_nodes, sizeof *rcm->stamps),
    };
}

static void mark(struct pst_rcm *rcm, const struct pst_rcm_stage *stage)
{
    if (++rcm->stamp == 0) {
        memset(rcm->stamps, 0, rcm->problem->graph->n_nodes * sizeof *rcm->stamps);
        rcm->stamp = 1;
    }
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        rcm->stamps[stage->nodes[i]] = rcm->stamp;
    }
}

/* Bytes of one sample on the edges that are cut at this node. */
static double cut_bytes(const struct pst_rcm *rcm, uint32_t v)
{
    const struct pst_costed *graph = rcm->problem->graph;
    const struct pst_node *node = pst_graph_node(&graph->view, v);
    double bytes = 0;

    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t e = graph->view.in_edges[node->first_in + i];

        bytes += rcm->stamps[graph->edges[e].from] != rcm->stamp ? graph->edge_bytes[e] : 0;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        uint32_t e = graph->view.out_edges[node->first_out + i];

        bytes += rcm->stamps[graph->edges[e].to] != rcm->stamp ? graph->edge_bytes[e] : 0;
    }
    return bytes;
}

static double max(double a, double b)
{
    return a > b ? a : b;
}

double pst_rcm_transfer_ns(const struct pst_problem *problem, double bytes)
{
    return problem->p2p_bandwidth > 0 ? bytes / problem->p2p_bandwidth * 1e9 : 0;
}

double pst_rcm_allreduce_ns(const struct pst_problem *problem, double bytes, uint32_t n_ranks)
{
    double d = n_ranks;

    return problem->allreduce_bandwidth > 0
               ? 2.0 * (d - 1.0) / d * bytes / problem->allreduce_bandwidth * 1e9
               : 0;
}

double pst_rcm_total(const struct pst_problem *problem, double compute_ns, double transfer_ns,
                     double reduce_ns)
{
    switch (problem->comm_model) {
    case PST_COMM_SUM:
        return compute_ns + transfer_ns + reduce_ns;
    case PST_COMM_MAX:
        return max(compute_ns, max(transfer_ns, reduce_ns));
    default:
        return compute_ns + reduce_ns;
    }
}

void pst_rcm_cost(struct pst_rcm *rcm, const struct pst_rcm_stage *stage,
                  struct pst_rcm_cost *ret_cost)
{
    const struct pst_problem *problem = rcm->problem;
    const struct pst_costed *graph = problem->graph;
    struct pst_rcm_cost cost = {.weight_bytes = 0};
    uint32_t samples = stage->microbatch_size / stage->n_ranks;
    double bytes = 0;

    mark(rcm, stage);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        uint32_t v = stage->nodes[i];
        const struct pst_costed_node *node = &graph->nodes[v];
        double ns[3];

        pst_costed_node_ns(graph, v, samples, ns);
        for (uint32_t pass = 0; pass < 3; pass++) {
            cost.pass_ns[pass] += ns[pass];
        }
        cost.weight_bytes += node->param_bytes;
        cost.saved_bytes += graph->saved_bytes[v];
        cost.workspace_bytes =
            max(cost.workspace_bytes, max(node->workspace_bytes, node->backward_workspace_bytes));
        bytes += cut_bytes(rcm, v);
    }
    cost.compute_ns =
        (cost.pass_ns[0] + cost.pass_ns[1] + cost.pass_ns[2]) / stage->microbatch_size;
    cost.transfer_ns = 2.0 * pst_rcm_transfer_ns(problem, bytes) / stage->n_ranks;
    cost.reduce_ns = pst_rcm_allreduce_ns(problem, cost.weight_bytes, stage->n_ranks) /
                     (double)problem->mini_batch;
    cost.total_ns = pst_rcm_total(problem, cost.compute_ns, cost.transfer_ns, cost.reduce_ns);
    *ret_cost = cost;
}

double pst_rcm_memory(const struct pst_problem *problem, const struct pst_rcm_cost *cost,
                      uint32_t n_ranks, uint64_t in_flight_samples, uint32_t weight_versions)
{
    double samples = in_flight_samples < problem->mini_batch ? (double)in_flight_samples
                                                             : (double)problem->mini_batch;

    return (problem->weight_multiplier + weight_versions - 1.0) * cost->weight_bytes +
           cost->saved_bytes * samples / n_ranks + cost->workspace_bytes;
}

bool pst_rcm_fits(double capacity_bytes, double bytes)
{
    return bytes <= capacity_bytes * (1.0 + 1e-12);
}

static uint64_t round_up(uint64_t samples, uint64_t size)
{
    return (samples + size - 1) / size * size;
}

uint64_t pst_rcm_in_flight(const struct pst_place *place)
{
    uint64_t b = place->microbatch_size, group = b * place->k;
    uint64_t most = b * place->n_microbatches, least = group;

    for (uint32_t i = 0; i < place->n_successors; i++) {
        const struct pst_successor *next = pst_place_successor(place, i);
        uint64_t their = next->microbatch_size, their_group = their * next->k;
        uint64_t held = their * next->in_flight + (group > their ? group : their) +
                        (b > their_group ? b - their_group : 0);

        held = round_up(held, b);
        least = held > least ? held : least;
    }
    return least < most ? least : most;
}
