/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages that are like each other have one key, whatever nodes they are; one figure makes another.
 */
#include "test.h"

#include "planner/memo.h"

#define NODES 3u

struct stage {
    struct pst_stage_node nodes[NODES];
    uint32_t producers[2];
    struct pst_stage_view view;
};

/* A line of nodes, from node `first` and layer `layer` on. */
static void make(struct stage *stage, uint32_t first, uint32_t layer)
{
    memset(stage, 0, sizeof *stage);
    for (uint32_t v = 0; v < NODES; v++) {
        struct pst_stage_node *node = &stage->nodes[v];

        node->node = first + v;
        node->layer = layer + v / 2;
        node->forward_ns = 10 + v;
        node->backward_ns = 20 + v;
        node->saved_bytes = 30 + v;
        node->output_bytes = 40 + v;
        node->first_producer = v == 0 ? 0 : v - 1;
        node->n_producers = v > 0;
    }
    stage->producers[1] = 1;
    stage->view = (struct pst_stage_view){.size = sizeof stage->view,
                                          .n_stages = 4,
                                          .n_nodes = NODES,
                                          .node_size = sizeof *stage->nodes,
                                          .in_flight = 2,
                                          .capacity_bytes = 1000,
                                          .nodes = stage->nodes,
                                          .producers = stage->producers};
}

static bool is_same(const struct stage *a, const struct stage *b)
{
    const struct pst_memo_key x = pst_memo_key_view(&a->view), y = pst_memo_key_view(&b->view);

    return x.low == y.low && x.high == y.high;
}

TEST(test_stages_of_the_same_figures_are_alike)
{
    struct stage a, b;

    make(&a, 0, 0);
    make(&b, 90, 7);
    assert_true(is_same(&a, &b));
}

TEST(test_one_figure_makes_another_stage)
{
    struct stage a, b;
    uint64_t *const figures[] = {&b.nodes[1].forward_ns,
                                 &b.nodes[2].backward_ns,
                                 &b.nodes[0].saved_bytes,
                                 &b.nodes[1].output_bytes,
                                 &b.nodes[2].forward_work_bytes,
                                 &b.view.capacity_bytes,
                                 &b.nodes[0].backward_work_bytes,
                                 &b.view.static_bytes,
                                 &b.view.input_bytes,
                                 &b.view.slack_ns};
    uint32_t *const counts[] = {&b.view.stage,           &b.view.n_stages,
                                &b.view.in_flight,       &b.nodes[1].layer,
                                &b.nodes[1].action,      &b.nodes[2].flags,
                                &b.view.weight_versions, &b.producers[0],
                                &b.view.staging_copies,  &b.nodes[0].output_saved,
                                &b.view.link_directions};

    make(&a, 0, 0);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        make(&b, 0, 0);
        ++*figures[i];
        assert_false(is_same(&a, &b));
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        make(&b, 0, 0);
        ++*counts[i];
        assert_false(is_same(&a, &b));
    }
}
