/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock simulate` as a user meets it: a config and the plan made of it tell the same, what is
 * drawn is written, mistakes are named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "support.h"

static const char config[] = "[model]\n"
                             "use = \"mlp\"\n"
                             "layers = 6\n"
                             "[data]\n"
                             "kind = \"synthetic\"\n"
                             "[train]\n"
                             "batch = 8\n"
                             "microbatch = 2\n"
                             "[partitioner]\n"
                             "use = \"uniform\"\n"
                             "[scheduler]\n"
                             "use = \"1f1b\"\n"
                             "[cluster]\n"
                             "devices = 2\n"
                             "memory = \"1 GiB\"\n";

static const char row_of_forwards[] = "[model]\nuse = \"mlp\"\nlayers = 6\n"
                                      "[data]\nkind = \"synthetic\"\n"
                                      "[train]\nbatch = 16\nmicrobatch = 2\n"
                                      "[partitioner]\nuse = \"uniform\"\n"
                                      "[scheduler]\nuse = \"gpipe\"\n"
                                      "[cluster]\ndevices = 2\n"
                                      "launch_overhead = \"100 us\"\nlink_latency = \"200 us\"\n";

static json_t *answer(const char *file, const char *steps)
{
    struct outcome o = penstock("simulate", file, "--json", "--steps", steps);
    json_error_t error;
    json_t *root;

    expect_code(&o, 0);
    root = json_loads(o.out, 0, &error);
    if (root == NULL) {
        fail_msg("%s", error.text);
    }
    outcome_finish(&o);
    return root;
}

static double number(const json_t *object, const char *key)
{
    assert_true(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

static double most_bytes(const json_t *points)
{
    double most = 0;

    for (size_t i = 0; i < json_array_size(points); i++) {
        json_t *bytes = json_object_get(json_array_get(points, i), "bytes"), *value;
        const char *key;
        double sum = 0;

        assert_int_equal(json_object_size(bytes), 7);
        json_object_foreach(bytes, key, value)
        {
            sum += json_number_value(value);
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* A step of 1F1B with a barrier repeats; every instruction of a step is a span. */
static void test_json(void **state)
{
    const char *file = support_write("a.toml", config);
    json_t *root = answer(file, "3"), *plan;
    const char *path = support_path("plan.json");
    struct outcome o = penstock("plan", file, "-o", path);

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    plan = json_load_file(path, 0, NULL);
    assert_non_null(plan);
    assert_int_equal((int)number(root, "devices"), 2);
    assert_int_equal((int)number(root, "steps"), 3);
    assert_true(fabs(number(root, "total_us") - 3 * number(root, "step_us")) < 0.01);
    assert_true(number(root, "bubble") > 0 && number(root, "bubble") < 1);
    assert_true(fabs(number(json_object_get(plan, "predicted"), "step_us") -
                     number(root, "step_us")) < 0.001);
    for (size_t d = 0; d < 2; d++) {
        json_t *rank = json_array_get(json_object_get(root, "ranks"), d);
        json_t *device = json_array_get(json_object_get(plan, "devices"), d);
        json_t *spans = json_array_get(json_object_get(root, "timeline"), d);
        json_t *points = json_array_get(json_object_get(root, "memory"), d);

        assert_true(fabs(number(rank, "busy_us") + number(rank, "idle_us") -
                         number(root, "total_us")) < 0.01);
        assert_true(number(rank, "exposed_comm_us") <= number(rank, "idle_us"));
        assert_int_equal((long)number(rank, "capacity_bytes"), 1L << 30);
        assert_int_equal((long)number(rank, "peak_bytes"), (long)number(device, "peak_bytes"));
        assert_int_equal((long)most_bytes(points), (long)number(device, "peak_bytes"));
        assert_int_equal((long)number(rank, "arena_bytes"), (long)number(device, "arena_bytes"));
        assert_int_equal(json_array_size(spans),
                         3 * json_array_size(json_object_get(device, "body")));
    }
    json_t *again = answer(path, "3");
    assert_true(json_equal(root, again));
    json_decref(again);
    json_decref(plan);
    json_decref(root);
}

/* Passes of 300 us or more and transfers of hardly more than 200: a pass waits for no transfer of
   the one before it. */
static void test_sends_hold_nothing_up(void **state)
{
    double end = -1;
    json_t *root = answer(support_write("row.toml", row_of_forwards), "1"), *span;
    uint32_t n = 0;
    size_t i;

    (void)state;
    json_array_foreach(json_array_get(json_object_get(root, "timeline"), 0), i, span)
    {
        if (strcmp(json_string_value(json_object_get(span, "op")), "F") == 0) {
            assert_true(n++ == 0 || fabs(number(span, "start_us") - end) < 0.001);
            end = number(span, "end_us");
        }
    }
    assert_int_equal(n, 8);
    json_decref(root);
}

static void test_for_people(void **state)
{
    struct outcome o = penstock("simulate", support_write("a.toml", config), "--steps", "2");

    (void)state;
    expect_code(&o, 0);
    expect_text(o.out, "predicted step");
    expect_text(o.out, "2 steps");
    expect_text(o.out, "rank 1 (stage 1)");
    outcome_finish(&o);
}

static void test_files(void **state)
{
    const char *file = support_write("a.toml", config);
    static const char *const begins[][2] = {
        {"--svg", "<?xml"}, {"--png", "\x89PNG"}, {"--pdf", "%PDF"}, {"--trace", "{"}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const char *path = support_path("drawn");
        struct outcome o = penstock("simulate", file, begins[i][0], path);
        char *text = NULL;

        expect_code(&o, 0);
        text = support_read(path);
        assert_memory_equal(text, begins[i][1], strlen(begins[i][1]));
        free(text);
        outcome_finish(&o);
    }
}

static void expect_refusal(const char *a, const char *b, const char *c, const char *words)
{
    struct outcome o = penstock("simulate", a, b, c);

    expect_code(&o, 2);
    expect_text(o.err, words);
    assert_ptr_equal(strchr(o.err, '\n'), o.err + strlen(o.err) - 1); /* one line */
    outcome_finish(&o);
}

static void test_mistakes(void **state)
{
    char path[256], plan[256];

    (void)state;
    snprintf(path, sizeof path, "%s", support_write("a.toml", config));
    snprintf(plan, sizeof plan, "%s", support_path("plan.json"));
    expect_refusal(path, "--steps", "0", "--steps");
    expect_refusal(path, "--steps", "5x", "--steps");
    expect_refusal(path, "--svg", "/nonexistent/a.svg", "/nonexistent/a.svg");
    expect_refusal("/nonexistent/a.toml", NULL, NULL, "/nonexistent/a.toml");
    expect_refusal(plan, "--set", "train.batch=4", "--set");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),       cmocka_unit_test(test_sends_hold_nothing_up),
        cmocka_unit_test(test_for_people), cmocka_unit_test(test_files),
        cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
