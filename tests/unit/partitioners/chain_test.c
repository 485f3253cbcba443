/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimal cut of an order against every cut there is.
 */
#include "chain.h"
#include "partition_check.h"

#include <math.h>
#include "test.h"

/* T by the solver in us; INFINITY: none. Also judged by the rig, and the bound must hold. */
static double solve(const struct rig_case *c, uint32_t kind, const uint64_t *keys,
                    double *ret_every_cut)
{
    struct part_chain_stats stats = {false, 0, 0};
    struct part_chain_limits limits = {.below = INT64_MAX, .memory = true, .stats = &stats};
    struct part_plan plan = {NULL, 0};
    struct part_problem p;
    struct part_costs costs;
    uint32_t order[64], stage_of[64], d[64];
    double ticks_us, result = INFINITY;
    int64_t ticks = 0;
    bool found;

    rig_problem(c, &p);
    part_costs_init(&p, c->b, &costs);
    part_order(&p, kind, keys, order);
    ticks_us = costs.ns_per_tick / 1000;
    part_chain_solve(&p, &costs, order, &limits, &found, &ticks, &plan);
    assert_true(stats.exact);
    if (found) {
        struct part_value value;
        struct rig_worth worth;

        result = (double)ticks * ticks_us;
        rig_stages(&plan, stage_of, d);
        worth = rig_judge(c, stage_of, plan.n_stages, d, true);
        assert_true(worth.legal);
        assert_true(worth.fits);
        rig_close(worth.bottleneck, result);
        part_plan_value(&plan, &p, false, &value);
        assert_true(value.legal && value.fits);
        rig_close(value.bottleneck_ns / 1000, result);
        assert_true(part_lower_bound(&p, &costs) <= ticks);
        part_plan_finish(&plan);
    }
    *ret_every_cut = rig_best_cut(c, order);
    return result;
}

static void random_case(struct rig_graph *g, struct rig_case *c, int round, uint64_t *state)
{
    uint32_t n = (uint32_t)rig_draw(state, 1, 9);

    if (round % 2 == 0) {
        rig_chain(g, n);
    } else {
        rig_random(g, n, 20, state);
    }
    *c = rig_draw_case(g, 6, round, state);
}

TEST(test_against_every_cut)
{
    uint64_t rng = 2025;
    uint32_t feasible = 0, infeasible = 0;

    for (int round = 0; round < 2160; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        uint64_t keys[16];
        double expected, got;

        random_case(&g, &c, round, &rng);
        for (uint32_t v = 0; v < g.n; v++) {
            keys[v] = rig_next(&rng);
        }
        got = solve(&c, (uint32_t)(round % 5), keys, &expected);
        rig_agree(got, expected, round);
        feasible += !isinf(got);
        infeasible += isinf(got);
    }
    print_message("%u feasible, %u not\n", feasible, infeasible);
    assert_true(feasible > 1000 && infeasible > 100);
}
