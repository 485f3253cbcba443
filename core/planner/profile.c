/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.profile/1 of a planning run: the cost model's times, and the figures of the cluster and of
 * the job's optimizer. A partitioner that does not choose replicas takes a logical device for one;
 * it is told what each of its ranks does.
 */
#include "host/lend.h"
#include "planner/state.h"

static pst_status wrong(const struct pst_host *host, const char *what)
{
    return (host->fail)(host, PST_ERR_BUG, what);
}

static pst_status node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                          double ret_ns[3])
{
    const struct pst_planner *planner = pst_questions_planner(host);
    uint32_t share = planner->degree;
    struct pst_times times;

    if (node >= planner->graph->n_ops || samples == 0) {
        return wrong(host, "profile.node_ns: no such node, or 0 samples");
    }
    pst_cost_op(planner->cost, node, (samples + share - 1) / share, &times);
    ret_ns[0] = (double)times.forward_ns;
    ret_ns[1] = (double)times.backward_input_ns;
    ret_ns[2] = (double)times.backward_weight_ns;
    return PST_OK;
}

/* All ranks may take part in a reduction, so the links of nodes count where there are several. */
pst_status pst_planner_figures(struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_cluster *cluster = planner->cluster;
    const struct pst_graph_view *view = planner->view;
    double *saved = pst_arena_array(&planner->arena, view->n_nodes, sizeof *saved);
    double *edges = pst_arena_array(&planner->arena, view->n_edges, sizeof *edges);
    struct pst_figures figures;

    if (saved == NULL || edges == NULL) {
        return pst_fail_nomem(err);
    }
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
    return pst_lend_figures(&figures, view->n_nodes, view->n_edges, &planner->figures)
               ? PST_OK
               : pst_fail_nomem(err);
}

static const struct pst_figures *get_figures(const struct pst_host *host)
{
    return (const void *)pst_questions_planner(host)->figures.bytes;
}

/* A model's operators run in one way each. */
static uint32_t n_configs(const struct pst_host *host, uint32_t node)
{
    (void)host;
    (void)node;
    return 0;
}

static pst_status get_config(const struct pst_host *host, uint32_t node, uint32_t index,
                             struct pst_node_config *ret_config)
{
    (void)node;
    (void)index;
    (void)ret_config;
    return wrong(host, "profile.config: there is no such one");
}

const struct pst_profile pst_planner_profile = {
    .size = sizeof pst_planner_profile,
    .node_ns = node_ns,
    .figures = get_figures,
    .n_configs = n_configs,
    .config = get_config,
};
