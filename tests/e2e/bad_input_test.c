/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong requests get one clear message, the right exit code and kind, and leave files alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "expect_error.h"

/* A config of everything that a run takes; tests override single keys by --set. */
static const char good[] = "[model]\n"
                           "use = \"mlp\"\n"
                           "[data]\n"
                           "kind = \"synthetic\"\n"
                           "[train]\n"
                           "steps = 2\n"
                           "batch = 8\n"
                           "microbatch = 2\n"
                           "[cluster]\n"
                           "devices = 2\n"
                           "[partitioner]\n"
                           "use = \"uniform\"\n"
                           "[scheduler]\n"
                           "use = \"1f1b\"\n"
                           "[[memopt]]\n"
                           "use = \"none\"\n";

static const char text_model[] = "[model]\n"
                                 "use = \"gpt\"\n"
                                 "layers = 1\n"
                                 "dim = 16\n"
                                 "heads = 1\n"
                                 "context = 32\n"
                                 "[train]\n"
                                 "steps = 1\n"
                                 "batch = 2\n"
                                 "microbatch = 1\n"
                                 "[cluster]\n"
                                 "devices = 1\n"
                                 "[partitioner]\n"
                                 "use = \"uniform\"\n"
                                 "[scheduler]\n"
                                 "use = \"1f1b\"\n";

/* First: the config that the others break is a good one. */
static void test_good(void **state)
{
    const char *config = support_write("good.toml", good);
    struct outcome o = penstock("train", config, "-q");

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
}

static void test_usage(void **state)
{
    const char *config = support_write("good.toml", good);

    (void)state;
    EXPECT_ERROR(2, "usage", "train", "trian", config);
    EXPECT_ERROR(2, "usage", "CONFIG", "train");
    EXPECT_ERROR(2, "usage", "--plan", "train", config, "--plam", "x");
    EXPECT_ERROR(2, "usage", "KEY=VALUE", "train", config, "--set", "nothing");
    EXPECT_ERROR(2, "usage", "extra", "train", config, "extra");
}

static void test_config(void **state)
{
    const char *config = support_write("good.toml", good);
    const char *typo = support_write("typo.toml", "[model]\nuse = \"mlp\"\n[train]\nstep = 3\n");
    const char *type =
        support_write("type.toml", "[model]\nuse = \"mlp\"\n[train]\nsteps = \"x\"\n");
    const char *syntax = support_write("syntax.toml", "[model\nuse = 1\n");

    (void)state;
    EXPECT_ERROR(2, "config.key", "steps", "train", typo);
    EXPECT_ERROR(2, "config.value", "steps", "train", type);
    EXPECT_ERROR(2, "config.syntax", "syntax.toml", "train", syntax);
    EXPECT_ERROR(2, "config.value", "microbatch", "train", config, "--set", "train.microbatch=3");
    EXPECT_ERROR(2, "config.value", "mlp", "train", config, "--set", "model.use=mpl");
    EXPECT_ERROR(2, "plugin.not-found", "1f1b", "train", config, "--set", "scheduler.use=1f1bb");
    EXPECT_ERROR(2, "plugin.not-found", "uniform", "train", config, "--set",
                 "partitioner.use=unifrom");
    EXPECT_ERROR(2, "config.value", "toaster", "train", config, "--set", "run.device=toaster");
}

/* The position is where the mistake stands. */
static void test_position(void **state)
{
    const char *typo = support_write("typo.toml", "[model]\nuse = \"mlp\"\n[train]\nstep = 3\n");
    struct outcome o = penstock("train", typo);

    (void)state;
    expect_text(o.err, "typo.toml:4:1: ");
    outcome_finish(&o);
}

static void test_missing_config(void **state)
{
    struct outcome o = penstock("train", "/nonexistent/a.toml", "--json");

    (void)state;
    expect_code(&o, 2);
    expect_text(o.out, "/nonexistent/a.toml");
    outcome_finish(&o);
}

static void test_text(void **state)
{
    const char *config = support_write("text.toml", text_model);
    char set[256];

    (void)state;
    EXPECT_ERROR(2, "input.path", "/nonexistent/text", "train", config, "--set",
                 "data.train='/nonexistent/text'");
    snprintf(set, sizeof set, "data.train='%s'", support_write("empty.txt", ""));
    EXPECT_ERROR(2, "input.syntax", "empty.txt", "train", config, "--set", set);
    snprintf(set, sizeof set, "data.train='%s'", support_write("short.txt", "too short"));
    EXPECT_ERROR(2, "config.value", "33", "train", config, "--set", set);
    /* Bytes are no input for this model. */
    snprintf(set, sizeof set, "data.train='%s'", support_write("some.txt", "0123456789"));
    config = support_write("good.toml", good);
    EXPECT_ERROR(2, "config.value", "synthetic", "train", config, "--set", "data.kind=text",
                 "--set", set);
}

static void test_too_many_stages(void **state)
{
    const char *config = support_write("good.toml", good);

    (void)state;
    EXPECT_ERROR(1, "plan.infeasible", "stage", "plan", config, "--set", "cluster.devices=64");
}

