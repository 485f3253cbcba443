/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock partition` where a scheduler and a memory optimizer judge, and what a partitioner is
 * told in a planning run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "partition_rig.h"

/* Eight nodes of 1 us a pass in a row, 100 bytes kept per sample, 10 of parameters, 8 on edges. */
static const char *planned(const char *rest)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   HEAD "\"cost\":\"planned\",\"mini_batch\":16,"
                                        "\"micro_batches\":[2],%s,\"graph\":{\"nodes\":[",
                                   rest);

    for (uint32_t i = 0; i < 8; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\":\"n%u\",\"forward_us\":1,\"backward_input_us\":1,"
                                 "\"backward_weight_us\":1,\"saved_bytes\":100,"
                                 "\"param_bytes\":10}",
                                 i > 0 ? "," : "", i);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"edges\":[");
    for (uint32_t i = 0; i < 7; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\":\"n%u\",\"to\":\"n%u\",\"bytes\":8}",
                                 i > 0 ? "," : "", i, i + 1);
    }
    snprintf(text + used, sizeof text - used, "]}}");
    return support_write("planned.json", text);
}

static json_t *plan(const char *partitioner, const char *rest)
{
    struct outcome o = penstock("partition", partitioner, "--json", "--problem", planned(rest));
    json_t *root;

    expect_code(&o, 0);
    root = object_of(&o);
    outcome_finish(&o);
    return root;
}

/* 1F1B on four stages of 6 us a micro-batch and sample: (8 + 3) x 12 us; its first stage holds four
   micro-batches of 2 x 200 bytes and four copies of 20 bytes; the second three, with its input. */
static void default_scheduler(void **state)
{
    json_t *root = plan("uniform", "\"devices\":4");
    const json_t *stages = json_object_get(root, "stages");

    (void)state;
    expect_number(root, "bottleneck_us_per_sample", 6);
    expect_number(root, "step_us", 132);
    expect_number(json_array_get(stages, 0), "in_flight_samples", 8);
    expect_number(json_array_get(stages, 0), "memory_bytes", 80 + 4 * 400);
    expect_number(json_array_get(stages, 1), "in_flight_samples", 6);
    expect_number(json_array_get(stages, 1), "memory_bytes", 80 + 3 * (400 + 16));
    expect_number(root, "peak_bytes", 1680);
    json_decref(root);
    /* GPipe holds all; 2BW never drains, so a step is its work, and it keeps another version. */
    root = plan("uniform", "\"devices\":4,\"scheduler\":\"gpipe\"");
    expect_number(json_array_get(json_object_get(root, "stages"), 0), "in_flight_samples", 16);
    json_decref(root);
    root = plan("uniform", "\"devices\":4,\"scheduler\":\"2bw\"");
    expect_number(root, "step_us", 96);
    expect_number(json_array_get(json_object_get(root, "stages"), 0), "memory_bytes",
                  100 + 4 * 400);
    json_decref(root);
}

/* Two stages to a device: times and bytes of a device are those of both. */
static void shared_devices(void **state)
{
    json_t *root = plan("uniform", "\"devices\":4,\"scheduler\":\"interleaved\"");
    double first, fifth;

    (void)state;
    assert_int_equal(json_array_size(json_object_get(root, "stages")), 8);
    expect_list(json_array_get(json_object_get(root, "stages"), 5), "devices", "[1]");
    expect_number(root, "bottleneck_us_per_sample", 6);
    expect_number(root, "devices_idle", 0);
    first = json_number_value(
        json_object_get(json_array_get(json_object_get(root, "stages"), 0), "memory_bytes"));
    fifth = json_number_value(
        json_object_get(json_array_get(json_object_get(root, "stages"), 4), "memory_bytes"));
    expect_number(root, "peak_bytes", first + fifth);
    json_decref(root);
}

/* Two branches whose operators alternate, one operator a stage: where branches would be kept
   together a scheduler with two stages to a device still has its own order of devices. */
static void shared_devices_of_branches(void **state)
{
    static const char *const names[] = {"piper", "pipedream", "dapple", "chain-dp", "uniform"};
    static const char *const nodes[] = {"a", "b1", "c1", "b2", "c2", "d"};
    static const char *const edges[][2] = {{"a", "b1"},  {"a", "c1"}, {"b1", "b2"},
                                           {"c1", "c2"}, {"b2", "d"}, {"c2", "d"}};
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   HEAD "\"cost\":\"planned\",\"mini_batch\":16,\"devices\":3,"
                                        "\"micro_batches\":[2],\"scheduler\":\"looped-bfs\","
                                        "\"graph\":{\"nodes\":[");

    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used,
                             "%s{\"name\":\"%s\",\"forward_us\":3}", i > 0 ? "," : "", nodes[i]);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"edges\":[");
    for (uint32_t i = 0; i < 6; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\":\"%s\",\"to\":\"%s\",\"bytes\":8}", i > 0 ? "," : "",
                                 edges[i][0], edges[i][1]);
    }
    snprintf(text + used, sizeof text - used, "]}}");
    support_write("branches.json", text);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        struct outcome o =
            penstock("partition", names[k], "--json", "--problem", support_path("branches.json"));
        json_t *root, *stages;

        expect_code(&o, 0);
        root = object_of(&o);
        stages = json_object_get(root, "stages");
        assert_int_equal(json_array_size(stages), 6);
        for (uint32_t s = 0; s < 6; s++) {
            char device[8];

            snprintf(device, sizeof device, "[%u]", s % 3);
            expect_list(json_array_get(stages, s), "devices", device);
        }
        json_decref(root);
        outcome_finish(&o);
    }
}

/* "full" keeps the inputs of stages alone and replays the forward passes; what it saves makes room
   that keeping everything has not. */
static void recomputing(void **state)
{
    json_t *root = plan("uniform", "\"devices\":4,\"memory_bytes\":600,\"memopt\":\"full\"");
    const json_t *first = json_array_get(json_object_get(root, "stages"), 0);

    (void)state;
    expect_number(first, "compute_us", 12 + 4); /* F is 4 of the 12 us */
    assert_true(json_number_value(json_object_get(first, "memory_bytes")) <= 600);
    json_decref(root);
    EXPECT_ERROR(1, "plan.infeasible", "stage 0", "partition", "uniform", "--problem",
                 planned("\"devices\":4,\"memory_bytes\":600"));
}

/* In another process the same comes out; and there plugins are told who judges. */
static void planned_apart(void **state)
{
    json_t *root = plan(ASKER, "\"devices\":4");

    (void)state;
    assert_true(json_is_false(json_object_get(root, "reference")));
    /* The scheduler answers for the first of three stages: 3; the evaluator for node 0: 4 copies of
       10 bytes, three micro-batches of 2 samples a rank. */
    expect_number(root, "held", 3);
    expect_number(root, "price_peak", 40 + 3 * 200);
    expect_number(root, "price_period", 6000);
    expect_number(root, "step_us", 8 * 48);
    expect_number(root, "peak_bytes", 320 + 1600);
    json_decref(root);
}

static void planned_refusals(void **state)
{
    (void)state;
    EXPECT_ERROR(2, "plugin.not-found", "1f1b", "partition", "uniform", "--problem",
                 planned("\"devices\":4,\"scheduler\":\"1f1bb\""));
    EXPECT_ERROR(2, "config.key", "scheduler_options", "partition", "uniform", "--problem",
                 planned("\"devices\":4,\"scheduler\":\"1f1b\","
                         "\"scheduler_options\":{\"use\":\"x\"}"));
    EXPECT_ERROR(2, "config.key", "eager", "partition", "uniform", "--problem",
                 planned("\"devices\":4,\"scheduler\":\"1f1b\","
                         "\"scheduler_options\":{\"eagre\":true}"));
    EXPECT_ERROR(1, "plan.infeasible", "stages are wanted", "partition", "uniform", "--problem",
                 planned("\"devices\":8,\"scheduler\":\"interleaved\""));
}

/* --- planning runs -----------------------------------------------------------------------------*/

/* There the cost model and the optimizer stand behind the same questions. */
static void in_a_config(void **state)
{
    struct outcome o =
        penstock("plan", PENSTOCK_SOURCE_DIR "/configs/mlp.toml", "--json", "--set",
                 "partitioner={use=\"asker\",path=\"" ASKER "\"}", "--set", "plugins.isolate=never",
                 "--set", "cluster.devices=1", "--set", "train.optimizer=adamw", "--set",
                 "cluster.link_bandwidth=\"3 GB/s\"");
    json_t *root, *remarks;

    (void)state;
    expect_code(&o, 0);
    root = object_of(&o);
    remarks = json_object_get(root, "remarks");
    assert_true(json_is_false(json_object_get(remarks, "reference")));
    expect_number(remarks, "comm_model", 2);
    expect_number(remarks, "weight_multiplier", 4); /* weights, gradients, two moments */
    expect_number(remarks, "p2p", 3e9);
    expect_number(remarks, "allreduce", 3e9);
    expect_number(remarks, "n_configs", 0);
    assert_true(json_number_value(json_object_get(remarks, "f_ns")) > 0);
    assert_true(json_number_value(json_object_get(remarks, "edge")) > 0);
    assert_string_equal(json_string_value(json_object_get(remarks, "twice")), "last");
    json_decref(root);
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_scheduler),
        cmocka_unit_test(shared_devices),
        cmocka_unit_test(shared_devices_of_branches),
        cmocka_unit_test(recomputing),
        cmocka_unit_test(planned_apart),
        cmocka_unit_test(planned_refusals),
        cmocka_unit_test(in_a_config),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
