/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders, in-flight counts, step times and answers of plans.
 */
#include "answer.h"
#include "chain.h"
#include "partition_rig.h"
#include "stage_graph.h"

#include <math.h>
#include "test.h"

TEST(test_orders)
{
    uint64_t rng = 3;

    for (int round = 0; round < 50; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        uint32_t order[64], place[64];
        uint64_t keys[64];

        rig_random(&g, (uint32_t)rig_draw(&rng, 1, 60), 10, &rng);
        rig_costs(&g, RIG_UNIFORM, &rng);
        c = rig_case_of(&g);
        rig_problem(&c, &p);
        for (uint32_t kind = 0; kind <= PART_ORDER_KEYS; kind++) {
            for (uint32_t v = 0; v < g.n; v++) {
                keys[v] = rig_next(&rng);
                place[v] = UINT32_MAX;
            }
            part_order(&p, kind, kind == PART_ORDER_KEYS ? keys : NULL, order);
            for (uint32_t i = 0; i < g.n; i++) {
                assert_int_equal(place[order[i]], UINT32_MAX);
                place[order[i]] = i;
            }
            for (uint32_t e = 0; e < g.n_edges; e++) {
                assert_true(place[g.from[e]] < place[g.to[e]]);
            }
        }
    }
}

/* Head 0, branches 1-3-5 and 2-4-6 numbered in turn, join 7. */
TEST(test_depth_first)
{
    static const uint32_t edges[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 4},
                                        {3, 5}, {4, 6}, {5, 7}, {6, 7}};
    static const uint32_t expected[] = {0, 1, 3, 5, 2, 4, 6, 7};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    struct part_problem p;
    uint32_t order[8];

    rig_graph_init(&g, 8);
    for (int e = 0; e < 8; e++) {
        rig_edge(&g, edges[e][0], edges[e][1], 0);
    }
    rig_sort(&g);
    c = rig_case_of(&g);
    rig_problem(&c, &p);
    part_order(&p, PART_ORDER_DFS, NULL, order);
    assert_memory_equal(order, expected, sizeof expected);
}

/* One op a stage, of the sizes and k given; the stage graph is the graph. */
static void plan_of(struct rig_graph *g, struct part_problem *p, const uint32_t *b,
                    const uint32_t *k, uint32_t batch, struct part_plan *plan)
{
    static const uint32_t sizes[] = {1, 2, 4, 64, 128};
    struct rig_case c = rig_case_of(g);
    uint32_t stage_of[16];

    c.devices = g->n;
    c.batch = batch;
    c.sizes = sizes;
    c.n_sizes = 5;
    rig_problem(&c, p);
    for (uint32_t v = 0; v < g->n; v++) {
        stage_of[v] = v;
    }
    part_plan_init(plan, p, stage_of, g->n, 1);
    for (uint32_t s = 0; s < g->n; s++) {
        plan->stages[s].b = b[s];
        plan->stages[s].k = k[s];
    }
}

static void expect_in_flight(struct rig_graph *g, const uint32_t *b, const uint32_t *k,
                             uint32_t batch, const uint64_t *expected, double expected_step)
{
    struct part_problem p;
    struct part_plan plan;
    struct part_value value;
    struct stage_graph graph;

    plan_of(g, &p, b, k, batch, &plan);
    stage_graph_init(&graph, &plan, &p);
    assert_true(graph.legal);
    for (uint32_t s = 0; s < g->n; s++) {
        assert_int_equal(graph.in_flight[s], expected[s]);
    }
    if (expected_step > 0) {
        part_plan_value(&plan, &p, false, &value);
        assert_true(fabs(value.step_ns / 1000 - expected_step) < 1e-6);
    }
    part_plan_finish(&plan);
    rig_graph_finish(g);
}

/* The published counts of GraphPipe's examples (Jeon et al., ASPLOS 2025). */
TEST(test_in_flight)
{
    static const uint32_t mixed[] = {1, 2, 4}, fours[] = {4, 4, 4}, k[] = {1, 2, 1};
    static const uint32_t ones[] = {1, 1, 1, 1, 1, 1}, b64[] = {64, 64, 64, 64, 64, 64};
    static const uint32_t dlrm[] = {128, 128, 128};
    static const uint64_t counts[] = {10, 8, 4}, counts4[] = {12, 8, 4};
    static const uint64_t candle[] = {192, 192, 192, 192, 128, 64}, three[] = {384, 256, 128};
    struct rig_graph g;

    for (int i = 0; i < 2; i++) {
        rig_chain(&g, 3);
        for (int v = 0; v < 3; v++) {
            g.tau[v] = 3;
            g.forward_share = 1.0 / 3;
        }
        if (i == 0) {
            expect_in_flight(&g, mixed, k, 64, counts, 210);
        } else {
            expect_in_flight(&g, fours, ones, 64, counts4, 216);
        }
    }
    rig_graph_init(&g, 6);
    for (uint32_t s = 0; s < 4; s++) {
        rig_edge(&g, s, 4, 0);
    }
    rig_edge(&g, 4, 5, 0);
    rig_sort(&g);
    expect_in_flight(&g, b64, ones, 1024, candle, 0);
    rig_chain(&g, 3);
    expect_in_flight(&g, dlrm, ones, 1024, three, 0);
}