/* Refused before the first step, with a table of what takes the space. */
static void test_does_not_fit(void **state)
{
    const char *config = support_write("good.toml", good);
    struct outcome o = penstock("train", config, "--json", "--set", "cluster.memory='64 KiB'");

    (void)state;
    expect_code(&o, 1);
    expect_text(o.out, "plan.infeasible");
    expect_text(o.out, "\"details\":[\"");
    assert_null(strstr(o.out, "\"step\""));
    outcome_finish(&o);
}

/* A learning rate that blows up: steps until then are reported, then one error, no "done". */
static void test_non_finite(void **state)
{
    const char *config = support_write("good.toml", good);
    struct outcome o = penstock("train", config, "--json", "--set", "train.lr=1e30", "--set",
                                "train.optimizer=sgd", "--set", "train.clip=0", "--set",
                                "train.warmup=0", "--set", "train.steps=20");

    (void)state;
    expect_code(&o, 1);
    expect_text(o.out, "\"kind\":\"run.non-finite\"");
    assert_null(strstr(o.out, "\"done\""));
    outcome_finish(&o);
}

/* A plan that cannot be made leaves the file of an earlier one, and nothing beside it. */
static void test_output_kept(void **state)
{
    const char *config = support_write("good.toml", good);
    const char *plan = support_write("kept.json", "old");
    struct outcome o = penstock("plan", config, "-o", plan, "--set", "cluster.memory='64 KiB'");
    char *text = support_read(plan), command[256];

    (void)state;
    expect_code(&o, 1);
    assert_string_equal(text, "old");
    outcome_finish(&o);
    free(text);
    /* The folder is missing: exit 2, and it is not made. */
    o = penstock("plan", config, "-o", support_path("none/plan.json"));
    expect_code(&o, 2);
    expect_text(o.err, "none/plan.json");
    assert_int_not_equal(access(support_path("none"), F_OK), 0);
    outcome_finish(&o);
    /* No temporary files are left. */
    snprintf(command, sizeof command, "! ls -A '%s' | grep -q tmp", support_folder);
    assert_int_equal(system(command), 0);
}

static void test_bad_plans(void **state)
{
    const char *config = support_write("good.toml", good);

    (void)state;
    EXPECT_ERROR(2, "input.syntax", "broken.json", "check",
                 support_write("broken.json", "{\"format\":"));
    EXPECT_ERROR(2, "input.syntax", "other.json", "train", config, "--plan",
                 support_write("other.json", "{\"format\":\"other\",\"version\":1}"));
}

/* A copy of a plan in which the last backward pass of the first device does micro-batch 0 again. */
static const char *break_plan(const char *plan)
{
    const char *path = support_path("illegal.json");
    json_error_t why;
    json_t *root = json_load_file(plan, 0, &why);
    json_t *body = json_object_get(json_array_get(json_object_get(root, "devices"), 0), "body");
    size_t i = json_array_size(body);

    while (i > 0 &&
           strcmp(json_string_value(json_array_get(json_array_get(body, i - 1), 0)), "BW") != 0) {
        i--;
    }
    assert_true(i > 0);
    assert_int_equal(json_array_set_new(json_array_get(body, i - 1), 2, json_integer(0)), 0);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    return path;
}

/* The same violation is the answer of `check` (1) and a wrong request to `train` (2). */
static void test_illegal_plan(void **state)
{
    const char *config = support_write("good.toml", good), *plan = support_path("legal.json");
    struct outcome o = penstock("plan", config, "-o", plan);
    const char *broken;

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    broken = break_plan(plan);
    o = penstock("check", plan);
    expect_code(&o, 0);
    outcome_finish(&o);
    o = penstock("check", broken);
    expect_code(&o, 1);
    expect_text(o.out, "PASS");
    expect_text(o.out, "illegal");
    outcome_finish(&o);
    o = penstock("check", broken, "--json");
    expect_code(&o, 1);
    expect_text(o.out, "\"legal\":false");
    expect_text(o.out, "\"rule\":\"PASS");
    outcome_finish(&o);
    EXPECT_ERROR(2, "plan.illegal", "PASS", "train", config, "--plan", broken);
    EXPECT_ERROR(2, "config.value", "batch", "train", config, "--plan", plan, "--set",
                 "train.batch=16");
    EXPECT_ERROR(2, "config.value", "optimizer", "train", config, "--plan", plan, "--set",
                 "train.optimizer=sgd");
    EXPECT_ERROR(1, "plan.infeasible", "device 0", "train", config, "--plan", plan, "--set",
                 "cluster.memory='64 KiB'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_position),
        cmocka_unit_test(test_missing_config),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_too_many_stages),
        cmocka_unit_test(test_does_not_fit),
        cmocka_unit_test(test_non_finite),
        cmocka_unit_test(test_output_kept),
        cmocka_unit_test(test_bad_plans),
        cmocka_unit_test(test_illegal_plan),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
