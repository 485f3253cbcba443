/* SPDX-License-Identifier: Apache-2.0
 *
 * From a problem to its blocks.
 */
#include <string.h>

#include "build.h"

static void put_edges(struct gp_build *build, struct gp_graph *graph)
{
    const struct part_problem *p = build->problem;
    uint32_t e, block, links;

    for (e = 0; e < p->n_edges; e++) {
        links = GP_NONE;
        gp_build_link(build, e, &links);
        gp_build_edge(build, links, &block);
        gp_graph_arc(build, graph, GP_INNER + p->from[e], GP_INNER + p->to[e], block);
    }
}

static void put_ends(struct gp_build *build, struct gp_graph *graph)
{
    uint32_t place, block;

    for (place = GP_INNER; place < GP_INNER + build->problem->n; place++) {
        if (graph->n_in[place] == 0) {
            gp_build_edge(build, GP_NONE, &block);
            gp_graph_arc(build, graph, GP_SOURCE, place, block);
        }
        if (graph->n_out[place] == 0) {
            gp_build_edge(build, GP_NONE, &block);
            gp_graph_arc(build, graph, place, GP_SINK, block);
        }
    }
}

struct solving {
    struct gp_build *build;
    struct gp_graph *graph;
    struct gp_tree *tree;
};

static pst_status solve(void *solving)
{
    const struct solving *s = solving;
    uint32_t place, root;

    for (place = 0; place < s->build->problem->n; place++) {
        gp_graph_place(s->graph, place);
    }
    put_edges(s->build, s->graph);
    put_ends(s->build, s->graph);
    gp_graph_solve(s->build, s->graph, &root);
    gp_tree_flatten(s->build, root, s->tree);
    return PST_OK;
}

void gp_tree_init(struct gp_tree *tree, const struct part_problem *problem, const int64_t *work,
                  uint32_t rule)
{
    /* virtual operators are numbered after the problem's own; so are both ends */
    struct gp_build build = {
        .problem = problem, .work = work, .rule = rule, .n_ops = problem->n + 2};
    struct gp_graph graph;
    struct solving solving = {&build, &graph, tree};
    pst_status status;

    memset(tree, 0, sizeof *tree);
    gp_graph_init(&graph, problem->n, problem->n + 1, problem->n,
                  problem->n_edges + 2 * problem->n);
    status = call_try(solve, &solving);
    gp_graph_finish(&graph);
    if (status != PST_ERR_UNSUPPORTED) {
        call_check(status);
    }
    tree->n_virtual = build.n_ops - problem->n - 2;
    tree->reduced = build.n_kernel == 0 && !build.joined;
    tree->series_parallel = build.n_kernel == 0;
    tree->n_kernel = build.n_kernel;
    memcpy(tree->kernel, build.kernel, sizeof tree->kernel);
}
