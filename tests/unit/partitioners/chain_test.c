/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimal cut of an order against every cut there is.
 */
#include "chain.h"
#include "partition_rig.h"

#include <math.h>
#include "test.h"

static void stages_of(const struct part_problem *p, const struct part_plan *plan,
                      uint32_t *stage_of, uint32_t *d)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        d[s] = plan->stages[s].d;
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            stage_of[plan->stages[s].nodes[i]] = s;
        }
    }
}

static void close_to(double a, double b)
{
    if (isinf(a) || isinf(b) ? a != b : fabs(a - b) > 1e-9 * fmax(1, fmax(fabs(a), fabs(b)))) {
        fail_msg("%.12g is not %.12g", a, b);
    }
}

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
        stages_of(&p, &plan, stage_of, d);
        worth = rig_judge(c, stage_of, plan.n_stages, d, true);
        assert_true(worth.legal);
        assert_true(worth.fits);
        close_to(worth.bottleneck, result);
        part_plan_value(&plan, &p, false, &value);
        assert_true(value.legal && value.fits);
        close_to(value.bottleneck_ns / 1000, result);
        assert_true(part_lower_bound(&p, &costs) <= ticks);
        part_plan_finish(&plan);
    }
    if (ret_every_cut != NULL) {
        *ret_every_cut = rig_best_cut(c, order);
    }
    return result;
}

static void cost_chain(struct rig_graph *g, uint32_t n, const double *tau)
{
    rig_chain(g, n);
    for (uint32_t v = 0; v < n; v++) {
        g->tau[v] = tau[v];
    }
}

/* --- worked examples ---------------------------------------------------------------------------*/

TEST(test_plain_chains)
{
    static const double even[] = {3, 3, 3, 3, 3, 3}, uneven[] = {1, 4, 2, 3, 5};
    static const double heavy[] = {4, 4, 16, 4, 4};
    static const uint32_t degrees[] = {1, 2};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    cost_chain(&g, 6, even);
    c = rig_case_of(&g);
    c.devices = 3;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 6);
    rig_graph_finish(&g);
    cost_chain(&g, 5, uneven);
    c.graph = &g;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 5);
    rig_graph_finish(&g);
    cost_chain(&g, 5, heavy);
    c.graph = &g;
    c.devices = 4;
    c.b = c.batch = 2;
    c.degrees = degrees;
    c.n_degrees = 2;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 8);
}

TEST(test_transfers)
{
    static const struct {
        uint32_t comm;
        double rate, expected;
    } cases[] = {{PST_COMM_NONE, 1, 12},
                 {PST_COMM_SUM, 1, 22},
                 {PST_COMM_SUM, 4, 16.5},
                 {PST_COMM_MAX, 1, 18},
                 {PST_COMM_MAX, 4, 12}};
    static const double tau[] = {6, 6, 6, 6}, bytes[] = {2, 9, 2};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;

    cost_chain(&g, 4, tau);
    for (int i = 0; i < 3; i++) {
        g.bytes[i] = bytes[i];
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig_case c = rig_case_of(&g);

        c.devices = 2;
        c.comm = cases[i].comm;
        c.p2p = cases[i].rate;
        close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), cases[i].expected);
    }
}

TEST(test_memory_of_1f1b)
{
    static const double tau[] = {6, 6, 6, 6};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    cost_chain(&g, 4, tau);
    for (int v = 0; v < 4; v++) {
        g.saved[v] = 4;
    }
    c = rig_case_of(&g);
    c.devices = 4;
    c.b = 2;
    c.batch = 16;
    c.memory = 32;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 6);
    c.memory = 24;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 12);
    c.memory = 7; /* a node alone needs 8 */
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), INFINITY);
}

/* Two branches 0-1 and 2-3 into 4; sequential columns of the two examples with branches. */
TEST(test_branches)
{
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    c = rig_two_branches(&g, 0);
    c.b = 2;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 6);
    c.b = 4;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 18);
    c.b = 2;
    c.memory = 16;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 12);
    c.memory = 24;
    c.batch = 64;
    for (int v = 0; v < 5; v++) {
        g.alpha[v] = 8;
    }
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 10);
    c.b = 4;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 24);
    c.b = 8;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), INFINITY);
}

/* Fork 0, branches 1-2 and 3-4, join 5: parts of both branches in a stage are best. */
TEST(test_fork_and_join)
{
    static const uint32_t lens[] = {2, 2};
    static const double tau[][6] = {{1, 4, 2, 1, 1, 1}, {1, 7, 2, 7, 2, 1}};
    static const uint32_t devices[] = {2, 3};
    static const double expected[] = {5, 9};

    for (int i = 0; i < 2; i++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;

        rig_branches(&g, 2, lens, 1, 1, false);
        memcpy(g.tau, tau[i], sizeof tau[i]);
        c = rig_case_of(&g);
        c.devices = devices[i];
        close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), expected[i]);
    }
}

TEST(test_all_reduce)
{
    static const double tau[] = {12, 12};
    static const uint32_t degrees[] = {1, 2, 4};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    cost_chain(&g, 2, tau);
    g.weight[1] = 40;
    c = rig_case_of(&g);
    c.devices = 4;
    c.b = 4;
    c.batch = 10;
    c.degrees = degrees;
    c.n_degrees = 3;
    c.allreduce = 1;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 10);
    c.batch = 40;
    close_to(solve(&c, PART_ORDER_INDEX, NULL, NULL), 7);
}

/* --- every cut ---------------------------------------------------------------------------------*/

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
        if (isinf(got) != isinf(expected) ||
            (!isinf(got) && fabs(got - expected) > 1e-9 * fmax(1, expected))) {
            fail_msg("round %d: %.12g, every cut: %.12g", round, got, expected);
        }
        feasible += !isinf(got);
        infeasible += isinf(got);
    }
    print_message("%u feasible, %u not\n", feasible, infeasible);
    assert_true(feasible > 1000 && infeasible > 100);
}
