/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimum of graphpipe's family of plans against all of its members.
 */
#include "search.h"

#include <math.h>
#include "test.h"

#include "graphpipe_family_rig.h"

static void close_to(double a, double b)
{
    if (isinf(a) || isinf(b) ? a != b : fabs(a - b) > 1e-9 * fmax(1, fmax(fabs(a), fabs(b)))) {
        fail_msg("%.12g is not %.12g", a, b);
    }
}

static const int64_t *no_work(uint32_t n)
{
    static int64_t zeros[4096];

    assert_true(n <= 4096);
    return zeros;
}

/* Finds the least T with one size, and has the plan judged by the rig. */
static double solve(const struct rig_case *c, uint32_t grouping)
{
    struct gp_options options = {.grouping = grouping, .exact = true};
    struct part_problem p;
    struct gp_tree tree;
    struct gp_watch watch;
    struct gp_result result;
    double best = INFINITY;

    rig_problem(c, &p);
    gp_watch_start(&watch, &p, 0);
    gp_tree_init(&tree, &p, no_work(p.n), GP_SP_FLEXIBLE);
    gp_search_size(&p, &tree, &options, c->b, INFINITY, &watch, &result);
    assert_true(result.proven);
    if (result.found) {
        uint32_t stage_of[4096], d[4096];
        struct rig_worth worth;

        for (uint32_t s = 0; s < result.plan.n_stages; s++) {
            d[s] = result.plan.stages[s].d;
            for (uint32_t i = 0; i < result.plan.stages[s].n_nodes; i++) {
                stage_of[result.plan.stages[s].nodes[i]] = s;
            }
        }
        worth = rig_judge(c, stage_of, result.plan.n_stages, d, false);
        assert_true(worth.legal);
        assert_true(worth.fits);
        assert_true(worth.devices <= c->devices);
        best = result.value.bottleneck_ns / 1000;
        close_to(worth.bottleneck, best);
        assert_true(result.bound_ns <= result.value.bottleneck_ns * (1 + 1e-12));
    }
    return best;
}

static struct rig_graph *with(struct rig_graph *g, const double *tau, uint32_t n)
{
    for (uint32_t v = 0; v < n; v++) {
        g->tau[v] = tau[v];
    }
    rig_sort(g);
    return g;
}

#define TAU(...)                                                                                   \
    (const double[])                                                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void build(struct rig_graph *g, uint32_t n, const uint32_t (*edges)[2], uint32_t n_edges,
                  const double *tau)
{
    rig_graph_init(g, n);
    for (uint32_t e = 0; e < n_edges; e++) {
        rig_edge(g, edges[e][0], edges[e][1], 0);
    }
    with(g, tau, n);
}

/* Two branches 0 -> 1, 2 -> 3, join 4: a graph saves memory, and a larger micro-batch then pays. */
TEST(test_two_branches)
{
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    c = rig_two_branches(&g, 0);
    c.b = 2;
    close_to(solve(&c, GP_CONTIGUOUS), 6);
    c.b = 4;
    close_to(solve(&c, GP_CONTIGUOUS), 6);
    c.b = 2;
    c.memory = 16;
    close_to(solve(&c, GP_CONTIGUOUS), 6);
    for (uint32_t v = 0; v < 5; v++) {
        g.alpha[v] = 8;
    }
    c.memory = 24;
    c.batch = 64;
    close_to(solve(&c, GP_CONTIGUOUS), 10);
    c.b = 4;
    close_to(solve(&c, GP_CONTIGUOUS), 8);
    c.b = 8;
    close_to(solve(&c, GP_CONTIGUOUS), INFINITY);
}

