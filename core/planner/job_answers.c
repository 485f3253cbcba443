/* SPDX-License-Identifier: Apache-2.0
 *
 * What a planning job answers to plugins' questions (questions.h): its cost model, its strategies,
 * the figures of its cluster. A partitioner that does not choose replicas takes a logical device
 * for one; it is told what each of its ranks does.
 */
#include "planner/questions.h"

#include "host/call.h"
#include "planner/optimizer.h"
#include "planner/state.h"

/* Schedulers that fix the number of stages say where each of them is, and of no more. */
static struct pst_question_limits limits(const void *self)
{
    const struct pst_planner *planner = self;

    return (struct pst_question_limits){
        .open = planner->asked != NULL,
        .n_nodes = planner->graph->n_ops,
        .batch = planner->batch,
        .n_places = planner->n_places,
        .most_stages = planner->topology.n_stages == 0 ? UINT32_MAX : planner->n_places,
        .share = planner->degree,
    };
}

static void compute(const void *self, const struct pst_instance *who, const uint32_t *nodes,
                    uint32_t n_nodes, uint32_t samples, struct pst_times *ret_times)
{
    const struct pst_planner *planner = self;
    uint32_t share = who == planner->partitioner ? planner->degree : 1;

    pst_cost_ops(planner->cost, nodes, n_nodes, (samples + share - 1) / share, ret_times);
}

/* To a partitioner a rank is a place, of which several may be on one device; to a scheduler it is a
   logical device, whose first rank stands for it. */
static uint32_t rank_of(const struct pst_planner *planner, const struct pst_instance *who,
                        uint32_t device)
{
    if (who == planner->partitioner && !planner->chooses && device < planner->n_places) {
        return planner->device_of[device] * planner->degree;
    }
    if (who == planner->scheduler && planner->first_rank != NULL && device < planner->n_ranks) {
        return planner->first_rank[device];
    }
    return device;
}

static uint64_t transfer_ns(const void *self, const struct pst_instance *who, uint64_t bytes,
                            uint32_t from, uint32_t to)
{
    const struct pst_planner *planner = self;

    return pst_cost_transfer_ns(planner->cost, bytes, rank_of(planner, who, from),
                                rank_of(planner, who, to));
}

static uint64_t allreduce_ns(const void *self, uint64_t bytes, uint32_t n_ranks)
{
    return pst_cost_allreduce_ns(((const struct pst_planner *)self)->cost, bytes, n_ranks);
}

static void node_ns(const void *self, uint32_t node, uint32_t samples, double ret_ns[3])
{
    const struct pst_planner *planner = self;
    uint32_t share = planner->degree;
    struct pst_times times;

    pst_cost_op(planner->cost, node, (samples + share - 1) / share, &times);
    ret_ns[0] = (double)times.forward_ns;
    ret_ns[1] = (double)times.backward_input_ns;
    ret_ns[2] = (double)times.backward_weight_ns;
}

static pst_status held(void *self, const struct pst_place *place, struct pst_held *ret_held,
                       struct pst_error *err)
{
    struct pst_place asked = *place;

    asked.n_devices = pst_planner_logical(self, place->n_stages);
    return pst_planner_held(self, &asked, ret_held, err);
}

static pst_status price(void *self, const struct pst_stage_question *question,
                        struct pst_stage_price *ret_price, struct pst_error *err)
{
    return pst_planner_price(self, question, ret_price, err);
}

/* With one optimizer its own bound; decisions of several depend on each other, so the sum of times,
   which no plan goes below. */
static pst_status bound(void *self, const struct pst_stage_question *question,
                        uint64_t *ret_period_ns, struct pst_error *err)
{
    struct pst_planner *planner = self;
    const struct pst_optimizer optimizer = {.instance =
                                                planner->n_memopt == 1 ? planner->memopt[0] : NULL,
                                            .evaluator = &planner->evaluator};
    struct pst_stage_node *nodes;
    struct pst_stage_view view;
    pst_status st = pst_view_charge(planner, question, &nodes, &view, err);

    return st == PST_OK ? pst_optimizer_bound(&optimizer, &view, ret_period_ns, err) : st;
}

static bool cancelled(const void *self)
{
    const struct pst_planner *planner = self;

    return (planner->cancelled != NULL && planner->cancelled()) ||
           pst_search_is_late(planner->deadline_ns);
}

void pst_planner_answers(struct pst_planner *planner)
{
    static const struct pst_coster costs = {limits,       compute, transfer_ns,
                                            allreduce_ns, node_ns, cancelled};
    static const struct pst_strategist strategies = {held, price, bound, false};

    planner->questions = (struct pst_questions){
        .costs = &costs,
        .strategies = &strategies,
        .coster = planner,
        .strategist = planner,
        .figures = &planner->figures,
        .trial = planner->clock == NULL ? NULL : &pst_planner_trial,
        .evaluator = &planner->evaluator,
        .pending = &planner->pending,
        .seed = (uint64_t)planner->job->train.seed,
    };
}

/* All ranks may take part in a reduction, so the links of nodes count where there are several. */
void pst_planner_figures(struct pst_planner *planner)
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
