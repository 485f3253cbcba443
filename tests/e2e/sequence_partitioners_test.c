/* SPDX-License-Identifier: Apache-2.0
 *
 * pipedream, piper and dapple as a user asks them: worked examples through problem files, refusals,
 * odd problems.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "expect_error.h"

static char text[1 << 16];
static size_t used;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void put(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    assert_true(used < sizeof text);
}

static void begin(const char *rest)
{
    used = 0;
    put("{\"format\":\"penstock-problem\",\"version\":1,%s,\"graph\":{\"format\":"
        "\"penstock-graph\",\"version\":1,\"batch\":1,\"nodes\":[",
        rest);
}

static const char *end(void)
{
    put("]}}");
    return support_write("problem.json", text);
}

/* A chain of n nodes of these times, the last one with parameters. */
static const char *chain(const char *rest, uint32_t n, const double *us, double last_bytes)
{
    begin(rest);
    for (uint32_t v = 0; v < n; v++) {
        put("%s{\"name\":\"n%u\",\"forward_us\":%g,\"param_bytes\":%g}", v == 0 ? "" : ",", v,
            us[v], v + 1 == n ? last_bytes : 0);
    }
    put("],\"edges\":[");
    for (uint32_t v = 1; v < n; v++) {
        put("%s{\"from\":\"n%u\",\"to\":\"n%u\",\"bytes\":0}", v == 1 ? "" : ",", v - 1, v);
    }
    return end();
}

/* Branches of these lengths, alike, into a chain of `tail`. */
static const char *branches(const char *rest, uint32_t k, const uint32_t *lengths, uint32_t tail)
{
    const char *comma = "";
    uint32_t n = 0;

    begin(rest);
    for (uint32_t i = 0; i < k; i++) {
        n += lengths[i];
    }
    for (uint32_t v = 0; v < n + tail; v++) {
        put("%s{\"name\":\"n%u\",\"forward_us\":1}", v == 0 ? "" : ",", v);
    }
    put("],\"edges\":[");
    for (uint32_t i = 0, v = 0; i < k; i++) {
        for (uint32_t j = 0; j < lengths[i]; j++, v++) {
            put("%s{\"from\":\"n%u\",\"to\":\"n%u\",\"bytes\":1}", comma, v,
                j + 1 < lengths[i] ? v + 1 : n);
            comma = ",";
        }
    }
    for (uint32_t v = n; v + 1 < n + tail; v++) {
        put(",{\"from\":\"n%u\",\"to\":\"n%u\",\"bytes\":1}", v, v + 1);
    }
    return end();
}

static json_t *ask(const char *partitioner, const char *problem, const char *options)
{
    struct outcome o = options == NULL
                           ? penstock("partition", partitioner, "--json", "--problem", problem)
                           : penstock("partition", partitioner, "--json", "--problem", problem,
                                      "--options", options);
    json_t *root;

    if (o.code != 0) {
        fail_msg("%s: code %d\n%s\n%s", partitioner, o.code, o.out, o.err);
    }
    root = json_loads(o.out, 0, NULL);
    assert_non_null(root);
    outcome_finish(&o);
    return root;
}

static double number(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);

    if (!json_is_number(value)) {
        fail_msg("no number %s", key);
    }
    return json_number_value(value);
}

static void expect(const json_t *root, const char *key, double should)
{
    if (!(fabs(number(root, key) - should) <= 1e-9 * fabs(should))) {
        fail_msg("%s is %.17g, should be %.17g", key, number(root, key), should);
    }
}

/* Three operators of 6, 6, 12 us; 3 bytes of parameters at one byte per us; one sample each. */
static void test_pipedream_example(void **state)
{
    static const double us[] = {6, 6, 12}, own[] = {24, 12, 32.0 / 3, 8.25},
                        free_[] = {24, 12, 8, 6};

    (void)state;
    for (uint32_t d = 1; d <= 4; d++) {
        char rest[256];
        json_t *root, *stages;
        double total = 0;

        snprintf(rest, sizeof rest,
                 "\"devices\":%u,\"mini_batch\":12,\"micro_batches\":[1],\"degrees\":[1,2,3,4],"
                 "\"allreduce_bandwidth\":1e6",
                 d);
        root = ask("pipedream", chain(rest, 3, us, 3), NULL);
        expect(root, "bottleneck_us_per_sample", own[d - 1]);
        expect(root, "states", 3);
        stages = json_object_get(root, "stages");
        for (size_t s = 0; s < json_array_size(stages); s++) {
            const json_t *stage = json_array_get(stages, s);
            double degree = (double)json_array_size(json_object_get(stage, "devices"));

            total += degree;
            assert_true(fmod(number(stage, "microbatch_size"), degree) == 0);
        }
        assert_true(total == d);
        json_decref(root);
        root = ask("pipedream", chain(rest, 3, us, 0), "states=antichain");
        expect(root, "bottleneck_us_per_sample", free_[d - 1]);
        json_decref(root);
    }
}

