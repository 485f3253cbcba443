/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of general graphs against every partition there is, and by the rules.
 */
#include "refine.h"
#include "partition_check.h"

#include <math.h>
#include "test.h"

/* What the plan is worth by the rig, which must agree with part_plan_value. */
static struct rig_worth judge(const struct rig_case *c, const struct part_problem *p,
                              const struct part_plan *plan)
{
    uint32_t *stage_of = calloc(p->n + 1, sizeof *stage_of);
    uint32_t *d = calloc(plan->n_stages + 1, sizeof *d);
    struct part_value value;
    struct rig_worth worth;
    uint32_t n = 0;

    assert_non_null(stage_of);
    assert_non_null(d);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        d[s] = plan->stages[s].d;
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++, n++) {
            stage_of[plan->stages[s].nodes[i]] = s;
        }
    }
    assert_int_equal(n, p->n);
    worth = rig_judge(c, stage_of, plan->n_stages, d, false);
    part_plan_value(plan, p, false, &value);
    assert_int_equal(value.legal, worth.legal);
    if (worth.legal) {
        assert_int_equal(value.fits, worth.fits);
        assert_int_equal(value.depth, worth.depth);
        assert_int_equal(value.devices, worth.devices);
        rig_close(value.peak_bytes, worth.peak);
        rig_close(value.bottleneck_ns / 1000, worth.bottleneck);
    }
    free(stage_of);
    free(d);
    return worth;
}

/* T in us; INFINITY: none. */
static double solve(const struct rig_case *c, struct part_refine_stats *stats)
{
    struct part_problem p;
    struct part_costs costs;
    struct part_plan plan = {NULL, 0};
    double result = INFINITY;
    bool found;

    rig_problem(c, &p);
    part_costs_init(&p, c->b, &costs);
    part_dag_solve(&p, &costs, NULL, &found, &plan, stats);
    if (found) {
        struct rig_worth worth = judge(c, &p, &plan);

        assert_true(worth.legal && worth.fits);
        result = worth.bottleneck;
        rig_close(result, (double)stats->ticks * costs.ns_per_tick / 1000);
        assert_true(stats->bound <= stats->ticks);
    }
    part_plan_finish(&plan);
    return result;
}

/* Four branches of five ops: side by side six micro-batches are held, in a row 21. */
TEST(test_depths_count)
{
    static const uint32_t lens[] = {5, 5, 5, 5};
    struct part_refine_stats stats;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    rig_branches(&g, 4, lens, 0, 1, false);
    for (int v = 0; v < 21; v++) {
        g.tau[v] = 6;
        g.saved[v] = 2;
    }
    c = rig_case_of(&g);
    c.devices = 21;
    c.batch = 64;
    c.memory = 12;
    rig_close(solve(&c, &stats), 6);
    assert_true(stats.optimal);
    /* 24 bytes on ten devices: two ops a stage and one of three, 18 us, would do by work alone. */
    c.devices = 10;
    c.memory = 24;
    assert_true(solve(&c, &stats) <= 18 * (1 + 1e-9));
}

/* --- random graphs -----------------------------------------------------------------------------*/

static void random_case(struct rig_graph *g, struct rig_case *c, uint32_t n, int round,
                        uint64_t *state)
{
    if (round % 2 == 0) {
        rig_nested(g, n, 3, 2, 60, state);
    } else {
        rig_random(g, n, 20, state);
    }
    *c = rig_draw_case(g, 5, round, state);
}

TEST(test_against_every_partition)
{
    uint64_t rng = 77;
    uint32_t feasible = 0, infeasible = 0;

    for (int round = 0; round < 576; round++) {
        struct part_refine_stats stats;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        double got;

        random_case(&g, &c, (uint32_t)rig_draw(&rng, 1, 7), round, &rng);
        got = solve(&c, &stats);
        rig_agree(got, rig_best_partition(&c), round);
        assert_true(stats.optimal);
        feasible += !isinf(got);
        infeasible += isinf(got);
    }
    print_message("%u feasible, %u not\n", feasible, infeasible);
    assert_true(feasible > 200 && infeasible > 30);
}

/* Of graphs too large to look at all: legal, fits, no better than the bound, no worse than the cut
   of any one order. */
TEST(test_larger_graphs)
{
    uint64_t rng = 5;
    double sum = 0;
    uint32_t n_found = 0;

    for (int round = 0; round < 72; round++) {
        const struct part_refine_limits few = {.orders = 10};
        struct part_refine_stats stats;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        struct part_costs costs;
        FINISHED_BY(part_plan_finish) struct part_plan plan = {NULL, 0};
        uint32_t order[128];
        bool found;

        random_case(&g, &c, (uint32_t)rig_draw(&rng, 11, 60), round, &rng);
        rig_problem(&c, &p);
        part_costs_init(&p, c.b, &costs);
        part_dag_solve(&p, &costs, &few, &found, &plan, &stats);
        if (found) {
            struct rig_worth worth = judge(&c, &p, &plan);

            assert_true(worth.legal && worth.fits);
            assert_true(stats.bound <= stats.ticks);
            sum += (double)stats.ticks / (double)stats.bound;
            n_found++;
        }
        for (uint32_t kind = 0; kind < 4; kind++) {
            struct part_chain_limits limits = {.below = INT64_MAX, .memory = true};
            FINISHED_BY(part_plan_finish) struct part_plan chain = {NULL, 0};
            bool chain_found;
            int64_t ticks;

            part_order(&p, kind, NULL, order);
            part_chain_solve(&p, &costs, order, &limits, &chain_found, &ticks, &chain);
            assert_true(!chain_found || (found && stats.ticks <= ticks));
        }
    }
    print_message("%u plans, T over the bound %.4f on average\n", n_found, sum / n_found);
    assert_true(n_found > 40);
}

/* A bad plan gets better and stays legal, in depths of the stage graph too. */
TEST(test_refinement)
{
    uint64_t rng = 31;
    uint32_t better = 0;

    for (int round = 0; round < 60; round++) {
        const struct part_refine_limits few = {.orders = 2, .steps = 200000};
        struct part_refine_stats stats;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        struct part_costs costs;
        FINISHED_BY(part_plan_finish) struct part_plan plan;
        uint32_t stage_of[80];
        struct rig_worth before, after;

        random_case(&g, &c, (uint32_t)rig_draw(&rng, 12, 80), round, &rng);
        c.memory = INFINITY;
        rig_problem(&c, &p);
        part_costs_init(&p, c.b, &costs);
        for (uint32_t v = 0; v < g.n; v++) {
            stage_of[v] = c.devices - 1 - v * c.devices / g.n; /* stages the wrong way round */
        }
        part_plan_init(&plan, &p, stage_of, c.devices, c.b);
        before = judge(&c, &p, &plan);
        c.memory = p.capacity_bytes = before.peak;
        part_refine(&p, &costs, &few, &plan, &stats);
        after = judge(&c, &p, &plan);
        assert_true(after.legal && after.fits);
        assert_true(after.bottleneck <= before.bottleneck * (1 + 1e-12));
        better += after.bottleneck < before.bottleneck;
    }
    assert_true(better > 30);
}
