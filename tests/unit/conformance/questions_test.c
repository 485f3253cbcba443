/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin checker's questions.
 */
#include "test.h"

#include "conformance/answer.h"

/* Questions are what their numbers say: same numbers, same bytes, and all links forward. */
TEST(test_questions)
{
    for (uint32_t shape = 0; shape < PST_SHAPES; shape++) {
        const struct pst_case question = {.seed = 5,
                                          .shape = shape,
                                          .n_nodes = 20,
                                          .n_devices = 4,
                                          .n_microbatches = 4,
                                          .extra = 8};
        struct pst_graph_problem first, again;
        struct pst_region a, b;

        pst_region_init(&a, 1 << 20);
        pst_region_init(&b, 1 << 20);
        assert_true(pst_graph_problem_make(&question, &a, &first));
        assert_true(pst_graph_problem_make(&question, &b, &again));
        assert_int_equal(first.view->n_nodes, 20);
        assert_int_equal(first.view->n_edges, again.view->n_edges);
        for (uint32_t i = 0; i < first.view->n_edges; i++) {
            const struct pst_edge *x = pst_graph_edge(first.view, i);

            assert_true(x->from < x->to);
            assert_memory_equal(x, pst_graph_edge(again.view, i), sizeof *x);
        }
        for (uint32_t i = 0; i < 20; i++) {
            const struct pst_node *node = pst_graph_node(first.view, i);

            assert_true(i == 0 ? node->n_in == 0 : node->n_in >= 1);
            for (uint32_t k = 0; k < node->n_in; k++) {
                uint32_t edge = first.view->in_edges[node->first_in + k];

                assert_int_equal(pst_graph_edge(first.view, edge)->to, i);
            }
        }
        pst_region_seal(&a);
        assert_true(pst_region_intact(&a));
        ((struct pst_node *)(uintptr_t)pst_graph_node(first.view, 3))->layer++;
        assert_false(pst_region_intact(&a));
        pst_region_finish(&a);
        pst_region_finish(&b);
    }
}