/* By the paper the exchange runs beside compute: 4 machines, all replicas: max(24, 2*3*3)/4 = 6. By
   the problem's own model two stages on two devices each: 12/2 + 2*1/2*3/12 is less than 24/4 +
   2*3/4*3/12. */
static void test_pipedream_objectives(void **state)
{
    static const double us[] = {6, 6, 12};
    const char *problem = chain("\"devices\":4,\"mini_batch\":12,\"micro_batches\":[4],"
                                "\"degrees\":[1,2,4],\"allreduce_bandwidth\":1e6",
                                3, us, 3);
    json_t *root = ask("pipedream", problem, "objective=paper");

    (void)state;
    expect(root, "bottleneck_us_per_sample", 6);
    json_decref(root);
    root = ask("pipedream", problem, "objective=reference");
    expect(root, "bottleneck_us_per_sample", 6.25);
    assert_null(json_object_get(root, "reference_us_per_sample"));
    json_decref(root);
}

/* Two operators in a row with ways of their own; four micro-batches, two devices. */
static void test_piper_example(void **state)
{
    static const struct {
        const char *rest;
        double own;
    } cases[] = {
        {"\"devices\":2,\"mini_batch\":4,\"micro_batches\":[1],\"memory_bytes\":7", 8},
        {"\"devices\":2,\"mini_batch\":4,\"micro_batches\":[1],\"memory_bytes\":8", 8},
        {"\"devices\":2,\"mini_batch\":4,\"micro_batches\":[1],\"memory_bytes\":9", 8},
        {"\"devices\":2,\"mini_batch\":4,\"micro_batches\":[1],\"memory_bytes\":10", 6},
        {"\"devices\":2,\"mini_batch\":4,\"micro_batches\":[1],\"memory_bytes\":12,"
         "\"degrees\":[1,2]",
         6},
    };
    static const char *const ways =
        "\"forward_us\":2,\"backward_input_us\":2,\"backward_weight_us\":2,\"saved_bytes\":4,"
        "\"configs\":[{\"name\":\"vanilla\",\"time_us\":6,\"in_flight_bytes\":4,\"fixed_bytes\":2},"
        "{\"name\":\"recompute\",\"time_us\":8,\"in_flight_bytes\":1,\"fixed_bytes\":3}]";

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *root;

        begin(cases[i].rest);
        put("{\"name\":\"a\",%s},{\"name\":\"b\",%s}],\"edges\":[{\"from\":\"a\",\"to\":\"b\","
            "\"bytes\":0}",
            ways, ways);
        root = ask("piper", end(), NULL);
        expect(root, "bottleneck_us_per_sample", cases[i].own);
        assert_true(number(root, "worst_stage_bytes") <= 6.0 + (double)i + (i == 4 ? 2 : 1));
        expect(root, "peak_bytes", number(root, "worst_stage_bytes"));
        assert_true(number(root, "peak_bytes") > 0);
        json_decref(root);
    }
}

/* An operator that two devices share; no node alone may take 6 us. */
static void test_piper_tensor_degree(void **state)
{
    json_t *root;

    (void)state;
    begin("\"devices\":4,\"mini_batch\":4,\"micro_batches\":[1]");
    for (int v = 0; v < 2; v++) {
        put("%s{\"name\":\"n%d\",\"forward_us\":6,\"configs\":[{\"name\":\"one\",\"time_us\":6},"
            "{\"name\":\"two\",\"tensor_degree\":2,\"time_us\":4}]}",
            v == 0 ? "" : ",", v);
    }
    put("],\"edges\":[{\"from\":\"n0\",\"to\":\"n1\",\"bytes\":0}");
    root = ask("piper", end(), NULL);
    expect(root, "bottleneck_us_per_sample", 4);
    assert_string_equal(json_string_value(json_object_get(root, "tensor_degrees")), "2,2");
    assert_true(json_is_false(json_object_get(root, "executable")));
    json_decref(root);
}