/* With equal stages the step is (M + depth - 1) b T; any F : B. */
TEST(test_steps)
{
    for (uint32_t n = 1; n <= 6; n++) {
        for (uint32_t m = 1; m <= 9; m += 4) {
            uint32_t b[6] = {2, 2, 2, 2, 2, 2}, k[6] = {1, 1, 1, 1, 1, 1};
            uint64_t counts[6];
            struct rig_graph g;

            rig_chain(&g, n);
            for (uint32_t s = 0; s < n; s++) {
                g.tau[s] = 12;
                counts[s] = 2 * (n - s < m ? n - s : m);
            }
            expect_in_flight(&g, b, k, 2 * m, counts, (m + n - 1) * 2 * 12.0);
        }
    }
}

TEST(test_cycles_are_not_legal)
{
    static const uint32_t stage_of[] = {0, 1, 1, 0};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    struct part_problem p;
    FINISHED_BY(part_plan_finish) struct part_plan plan;
    struct part_value value;

    rig_graph_init(&g, 4); /* 0 -> 1 and 2 -> 3: both stages convex, and yet a cycle */
    rig_edge(&g, 0, 1, 0);
    rig_edge(&g, 2, 3, 0);
    c = rig_case_of(&g);
    c.devices = 2;
    rig_problem(&c, &p);
    part_plan_init(&plan, &p, stage_of, 2, 1);
    part_plan_value(&plan, &p, false, &value);
    assert_false(value.legal);
    part_plan_finish(&plan);
    p.n_devices = 1; /* and too many stages */
    part_plan_init(&plan, &p, (const uint32_t[]){0, 0, 1, 1}, 2, 1);
    part_plan_value(&plan, &p, false, &value);
    assert_false(value.legal);
}

/* --- ranks -------------------------------------------------------------------------------------*/

struct taken {
    uint32_t n, first_rank[16], n_ranks[16], node[16];
};

static pst_status take(struct pst_partition_out *out, const struct pst_stage_decl *stage)
{
    struct taken *taken = out->impl;

    taken->first_rank[taken->n] = stage->ranks[0];
    for (uint32_t i = 1; i < stage->n_ranks; i++) {
        assert_int_equal(stage->ranks[i], stage->ranks[0] + i);
    }
    taken->node[taken->n] = stage->nodes[0];
    taken->n_ranks[taken->n++] = stage->n_ranks;
    return PST_OK;
}

TEST(test_ranks)
{
    static const uint32_t lens[] = {2, 2}, all[] = {1, 2, 4};
    static const uint32_t branch_ranks[] = {0, 1, 2, 3, 4, 5};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    struct part_problem p;
    FINISHED_BY(part_plan_finish) struct part_plan plan;
    struct taken taken = {.n = 0};
    struct pst_partition_out out = {sizeof out, &taken, take};
    uint32_t stage_of[] = {0, 1, 2, 3, 4, 5};

    rig_branches(&g, 2, lens, 1, 1, false);
    c = rig_case_of(&g);
    c.devices = 6;
    c.b = 4;
    c.batch = 8;
    c.degrees = all;
    c.n_degrees = 3;
    rig_problem(&c, &p);
    part_plan_init(&plan, &p, stage_of, 6, 4);
    part_plan_answer(&plan, &p, &out);
    assert_int_equal(taken.n, 6);
    assert_memory_equal(taken.first_rank, branch_ranks, sizeof branch_ranks);
    /* Nodes of four: a stage of two must not straddle; rank 3 stays for the single one. */
    p.n_devices = 8;
    p.figures.node_size = 4;
    plan.stages[0].d = 1;
    plan.stages[1].d = 2;
    plan.stages[2].d = 2;
    plan.stages[3].d = 1;
    plan.stages[4].d = 1;
    plan.stages[5].d = 1;
    taken.n = 0;
    part_plan_answer(&plan, &p, &out);
    for (uint32_t s = 0; s < taken.n; s++) {
        assert_true(taken.n_ranks[s] == 1 ||
                    taken.first_rank[s] / 4 == (taken.first_rank[s] + 1) / 4);
        for (uint32_t t = 0; t < s; t++) {
            assert_true(taken.first_rank[s] >= taken.first_rank[t] + taken.n_ranks[t] ||
                        taken.first_rank[t] >= taken.first_rank[s] + taken.n_ranks[s]);
        }
    }
}
