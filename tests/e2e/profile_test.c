/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock profile` as a user meets it: measure, write, plan with what was written; clusters that
 * are described; mistakes are named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "support.h"

static const char config[] = "[model]\nuse = \"mlp\"\nlayers = 6\n"
                             "[data]\nkind = \"synthetic\"\n"
                             "[train]\nbatch = 8\nmicrobatch = 2\n"
                             "[partitioner]\nuse = \"uniform\"\n"
                             "[scheduler]\nuse = \"gpipe\"\n"
                             "[cluster]\ndevices = 1\n";

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);

    if (root == NULL) {
        fail_msg("%s", error.text);
    }
    return root;
}

static json_t *run_json(struct outcome o)
{
    json_t *root;

    expect_code(&o, 0);
    root = parse(o.out);
    outcome_finish(&o);
    return root;
}

static double number(const json_t *object, const char *key)
{
    assert_true(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

/* A pass that does nothing is left out. */
static double times_of(const json_t *row)
{
    return json_number_value(json_object_get(row, "forward_us")) +
           json_number_value(json_object_get(row, "backward_input_us")) +
           json_number_value(json_object_get(row, "backward_weight_us"));
}

/* Sum over nodes of the row for `size` in a written profile. */
static double sum_at(const json_t *nodes, size_t index)
{
    double sum = 0;

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        sum += times_of(json_array_get(json_object_get(json_array_get(nodes, i), "times"), index));
    }
    return sum;
}

/* Of the parameters, at the rate that was measured. */
static double update_us(const json_t *written)
{
    double bytes = 0;
    json_t *node;
    size_t i;

    json_array_foreach(json_object_get(written, "nodes"), i, node)
    {
        bytes += json_number_value(json_object_get(node, "param_bytes"));
    }
    return bytes / number(written, "update_bytes_per_s") * 1e6;
}

/* One device, no links: a step is its four micro-batches, each as long as its operators, and the
   updates, to the rounding of each to whole nanoseconds. */
static void test_a_plan_takes_the_times_that_were_measured(void **state)
{
    const char *toml = support_write("job.toml", config), *file = support_path("profile.json");
    json_t *answer = run_json(
               penstock("profile", toml, "--json", "-o", file, "--sizes", "1,2", "--rounds", "3")),
           *written, *sim;
    char *text = support_read(file), set[256];
    double expected, step;

    (void)state;
    written = parse(text);
    assert_int_equal(json_array_size(json_object_get(answer, "sizes")), 2);
    assert_string_equal(json_string_value(json_object_get(written, "format")), "penstock-graph");
    assert_int_equal((int)number(written, "batch"), 2);
    expected = 4 * sum_at(json_object_get(written, "nodes"), 1) + update_us(written);
    assert_true(expected > 0);
    snprintf(set, sizeof set, "profile.file=%s", file);
    sim = run_json(penstock("simulate", toml, "--json", "--set", set, "--set",
                            "train.optimizer=sgd", "--set", "train.clip=0"));
    step = number(sim, "step_us");
    if (fabs(step - expected) > 1) {
        fail_msg("a step of %.3f us, of the profile %.3f us", step, expected);
    }
    json_decref(answer);
    json_decref(written);
    json_decref(sim);
    free(text);
}

static void test_a_profile_of_another_model_is_refused(void **state)
{
    const char *toml = support_write("job.toml", config), *file = support_path("profile.json");
    struct outcome o = penstock("profile", toml, "-q", "-o", file, "--sizes", "1", "--rounds", "1");
    char set[256];

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    snprintf(set, sizeof set, "profile.file=%s", file);
    o = penstock("plan", toml, "--set", set, "--set", "model.layers=8");
    expect_code(&o, 2);
    assert_non_null(strstr(o.err, "is not in it"));
    assert_non_null(strstr(o.err, "profile.json"));
    outcome_finish(&o);
    o = penstock("plan", toml, "--set", set, "--set", "model.hidden=48");
    expect_code(&o, 2);
    assert_non_null(strstr(o.err, "of another size"));
    outcome_finish(&o);
    o = penstock("plan", toml, "--set", "profile.file=/nowhere/profile.json");
    expect_code(&o, 2);
    assert_non_null(strstr(o.err, "/nowhere/profile.json"));
    outcome_finish(&o);
}

static void test_this_machine_becomes_a_cluster(void **state)
{
    const char *toml = support_write("job.toml", config), *file = support_path("here.toml");
    struct outcome o =
        penstock("profile", toml, "-q", "--cluster", file, "--sizes", "2", "--rounds", "1");
    char text[1024];

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    snprintf(text, sizeof text, "include = \"here.toml\"\n%.*s",
             (int)(strstr(config, "[cluster]") - config), config);
    toml = support_write("with.toml", text);
    o = penstock("simulate", toml, "--json");
    expect_code(&o, 0);
    outcome_finish(&o);
}

/* Every file of configs/clusters plans a GPT that needs what it describes. */
static void test_described_clusters_plan(void **state)
{
    DIR *folder = opendir(PENSTOCK_SOURCE_DIR "/configs/clusters");
    struct dirent *entry;
    uint32_t n = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        char text[1024];
        struct outcome o;

        if (strstr(entry->d_name, ".toml") == NULL) {
            continue;
        }
        snprintf(text, sizeof text,
                 "include = \"%s/configs/clusters/%s\"\n[model]\nuse = \"gpt\"\nlayers = 24\n"
                 "dim = 1024\nheads = 16\ncontext = 512\nvocab = 32000\n[train]\nbatch = 32\n"
                 "microbatch = 4\n[run]\ndevice = \"emulated\"\ndtype = \"bf16\"\n"
                 "[cluster]\ndevices = 8\n[partitioner]\nuse = \"uniform\"\n"
                 "[scheduler]\nuse = \"1f1b\"\n",
                 PENSTOCK_SOURCE_DIR, entry->d_name);
        o = penstock("simulate", support_write("cluster.toml", text), "--json");
        if (o.code != 0) {
            print_error("%s: %s\n", entry->d_name, o.err);
        }
        expect_code(&o, 0);
        outcome_finish(&o);
        n++;
    }
    closedir(folder);
    assert_true(n >= 5);
}

static void expect_refusal(const char *toml, const char *option, const char *value,
                           const char *words)
{
    struct outcome o = penstock("profile", toml, option, value);

    expect_code(&o, 2);
    if (strstr(o.err, words) == NULL) {
        fail_msg("%s", o.err);
    }
    outcome_finish(&o);
}

static void test_mistakes_are_named(void **state)
{
    const char *toml = support_write("job.toml", config);

    (void)state;
    expect_refusal(toml, "--sizes", "2,1", "ascending");
    expect_refusal(toml, "--sizes", "0", "--sizes");
    expect_refusal(toml, "--sizes", "1,,2", "--sizes");
    expect_refusal(toml, "--sizes", "16", "train.batch = 8");
    expect_refusal(toml, "--rounds", "0", "--rounds");
}

/* A device that is not here has the times of its description, to the nanosecond. */
static void test_an_emulated_device_is_described(void **state)
{
    const char *toml = support_write("job.toml", config), *file = support_path("profile.json");
    json_t *answer, *nodes, *row;
    struct outcome o;
    size_t i;

    (void)state;
    answer =
        run_json(penstock("profile", toml, "--json", "--set", "run.device=emulated", "-o", file));
    json_array_foreach(json_object_get(answer, "sizes"), i, row)
    {
        assert_true(fabs(times_of(row) - number(row, "described_us")) < 1e-6);
        assert_true(number(row, "described_us") > 0);
    }
    nodes = json_object_get(answer, "nodes");
    assert_true(json_array_size(nodes) > 6);
    assert_non_null(strstr(json_string_value(json_object_get(answer, "notes")), "not measured"));
    json_decref(answer);
    o = penstock("profile", toml, "--set", "run.device=emulated", "--cluster", file);
    expect_code(&o, 2);
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_takes_the_times_that_were_measured),
        cmocka_unit_test(test_a_profile_of_another_model_is_refused),
        cmocka_unit_test(test_this_machine_becomes_a_cluster),
        cmocka_unit_test(test_described_clusters_plan),
        cmocka_unit_test(test_an_emulated_device_is_described),
        cmocka_unit_test(test_mistakes_are_named),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
