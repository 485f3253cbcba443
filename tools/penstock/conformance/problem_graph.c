/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "conformance/problem.h"

/* Edges of a graph, as pairs in ascending order. */
struct pairs {
    uint32_t (*at)[2];
    uint32_t n;
};

static void join(struct pairs *pairs, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < pairs->n; i++) {
        if (pairs->at[i][0] == from && pairs->at[i][1] == to) {
            return;
        }
    }
    pairs->at[pairs->n][0] = from;
    pairs->at[pairs->n++][1] = to;
}

/* Chain: a line. Diamond: two branches that part and meet, again and again. Random: a line with
   skips, so that the graph has one source and one sink. */
static void connect(const struct pst_case *question, uint64_t *random, struct pairs *pairs)
{
    uint32_t n = question->n_nodes;

    for (uint32_t i = 1; i < n; i++) {
        if (question->shape == PST_SHAPE_DIAMOND) {
            uint32_t base = (i - 1) / 3 * 3; /* base parts into +1 and +2, which meet in +3 */

            join(pairs, (i - 1) % 3 == 2 ? i - 2 : base, i);
            if ((i - 1) % 3 == 2) {
                join(pairs, i - 1, i);
            }
            continue;
        }
        join(pairs,
             question->shape == PST_SHAPE_CHAIN ? i - 1
                                                : (uint32_t)pst_random_between(random, 0, i - 1),
             i);
        if (question->shape == PST_SHAPE_RANDOM && i > 1) {
            join(pairs, (uint32_t)pst_random_between(random, 0, i - 1), i);
        }
    }
}

static bool make_edges(const struct pst_case *question, const struct pairs *pairs,
                       struct pst_region *region, struct pst_graph_view *view)
{
    uint32_t size = (uint32_t)sizeof(struct pst_edge) + question->extra;
    char *edges = pst_region_alloc(region, (size_t)pairs->n * size);
    uint32_t *in = pst_region_alloc(region, pairs->n * sizeof *in);
    uint32_t *out = pst_region_alloc(region, pairs->n * sizeof *out);
    uint32_t n_in = 0, n_out = 0, i, k;

    if (edges == NULL || in == NULL || out == NULL) {
        return false;
    }
    view->n_edges = pairs->n;
    view->edge_size = size;
    view->edges = edges;
    view->in_edges = in;
    view->out_edges = out;
    for (k = 0; k < pairs->n; k++) {
        struct pst_edge *edge = (struct pst_edge *)(void *)(edges + (size_t)k * size);

        edge->from = pairs->at[k][0];
        edge->to = pairs->at[k][1];
        edge->bytes = pst_graph_node(view, edge->from)->output_bytes;
        edge->batched = 1;
    }
    for (i = 0; i < view->n_nodes; i++) {
        struct pst_node *node = (struct pst_node *)(uintptr_t)pst_graph_node(view, i);

        node->first_in = n_in;
        node->first_out = n_out;
        for (k = 0; k < pairs->n; k++) {
            if (pairs->at[k][1] == i) {
                in[n_in++] = k;
            }
            if (pairs->at[k][0] == i) {
                out[n_out++] = k;
            }
        }
        node->n_in = n_in - node->first_in;
        node->n_out = n_out - node->first_out;
    }
    return true;
}

static bool make_nodes(const struct pst_case *question, uint64_t *random, struct pst_region *region,
                       struct pst_graph_problem *problem)
{
    static const char *const ops[] = {"linear", "layernorm", "attention", "add"};
    uint32_t n = question->n_nodes, size = (uint32_t)sizeof(struct pst_node) + question->extra, i;
    uint64_t most = question->huge ? (uint64_t)1 << 50 : 1 << 20;
    char *nodes = pst_region_alloc(region, (size_t)n * size);
    struct pst_times *times = pst_region_alloc(region, n * sizeof *times);

