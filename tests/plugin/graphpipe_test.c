/* SPDX-License-Identifier: Apache-2.0
 *
 * stage-graph as a plugin, and what graphpipe shares of it, on problem files, judged by the host:
 * worked examples, options, messages, planning with the scheduler that runs branches side by side
 * and with one that does not.
 */
#include <math.h>
#include <stdio.h>
#include "test.h"

#include "ask_rig.h"

static const uint32_t sizes[] = {1, 2, 4, 8};

/* scheduler: NULL, or whose in-flight counts to plan with. */
static pst_status ask(const struct rig_case *c, const char *options, const char *scheduler,
                      struct pst_partition_result *result, struct pst_error *err)
{
    struct pst_problem *problem = ask_problem(c, options);
    const struct pst_problem_job job = {.id = "stage-graph", .problem = problem};
    pst_status st;

    memset(err, 0, sizeof *err);
    if (scheduler != NULL) {
        problem->planned = true;
        problem->scheduler = scheduler;
    }
    st = pst_problem_partition(&job, NULL, NULL, result, err);
    pst_problem_destroy(problem);
    return st;
}

/* The objective that asks for it, and more options. */
static const char *least_t(const char *options, char text[256])
{
    snprintf(text, 256, "{\"objective\": \"bottleneck\"%s%s", options == NULL ? "" : ", ",
             options == NULL ? "}" : options + 1);
    return text;
}

static double bottleneck(const struct rig_case *c, const char *options)
{
    struct pst_partition_result result;
    struct pst_error err;
    char text[256];
    double us;

    assert_ok(ask(c, least_t(options, text), NULL, &result, &err), &err);
    us = result.bottleneck_ns / 1000;
    pst_partition_result_finish(&result);
    return us;
}

/* INFINITY: nothing fits. */
static double us_or_none(const struct rig_case *c, const char *options)
{
    struct pst_partition_result result;
    struct pst_error err;
    char text[256];
    pst_status st = ask(c, least_t(options, text), NULL, &result, &err);
    double us = INFINITY;

    if (st == PST_OK) {
        us = result.bottleneck_ns / 1000;
        pst_partition_result_finish(&result);
    } else if (st != PST_ERR_INFEASIBLE) {
        fail_msg("%s", err.message);
    }
    return us;
}

static void expect_refusal(const struct rig_case *c, const char *options, pst_status status,
                           const char *words)
{
    struct pst_partition_result result;
    struct pst_error err;

    assert_int_equal(ask(c, options, NULL, &result, &err), status);
    if (strstr(err.message, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.message, words);
    }
}

static void graph(struct rig_graph *g, uint32_t n, const uint32_t (*edges)[2], uint32_t n_edges,
                  const double *tau)
{
    rig_graph_init(g, n);
    for (uint32_t e = 0; e < n_edges; e++) {
        rig_edge(g, edges[e][0], edges[e][1], 0);
    }
    for (uint32_t v = 0; v < n; v++) {
        g->tau[v] = tau[v];
    }
    rig_sort(g);
}

#define TAU(...)                                                                                   \
    (const double[])                                                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static const uint32_t forked[][2] = {{0, 1}, {1, 2}, {0, 3}, {3, 4}, {2, 5}, {4, 5}};
static const uint32_t other[][2] = {{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 4}, {3, 5}, {4, 5}};

#define FAMILY "{\"refine\": false}"