TEST(test_worked_examples)
{
    static const uint32_t join[][2] = {{0, 2}, {1, 2}};
    static const uint32_t fork[][2] = {{0, 1}, {1, 2}, {0, 3}, {3, 4}, {2, 5}, {4, 5}};
    static const uint32_t four[][2] = {{0, 1}, {0, 2}, {0, 3}, {0, 4},
                                       {1, 5}, {2, 5}, {3, 5}, {4, 5}};
    static const uint32_t nested[][2] = {{0, 1}, {1, 2}, {1, 3}, {2, 4},
                                         {3, 4}, {4, 6}, {0, 5}, {5, 6}};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    build(&g, 3, join, 2, TAU(6, 4, 2));
    c = rig_case_of(&g);
    c.devices = 2;
    close_to(solve(&c, GP_CONTIGUOUS), 6);
    rig_graph_finish(&g);

    build(&g, 6, fork, 6, TAU(1, 4, 2, 1, 1, 1));
    c = rig_case_of(&g);
    c.devices = 2;
    close_to(solve(&c, GP_CONTIGUOUS), 7);
    with(&g, TAU(1, 7, 2, 7, 2, 1), 6);
    c.devices = 3;
    close_to(solve(&c, GP_CONTIGUOUS), 9);
    rig_graph_finish(&g);

    build(&g, 6, four, 8, TAU(0, 6, 5, 2, 3, 0));
    c = rig_case_of(&g);
    c.devices = 2;
    close_to(solve(&c, GP_CONTIGUOUS), 10);
    close_to(solve(&c, GP_SORTED), 10);
    close_to(solve(&c, GP_ANY), 8);
    rig_graph_finish(&g);

    build(&g, 7, nested, 8, TAU(1, 2, 5, 4, 2, 7, 1));
    c = rig_case_of(&g);
    c.devices = 4;
    close_to(solve(&c, GP_CONTIGUOUS), 8);
}

TEST(test_chains)
{
    static const uint32_t degrees[] = {1, 2};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    rig_chain(&g, 6);
    with(&g, TAU(3, 3, 3, 3, 3, 3), 6);
    c = rig_case_of(&g);
    c.devices = 3;
    close_to(solve(&c, GP_CONTIGUOUS), 6);
    rig_graph_finish(&g);
    rig_chain(&g, 5);
    with(&g, TAU(4, 4, 16, 4, 4), 5);
    c = rig_case_of(&g);
    c.devices = 4;
    c.b = 2;
    c.batch = 2;
    c.degrees = degrees;
    c.n_degrees = 2;
    close_to(solve(&c, GP_CONTIGUOUS), 8);
    rig_graph_finish(&g);
    rig_chain(&g, 4);
    with(&g, TAU(6, 6, 6, 6), 4);
    for (uint32_t v = 0; v < 4; v++) {
        g.saved[v] = 4;
    }
    c = rig_case_of(&g);
    c.devices = 4;
    c.b = 2;
    c.batch = 16;
    c.memory = 32;
    close_to(solve(&c, GP_CONTIGUOUS), 6);
    c.memory = 24;
    close_to(solve(&c, GP_CONTIGUOUS), 12);
}

/* A random problem on a series-parallel graph, by the bits of `kind`. */
static void one_case(uint64_t seed, bool any)
{
    static const uint32_t degrees[] = {1, 2};
    uint64_t state = seed;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    double got, expected;
    uint32_t kind = (uint32_t)rig_draw(&state, 0, 15), n = (uint32_t)rig_draw(&state, 2, 8);

    rig_nested(&g, n, 4, 3, 60, &state);
    rig_costs(&g, rig_draw(&state, 0, 3) == 0 ? RIG_ZERO : RIG_UNIFORM, &state);
    c = rig_case_of(&g);
    c.devices = (uint32_t)rig_draw(&state, 1, 5);
    c.b = (uint32_t)rig_draw(&state, 0, 1) * 2 + 2;
    c.batch = c.b * (uint32_t)rig_draw(&state, 1, 6);
    c.multiplier = 2;
    if ((kind & 1) != 0) {
        double all = 0;

        for (uint32_t v = 0; v < n; v++) {
            all += 2 * g.weight[v] + g.saved[v] * c.b;
        }
        c.memory = floor(all * (double)rig_draw(&state, 20, 120) / 100);
    }
    if ((kind & 2) != 0) {
        c.degrees = degrees;
        c.n_degrees = 2;
        c.allreduce = 1;
    }
    if ((kind & 4) != 0) {
        c.comm = (kind & 8) != 0 ? PST_COMM_SUM : PST_COMM_MAX;
        c.p2p = 1;
    }
    for (uint32_t v = 0; v < n; v++) {
        g.alpha[v] = (double)rig_draw(&state, 0, 4);
    }
    got = solve(&c, any ? GP_ANY : GP_CONTIGUOUS);
    expected = family_best(&c, any);
    if (isinf(got) != isinf(expected) || (!isinf(got) && fabs(got - expected) > 1e-9 * expected)) {
        fail_msg("seed %llu: %.12g is not %.12g (kind %u, n %u, devices %u)",
                 (unsigned long long)seed, got, expected, kind, n, c.devices);
    }
}

TEST(test_family)
{
    for (uint64_t seed = 1; seed <= 500; seed++) {
        one_case(seed, false);
    }
}

TEST(test_family_any)
{
    for (uint64_t seed = 1001; seed <= 1300; seed++) {
        one_case(seed, true);
    }
}
