/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimum of graphpipe's family of plans against all of its members.
 */
#include "search.h"

#include <math.h>
#include "test.h"

#include "graphpipe_family_rig.h"

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

        rig_stages(&result.plan, stage_of, d);
        worth = rig_judge(c, stage_of, result.plan.n_stages, d, false);
        assert_true(worth.legal);
        assert_true(worth.fits);
        assert_true(worth.devices <= c->devices);
        best = result.value.bottleneck_ns / 1000;
        rig_close(worth.bottleneck, best);
        assert_true(result.bound_ns <= result.value.bottleneck_ns * (1 + 1e-12));
    }
    return best;
}

/* A random problem on a series-parallel graph, by the bits of `kind`. */
static void one_case(uint64_t seed, bool any)
{
    static const uint32_t degrees[] = {1, 2};
    uint64_t state = seed;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
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
    rig_agree(solve(&c, any ? GP_ANY : GP_CONTIGUOUS), family_best(&c, any), seed);
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
