/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin checker's questions.
 */
#include "test.h"

#include "conformance/problem.h"
#include "host/call.h"

/* Questions are what their numbers say: same numbers, same graph, and all links forward. */
TEST(test_questions)
{
    for (uint32_t shape = 0; shape < PST_SHAPES; shape++) {
        const struct pst_case question = {
            .seed = 5, .shape = shape, .n_nodes = 20, .n_devices = 4, .n_microbatches = 4};
        FINISHED_BY(pst_graph_problem_finish) struct pst_problem first, again;
        const struct pst_graph_view *view;

        pst_graph_problem_make(&question, true, false, &first);
        pst_graph_problem_make(&question, true, false, &again);
        view = &first.graph->view;
        assert_int_equal(view->n_nodes, 20);
        assert_int_equal(first.graph->digest, again.graph->digest);
        for (uint32_t i = 0; i < view->n_edges; i++) {
            assert_true(pst_graph_edge(view, i)->from < pst_graph_edge(view, i)->to);
        }
        for (uint32_t i = 0; i < 20; i++) {
            assert_true((pst_graph_node(view, i)->n_in == 0) == (i == 0));
        }
    }
}

/* To a plugin rows may be longer than it knows, and what it writes into them is seen. */
TEST(test_wider)
{
    const struct pst_case question = {.seed = 5, .n_nodes = 4, .n_devices = 4, .n_microbatches = 4};
    const uint32_t devices[] = {0, 1, 2, 3}, sizes[] = {1, 1, 1, 1};
    FINISHED_BY(pst_order_question_finish) struct pst_order_question asked = {.stages = NULL};
    const struct pst_schedule_in *lent;
    FINISHED_BY(pst_region_finish) struct pst_region region;
    const void *copy;

    pst_schedule_problem_make(&question, 4, 1, devices, sizes, 4, &asked);
    pst_lend(pst_lend_schedule, &asked.in, 8, &region, &copy);
    lent = copy;
    assert_int_equal(lent->stage_size, sizeof *asked.stages + 8);
    assert_int_equal(lent->n_links, 3);
    for (uint32_t s = 0; s < 4; s++) {
        assert_memory_equal(pst_schedule_stage_at(lent, s), &asked.stages[s], sizeof *asked.stages);
    }
    assert_true(pst_region_intact(&region));
    ((struct pst_schedule_stage *)(uintptr_t)pst_schedule_stage_at(lent, 3))->k++;
    assert_false(pst_region_intact(&region));
}
