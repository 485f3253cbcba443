/* SPDX-License-Identifier: Apache-2.0
 *
 * Long models of which planners look at some places alone: where these are, and that an answer is
 * no better than the one of all places, nor much worse, and says what it is.
 */
#include <math.h>
#include "test.h"

#include "ask_rig.h"
#include "places.h"
#include "sequence.h"

/* Work 8 in 4 runs: a share is 8 / (4 / 2 + 1) + 1 = 3, an end is where 1.5 to 3 are through. */
TEST(test_runs)
{
    static const uint32_t from[] = {0, 1, 2, 3, 4, 5, 6}, to[] = {1, 2, 3, 4, 5, 6, 7};
    static const uint32_t first_out[] = {0, 1, 2, 3, 4, 5, 6, 7, 7};
    static const uint32_t first_in[] = {0, 0, 1, 2, 3, 4, 5, 6, 7},
                          in_edges[] = {0, 1, 2, 3, 4, 5, 6};
    static const uint32_t order[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const double bytes[] = {1, 5, 9, 9, 2, 7, 1};
    static const int64_t even[] = {1, 1, 1, 1, 1, 1, 1, 1}, one[] = {0, 0, 50, 0, 0, 0, 0, 0},
                         none[8] = {0};
    const struct part_dag dag = {8, 7, from, to, first_out, first_in, in_edges};
    uint32_t first[9], n;

    /* 0 1: 5 cross, behind 2 there are 9; 2 3 4: 2 cross; 5 6 7: the end. */
    part_runs(&dag, bytes, even, order, 4, first, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(first, ((const uint32_t[]){0, 2, 5, 8}), 4 * sizeof *first);
    part_runs(&dag, bytes, one, order, 4, first, &n);
    assert_int_equal(n, 3); /* what is idle before and behind the one that works */
    assert_int_equal(first[1], 2);
    assert_int_equal(first[2], 3);
    part_runs(&dag, bytes, none, order, 4, first, &n);
    assert_int_equal(n, 1);
}

static const struct {
    const char *id, *all, *some, *value, *says;
} planners[] = {
    {"pipedream", "{}", "{\"places\": 60}", "bottleneck_us_per_sample", "all_places"},
    {"pipedream", "{\"objective\": \"paper\"}", "{\"objective\": \"paper\", \"places\": 60}",
     "bottleneck_us_per_sample", "all_places"},
    {"pipedream", "{\"objective\": \"reference\", \"order\": \"dfs\"}",
     "{\"objective\": \"reference\", \"order\": \"dfs\", \"places\": 60}", NULL, "all_places"},
    {"pipedream-2bw", "{\"even\": false}", "{\"even\": false, \"places\": 60}",
     "bottleneck_us_per_sample", "places"},
};

static double ask(const struct rig_case *c, size_t planner, bool some)
{
    struct pst_partition_result r;
    struct pst_error err;
    double us, places;

    if (ask_rig(c, planners[planner].id, some ? planners[planner].some : planners[planner].all,
                NULL, &r, &err) != PST_OK) {
        fail_msg("%s: %s", planners[planner].id, err.message);
    }
    us = ask_number(&r, planners[planner].value, r.bottleneck_ns / 1000);
    places = ask_number(&r, planners[planner].says, -1);
    if (strcmp(planners[planner].says, "places") == 0) {
        assert_true(some ? places >= 20 && places <= 90 : places == -1);
    } else {
        assert_true(places == (some ? 0 : 1));
    }
    pst_partition_result_finish(&r);
    return us;
}

TEST(test_some_places)
{
    static const uint32_t degrees[] = {1, 2};
    const uint64_t seed = 515;
    double worse = 0;
    uint32_t n = 0;

    for (unsigned round = 0; round < 8; round++) {
        uint64_t rng = seed + round;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;

        rig_layered(&g, 240, 4, 3, 3, &rng);
        rig_costs(&g, RIG_UNIFORM, &rng);
        c = rig_case_of(&g);
        c.devices = 6;
        c.batch = 24;
        c.b = 4;
        c.degrees = degrees;
        c.n_degrees = 2;
        c.comm = PST_COMM_SUM;
        c.p2p = 4 * ask_total(g.bytes, g.n_edges) / ask_total(g.tau, g.n);
        c.allreduce = c.p2p;
        for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) {
            double all = ask(&c, i, false), some = ask(&c, i, true);

            if (some < all * (1 - 1e-9) || some > all * 1.15) {
                fail_msg("seed %llu, round %u, %s %s: %.12g us, of all places %.12g us",
                         (unsigned long long)seed, round, planners[i].id, planners[i].some, some,
                         all);
            }
            worse += some / all;
            n++;
        }
    }
    print_message("%.4f of all places in the mean\n", worse / n);
    assert_true(worse / n < 1.05);
}
