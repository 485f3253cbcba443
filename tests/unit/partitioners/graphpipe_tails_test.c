/* SPDX-License-Identifier: Apache-2.0
 *
 * Little work behind a join: without refine it needs a device of its own, with it it goes to the
 * end of a branch.
 */
#include "solver.h"

#include "test.h"

#include "graphpipe_rig.h"

enum { BRANCHES = 4, LENGTH = 4, TAIL = 3 };

/* Four branches of four operators of 10 us, a join and two behind it of 1 us each. */
static void make(struct rig_graph *g)
{
    const uint32_t lens[BRANCHES] = {LENGTH, LENGTH, LENGTH, LENGTH};

    rig_branches(g, BRANCHES, lens, 0, TAIL, false);
    for (uint32_t v = 0; v < g->n; v++) {
        g->tau[v] = v + TAIL >= g->n ? 1 : 10;
        g->saved[v] = 1;
    }
    rig_sort(g);
}

TEST(test_groups)
{
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    struct part_problem p;
    struct gp_tails tails;

    make(&g);
    c = rig_case_of(&g);
    c.devices = 8; /* a share is 163 / 8 us: a quarter of it holds both operators behind the join */
    c.batch = 8;
    rig_problem(&c, &p);
    gp_tails_init(&tails, &p, GP_SP_FLEXIBLE);
    assert_int_equal(tails.n, 1); /* the larger share adds nothing */
    assert_int_equal(tails.of[0].problem.n, g.n - 2);
    for (uint32_t v = 0; v < g.n; v++) {
        assert_int_equal(tails.of[0].group_of[v], v < g.n - 2 ? v : g.n - 3);
    }
    assert_true(tails.of[0].tree.series_parallel);
}

/* Two devices per branch: 20 us, but one has to do the tail as well. */
TEST(test_plan)
{
    struct gp_options options = rig_options();
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    make(&g);
    c = rig_case_of(&g);
    c.devices = 8;
    c.batch = 8;
    assert_true(rig_solve(&c, &options, NULL) > 30); /* a device for the tail alone */
    options.refine = true;
    rig_close(rig_solve(&c, &options, NULL), 23);
}

/* A device for each two operators: 20 us on paths of three stages, 40 us on paths of two. */
TEST(test_depth)
{
    struct gp_options options = rig_options();
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct gp_tail_problem whole;
    struct rig_case c;
    struct part_problem p;

    make(&g);
    c = rig_case_of(&g);
    c.devices = 9;
    c.batch = 8;
    rig_problem(&c, &p);
    gp_tails_whole(&whole, &p, GP_SP_FLEXIBLE);
    for (uint32_t depth = 0; depth <= 3; depth++) {
        struct gp_watch watch;
        struct gp_result r;

        options.max_depth = depth;
        gp_watch_start(&watch, &p, 0);
        gp_tails_plan(&p, &whole, &options, 1, INFINITY, &watch, &r);
        assert_true(r.found && r.proven);
        rig_close(r.value.bottleneck_ns / 1000, depth == 1 ? 163 : depth == 2 ? 40 : 20);
        assert_int_equal(r.value.depth, depth == 0 ? 3 : depth);
    }
}

/* A plan that is executed is chosen by its step: with the same T, or one a little larger, two
   stages a branch side by side beat longer paths. */
TEST(test_short_path)
{
    struct gp_options options = rig_options();
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    struct part_problem p;
    struct gp_answer by_time, by_step;

    make(&g);
    c = rig_case_of(&g);
    c.devices = 8;
    c.batch = 8;
    rig_problem(&c, &p);
    options.refine = true;
    p.figures.reference = 1;
    assert_int_equal(gp_solve(&p, &options, &by_time), PST_OK);
    p.figures.reference = 0;
    assert_int_equal(gp_solve(&p, &options, &by_step), PST_OK);
    assert_true(by_step.found && by_time.found);
    rig_close(by_time.value.bottleneck_ns, 23000);
    assert_true(by_step.value.step_ns <= by_time.value.step_ns);
    assert_int_equal(by_step.value.depth, 3); /* two stages, then that of the join */
}

/* Rows before forks and between joins and forks, in any graph: plans are legal, T is that of the
   operators themselves. */
TEST(test_random)
{
    uint64_t seed = 20260, random = seed;
    struct gp_options options = rig_options();

    for (int i = 0; i < 60; i++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        struct gp_tails tails;
        struct gp_watch watch;

        rig_nested(&g, 14, 3, 3, 40, &random);
        rig_costs(&g, RIG_UNIFORM, &random);
        c = rig_case_of(&g);
        c.devices = 2 + (uint32_t)(rig_next(&random) % 4);
        c.batch = 8;
        c.comm = (uint32_t)(rig_next(&random) % 3);
        c.p2p = 4;
        rig_problem(&c, &p);
        gp_watch_start(&watch, &p, 0);
        gp_tails_init(&tails, &p, GP_SP_FLEXIBLE);
        for (uint32_t k = 0; k < tails.n; k++) {
            struct gp_result r;
            struct rig_worth worth;
            uint32_t stage_of[64], d[64];
            double coarse_ns;

            gp_search_size(&tails.of[k].problem, &tails.of[k].tree, &options, 1, INFINITY, &watch,
                           &r);
            assert_true(r.found);
            coarse_ns = r.value.bottleneck_ns;
            gp_tails_plan(&p, &tails.of[k], &options, 1, INFINITY, &watch, &r);
            assert_true(r.found);
            rig_stages(&r.plan, stage_of, d);
            worth = rig_judge(&c, stage_of, r.plan.n_stages, d, false);
            assert_true(worth.legal);
            rig_close(worth.bottleneck, coarse_ns / 1000);
            rig_close(worth.bottleneck, r.value.bottleneck_ns / 1000);
        }
    }
}