/* Family, any plan, chain. */
TEST(test_examples)
{
    static const uint32_t four[][2] = {{0, 1}, {0, 2}, {0, 3}, {0, 4},
                                       {1, 5}, {2, 5}, {3, 5}, {4, 5}};
    static const uint32_t nested[][2] = {{0, 1}, {1, 2}, {1, 3}, {2, 4},
                                         {3, 4}, {4, 6}, {0, 5}, {5, 6}};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    graph(&g, 6, forked, 6, TAU(1, 4, 2, 1, 1, 1));
    c = rig_case_of(&g);
    c.devices = 2;
    CLOSE(bottleneck(&c, FAMILY), 7);
    CLOSE(bottleneck(&c, NULL), 5);
    CLOSE(bottleneck(&c, "{\"force_chain\": true}"), 5);
    rig_graph_finish(&g);
    graph(&g, 6, forked, 6, TAU(1, 7, 2, 7, 2, 1));
    c = rig_case_of(&g);
    c.devices = 3;
    CLOSE(bottleneck(&c, FAMILY), 9);
    CLOSE(bottleneck(&c, NULL), 8);
    CLOSE(bottleneck(&c, "{\"force_chain\": true}"), 9);
    rig_graph_finish(&g);
    graph(&g, 6, four, 8, TAU(0, 6, 5, 2, 3, 0));
    c = rig_case_of(&g);
    c.devices = 2;
    CLOSE(bottleneck(&c, FAMILY), 10);
    CLOSE(bottleneck(&c, NULL), 8);
    CLOSE(bottleneck(&c, "{\"refine\": false, \"grouping\": \"sorted\"}"), 10);
    CLOSE(bottleneck(&c, "{\"refine\": false, \"grouping\": \"any\"}"), 8);
    CLOSE(bottleneck(&c, "{\"force_chain\": true}"), 10);
    rig_graph_finish(&g);
    graph(&g, 7, nested, 8, TAU(1, 2, 5, 4, 2, 7, 1));
    c = rig_case_of(&g);
    c.devices = 4;
    CLOSE(bottleneck(&c, FAMILY), 8);
    CLOSE(bottleneck(&c, NULL), 7);
    rig_graph_finish(&g);
    graph(&g, 6, other, 7, TAU(1, 1, 1, 1, 3, 1));
    c = rig_case_of(&g);
    c.devices = 3;
    CLOSE(bottleneck(&c, NULL), 3);
    CLOSE(bottleneck(&c, "{\"force_chain\": true}"), 4);
}

/* Two towers and a light join, on more devices than there is work for: of plans with the least T
   the one with the shortest step. By hand, a quarter of each time is forward: T is 8, of image, and
   on its own it never waits: forward to 2 and to 4, and the join is through by 3. With text and the
   join in one stage forward goes from 2 to 3.75, backward to 9, and image waits from 4 to 9. */
TEST(test_towers)
{
    static const uint32_t edges[][2] = {{0, 2}, {1, 2}};
    FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
    struct pst_error err;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    graph(&g, 3, edges, 2, TAU(6, 8, 1));
    for (uint32_t v = 0; v < 3; v++) {
        g.saved[v] = 2;
    }
    c = rig_case_of(&g);
    c.devices = 4;
    c.batch = 8;
    assert_int_equal(ask(&c, NULL, NULL, &result, &err), PST_OK);
    CLOSE(result.bottleneck_ns, 8000);
    CLOSE(result.step_ns, 8 * 8 * 1000);
}

/* Of small problems the least T is the optimum of all partitions, and none is
   refused that has one. */
TEST(test_small_ones)
{
    static const char *const kinds[] = {"branches", "nested", "layered", "random"};
    uint64_t rng = 1601;
    uint32_t n_fit = 0, n_none = 0, n_beyond = 0;

    for (int round = 0; round < 216; round++) {
        uint32_t n = (uint32_t)rig_draw(&rng, 3, 7), lens[3];
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        double best, is, family;

        for (int i = 0; i < 3; i++) {
            lens[i] = (uint32_t)rig_draw(&rng, 1, 2);
        }
        switch (round % 4) {
        case 0:
            rig_branches(&g, (uint32_t)rig_draw(&rng, 2, 3), lens, 0, 1, round % 8 == 0);
            break;
        case 1:
            rig_nested(&g, n, 3, 3, 50, &rng);
            break;
        case 2:
            rig_layered(&g, n, 3, 2, 2, &rng);
            break;
        default:
            rig_random(&g, n, 25, &rng);
        }
        c = rig_draw_case(&g, 5, round, &rng);
        best = rig_best_partition(&c);
        is = us_or_none(&c, "{\"microbatch\": \"4\"}"); /* sizes that replicas make: not in it */
        family = us_or_none(&c, "{\"microbatch\": \"4\", \"refine\": false}");
        if (is != best && !(fabs(is - best) <= 1e-9 * best)) {
            fail_msg("round %d, %s: %.12g us, every partition: %.12g", round, kinds[round % 4], is,
                     best);
        }
        n_fit += !isinf(best);
        n_none += isinf(best);
        n_beyond += family > best * (1 + 1e-9);
    }
    print_message("%u fit, %u do not, %u are beyond the family\n", n_fit, n_none, n_beyond);
    assert_true(n_fit > 108 && n_none > 5 && n_beyond > 10);
}

/* Two branches, 8 us per micro-batch: 4 samples are best and fit only because stages are a graph.
 */
