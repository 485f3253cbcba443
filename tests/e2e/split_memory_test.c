/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders with backward passes in two parts under little memory. What waits for W holds what no
 * action changes, gradients among it. Where recomputing everything fits, every optimizer that can
 * recompute everything must find a plan; and what runs takes what was predicted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

#define FULL "memopt=[{use=\"full\",unit=\"stage\",skip_last=false}]"

static const char config[] =
    "[model]\nuse = \"gpt\"\nlayers = 8\ndim = 64\nheads = 4\ncontext = 64\n"
    "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"
    "[train]\nsteps = 1\nbatch = 16\nmicrobatch = 2\noptimizer = \"sgd\"\neval_every = 0\n"
    "eval_batches = 0\nsample = 0\n"
    "[cluster]\ndevices = 4\nflops = 80e9\nmemory_bandwidth = \"8 GB/s\"\n"
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"none\"\n";

/* Bytes of the largest device of a plan for that much memory. */
static uint64_t bytes_of(const char *path, const char *scheduler, const char *memopt,
                         uint64_t memory)
{
    char order[64], room[64];
    uint64_t most = 0;
    struct outcome o;
    json_t *object, *devices;

    snprintf(order, sizeof order, "scheduler.use=%s", scheduler);
    snprintf(room, sizeof room, "cluster.memory=%llu", (unsigned long long)memory);
    o = penstock("plan", path, "--json", "--set", order, "--set", memopt, "--set", room);
    if (o.code != 0) {
        print_message("%s, %s, %s\n", order, memopt, room);
    }
    expect_code(&o, 0);
    object = json_loads(o.out, 0, NULL);
    devices = json_object_get(object, "devices");
    for (size_t d = 0; d < json_array_size(devices); d++) {
        uint64_t bytes = (uint64_t)json_integer_value(
            json_object_get(json_array_get(devices, d), "arena_bytes"));

        most = bytes > most ? bytes : most;
    }
    json_decref(object);
    outcome_finish(&o);
    assert_true(most > 0);
    return most;
}

static void test_what_full_fits(void **state)
{
    static const char *const schedulers[] = {"zb-h1", "zb-h2", "zbv", "v-half", "v-min"};
    static const char *const optimizers[] = {"memopt.use=dawnpiper", "memopt.use=sqrt", FULL};
    char *path = strdup(support_write("split.toml", config));

    (void)state;
    for (size_t s = 0; s < sizeof schedulers / sizeof schedulers[0]; s++) {
        uint64_t full = bytes_of(path, schedulers[s], FULL, UINT64_C(1) << 40);

        for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
            assert_true(bytes_of(path, schedulers[s], optimizers[i], full) <= full);
        }
    }
    free(path);
}

/* Less than full takes, 127 of 128 parts: it is the estimate that makes dawnpiper find it. */
static void test_runs_as_predicted(void **state)
{
    char *path = strdup(support_write("split.toml", config)), room[64];
    uint64_t full = bytes_of(path, "zb-h2", FULL, UINT64_C(1) << 40), memory = full - full / 128;
    const char *last;
    struct outcome o;
    json_t *end, *peak, *predicted;

    (void)state;
    print_message("full takes %llu bytes\n", (unsigned long long)full);
    snprintf(room, sizeof room, "cluster.memory=%llu", (unsigned long long)memory);
    o = penstock("train", path, "--json", "--set", "scheduler.use=zb-h2", "--set",
                 "memopt.use=dawnpiper", "--set", room);
    free(path);
    expect_code(&o, 0);
    last = strstr(o.out, "{\"done\"");
    assert_non_null(last);
    end = json_loads(last, JSON_DISABLE_EOF_CHECK, NULL);
    peak = json_object_get(end, "peak_bytes");
    predicted = json_object_get(end, "predicted_peak_bytes");
    assert_int_equal(json_array_size(peak), 4);
    assert_true(json_equal(peak, predicted));
    for (size_t d = 0; d < 4; d++) {
        assert_in_range(json_integer_value(json_array_get(peak, d)), 1, memory);
    }
    json_decref(end);
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_full_fits),
        cmocka_unit_test(test_runs_as_predicted),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
