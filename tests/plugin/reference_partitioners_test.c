/* SPDX-License-Identifier: Apache-2.0
 *
 * uniform, greedy and chain-dp on problem files, judged by the host under the reference cost model.
 */
#include <math.h>
#include "test.h"

#include "ask_rig.h"

static bool stop;

static bool is_stopped(void)
{
    return stop;
}

/* Fails the test where it should not fail; PST_OK or not is the caller's. */
static pst_status ask(const struct rig_case *c, const char *id, const char *options,
                      struct pst_partition_result *result, struct pst_error *err)
{
    return ask_rig(c, id, options, is_stopped, result, err);
}

static void expect_sizes(const struct rig_case *c, const char *id, const char *options,
                         const uint32_t *sizes, uint32_t n)
{
    struct pst_partition_result result;
    struct pst_error err = {0};

    assert_ok(ask(c, id, options, &result, &err), &err);
    assert_int_equal(result.n_stages, n);
    for (uint32_t s = 0; s < n; s++) {
        assert_int_equal(result.stages[s].n_nodes, sizes[s]);
    }
    pst_partition_result_finish(&result);
}

static void expect_us(const struct rig_case *c, const char *id, const char *options, double us)
{
    struct pst_partition_result result;
    struct pst_error err = {0};

    assert_ok(ask(c, id, options, &result, &err), &err);
    if (fabs(result.bottleneck_ns / 1000 - us) > 1e-9 * us) {
        fail_msg("%s %s: %.12g us, expected %.12g", id, options, result.bottleneck_ns / 1000, us);
    }
    pst_partition_result_finish(&result);
}

static double remark(const struct pst_partition_result *result, const char *key)
{
    for (uint32_t i = 0; i < result->n_remarks; i++) {
        if (strcmp(result->remarks[i].key, key) == 0) {
            return result->remarks[i].number;
        }
    }
    fail_msg("no remark %s", key);
    return 0;
}

TEST(test_uniform)
{
    static const double tau[] = {1, 1, 8, 1, 1, 2, 2};
    struct rig_graph g;
    struct rig_case c;

    rig_chain(&g, 7);
    memcpy(g.tau, tau, sizeof tau);
    c = rig_case_of(&g);
    c.devices = 3;
    expect_sizes(&c, "uniform", "{}", (const uint32_t[]){2, 2, 3}, 3);
    /* Total 16: the time reaches 5.33 and 10.67 at ops 2 (10) and 3 (11). */
    expect_sizes(&c, "uniform", "{\"balance\": \"cost\"}", (const uint32_t[]){3, 1, 3}, 3);
    c.devices = 2; /* 8 is reached at op 2 */
    expect_sizes(&c, "uniform", "{\"balance\": \"cost\"}", (const uint32_t[]){3, 4}, 2);
    c.devices = 9;
    expect_sizes(&c, "uniform", "{}", (const uint32_t[]){1, 1, 1, 1, 1, 1, 1}, 7);
    expect_sizes(&c, "greedy", "{}", (const uint32_t[]){1, 1, 1, 1, 1, 1, 1}, 7);
    c.devices = 1;
    expect_sizes(&c, "uniform", "{\"balance\": \"cost\"}", (const uint32_t[]){7}, 1);
    expect_sizes(&c, "greedy", "{}", (const uint32_t[]){7}, 1);
    c.devices = 3; /* the cap is 8: 1 1, then 8, then the rest of 6 */
    expect_sizes(&c, "greedy", "{}", (const uint32_t[]){2, 1, 4}, 3);
    rig_graph_finish(&g);
}