/* Activations of 8 samples do not fit in front of a second stage unless they are computed again. */
static void test_piper_recompute(void **state)
{
    static const char *const rest =
        "\"devices\":2,\"mini_batch\":8,\"micro_batches\":[1],\"memory_bytes\":14";
    const char *problem;
    json_t *root;

    (void)state;
    begin(rest);
    for (int v = 0; v < 2; v++) {
        put("%s{\"name\":\"n%d\",\"forward_us\":2,\"backward_input_us\":4,\"saved_bytes\":%d}",
            v == 0 ? "" : ",", v, v == 0 ? 8 : 2);
    }
    put("],\"edges\":[{\"from\":\"n0\",\"to\":\"n1\",\"bytes\":1}");
    problem = end();
    /* Plain, the first stage holds 16 bytes in two stages and 10 as one. */
    root = ask("piper", problem, NULL);
    expect(root, "bottleneck_us_per_sample", 12);
    json_decref(root);
    /* The first node keeps no input; 8 bytes while it runs again. */
    root = ask("piper", problem, "recompute=true");
    expect(root, "bottleneck_us_per_sample", 8);
    expect(root, "slower_ways", 1);
    expect(root, "worst_stage_bytes", 8);
    json_decref(root);
}

static void test_refusals(void **state)
{
    static const uint32_t dlrm[] = {4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1};
    static const uint32_t candle[] = {4, 4, 4, 4, 4, 4, 4};
    static const char *const rest = "\"devices\":4,\"mini_batch\":8";
    const char *problem = branches(rest, 14, dlrm, 5);

    (void)state;
    EXPECT_ERROR(1, "plan.infeasible", "10000005 states", "partition", "piper", "--problem",
                 problem);
    EXPECT_ERROR(1, "plan.infeasible", "10000004 states", "partition", "pipedream", "--problem",
                 problem, "--options", "states=downsets");
    EXPECT_ERROR(1, "plan.infeasible", "or raise max_states", "partition", "pipedream", "--problem",
                 problem, "--options", "states=downsets");
    problem = branches(rest, 7, candle, 1);
    EXPECT_ERROR(1, "plan.infeasible", "78126 states", "partition", "piper", "--problem", problem);
    problem = branches(rest, 3, candle, 1);
    EXPECT_ERROR(1, "plan.infeasible", "126 states", "partition", "piper", "--problem", problem,
                 "--options", "max_states=125");
    json_decref(ask("piper", problem, "max_states=126"));
}

/* F 1, 4, 1 and B 2, 8, 2 on three devices, eight micro-batches of one sample: cut into three the
   step takes 5 + 84 + 10. Fast links inside a machine keep replicas together: two machines of two.
 */
static void test_dapple(void **state)
{
    json_t *root, *stages;

    (void)state;
    begin("\"devices\":3,\"mini_batch\":8,\"micro_batches\":[1]");
    for (int v = 0; v < 3; v++) {
        put("%s{\"name\":\"n%d\",\"forward_us\":%d,\"backward_input_us\":%d}", v == 0 ? "" : ",", v,
            v == 1 ? 4 : 1, v == 1 ? 8 : 2);
    }
    put("],\"edges\":[{\"from\":\"n0\",\"to\":\"n1\",\"bytes\":0},{\"from\":\"n1\",\"to\":\"n2\","
        "\"bytes\":0}");
    root = ask("dapple", end(), "beam=0");
    expect(root, "latency_us", 99);
    expect(root, "step_us", 99);
    assert_int_equal(json_array_size(json_object_get(root, "stages")), 3);
    json_decref(root);
    /* Weights of 12 bytes a node; between machines a byte takes 1 us, inside 0.01. */
    begin("\"devices\":4,\"node_size\":2,\"mini_batch\":8,\"micro_batches\":[2],"
          "\"degrees\":[1,2,4]");
    for (int v = 0; v < 2; v++) {
        put("%s{\"name\":\"n%d\",\"forward_us\":4,\"backward_input_us\":8,\"param_bytes\":12}",
            v == 0 ? "" : ",", v);
    }
    put("],\"edges\":[{\"from\":\"n0\",\"to\":\"n1\",\"bytes\":0}");
    root = ask("dapple", end(), "beam=0,inside_bandwidth=1e8,between_bandwidth=1e6");
    /* F + 3 (F + B) + F of stage 1, both B, and 12 bytes within a machine: 4+4+36+16+0.12. */
    expect(root, "latency_us", 4 + 4 + 3 * 12 + 16 + 0.12);
    stages = json_object_get(root, "stages");
    assert_int_equal(json_array_size(stages), 2);
    for (size_t s = 0; s < 2; s++) {
        json_t *devices = json_object_get(json_array_get(stages, s), "devices");

        assert_int_equal(json_array_size(devices), 2);
        assert_int_equal(json_integer_value(json_array_get(devices, 0)), 2 * s);
        assert_int_equal(json_integer_value(json_array_get(devices, 1)), 2 * s + 1);
    }
    json_decref(root);
}

