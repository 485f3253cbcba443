/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of every answer of graphpipe: more of anything never hurts, names and units do
 * not matter, refined plans are the best there are; budgets and cancelling.
 */
#include "solver.h"

#include "test.h"

#include "chain.h"
#include "graphpipe_rig.h"

static const uint32_t powers[] = {1, 2, 4, 8, 16, 32, 64};

/* Graphs that are not series-parallel: no worse than a chain of the operators in order; refined no
   worse than that. */
TEST(test_other_graphs)
{
    for (uint64_t seed = 301; seed <= 330; seed++) {
        uint64_t draws = seed;
        struct gp_options options = rig_options(), chain = rig_options();
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        double t;

        rig_layered(&g, (uint32_t)rig_draw(&draws, 6, 30), 3, 3, 2, &draws);
        rig_costs(&g, RIG_UNIFORM, &draws);
        c = rig_case_of(&g);
        c.devices = 4;
        c.b = 2;
        c.batch = 16;
        c.comm = (uint32_t)rig_draw(&draws, 0, 2);
        c.p2p = 4;
        c.multiplier = 1;
        c.memory = seed % 2 == 0 ? INFINITY : 1000;
        chain.force_chain = true;
        for (uint32_t rule = GP_SP_FLEXIBLE; rule <= GP_SP_ESCRIBANO; rule++) {
            options.sp = rule;
            t = rig_solve(&c, &options, NULL);
            assert_true(t <= rig_solve(&c, &chain, NULL) * (1 + 1e-12));
        }
        options.refine = true;
        assert_true(rig_solve(&c, &options, NULL) <= t * (1 + 1e-12));
    }
}

TEST(test_corners)
{
    struct gp_options options = rig_options();
    struct gp_answer answer;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    rig_chain(&g, 1); /* one operator, more devices than operators */
    g.tau[0] = 5;
    rig_sort(&g);
    c = rig_case_of(&g);
    c.devices = 7;
    rig_close(rig_solve(&c, &options, NULL), 5);
    g.weight[0] = 100;
    c.memory = 99;
    rig_close(rig_solve(&c, &options, NULL), INFINITY);
    g.tau[0] = 0; /* nothing takes time */
    c.memory = INFINITY;
    rig_close(rig_solve(&c, &options, NULL), 0);
    rig_graph_finish(&g);
    rig_chain(&g, 6); /* one device */
    for (uint32_t v = 0; v < 6; v++) {
        g.tau[v] = v;
    }
    rig_sort(&g);
    c = rig_case_of(&g);
    rig_close(rig_solve(&c, &options, &answer), 15);
    assert_int_equal(answer.plan.n_stages, 1);
    rig_graph_finish(&g);
    rig_branches(&g, 3, (const uint32_t[]){1, 1, 1}, 0, 1, false); /* free operators */
    rig_sort(&g);
    c = rig_case_of(&g);
    c.devices = 2;
    rig_close(rig_solve(&c, &options, NULL), 0);
}

/* A long chain is solved as an order, one with a detour of no cost by blocks: the same T. */
TEST(test_long_chain)
{
    struct gp_options options = rig_options();
    struct gp_answer answer;

    for (uint32_t comm = 0; comm < 3; comm++) {
        uint64_t draws = 77;
        FINISHED_BY(rig_graph_finish) struct rig_graph g, h;
        struct rig_case c;
        double t;

        rig_chain(&g, 600);
        rig_costs(&g, RIG_UNIFORM, &draws);
        rig_graph_init(&h, 600);
        memcpy(h.tau, g.tau, 600 * sizeof *h.tau);
        for (uint32_t e = 0; e < g.n_edges; e++) {
            rig_edge(&h, g.from[e], g.to[e], g.bytes[e]);
        }
        rig_edge(&h, 300, 302, 0); /* says nothing new */
        rig_sort(&h);
        c = rig_case_of(&g);
        c.devices = 12;
        c.b = 4;
        c.batch = 64;
        c.degrees = powers;
        c.n_degrees = 3;
        c.comm = comm;
        c.p2p = 2;
        t = rig_solve(&c, &options, &answer);
        assert_true(answer.family_optimum);
        c.graph = &h;
        rig_close(rig_solve(&c, &options, NULL), t);
    }
}

/* Two searches at once for one size: with one degree that is no divisor there is no plan. */
TEST(test_no_degree)
{
    static const uint32_t three[] = {3};
    static const uint32_t sizes[] = {1, 2, 6};
    struct gp_options options = rig_options();
    struct gp_answer answer;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    rig_chain(&g, 4);
    for (uint32_t v = 0; v < 4; v++) {
        g.tau[v] = 6;
    }
    rig_sort(&g);
    c = rig_case_of(&g);
    c.devices = 7;
    c.batch = 6;
    c.degrees = three;
    c.n_degrees = 1;
    c.sizes = sizes;
    c.n_sizes = 3;
    rig_close(rig_solve(&c, &options, &answer), 4); /* two stages of 3 devices */
    assert_int_equal(answer.b, 6);
}

/* Of a budget that is too small there is still a plan, and a gap that is true. */
TEST(test_budget)
{
    struct gp_options options = rig_options(), small = rig_options();
    struct gp_answer answer;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    double t;

    rig_mmt(&g, 4, 4);
    c = rig_case_of(&g);
    c.devices = 16;
    c.b = 4;
    c.batch = 64;
    c.multiplier = 2;
    c.memory = 4e9;
    t = rig_solve(&c, &options, NULL);
    for (small.max_states = 1; small.max_states < 200000; small.max_states *= 8) {
        double worse = rig_solve(&c, &small, &answer);

        assert_true(answer.found);
        assert_true(worse >= t * (1 - 1e-12));
        assert_true(answer.bound_ns / 1000 <= t * (1 + 1e-12));
        assert_true(worse <= t * (1 + 1e-12) || !answer.family_optimum);
    }
    small = rig_options();
    small.time_limit_s = 1e-9;
    rig_solve(&c, &small, &answer);
    assert_true(answer.found);
    assert_true(answer.has_expired);
    options.exact = false;
    options.tolerance = 0.1;
    assert_true(rig_solve(&c, &options, NULL) <= t * 1.1001);
}
