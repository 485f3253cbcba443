/* SPDX-License-Identifier: Apache-2.0
 *
 * uniform, greedy and chain-dp on problem files, judged by the host under the reference cost model.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

    if (ask(c, id, options, &result, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
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

    if (ask(c, id, options, &result, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
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

static void test_uniform(void **state)
{
    static const double tau[] = {1, 1, 8, 1, 1, 2, 2};
    struct rig_graph g;
    struct rig_case c;

    (void)state;
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
static void test_orders(void **state)
{
    static const uint32_t edges[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 5}};
    static const double tau[] = {0, 1, 9, 9, 1, 0};
    static const char *const dfs = "{\"order\": \"dfs\"}";
    struct pst_partition_result result;
    struct pst_error err = {0};
    struct rig_graph g;
    struct rig_case c;

    (void)state;
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
static void test_baselines(void **state)
{
    const uint64_t seed = 12;
    uint64_t rng = seed;

    (void)state;
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

/* Two branches into a join, fixed cost 8 per op: in a row only the size 2 fits with five stages. */
static void test_sizes(void **state)
{
    static const uint32_t lens[] = {2, 2}, sizes[] = {1, 2, 4, 8};
    struct pst_partition_result result;
    struct pst_error err = {0};
    struct rig_graph g;
    struct rig_case c;

    (void)state;
    rig_branches(&g, 2, lens, 0, 1, false);
    for (int v = 0; v < 5; v++) {
        g.tau[v] = 6;
        g.alpha[v] = 8;
        g.saved[v] = 2;
    }
    c = rig_case_of(&g);
    c.devices = 5;
    c.batch = 64;
    c.memory = 24;
    c.sizes = sizes;
    c.n_sizes = 4;
    assert_int_equal(ask(&c, "chain-dp", "{}", &result, &err), PST_OK);
    assert_true(fabs(result.bottleneck_ns - 10000) < 1e-6);
    assert_int_equal(result.stages[0].microbatch_size, 2);
    assert_int_equal(result.stages[0].in_flight_samples, 6); /* depth 3 in the stage graph */
    pst_partition_result_finish(&result);
    expect_us(&c, "chain-dp", "{\"microbatch\": \"4\"}", 24);
    expect_us(&c, "chain-dp", "{\"microbatch\": \"4\", \"order\": \"best\"}", 8);
    expect_us(&c, "chain-dp", "{\"order\": \"best\"}", 8);
    assert_int_equal(ask(&c, "chain-dp", "{\"microbatch\": \"8\"}", &result, &err),
                     PST_ERR_INFEASIBLE);
    assert_int_equal(ask(&c, "chain-dp", "{\"microbatch\": \"3\"}", &result, &err), PST_ERR_CONFIG);
    assert_int_equal(ask(&c, "chain-dp", "{\"microbatch\": \"two\"}", &result, &err),
                     PST_ERR_CONFIG);
    rig_graph_finish(&g);
}

static void test_limits(void **state)
{
    static const char *const orders[] = {"{}", "{\"order\": \"best\"}"};
    struct pst_partition_result result;
    struct rig_graph g;
    struct rig_case c;

    (void)state;
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

static void test_stops(void **state)
{
    static const char *const orders[] = {"{}", "{\"order\": \"best\"}"};
    struct pst_partition_result result;
    struct rig_graph g;
    struct rig_case c;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform),   cmocka_unit_test(test_orders),
        cmocka_unit_test(test_baselines), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
