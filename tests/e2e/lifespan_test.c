/* SPDX-License-Identifier: Apache-2.0
 *
 * Offloading where a device has two stages: bytes of the stage whose micro-batches live longer go
 * first, and those of the other only where these do not suffice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

static const char config[] =
    "[model]\nuse = \"gpt\"\nlayers = 16\ndim = 64\nheads = 2\ncontext = 64\nvocab = 64\n"
    "[data]\nkind = \"synthetic\"\n[train]\nsteps = 1\nbatch = 32\nmicrobatch = 2\n"
    "[cluster]\ndevices = 4\nflops = 80e9\nmemory_bandwidth = \"8 GB/s\"\n"
    "host_bandwidth = \"20 GB/s\"\n[partitioner]\nuse = \"uniform\"\n"
    "[scheduler]\nuse = \"interleaved\"\nchunks = 2\n"
    "[[memopt]]\nuse = \"offload\"\nmin_swap_bytes = 0\n";

static json_t *plan(const char *path, uint64_t bytes)
{
    char memory[64];
    struct outcome o;
    json_t *object;

    snprintf(memory, sizeof memory, "cluster.memory=%llu", (unsigned long long)bytes);
    o = penstock("plan", path, "--json", "--set", memory);
    expect_code(&o, 0);
    object = json_loads(o.out, 0, NULL);
    assert_non_null(object);
    outcome_finish(&o);
    return object;
}

static long long number(const json_t *plan, size_t stage, const char *key)
{
    const json_t *row = json_array_get(json_object_get(plan, "stages"), stage);

    assert_true(json_is_integer(json_object_get(row, key)));
    return json_integer_value(json_object_get(row, key));
}

static uint64_t need_of(const json_t *plan)
{
    const json_t *devices = json_object_get(plan, "devices");
    uint64_t most = 0;

    for (size_t d = 0; d < json_array_size(devices); d++) {
        uint64_t bytes = (uint64_t)json_integer_value(
            json_object_get(json_array_get(devices, d), "arena_bytes"));

        most = bytes > most ? bytes : most;
    }
    return most;
}

static void test_longest_first(void **state)
{
    const char *path = support_write("lifespan.toml", config);
    json_t *all = plan(path, UINT64_C(1) << 40);
    uint64_t most = need_of(all);
    long long moved = 0;

    (void)state;
    for (uint32_t tenths = 9; tenths >= 7; tenths--) {
        json_t *some = plan(path, most / 10 * tenths);

        assert_true(need_of(some) <= most / 10 * tenths);
        for (size_t d = 0; d < 4; d++) { /* stage d on device d lives longer than stage d + 4 */
            long long longer = number(some, d, "offloaded_bytes");
            long long kept = number(some, d, "kept_bytes");
            long long shorter = number(some, d + 4, "offloaded_bytes");

            assert_true(number(some, d, "in_flight") > number(some, d + 4, "in_flight"));
            if (shorter > 0 && kept * 20 > longer) {
                fail_msg("%u tenths, device %zu: %lld bytes stay that live longer, %lld go", tenths,
                         d, kept, shorter);
            }
            moved += longer;
        }
        json_decref(some);
    }
    assert_true(moved > 0);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_first),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
