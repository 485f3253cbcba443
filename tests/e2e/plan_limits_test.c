/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock plan` says what limits a stage: devices that compute slowly, links that carry little,
 * replicas that exchange gradients over them, memory that is nearly full.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

static const char config[] = "[model]\nuse = \"mlp\"\nlayers = 4\n[data]\nkind = \"synthetic\"\n"
                             "[train]\nbatch = 8\nmicrobatch = 2\n"
                             "[cluster]\ndevices = 2\nlink_latency = \"0 s\"\nflops = 1e6\n"
                             "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n";

/* Of all stages, by JSON; and the table says it. *ret_peak: bytes of the fullest device. */
static void expect_limit(const char *const *sets, const char *should, double *ret_peak)
{
    const char *with_json[] = {
        "plan", support_path("limits.toml"), "--json", "--set", sets[0], "--set", sets[1], NULL};
    const char *plain[] = {"plan", with_json[1], "--set", sets[0], "--set", sets[1], NULL};
    struct outcome outcome = support_run(with_json);
    json_t *root, *stages, *devices;

    expect_code(&outcome, 0);
    root = json_loads(outcome.out, 0, NULL);
    assert_non_null(root);
    stages = json_object_get(root, "stages");
    assert_true(json_array_size(stages) > 0);
    for (size_t i = 0; i < json_array_size(stages); i++) {
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(stages, i), "limited_by")), should);
    }
    devices = json_object_get(root, "devices");
    *ret_peak = 0;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        double bytes =
            json_number_value(json_object_get(json_array_get(devices, i), "arena_bytes"));

        *ret_peak = bytes > *ret_peak ? bytes : *ret_peak;
    }
    json_decref(root);
    outcome_finish(&outcome);
    outcome = support_run(plain);
    expect_code(&outcome, 0);
    expect_text(outcome.out, "limited by");
    expect_text(outcome.out, should);
    outcome_finish(&outcome);
}

static void test_limits(void **state)
{
    double peak, same;
    char memory[64];

    (void)state;
    support_write("limits.toml", config);
    expect_limit((const char *const[]){"cluster.link_bandwidth=1e12", "cluster.memory=0"},
                 "compute", &peak);
    /* A megaflop a second is slow, a byte a second is slower. */
    expect_limit((const char *const[]){"cluster.link_bandwidth=1", "cluster.memory=0"}, "transfers",
                 &peak);
    /* One stage on both devices: nothing to send but gradients. */
    expect_limit((const char *const[]){"cluster.link_bandwidth=1", "train.degrees=[2]"},
                 "all-reduce", &same);
    /* No device is idle for long, so memory counts where hardly any is left, of all devices alike:
       one stage. */
    expect_limit((const char *const[]){"cluster.link_bandwidth=1e12", "cluster.devices=1"},
                 "compute", &peak);
    snprintf(memory, sizeof memory, "cluster.memory=%.0f", peak);
    expect_limit((const char *const[]){memory, "cluster.devices=1"}, "compute", &same);
    assert_true(same == peak);
}

/* Of two stages the one with little to do fills its device, the other one computes. */
static void test_memory(void **state)
{
    static const char text[] =
        "[model]\nuse = \"mlp\"\nlayers = 4\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 64\n"
        "microbatch = 2\n[cluster]\ndevices = 2\nlink_bandwidth = 1e12\n[partitioner]\nuse = "
        "\"manual\"\n"
        "stages = \"layers.0;*\"\n[scheduler]\nuse = \"gpipe\"\n";
    const char *path = support_write("memory.toml", text);
    struct outcome outcome = penstock("plan", path, "--json");
    json_t *root;
    double bytes[2];
    char set[64];

    (void)state;
    expect_code(&outcome, 0);
    root = json_loads(outcome.out, 0, NULL);
    assert_non_null(root);
    for (size_t i = 0; i < 2; i++) {
        bytes[i] = json_number_value(
            json_object_get(json_array_get(json_object_get(root, "devices"), i), "arena_bytes"));
    }
    json_decref(root);
    outcome_finish(&outcome);
    snprintf(set, sizeof set, "cluster.memory=%.0f", bytes[0] > bytes[1] ? bytes[0] : bytes[1]);
    outcome = penstock("plan", path, "--json", "--set", set);
    expect_code(&outcome, 0);
    root = json_loads(outcome.out, 0, NULL);
    assert_non_null(root);
    /* The lighter stage holds more than its share of compute. */
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(root, "stages"), 0), "limited_by")),
                        "memory");
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(root, "stages"), 1), "limited_by")),
                        "compute");
    json_decref(root);
    outcome_finish(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
