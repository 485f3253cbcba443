/* SPDX-License-Identifier: Apache-2.0
 *
 * Who answers plugins' questions (questions.h): of a job its cost model and the figures of its
 * cluster, of a problem file the costs of its graph. The scheduler and the memory optimizers of
 * either say what stages hold and cost, or for a problem file without them the reference cost
 * model. A partitioner that does not choose replicas takes a logical device for one; it is told
 * what each of its ranks does.
 */
#include "planner/questions.h"

#include <math.h>

#include "base/util.h"
#include "host/call.h"
#include "planner/optimizer.h"
#include "planner/state.h"

/* --- costs -------------------------------------------------------------------------------------*/

/* To the nearest; what passes 63 bits stays there. */
static uint64_t whole(double number)
{
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)llround(number);
}

/* Schedulers that fix the number of stages say where each of them is, and of no more. */
struct pst_question_limits pst_answer_limits(const struct pst_planner *planner)
{
    bool job = planner->problem == NULL;

    return (struct pst_question_limits){
        .open = !job || planner->asked != NULL,
        .n_nodes = job ? planner->graph->n_ops : planner->view->n_nodes,
        .batch = planner->batch,
        .n_places = planner->places.n,
        .most_stages = job && planner->topology.n_stages != 0 ? planner->places.n : UINT32_MAX,
        .share = job ? planner->degree : 1,
        .in_samples = !job,
    };
}

void pst_answer_node_ns(const struct pst_planner *planner, uint32_t node, uint32_t samples,
                        double ret_ns[3])
{
    uint32_t share = planner->degree;
    struct pst_times times;

    if (planner->problem != NULL) {
        pst_costed_node_ns(planner->problem->graph, node, samples, ret_ns);
        return;
    }
    pst_cost_op(planner->cost, node, (samples + share - 1) / share, &times);
    ret_ns[0] = (double)times.forward_ns;
    ret_ns[1] = (double)times.backward_input_ns;
    ret_ns[2] = (double)times.backward_weight_ns;
}

void pst_answer_compute(const struct pst_planner *planner, const struct pst_instance *who,
                        const uint32_t *nodes, uint32_t n_nodes, uint32_t samples,
                        struct pst_times *ret_times)
{
    uint32_t share = who == planner->partitioner ? planner->degree : 1;
    double sum[3] = {0, 0, 0};

    if (planner->problem == NULL) {
        pst_cost_ops(planner->cost, nodes, n_nodes, (samples + share - 1) / share, ret_times);
        return;
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        double ns[3];

        pst_costed_node_ns(planner->problem->graph, nodes[i], samples, ns);
        for (uint32_t pass = 0; pass < 3; pass++) {
            sum[pass] += ns[pass];
        }
    }
    *ret_times = (struct pst_times){whole(sum[0]), whole(sum[1]), whole(sum[2])};
}

/* To a partitioner a rank is a place, of which several may be on one device; to a scheduler it is a
   logical device, whose first rank stands for it. */
static uint32_t rank_of(const struct pst_planner *planner, const struct pst_instance *who,
                        uint32_t device)
{
    if (who == planner->partitioner && !planner->chooses && device < planner->places.n) {
        return pst_places_device(&planner->places, device) * planner->degree;
    }
    if (who == planner->scheduler && planner->first_rank != NULL && device < planner->n_ranks) {
        return planner->first_rank[device];
    }
    return device;
}

uint64_t pst_answer_transfer_ns(const struct pst_planner *planner, const struct pst_instance *who,
                                uint64_t bytes, uint32_t from, uint32_t to)
{
    if (planner->problem != NULL) {
        return from == to ? 0 : whole(pst_rcm_transfer_ns(planner->problem, (double)bytes));
    }
    return pst_cost_transfer_ns(planner->cost, bytes, rank_of(planner, who, from),
                                rank_of(planner, who, to));
}

uint64_t pst_answer_allreduce_ns(const struct pst_planner *planner, uint64_t bytes,
                                 uint32_t n_ranks)
{
    if (planner->problem == NULL) {
        return pst_cost_allreduce_ns(planner->cost, bytes, n_ranks);
    }
    return n_ranks < 2 ? 0 : whole(pst_rcm_allreduce_ns(planner->problem, (double)bytes, n_ranks));
}

bool pst_answer_cancelled(const struct pst_planner *planner)
{
    return (planner->cancelled != NULL && planner->cancelled()) ||
           pst_search_is_late(planner->deadline_ns);
}

/* --- what stages hold and cost -----------------------------------------------------------------*/

pst_status pst_answer_held(struct pst_planner *planner, const struct pst_place *place,
                           struct pst_held *ret_held, struct pst_error *err)
{
    struct pst_place asked = *place;

    if (planner->reference) {
        ret_held->microbatches = (uint32_t)(pst_rcm_in_flight(place) / place->microbatch_size);
        ret_held->weight_versions = 1;
        return PST_OK;
    }
    asked.n_devices = pst_planner_logical(planner, place->n_stages);
    return pst_planner_held(planner, &asked, ret_held, err);
}

