/* SPDX-License-Identifier: Apache-2.0
 *
 * A job's answers to its strategies, and what strategies answer about stages.
 */
#include "planner/answers.h"

#include "host/call.h"
#include "planner/optimizer.h"
#include "planner/state.h"

/* --- pst.profile/1 ----------------------------------------------------------------------------*/

static void node_ns(const struct pst_cost_model *cost, uint32_t node, uint32_t samples,
                    double ret_ns[3])
{
    struct pst_times times;

    pst_cost_op(cost, node, samples, &times);
    ret_ns[0] = (double)times.forward_ns;
    ret_ns[1] = (double)times.backward_input_ns;
    ret_ns[2] = (double)times.backward_weight_ns;
}

/* Copies of the weights that a device keeps: themselves, gradients, optimizer state. */
static double weight_multiplier(const struct pst_planner *planner)
{
    const int64_t zero = planner->in.job->parallel.zero;
    const double degree = planner->devices.degree;

    return 1 / (zero > 2 ? degree : 1) + 1 / (zero > 1 ? degree : 1) +
           (double)planner->in.optimizer_slots / (zero > 0 ? degree : 1);
}

/* All ranks may take part in a reduction, so the links of nodes count where there are several. */
void pst_job_figures(struct pst_planner *planner)
{
    const struct pst_cluster *cluster = planner->in.cluster;
    const struct pst_graph_view *view = planner->view;
    double *saved = pst_arena_array(&planner->arena, view->n_nodes, sizeof *saved);
    double *edges = pst_arena_array(&planner->arena, view->n_edges, sizeof *edges);
    struct pst_figures figures;

    for (uint32_t i = 0; i < view->n_nodes; i++) {
        saved[i] = (double)pst_graph_node(view, i)->saved_bytes / planner->devices.degree;
    }
    for (uint32_t i = 0; i < view->n_edges; i++) {
        edges[i] = (double)pst_graph_edge(view, i)->bytes / planner->devices.degree;
    }
    figures = (struct pst_figures){
        .size = sizeof figures,
        .comm_model = PST_COMM_MAX,
        .node_size = (uint32_t)cluster->node_size,
        .weight_multiplier = weight_multiplier(planner),
        .p2p_bytes_per_s = (double)cluster->link_bandwidth,
        .allreduce_bytes_per_s = (double)(cluster->node_size > 0 ? cluster->node_link_bandwidth
                                                                 : cluster->link_bandwidth),
        .saved_bytes = saved,
        .edge_bytes = edges,
    };
    pst_lend_figures(&figures, view->n_nodes, view->n_edges, &planner->figures);
}

/* --- strategies --------------------------------------------------------------------------------*/

pst_status pst_strategies_in_flight(struct pst_planner *planner, const struct pst_place *place,
                                    struct pst_held *ret_held)
{
    struct pst_place asked = *place;
    struct pst_memo_key key = pst_memo_key_place(place);
    struct pst_memo_entry *entry = pst_memo_find(&planner->memos.attempt, key);

    if (!entry->used) {
        pst_status status;

        asked.n_devices = pst_devices_under(&planner->devices, place->n_stages);
        status = pst_planner_held(planner, &asked, &entry->answer.held, &planner->pending);
        if (status != PST_OK) {
            return status;
        }
        pst_memo_keep(&planner->memos.attempt, entry, key);
    }
    ret_held->microbatches = entry->answer.held.microbatches;
    ret_held->weight_versions = entry->answer.held.weight_versions;
    return PST_OK;
}

pst_status pst_strategies_price(struct pst_planner *planner,
                                const struct pst_stage_question *question,
                                struct pst_stage_price *ret_price)
{
    struct pst_memo_key key = pst_memo_key_question(question);
    struct pst_memo_entry *entry = pst_memo_find(&planner->memos.attempt, key);

    if (!entry->used) {
        pst_status status =
            pst_planner_price(planner, question, &entry->answer.price, &planner->pending);

        if (status != PST_OK) {
            return status;
        }
        pst_memo_keep(&planner->memos.attempt, entry, key);
    }
    ret_price->fits = entry->answer.price.fits;
    ret_price->period_ns = entry->answer.price.period_ns;
    ret_price->peak_bytes = entry->answer.price.peak_bytes;
    return PST_OK;
}

/* With one optimizer its own bound; decisions of several depend on each other, so the sum of times,
   which no plan goes below. */
pst_status pst_strategies_bound(struct pst_planner *planner,
                                const struct pst_stage_question *question, uint64_t *ret_period_ns)
{
    const struct pst_optimizer optimizer = {
        .instance = planner->strategies.n_memopt == 1 ? planner->strategies.memopt[0] : NULL,
        .evaluator = &planner->evaluator};
    struct pst_stage_node *nodes;
    struct pst_stage_view view;
    pst_status status = planner->answers->view(planner, question, &nodes, &view, &planner->pending);

    return status == PST_OK
               ? pst_optimizer_bound(&optimizer, &view, ret_period_ns, &planner->pending)
               : status;
}

const struct pst_answers pst_job_answers = {
    .compute = pst_cost_ops,
    .transfer = pst_cost_transfer_ns,
    .allreduce = pst_cost_allreduce_ns,
    .in_flight = pst_strategies_in_flight,
    .price = pst_strategies_price,
    .bound = pst_strategies_bound,
    .node_ns = node_ns,
    .view = pst_view_charge,
};
