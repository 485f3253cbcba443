/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages that share a device share its memory by what they make of it, not in equal parts and not
 * first come, first served. What fits with everything recomputed leaves room to do better.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

#define PLENTY (UINT64_C(1) << 40)

static const char config[] =
    "[model]\nuse = \"gpt\"\nlayers = 8\ndim = 32\nheads = 2\ncontext = 32\nvocab = 64\n"
    "[data]\nkind = \"synthetic\"\n[train]\nsteps = 1\nbatch = 16\nmicrobatch = 2\n"
    "[cluster]\ndevices = 4\nflops = 80e9\nmemory_bandwidth = \"8 GB/s\"\n"
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"none\"\n";

/* The answer of `penstock plan`. */
static json_t *plan(const char *scheduler, const char *memopt, uint64_t bytes)
{
    const char *path = support_write("shared.toml", config);
    char order[64], optimizer[64], memory[64];
    struct outcome outcome;
    json_t *object;

    snprintf(order, sizeof order, "scheduler.use=%s", scheduler);
    snprintf(optimizer, sizeof optimizer, "memopt.use=%s", memopt);
    snprintf(memory, sizeof memory, "cluster.memory=%llu", (unsigned long long)bytes);
    outcome = penstock("plan", path, "--set", order, "--set", optimizer, "--set", memory, "--json");
    if (outcome.code != 0) {
        print_message("%s with %s and %llu bytes\n", scheduler, memopt, (unsigned long long)bytes);
    }
    expect_code(&outcome, 0);
    object = json_loads(outcome.out, 0, NULL);
    assert_non_null(object);
    outcome_finish(&outcome);
    return object;
}

struct outcome_of_plan {
    uint64_t bytes; /* that the largest device takes */
    double step_us;
};

static struct outcome_of_plan judge(const char *scheduler, const char *memopt, uint64_t bytes)
{
    json_t *object = plan(scheduler, memopt, bytes), *devices;
    struct outcome_of_plan result = {.bytes = 0};

    devices = json_object_get(object, "devices");
    assert_int_equal(json_array_size(devices), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *arena = json_object_get(json_array_get(devices, i), "arena_bytes");

        assert_true(json_integer_value(arena) > 0);
        if ((uint64_t)json_integer_value(arena) > result.bytes) {
            result.bytes = (uint64_t)json_integer_value(arena);
        }
    }
    result.step_us = json_number_value(json_object_get(object, "step_us"));
    assert_true(result.step_us > 0.0);
    json_decref(object);
    return result;
}

/* More than recomputing everything takes, less than keeping everything does: it fits, and takes
   less time than recomputing everything. */
static void test_division(void **state)
{
    static const char *const schedulers[] = {"interleaved", "v-half", "1f1b-v"};
    static const char *const optimizers[] = {"adapipe", "dawnpiper"};

    (void)state;
    for (uint32_t s = 0; s < 3; s++) {
        struct outcome_of_plan full = judge(schedulers[s], "full", PLENTY);
        struct outcome_of_plan none = judge(schedulers[s], "none", PLENTY);

        assert_true(full.bytes < none.bytes && full.step_us > none.step_us);
        for (uint32_t o = 0; o < 2; o++) {
            for (uint32_t part = 1; part <= 4; part++) {
                uint64_t bytes = full.bytes + (none.bytes - full.bytes) / 4 * part;
                struct outcome_of_plan some = judge(schedulers[s], optimizers[o], bytes);

                assert_true(some.bytes <= bytes);
                assert_true(some.step_us < full.step_us);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_division),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