static double reference_ns(struct pst_planner *planner, const struct pst_stage_question *q,
                           struct pst_rcm_cost *ret_cost)
{
    const struct pst_rcm_stage stage = {.nodes = q->nodes,
                                        .n_nodes = q->n_nodes,
                                        .n_ranks = q->n_ranks,
                                        .microbatch_size = q->microbatch_size};

    pst_rcm_cost(&planner->rcm, &stage, ret_cost);
    return ret_cost->pass_ns[0] + ret_cost->pass_ns[1] + ret_cost->pass_ns[2];
}

static void reference_price(struct pst_planner *planner, const struct pst_stage_question *q,
                            struct pst_stage_price *ret_price)
{
    double capacity, bytes;
    struct pst_rcm_cost cost;

    ret_price->period_ns = whole(reference_ns(planner, q, &cost));
    bytes = pst_rcm_memory(planner->problem, &cost, q->n_ranks,
                           (uint64_t)q->in_flight * q->microbatch_size, q->weight_versions);
    capacity = q->capacity_bytes == UINT64_MAX ? (double)INFINITY : (double)q->capacity_bytes;
    ret_price->fits = pst_rcm_fits(capacity, bytes);
    ret_price->peak_bytes =
        ret_price->fits && bytes > capacity ? q->capacity_bytes : whole(ceil(bytes));
}

pst_status pst_answer_price(struct pst_planner *planner, const struct pst_stage_question *question,
                            struct pst_stage_price *ret_price, struct pst_error *err)
{
    if (planner->reference) {
        reference_price(planner, question, ret_price);
        return PST_OK;
    }
    return pst_planner_price(planner, question, ret_price, err);
}

/* With one optimizer its own bound; decisions of several depend on each other, so the sum of times,
   which no plan goes below. */
pst_status pst_answer_bound(struct pst_planner *planner, const struct pst_stage_question *question,
                            uint64_t *ret_period_ns, struct pst_error *err)
{
    const struct pst_optimizer optimizer = {.instance =
                                                planner->n_memopt == 1 ? planner->memopt[0] : NULL,
                                            .evaluator = &planner->evaluator};
    struct pst_stage_node *nodes;
    struct pst_stage_view view;
    struct pst_rcm_cost cost;
    pst_status st;

    if (planner->reference) {
        *ret_period_ns = whole(reference_ns(planner, question, &cost));
        return PST_OK;
    }
    st = pst_view_charge(planner, question, &nodes, &view, err);
    return st == PST_OK ? pst_optimizer_bound(&optimizer, &view, ret_period_ns, err) : st;
}

/* --- pst.profile/1 -----------------------------------------------------------------------------*/

/* All ranks may take part in a reduction, so the links of nodes count where there are several. */
static void job_figures(struct pst_planner *planner)
{
    const struct pst_cluster *cluster = planner->cluster;
    const struct pst_graph_view *view = planner->view;
    double *saved = pst_arena_array(&planner->arena, view->n_nodes, sizeof *saved);
    double *edges = pst_arena_array(&planner->arena, view->n_edges, sizeof *edges);
    struct pst_figures figures;

    for (uint32_t i = 0; i < view->n_nodes; i++) {
        saved[i] = (double)pst_graph_node(view, i)->saved_bytes / planner->degree;
    }
    for (uint32_t i = 0; i < view->n_edges; i++) {
        edges[i] = (double)pst_graph_edge(view, i)->bytes / planner->degree;
    }
    figures = (struct pst_figures){
        .size = sizeof figures,
        .comm_model = PST_COMM_MAX,
        .node_size = (uint32_t)cluster->node_size,
        .weight_multiplier = 2.0 + planner->optimizer_slots,
        .p2p_bytes_per_s = (double)cluster->link_bandwidth,
        .allreduce_bytes_per_s = (double)(cluster->node_size > 0 ? cluster->node_link_bandwidth
                                                                 : cluster->link_bandwidth),
        .saved_bytes = saved,
        .edge_bytes = edges,
    };
    pst_lend_figures(&figures, view->n_nodes, view->n_edges, &planner->figures);
}

static void problem_figures(struct pst_planner *planner)
{
    const struct pst_problem *problem = planner->problem;
    const struct pst_costed *graph = problem->graph;
    const struct pst_figures figures = {.size = sizeof figures,
                                        .comm_model = problem->comm_model,
                                        .reference = problem->planned ? 0 : 1,
                                        .node_size = problem->node_size,
                                        .weight_multiplier = problem->weight_multiplier,
                                        .p2p_bytes_per_s = problem->p2p_bandwidth,
                                        .allreduce_bytes_per_s = problem->allreduce_bandwidth,
                                        .saved_bytes = graph->saved_bytes,
                                        .edge_bytes = graph->edge_bytes};

    pst_lend_figures(&figures, graph->n_nodes, graph->n_edges, &planner->figures);
}

void pst_planner_figures(struct pst_planner *planner)
{
    if (planner->problem != NULL) {
        problem_figures(planner);
    } else {
        job_figures(planner);
    }
}