/* Branches whose ops alternate in the file: depth first they are cut one by one. */
TEST(test_orders)
{
    static const uint32_t edges[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 5}};
    static const double tau[] = {0, 1, 9, 9, 1, 0};
    static const char *const dfs = "{\"order\": \"dfs\"}";
    struct pst_partition_result result;
    struct pst_error err = {0};
    struct rig_graph g;
    struct rig_case c;

    rig_graph_init(&g, 6);
    for (int e = 0; e < 6; e++) {
        rig_edge(&g, edges[e][0], edges[e][1], 0);
    }
    rig_sort(&g);
    memcpy(g.tau, tau, sizeof tau);
    c = rig_case_of(&g);
    c.devices = 2;
    assert_int_equal(ask(&c, "uniform", dfs, &result, &err), PST_OK);
    assert_int_equal(result.stages[0].n_nodes, 3);
    assert_int_equal(result.stages[0].nodes[2], 3); /* 0 1 3 | 2 4 5 */
    pst_partition_result_finish(&result);
    expect_us(&c, "greedy", dfs, 10);
    expect_us(&c, "chain-dp", "{}", 10);
    expect_us(&c, "chain-dp", dfs, 10);
    expect_us(&c, "chain-dp", "{\"order\": \"best\"}", 10);
    rig_graph_finish(&g);
}

/* The optimum on random chains without transfers is greedy's; chain-dp agrees; uniform is above. */
TEST(test_baselines)
{
    const uint64_t seed = 12;
    uint64_t rng = seed;

    for (int round = 0; round < 40; round++) {
        struct pst_partition_result a, b, u, cost;
        struct pst_error err = {0};
        struct rig_graph g;
        struct rig_case c;

        rig_chain(&g, (uint32_t)rig_draw(&rng, 1, 40));
        rig_costs(&g, RIG_UNIFORM + round % 3, &rng);
        c = rig_case_of(&g);
        c.devices = (uint32_t)rig_draw(&rng, 1, 12);
        assert_int_equal(ask(&c, "greedy", "{}", &a, &err), PST_OK);
        assert_int_equal(ask(&c, "chain-dp", "{}", &b, &err), PST_OK);
        assert_int_equal(ask(&c, "uniform", "{}", &u, &err), PST_OK);
        assert_int_equal(ask(&c, "uniform", "{\"balance\": \"cost\"}", &cost, &err), PST_OK);
        assert_true(fabs(a.bottleneck_ns - b.bottleneck_ns) <= 1e-9 * b.bottleneck_ns);
        assert_true(u.bottleneck_ns >= b.bottleneck_ns * (1 - 1e-9));
        assert_true(cost.bottleneck_ns >= b.bottleneck_ns * (1 - 1e-9));
        assert_true(remark(&b, "lower_bound_us_per_sample") * 1000 <= b.bottleneck_ns * (1 + 1e-9));
        pst_partition_result_finish(&a);
        pst_partition_result_finish(&b);
        pst_partition_result_finish(&u);
        pst_partition_result_finish(&cost);
        rig_graph_finish(&g);
    }
}

/* Two branches into a join, fixed cost 8 per op: in a row only the size 2 fits with five stages,
   whatever the order. At 4, three ops, one and one are the most: 3 * 8 / 4 + 3 * 6. */
TEST(test_sizes)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    struct pst_partition_result result;
    struct pst_error err = {0};
    struct rig_graph g;
    struct rig_case c;

    c = rig_two_branches(&g, 8);
    c.batch = 64;
    c.sizes = sizes;
    c.n_sizes = 4;
    assert_int_equal(ask(&c, "chain-dp", "{}", &result, &err), PST_OK);
    assert_true(fabs(result.bottleneck_ns - 10000) < 1e-6);
    assert_int_equal(result.stages[0].microbatch_size, 2);
    assert_int_equal(result.stages[0].in_flight_samples, 10); /* 3 stages deep, but 5 in a row */
    assert_true(result.peak_bytes == 20);
    pst_partition_result_finish(&result);
    expect_us(&c, "chain-dp", "{\"microbatch\": \"4\"}", 24);
    expect_us(&c, "chain-dp", "{\"microbatch\": \"4\", \"order\": \"best\"}", 24);
    expect_us(&c, "chain-dp", "{\"order\": \"best\"}", 10);
    assert_int_equal(ask(&c, "chain-dp", "{\"microbatch\": \"8\"}", &result, &err),
                     PST_ERR_INFEASIBLE);
    assert_int_equal(ask(&c, "chain-dp", "{\"microbatch\": \"3\"}", &result, &err), PST_ERR_CONFIG);
    assert_int_equal(ask(&c, "chain-dp", "{\"microbatch\": \"two\"}", &result, &err),
                     PST_ERR_CONFIG);
    rig_graph_finish(&g);
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
    pst_status st = ask(c, "chain-dp", options, &result, &err);
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

