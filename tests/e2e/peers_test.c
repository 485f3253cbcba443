/* SPDX-License-Identifier: Apache-2.0
 *
 * What micro-batches leave on other devices: the quickstart job on devices that are too small for
 * it trains to the same bits and peaks where it should; so it does for other numbers of devices and
 * micro-batches, and under every synchronous scheduler. How many micro-batches a device holds then,
 * and what a slow link costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"
#include "schedulers.h"

#define BPIPE  "memopt.use=bpipe"
#define ALWAYS "memopt.when=always"

static void add(const char **sets, const char *set)
{
    uint32_t n = 0;

    while (sets[n] != NULL) {
        n++;
    }
    sets[n] = set;
    sets[n + 1] = NULL;
}

static json_t *plan_file(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);

    assert_non_null(root);
    return root;
}

static size_t count_guests(const json_t *plan)
{
    json_t *stage;
    size_t n = 0, s;

    json_array_foreach(json_object_get(plan, "stages"), s, stage)
    {
        n += json_array_size(json_object_get(stage, "guests"));
    }
    return n;
}

/* --- how many a device holds -------------------------------------------------------------------
 */

static bool is_move(const json_t *instr, const char *op)
{
    const char *payload = json_string_value(json_array_get(instr, 2));

    return strcmp(json_string_value(json_array_get(instr, 0)), op) == 0 && payload != NULL &&
           (strcmp(payload, "evict") == 0 || strcmp(payload, "load") == 0);
}

/* Guests' SENDs for which this instruction is the first to wait: their bytes are free now. */
static uint32_t count_ended(const json_t *list, const json_t *instr, bool *ended)
{
    json_t *wait,
        *waits = json_object_get(json_array_get(instr, json_array_size(instr) - 1), "waits");
    uint32_t n = 0;
    size_t k;

    json_array_foreach(waits, k, wait)
    {
        size_t at = (size_t)json_integer_value(wait);

        n += is_move(json_array_get(list, at), "SEND") && !ended[at];
        ended[at] = true;
    }
    return n;
}

/* Micro-batches of which a device has bytes at any one place of its list: its own from F to the
   backward pass, what leaves until its SEND has surely ended, what arrives from its RECV on. */
static uint32_t most_held(const json_t *list)
{
    bool *ended = calloc(json_array_size(list) + 1, sizeof *ended);
    uint32_t held = 0, most = 0;
    json_t *instr;
    size_t i;

    assert_non_null(ended);
    json_array_foreach(list, i, instr)
    {
        const char *op = json_string_value(json_array_get(instr, 0));

        held -= count_ended(list, instr, ended);
        held += strcmp(op, "F") == 0 || is_move(instr, "RECV");
        most = held > most ? held : most;
        held -= strcmp(op, "BW") == 0;
    }
    free(ended);
    return most;
}

/*
 * Kim et al.: with p equal stages in turn stage i holds p - i micro-batches; two that lie opposite
 * hold p + 1 together, and one more is on its way, so each can do with (p + 2) / 2, rounded up. So
 * they do where transfers take no time, but for the last of eight: passes of two devices do not
 * begin and end together, and there what arrives and what leaves meet in one pass.
 */
static void test_bound(void **state)
{
    static const char text[] =
        "[model]\nuse = \"mlp\"\ninputs = 16\nhidden = 16\nlayers = 79\nclasses = 16\n"
        "[data]\nkind = \"synthetic\"\n"
        "[train]\nbatch = 12288\nmicrobatch = 512\noptimizer = \"sgd\"\n"
        "[cluster]\nlink_latency = 0\nlink_bandwidth = \"1000000 GB/s\"\n"
        "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n[memopt]\nuse = \"bpipe\"\n"
        "when = \"always\"\n";
    static const uint32_t devices[] = {4, 8};

    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t p = devices[k], bound = (p + 3) / 2;
        const char *path = support_path("bound.json");
        char set[64];
        struct outcome o;
        json_t *plan, *device;
        size_t d;

        snprintf(set, sizeof set, "cluster.devices=%u", p);
        o = penstock("plan", support_write("bound.toml", text), "--set", set, "-o", path);
        expect_code(&o, 0);
        expect_text(o.out, " of 24 micro-batches");
        assert_null(strstr(o.out, "keep 0 B")); /* for those that stay keep what others leave */
        outcome_finish(&o);
        plan = plan_file(path);
        assert_true(count_guests(plan) > 0);
        json_array_foreach(json_object_get(plan, "devices"), d, device)
        {
            uint32_t most = most_held(json_object_get(device, "body"));

            print_message("p %u, device %zu holds %u\n", p, d, most);
            assert_true(most <= bound + (p == 8 && d == 7));
            assert_true(d > 0 || most == bound);
        }
        json_decref(plan);
    }
}

/* --- runs --------------------------------------------------------------------------------------
 */

