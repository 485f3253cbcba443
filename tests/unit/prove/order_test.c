/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin checker's own judge of orders: what it lets pass and what it finds, on orders that fit
 * on a hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "conformance/answer.h"

enum { F = PST_PASS_F, B = PST_PASS_B, W = PST_PASS_W, BW = PST_PASS_BW };

/* Two stages on two devices, linked; the first has 2 micro-batches of 2, the second 4 of 1. */
static const struct pst_schedule_stage stages[] = {
    {.device = 0, .microbatch_size = 2, .n_microbatches = 2, .k = 1, .n_succ = 1},
    {.device = 1, .microbatch_size = 1, .n_microbatches = 4, .k = 1, .n_pred = 1, .first_succ = 1},
};
static const struct pst_schedule_link links[] = {{.from = 0, .to = 1}};
static const uint32_t out_links[] = {0};
static const struct pst_schedule_in in = {.size = sizeof in,
                                          .n_devices = 2,
                                          .n_stages = 2,
                                          .stage_size = sizeof stages[0],
                                          .n_links = 1,
                                          .link_size = sizeof links[0],
                                          .stages = stages,
                                          .links = links,
                                          .out_links = out_links};

static void expect(const struct pst_order_pass *passes, uint32_t n, const char *broken)
{
    struct pst_answer answer = {0};

    pst_order_judge(&in, passes, n, &answer);
    assert_string_equal(answer.broken, broken);
    pst_answer_finish(&answer);
}

static void test_sizes_differ(void **state)
{
    /* Samples 0, 1 on stage 0 are micro-batches 0 and 1 of stage 1: BW needs both. */
    static const struct pst_order_pass good[] = {
        {0, F, 0, 0}, {0, BW, 0, 0}, {0, F, 0, 1}, {0, BW, 0, 1}, {1, F, 1, 0}, {1, BW, 1, 0},
        {1, F, 1, 1}, {1, BW, 1, 1}, {1, F, 1, 2}, {1, BW, 1, 2}, {1, F, 1, 3}, {1, BW, 1, 3}};
    /* Micro-batch 2 belongs to the second half, which begins when the first has ended. */
    static const struct pst_order_pass bad[] = {
        {0, F, 0, 0}, {0, BW, 0, 0}, {0, F, 0, 1}, {0, BW, 0, 1}, {1, F, 1, 0}, {1, BW, 1, 0},
        {1, F, 1, 2}, {1, BW, 1, 2}, {1, F, 1, 1}, {1, BW, 1, 1}, {1, F, 1, 3}, {1, BW, 1, 3}};

    (void)state;
    expect(good, 12, "");
    expect(bad, 12,
           "the order deadlocks: on device 0, BW of stage 0 for micro-batch 0 waits for stage 1, "
           "which never comes to it");
}

static void test_split_backward(void **state)
{
    /* W may wait as long as it likes; the gradient leaves with B. */
    static const struct pst_order_pass order[] = {
        {0, F, 0, 0}, {0, F, 0, 1}, {0, BW, 0, 0}, {0, BW, 0, 1}, {1, F, 1, 0}, {1, B, 1, 0},
        {1, F, 1, 1}, {1, B, 1, 1}, {1, F, 1, 2},  {1, B, 1, 2},  {1, F, 1, 3}, {1, B, 1, 3},
        {1, W, 1, 0}, {1, W, 1, 1}, {1, W, 1, 2},  {1, W, 1, 3}};

    (void)state;
    expect(order, 16, "");
    expect(order, 15, "no W pass of stage 1 for micro-batch 3");
}

static void test_incomplete(void **state)
{
    static const struct pst_order_pass order[] = {{0, F, 0, 0}, {0, BW, 0, 0}, {0, F, 0, 1}};

    (void)state;
    expect(order, 0, "no F pass of stage 0 for micro-batch 0");
    expect(order, 1, "no B or BW pass of stage 0 for micro-batch 0");
    expect(order, 3, "no B or BW pass of stage 0 for micro-batch 1");
}

/* Questions are what their numbers say: same numbers, same bytes, and all links forward. */
static void test_questions(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_differ),
        cmocka_unit_test(test_split_backward),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_questions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