/* GPT-2 in micro-batches on so many devices; what a job of it is planned to take, us. */
static double plan_us(const char *const *sizes, const char *partitioner, bool latency)
{
    char set[4][48];
    struct outcome o;
    json_t *root;
    double us;

    snprintf(set[0], sizeof set[0], "cluster.devices=%s", sizes[0]);
    snprintf(set[1], sizeof set[1], "train.batch=%s", sizes[1]);
    snprintf(set[2], sizeof set[2], "train.microbatch=%s", sizes[2]);
    snprintf(set[3], sizeof set[3], "partitioner.%s", partitioner);
    o = penstock("plan", PENSTOCK_SOURCE_DIR "/configs/models/gpt2-124m.toml", "--json", "--set",
                 latency ? "partitioner.use=dapple" : "scheduler.use=1f1b", "--set", set[0],
                 "--set", set[1], "--set", set[2], "--set", set[3]);
    expect_code(&o, 0);
    root = json_loads(o.out, 0, NULL);
    us = latency ? number(json_object_get(root, "remarks"), "latency_us") : number(root, "step_us");
    json_decref(root);
    outcome_finish(&o);
    return us;
}

/* Any cut of chain-dp is one of dapple's, and dapple's latency is no more than 1F1B takes. */
static void test_dapple_gpt2(void **state)
{
    static const char *const sizes[][3] = {{"4", "32", "2"}, {"6", "64", "1"}, {"8", "64", "1"}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double is = plan_us(sizes[i], "order=index", true),
               best = plan_us(sizes[i], "beam=0", true);
        double other = plan_us(sizes[i], "use=chain-dp", false);

        if (is > best * 1.01 || best > is * (1 + 1e-9) || best > other) {
            fail_msg("%s devices: %g us, with beam = 0 %g us, a step of chain-dp's %g us",
                     sizes[i][0], is, best, other);
        }
    }
}

static const char *const partitioners[] = {"pipedream", "piper", "dapple"};

static void test_odd_problems(void **state)
{
    static const double zero[] = {0, 0, 0}, one[] = {5}, some[] = {3, 4, 5};

    (void)state;
    for (size_t i = 0; i < sizeof partitioners / sizeof partitioners[0]; i++) {
        json_t *root = ask(partitioners[i], chain("\"devices\":1", 1, one, 0), NULL);

        expect(root, "bottleneck_us_per_sample", 5);
        json_decref(root);
        root = ask(partitioners[i], chain("\"devices\":8,\"mini_batch\":4", 3, some, 7), NULL);
        if (strcmp(partitioners[i], "dapple") != 0) { /* which looks at the step instead */
            expect(root, "bottleneck_us_per_sample", 5);
            assert_int_equal(json_array_size(json_object_get(root, "stages")), 3);
        }
        json_decref(root);
        root = ask(partitioners[i], chain("\"devices\":2,\"mini_batch\":4", 3, zero, 0), NULL);
        expect(root, "bottleneck_us_per_sample", 0);
        json_decref(root);
        EXPECT_ERROR(1, "plan.infeasible", "alone is charged 400 bytes", "partition",
                     partitioners[i], "--problem",
                     chain("\"devices\":2,\"mini_batch\":4,\"memory_bytes\":99", 3, some, 100));
    }
}

/* Leaving out states is for speed alone. */
static void test_prune(void **state)
{
    static const uint32_t lengths[] = {3, 2, 4};
    const char *file = branches("\"devices\":4,\"mini_batch\":4,\"degrees\":[1,2]", 3, lengths, 3);
    json_t *pruned, *whole;

    (void)state;
    pruned = ask("pipedream", file, "states=downsets");
    whole = ask("pipedream", file, "states=downsets,prune=false");
    assert_true(number(pruned, "bottleneck_us_per_sample") ==
                number(whole, "bottleneck_us_per_sample"));
    assert_true(json_equal(json_object_get(pruned, "stages"), json_object_get(whole, "stages")));
    /* 12 operators of 1 us on 4 devices: 3 us each where they can be told apart so */
    expect(whole, "reference_us_per_sample", 3);
    json_decref(pruned);
    json_decref(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipedream_example),
        cmocka_unit_test(test_pipedream_objectives),
        cmocka_unit_test(test_piper_example),
        cmocka_unit_test(test_piper_tensor_degree),
        cmocka_unit_test(test_piper_recompute),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_dapple),
        cmocka_unit_test(test_dapple_gpt2),
        cmocka_unit_test(test_prune),
        cmocka_unit_test(test_odd_problems),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