    if (nodes == NULL || times == NULL) {
        return false;
    }
    for (i = 0; i < n; i++) {
        struct pst_node *node = (struct pst_node *)(void *)(nodes + (size_t)i * size);
        char *name = pst_region_alloc(region, 32);

        if (name == NULL) {
            return false;
        }
        snprintf(name, 32, "layer%u.node%u", i / 4, i);
        *node = (struct pst_node){.name = name, .op = ops[i % 4], .layer = i / 4};
        node->param_bytes = i % 4 == 0 ? pst_random_between(random, 0, most) : 0;
        node->saved_bytes = pst_random_between(random, 0, most);
        node->output_bytes = pst_random_between(random, 1, most);
        node->forward_work_bytes = pst_random_between(random, 0, 4096);
        node->backward_work_bytes = pst_random_between(random, 0, 4096);
        times[i].forward_ns = pst_random_between(random, 1, question->huge ? most : 100000);
        times[i].backward_input_ns = times[i].forward_ns;
        times[i].backward_weight_ns = node->param_bytes != 0 ? times[i].forward_ns : 0;
        problem->total_bytes += node->param_bytes + node->saved_bytes;
    }
    problem->view->n_nodes = n;
    problem->view->node_size = size;
    problem->view->nodes = nodes;
    problem->times = times;
    return true;
}

static bool make_cluster(const struct pst_case *question, struct pst_region *region,
                         struct pst_graph_problem *problem)
{
    uint32_t size = (uint32_t)sizeof(struct pst_cluster_device) + question->extra, i;
    struct pst_cluster_view *cluster = pst_region_alloc(region, sizeof *cluster);
    char *devices = pst_region_alloc(region, (size_t)question->n_devices * size);

    if (cluster == NULL || devices == NULL) {
        return false;
    }
    *cluster = (struct pst_cluster_view){.size = sizeof *cluster,
                                         .n_devices = question->n_devices,
                                         .device_size = size,
                                         .devices = devices};
    for (i = 0; i < question->n_devices; i++) {
        struct pst_cluster_device *device = (void *)(devices + (size_t)i * size);

        *device =
            (struct pst_cluster_device){.memory_bytes = UINT64_MAX, .node = i / 4, .speed = 1};
    }
    problem->cluster = cluster;
    return true;
}

static bool make_figures(struct pst_region *region, struct pst_graph_problem *problem)
{
    const struct pst_graph_view *view = problem->view;
    struct pst_figures *figures = pst_region_alloc(region, sizeof *figures);
    double *saved = pst_region_alloc(region, (view->n_nodes + 1) * sizeof *saved);
    double *edges = pst_region_alloc(region, (view->n_edges + 1) * sizeof *edges);

    if (figures == NULL || saved == NULL || edges == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        saved[i] = (double)pst_graph_node(view, i)->saved_bytes;
    }
    for (uint32_t i = 0; i < view->n_edges; i++) {
        edges[i] = (double)pst_graph_edge(view, i)->bytes;
    }
    *figures = (struct pst_figures){.size = sizeof *figures,
                                    .comm_model = PST_COMM_MAX,
                                    .node_size = 4,
                                    .weight_multiplier = 4,
                                    .p2p_bytes_per_s = 16e9,
                                    .allreduce_bytes_per_s = 8e9,
                                    .saved_bytes = saved,
                                    .edge_bytes = edges};
    problem->figures = figures;
    return true;
}

bool pst_graph_problem_make(const struct pst_case *question, struct pst_region *region,
                            struct pst_graph_problem *ret_problem)
{
    struct pst_graph_problem problem = {0};
    uint64_t random = question->seed;
    struct pairs pairs = {0};

    problem.view = pst_region_alloc(region, sizeof *problem.view);
    pairs.at = pst_region_alloc(region, 2 * (size_t)question->n_nodes * sizeof *pairs.at);
    if (problem.view == NULL || pairs.at == NULL) {
        return false;
    }
    *problem.view = (struct pst_graph_view){.size = sizeof *problem.view, .batch = 1};
    if (!make_nodes(question, &random, region, &problem)) {
        return false;
    }
    connect(question, &random, &pairs);
    if (!make_edges(question, &pairs, region, problem.view) ||
        !make_cluster(question, region, &problem) || !make_figures(region, &problem)) {
        return false;
    }
    *ret_problem = problem;
    return true;
}