static void expect_close(int round, const char *what, double is, double expected)
{
    if (is != expected && !(fabs(is - expected) <= 1e-9 * expected)) {
        fail_msg("round %d, %s: %.12g us, expected %.12g", round, what, is, expected);
    }
}

/* Branches, with memory for little: the optimum under 1F1B's counts, of one order and of all. Side
   by side, stages would hold less. */
TEST(test_rows)
{
    const uint64_t seed = 1616;
    uint64_t rng = seed;
    uint32_t n_fit = 0, n_none = 0, n_less = 0;

    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 144; round++) {
        uint32_t order[8], lens[3], k = (uint32_t)rig_draw(&rng, 2, 3);
        struct rig_graph g;
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
        expect_close(round, "the model's order", row_us(&c, "{}"), rig_best_cut(&c, order));
        expect_close(round, "any order", row_us(&c, "{\"order\": \"best\"}"), best);
        n_fit += !isinf(best);
        n_none += isinf(best);
        n_less += graph < best * (1 - 1e-9);
        rig_graph_finish(&g);
    }
    print_message("%u fit, %u do not, %u would be faster as a graph\n", n_fit, n_none, n_less);
    assert_true(n_fit > 60 && n_less > 5);
}

/* Too many sets of operators to look at all: operators are moved instead. */
TEST(test_wide_rows)
{
    static const uint32_t lens[] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
    const uint64_t seed = 1617;
    uint64_t rng = seed;
    uint32_t n_better = 0;

    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 12; round++) {
        struct rig_graph g;
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
        rig_graph_finish(&g);
    }
    print_message("%u of 12 better than the model's order\n", n_better);
    assert_true(n_better > 6);
}

TEST(test_limits)
{
    static const char *const orders[] = {"{}", "{\"order\": \"best\"}"};
    struct pst_partition_result result;
    struct rig_graph g;
    struct rig_case c;

    for (int i = 0; i < 2; i++) {
        struct pst_error err = {0};

        rig_chain(&g, 1);
        c = rig_case_of(&g);
        c.devices = 4;
        expect_us(&c, "chain-dp", orders[i], 0); /* costs nothing, on one of four devices */
        g.saved[0] = 10;
        g.weight[0] = 3;
        c.memory = 21; /* 4 * 3 + 10 */
        assert_int_equal(ask(&c, "chain-dp", orders[i], &result, &err), PST_ERR_INFEASIBLE);
        assert_non_null(strstr(err.message, "\"n0\" alone is charged 22 bytes"));
        assert_non_null(strstr(err.message, "21 bytes"));
        rig_graph_finish(&g);
        rig_chain(&g, 3);
        for (int v = 0; v < 3; v++) {
            g.saved[v] = 10;
            g.tau[v] = 1;
        }
        c = rig_case_of(&g);
        c.devices = 2; /* each fits, but two on one device do not */
        c.memory = 19;
        assert_int_equal(ask(&c, "chain-dp", orders[i], &result, &err), PST_ERR_INFEASIBLE);
        assert_non_null(strstr(err.message, "no partition"));
        rig_graph_finish(&g);
    }
}

TEST(test_stops)
{
    static const char *const orders[] = {"{}", "{\"order\": \"best\"}"};
    struct pst_partition_result result;
    struct rig_graph g;
    struct rig_case c;

    rig_chain(&g, 50);
    for (int v = 0; v < 50; v++) {
        g.tau[v] = 1 + v % 7;
    }
    c = rig_case_of(&g);
    c.devices = 4;
    stop = true;
    for (int i = 0; i < 2; i++) {
        struct pst_error err = {0};

        assert_int_equal(ask(&c, "chain-dp", orders[i], &result, &err), PST_ERR_CANCELLED);
    }
    stop = false;
    rig_graph_finish(&g);
}