/* Too small for keeping, large enough with what other devices take. */
static void test_capacity(void **state)
{
    static const char *const base[] = {"cluster.devices=4", "partitioner.use=uniform",
                                       "scheduler.use=1f1b", "model.dim=64", "model.context=32"};
    const char *sets[12] = {NULL};
    char memory[64];
    const char *path = support_path("fits.json");
    struct trace kept, moved;
    struct outcome o;
    json_int_t most = 0, least = 0;
    json_t *root, *device;
    size_t d;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        add(sets, base[i]);
    }
    bits_train(config, sets, &kept);
    o = penstock("plan", config, "--set", base[0], "--set", base[1], "--set", base[2], "--set",
                 base[3], "--set", base[4], "-o", path);
    expect_code(&o, 0);
    outcome_finish(&o);
    root = plan_file(path);
    json_array_foreach(json_object_get(root, "devices"), d, device)
    {
        json_int_t bytes = json_integer_value(json_object_get(device, "arena_bytes"));

        most = bytes > most ? bytes : most;
        least = d == 0 || bytes < least ? bytes : least;
    }
    json_decref(root);
    assert_true(least < most);
    snprintf(memory, sizeof memory, "cluster.memory=%lld", (long long)(most - (most - least) / 16));
    add(sets, memory);
    o = penstock("plan", config, "--set", base[0], "--set", base[1], "--set", base[2], "--set",
                 base[3], "--set", base[4], "--set", memory);
    expect_code(&o, 1);
    assert_non_null(strstr(o.err, "no plan found that fits"));
    outcome_finish(&o);
    add(sets, BPIPE);
    bits_train(config, sets, &moved);
    bits_expect_same("bpipe", &moved, &kept);
}

static void test_sizes(void **state)
{
    static const char *const jobs[][3] = {{"2", "8", "1f1b"},  {"2", "16", "gpipe"},
                                          {"4", "10", "1f1b"}, {"4", "16", "interleaved"},
                                          {"8", "16", "1f1b"}, {"8", "32", "1f1b"}};

    (void)state;
    for (uint32_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        char devices[64], batch[64], scheduler[64];
        const char *sets[12] = {devices, batch, scheduler, "partitioner.use=uniform"};
        struct trace kept, moved;

        snprintf(devices, sizeof devices, "cluster.devices=%s", jobs[i][0]);
        snprintf(batch, sizeof batch, "train.batch=%s", jobs[i][1]);
        snprintf(scheduler, sizeof scheduler, "scheduler.use=%s", jobs[i][2]);
        bits_train(config, sets, &kept);
        add(sets, BPIPE);
        add(sets, ALWAYS);
        bits_train(config, sets, &moved);
        bits_expect_same(jobs[i][2], &moved, &kept);
    }
}

/* Behind the optimizer that recomputes, and on the device that keeps time. */
static void test_chained(void **state)
{
    static const char chain[] = "memopt=[{use=\"selective\"},{use=\"bpipe\",when=\"always\"}]";
    const char *sets[12] = {"scheduler.use=1f1b", "partitioner.use=uniform", chain};
    struct trace moved;

    (void)state;
    bits_train(config, sets, &moved);
    bits_expect_same("selective, bpipe", &moved, &gpipe);
}

static void test_every_scheduler(void **state)
{
    uint32_t n_moved = 0;

    (void)state;
    for (uint32_t i = 0; i < n_ids; i++) {
        const char *sets[10], *path = support_path("plan.json");
        char texts[MAX_SETTINGS][192];
        struct trace trace;
        json_t *plan;

        settings(ids[i], texts, sets);
        if (write_plan(sets, path)) {
            continue; /* asynchronous */
        }
        add(sets, BPIPE);
        add(sets, ALWAYS);
        (void)write_plan(sets, path);
        plan = plan_file(path);
        n_moved += count_guests(plan) > 0;
        print_message("%s: %zu guests\n", ids[i], count_guests(plan));
        json_decref(plan);
        bits_train(config, sets, &trace);
        bits_expect_same(ids[i], &trace, &gpipe);
    }
    assert_true(n_moved > 2);
}

static void test_refused(void **state)
{
    struct outcome o;

    (void)state;
    o = penstock("plan", config, "--set", "scheduler.use=2bw", "--set", BPIPE);
    expect_code(&o, 2);
    assert_non_null(strstr(o.err, "memopt \"bpipe\""));
    assert_non_null(strstr(o.err, "2bw"));
    outcome_finish(&o);
}

/* --- time --------------------------------------------------------------------------------------
 */

static double step_of(const char *path)
{
    json_t *plan = plan_file(path);
    double us = json_number_value(json_object_get(json_object_get(plan, "predicted"), "step_us"));

    json_decref(plan);
    return us;
}

/* A link on which a micro-batch takes longer than a pass makes passes wait; a fast one does not. */
static void test_slow_link(void **state)
{
    static const char *const links[] = {"cluster.link_bandwidth=100 GB/s",
                                        "cluster.link_bandwidth=2 MB/s"};
    double steps[2][2];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        const char *path = support_path("slow.json");
        struct outcome o = penstock("plan", config, "--set", "scheduler.use=1f1b", "--set",
                                    "partitioner.use=uniform", "--set", links[i / 2], "--set",
                                    i % 2 == 0 ? "memopt.use=none" : BPIPE, "--set",
                                    i % 2 == 0 ? "train.steps=3" : ALWAYS, "-o", path);

        expect_code(&o, 0);
        outcome_finish(&o);
        steps[i / 2][i % 2] = step_of(path);
    }
    print_message("fast: %.1f, %.1f us; slow: %.1f, %.1f us\n", steps[0][0], steps[0][1],
                  steps[1][0], steps[1][1]);
    assert_true(steps[0][1] < steps[0][0] * 1.05);
    assert_true(steps[1][1] > steps[1][0] * 1.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),           cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_sizes),           cmocka_unit_test(test_chained),
        cmocka_unit_test(test_every_scheduler), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_slow_link),
    };

    return cmocka_run_group_tests(tests, schedulers_begin, schedulers_end);
}
