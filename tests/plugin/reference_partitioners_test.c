/* SPDX-License-Identifier: Apache-2.0
 *
 * uniform, greedy and chain-dp on random problem files, judged by the host under the reference cost
 * model. e2e/partition_examples_test.txt has what was worked out by hand.
 */
#include <math.h>
#include "test.h"

#include "ask_rig.h"

/* The optimum on random chains without transfers is greedy's; chain-dp agrees; uniform is above. */
TEST(test_baselines)
{
    uint64_t rng = 12;

    for (int round = 0; round < 40; round++) {
        FINISHED_BY(pst_partition_result_finish) struct pst_partition_result a, b, u, cost;
        struct pst_error err = {0};
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;

        rig_chain(&g, (uint32_t)rig_draw(&rng, 1, 40));
        rig_costs(&g, RIG_UNIFORM + round % 3, &rng);
        c = rig_case_of(&g);
        c.devices = (uint32_t)rig_draw(&rng, 1, 12);
        assert_int_equal(ask_rig(&c, "greedy", "{}", NULL, &a, &err), PST_OK);
        assert_int_equal(ask_rig(&c, "chain-dp", "{}", NULL, &b, &err), PST_OK);
        assert_int_equal(ask_rig(&c, "uniform", "{}", NULL, &u, &err), PST_OK);
        assert_int_equal(ask_rig(&c, "uniform", "{\"balance\": \"cost\"}", NULL, &cost, &err),
                         PST_OK);
        assert_true(fabs(a.bottleneck_ns - b.bottleneck_ns) <= 1e-9 * b.bottleneck_ns);
        assert_true(u.bottleneck_ns >= b.bottleneck_ns * (1 - 1e-9));
        assert_true(cost.bottleneck_ns >= b.bottleneck_ns * (1 - 1e-9));
        assert_true(ask_number(&b, "lower_bound_us_per_sample", NAN) * 1000 <=
                    b.bottleneck_ns * (1 + 1e-9));
    }
}

/* All topological orders of the nodes that are not yet in `order`. */
static double best_row(const struct rig_case *c, uint32_t *order, uint32_t at, uint32_t placed)
{
    const struct rig_graph *g = c->graph;
    double best = at == g->n ? rig_best_cut(c, order) : INFINITY;

    for (uint32_t v = 0; v < g->n; v++) {
        bool ready = (placed >> v & 1) == 0;

        for (uint32_t e = 0; e < g->n_edges; e++) {
            ready = ready && (g->to[e] != v || (placed >> g->from[e] & 1) != 0);
        }
        if (ready) {
            order[at] = v;
            best = fmin(best, best_row(c, order, at + 1, placed | UINT32_C(1) << v));
        }
    }
    return best;
}

/* The answer's stages hold what their places in the row say, by the report and in truth. */
static void expect_row(const struct rig_case *c, const struct pst_partition_result *result)
{
    uint32_t stage_of[64], d[64];
    struct rig_worth worth;

    for (uint32_t s = 0; s < result->n_stages; s++) {
        const struct pst_partition_stage *stage = &result->stages[s];
        uint32_t held = (result->n_stages - s) * c->b;

        assert_int_equal(stage->in_flight_samples, held < c->batch ? held : c->batch);
        d[s] = stage->n_ranks;
        for (uint32_t i = 0; i < stage->n_nodes; i++) {
            stage_of[stage->nodes[i]] = s;
        }
    }
    worth = rig_judge(c, stage_of, result->n_stages, d, true);
    assert_true(worth.legal && worth.fits);
    assert_true(fabs(worth.peak - result->peak_bytes) <= 1e-9 * worth.peak);
}

static double row_us(const struct rig_case *c, const char *options)
{
    struct pst_partition_result result;
    struct pst_error err = {0};
    pst_status st = ask_rig(c, "chain-dp", options, NULL, &result, &err);
    double us = INFINITY;

    if (st == PST_OK) {
        expect_row(c, &result);
        us = result.bottleneck_ns / 1000;
        pst_partition_result_finish(&result);
    } else if (st != PST_ERR_INFEASIBLE) {
        fail_msg("%s", err.message);
    }
    return us;
}

/* Branches, with memory for little: the optimum under 1F1B's counts, of one order and of all. Side
   by side, stages would hold less. */
TEST(test_rows)
{
    uint64_t rng = 1616;
    uint32_t n_fit = 0, n_none = 0, n_less = 0;

    for (int round = 0; round < 144; round++) {
        uint32_t order[8], lens[3], k = (uint32_t)rig_draw(&rng, 2, 3);
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        double best, graph;

        for (uint32_t i = 0; i < k; i++) {
            lens[i] = (uint32_t)rig_draw(&rng, 1, k == 2 ? 3 : 1);
        }
        rig_branches(&g, k, lens, (uint32_t)rig_draw(&rng, 0, 1), 1, false);
        c = rig_draw_case(&g, 5, round, &rng);
        c.devices = (uint32_t)rig_draw(&rng, 3, 6);
        c.n_degrees = 1 + (uint32_t)round % 2;
        c.p2p *= 10;
        c.batch = 64;
        memset(g.weight, 0, g.n * sizeof *g.weight);
        c.memory =
            ask_total(g.saved, g.n) * c.b / c.devices * (double)rig_draw(&rng, 150, 350) / 100;
        best = best_row(&c, order, 0, 0);
        graph = rig_best_partition(&c);
        for (uint32_t v = 0; v < g.n; v++) {
            order[v] = v;
        }
        rig_agree(row_us(&c, "{}"), rig_best_cut(&c, order), round);
        rig_agree(row_us(&c, "{\"order\": \"best\"}"), best, round);
        n_fit += !isinf(best);
        n_none += isinf(best);
        n_less += graph < best * (1 - 1e-9);
    }
    print_message("%u fit, %u do not, %u would be faster as a graph\n", n_fit, n_none, n_less);
    assert_true(n_fit > 60 && n_less > 5);
}

/* Too many sets of operators to look at all: operators are moved instead. */
TEST(test_wide_rows)
{
    static const uint32_t lens[] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
    uint64_t rng = 1617;
    uint32_t n_better = 0;

    for (int round = 0; round < 12; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        double one, best;

        rig_branches(&g, 10, lens, 1, 1, false);
        c = rig_draw_case(&g, 8, round, &rng);
        c.devices = (uint32_t)rig_draw(&rng, 4, 8);
        c.batch = 64;
        memset(g.weight, 0, g.n * sizeof *g.weight);
        c.memory =
            ask_total(g.saved, g.n) * c.b / c.devices * (double)rig_draw(&rng, 300, 600) / 100;
        one = row_us(&c, "{}");
        best = row_us(&c, "{\"order\": \"best\"}");
        assert_true(!isinf(best) && best <= one * (1 + 1e-9));
        n_better += best < one * (1 - 1e-9);
    }
    print_message("%u of 12 better than the model's order\n", n_better);
    assert_true(n_better > 6);
}