TEST(test_sizes)
{
    struct pst_partition_result result;
    struct pst_error err;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    c = rig_two_branches(&g, 8);
    c.batch = 64;
    c.sizes = sizes;
    c.n_sizes = 4;
    assert_int_equal(ask(&c, NULL, NULL, &result, &err), PST_OK);
    CLOSE(result.bottleneck_ns, 8000);
    assert_int_equal(result.n_stages, 5);
    for (uint32_t s = 0; s < 5; s++) {
        assert_int_equal(result.stages[s].microbatch_size, 4);
        assert_int_equal(result.stages[s].in_flight_samples, 4 * result.stages[s].depth);
    }
    assert_true(ask_number(&result, "probes", NAN) > 0);
    assert_true(ask_number(&result, "gap", NAN) >= 1);
    CLOSE(ask_number(&result, "family_gap", NAN), 1);
    assert_true(ask_number(&result, "family_optimum", NAN) != 0);
    CLOSE(ask_number(&result, "depth", NAN), 3);
    pst_partition_result_finish(&result);
    CLOSE(bottleneck(&c, "{\"microbatch\": \"2\"}"), 10);
    CLOSE(bottleneck(&c, "{\"force_chain\": true}"), 10);
    expect_refusal(&c, "{\"microbatch\": \"8\"}", PST_ERR_INFEASIBLE, "8");
    expect_refusal(&c, "{\"microbatch\": \"3\"}", PST_ERR_CONFIG, "3");
    expect_refusal(&c, "{\"microbatch\": \"much\"}", PST_ERR_CONFIG, "much");
    expect_refusal(&c, "{\"k\": \"1,,2\"}", PST_ERR_CONFIG, "k");
    expect_refusal(&c, "{\"degrees\": \"2\"}", PST_ERR_CONFIG, "2");
    CLOSE(bottleneck(&c, "{\"per_stage\": true, \"k\": \"1, 2\"}"), 8);
}

/* No rule reduces this graph, and what rewriting leaves has no even cut; orders find it: 8 + 7 and
   4 + 2 + 8 + 1. Choosing a size for each stage must not lose that. */
TEST(test_per_stage_no_worse)
{
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    graph(&g, 6, other, 7, TAU(8, 7, 4, 2, 8, 1));
    c = rig_case_of(&g);
    c.devices = 2;
    c.batch = 8;
    c.sizes = sizes;
    for (c.n_sizes = 1; c.n_sizes <= 3; c.n_sizes++) {
        CLOSE(bottleneck(&c, "{\"refine\": \"false\"}"), 15);
        CLOSE(bottleneck(&c, "{\"refine\": \"false\", \"per_stage\": true}"), 15);
    }
}

TEST(test_refusals)
{
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    graph(&g, 6, other, 7, TAU(1, 1, 1, 1, 3, 1));
    c = rig_case_of(&g);
    c.devices = 3;
    expect_refusal(&c, "{\"sp\": \"require\"}", PST_ERR_UNSUPPORTED, "not series-parallel");
    g.weight[3] = 1000; /* an operator that is too large: its name and bytes */
    c.memory = 999;
    c.multiplier = 2;
    expect_refusal(&c, NULL, PST_ERR_INFEASIBLE, "2000 bytes");
}

/* Replicas by option: one chain of two operators on four devices. */
TEST(test_degrees)
{
    static const uint32_t degrees[] = {1, 2, 4};
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    rig_chain(&g, 2);
    g.tau[0] = g.tau[1] = 12;
    g.weight[1] = 40;
    rig_sort(&g);
    c = rig_case_of(&g);
    c.devices = 4;
    c.b = 4;
    c.degrees = degrees;
    c.n_degrees = 3;
    c.allreduce = 1;
    c.batch = 20; /* 6 + 2 * (1 / 2) * 40 / 20 */
    CLOSE(bottleneck(&c, NULL), 8);
    CLOSE(bottleneck(&c, "{\"max_degree\": 1}"), 12);
    CLOSE(bottleneck(&c, "{\"degrees\": \"1, 2\"}"), 8);
    c.batch = 40;
    CLOSE(bottleneck(&c, NULL), 7);
}

/* With a scheduler of graphs the first stages hold 3 micro-batches; with 1F1B the very first 5,
   and where that is too much a chain of fewer stages is planned. */
TEST(test_planned)
{
    FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
    struct pst_error err;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;

    c = rig_two_branches(&g, 0);
    c.memory = 8;
    assert_int_equal(ask(&c, NULL, "per-stage", &result, &err), PST_OK);
    assert_int_equal(result.n_stages, 5);
    CLOSE(result.bottleneck_ns, 6000);
    pst_partition_result_finish(&result);
    assert_int_equal(ask(&c, NULL, "1f1b", &result, &err), PST_OK);
    CLOSE(result.bottleneck_ns, 12000);
    for (uint32_t s = 0; s < result.n_stages; s++) {
        assert_true(result.stages[s].memory_bytes <= 8);
    }
}
