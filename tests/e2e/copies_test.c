/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands say of a plan that offloads: bytes and stalls of a run, rows of a simulation and of
 * a trace, what host memory it may take.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

static const char config_text[] =
    "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 32\nheads = 2\ncontext = 32\nvocab = 64\n"
    "[data]\nkind = \"synthetic\"\n"
    "[train]\nsteps = 3\nbatch = 16\nmicrobatch = 2\neval_batches = 0\n"
    "[cluster]\ndevices = 2\nhost_bandwidth = \"4 GB/s\"\nmemory = \"2.4 MB\"\n"
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"gpipe\"\n"
    "[memopt]\nuse = \"dawnpiper\"\nallow = \"offload\"\nmin_swap_bytes = 0\n";

static const char *config(void)
{
    return support_write("offload.toml", config_text);
}

/* The last line. */
static json_t *last_line(const struct outcome *o)
{
    size_t length = strlen(o->out), begin;
    json_t *root;

    assert_true(length > 1);
    for (begin = length - 1; begin > 0 && o->out[begin - 1] != '\n'; begin--) {
    }
    root = json_loads(o->out + begin, 0, NULL);
    assert_non_null(root);
    return root;
}

static double sum_of(const json_t *root, const char *key)
{
    const json_t *list = json_object_get(root, key);
    double sum = 0;

    assert_int_equal(json_array_size(list), 2);
    for (size_t i = 0; i < 2; i++) {
        sum += json_number_value(json_array_get(list, i));
    }
    return sum;
}

static void a_run(void **state)
{
    struct outcome kept, o;
    json_t *with, *without;

    (void)state;
    kept = penstock("train", config(), "--json", "--set", "cluster.memory=0");
    expect_code(&kept, 0);
    without = last_line(&kept);
    assert_null(json_object_get(without, "offloaded_bytes"));
    o = penstock("train", config(), "--json", "--set", "run.copy_check=true", "--set",
                 "run.host_bandwidth=200 MB/s");
    expect_code(&o, 0);
    with = last_line(&o);
    assert_true(json_real_value(json_object_get(with, "final_loss")) ==
                json_real_value(json_object_get(without, "final_loss")));
    assert_true(sum_of(with, "offloaded_bytes") > 0);
    assert_true(sum_of(with, "peak_bytes") < sum_of(without, "peak_bytes"));
    assert_true(sum_of(with, "peak_bytes") == sum_of(with, "predicted_peak_bytes"));
    assert_true(sum_of(with, "copy_stall_seconds") >= 0);
    json_decref(with);
    json_decref(without);
    outcome_finish(&kept);
    outcome_finish(&o);

    o = penstock("train", config());
    expect_code(&o, 0);
    expect_text(o.out, "offload  device 0: ");
    outcome_finish(&o);
}

/* Bytes of host memory that a plan takes, all devices. The file stays under that name. */
static double host_bytes_of(const char *name, const char *allow, const char *limit)
{
    const char *path = support_path(name);
    struct outcome o = penstock("plan", config(), "-o", path, "--set", allow, "--set", limit);
    json_t *root, *device;
    double sum = 0;
    size_t i;

    expect_code(&o, 0);
    outcome_finish(&o);
    root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "devices"), i, device)
    {
        sum += json_number_value(json_object_get(device, "host_bytes"));
    }
    json_decref(root);
    return sum;
}

/* Plans keep to run.host_memory; one that was made for more is refused, and so is a job that cannot
   do with so little. */
static void a_limit(void **state)
{
    static const char offload[] = "memopt.allow=offload", both[] = "memopt.allow=both";
    double all = host_bytes_of("all.json", offload, "run.host_memory=0"), some;
    char limit[64];
    struct outcome o;

    (void)state;
    snprintf(limit, sizeof limit, "run.host_memory=%.0f", all / 2);
    some = host_bytes_of("some.json", both, limit);
    print_message("%.0f bytes offloaded without a limit, %.0f with %s\n", all, some, limit);
    assert_true(some > 0 && some <= all / 2);
    o = penstock("train", config(), "--set", both, "--set", limit);
    expect_code(&o, 0);
    outcome_finish(&o);
    o = penstock("train", config(), "--plan", support_path("all.json"), "--set", limit);
    expect_code(&o, 4);
    expect_text(o.err, "the plan offloads");
    expect_text(o.err, "run.host_memory is ");
    outcome_finish(&o);
    o = penstock("train", config(), "--set", "run.host_memory=1000");
    expect_code(&o, 1);
    expect_text(o.err, "does not fit");
    outcome_finish(&o);
}

/* A link so slow that passes wait for it shows in the table and in the JSON. */
static void a_simulation(void **state)
{
    struct outcome plan, o;
    json_t *root, *rank, *span;
    uint32_t n_out = 0, n_in = 0;
    double stalls = 0, stalled = 0;
    size_t d, i;

    (void)state;
    plan = penstock("plan", config(), "-o", support_path("plan.json"));
    expect_code(&plan, 0);
    o = penstock("simulate", support_path("plan.json"));
    expect_code(&o, 0);
    expect_text(o.out, "stall");
    outcome_finish(&o);
    o = penstock("simulate", support_path("plan.json"), "--json");
    expect_code(&o, 0);
    root = last_line(&o);
    json_array_foreach(json_object_get(root, "timeline"), d, rank)
    {
        json_array_foreach(rank, i, span)
        {
            const char *lane = json_string_value(json_object_get(span, "lane"));

            n_out += strcmp(lane, "d2h") == 0;
            n_in += strcmp(lane, "h2d") == 0;
            stalls += json_number_value(json_object_get(span, "stall_us"));
        }
    }
    json_array_foreach(json_object_get(root, "ranks"), d, rank)
    {
        stalled += json_number_value(json_object_get(rank, "copy_stall_us"));
    }
    assert_true(n_out > 0 && n_out == n_in);
    assert_true(stalls > stalled - 0.1 && stalls < stalled + 0.1);
    json_decref(root);
    outcome_finish(&o);
    outcome_finish(&plan);
}

/* Rehearsed and run: both leave copies in the trace. */
static void traces(void **state)
{
    static const char *const devices[] = {"run.device=cpu", "run.device=emulated"};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        char trace[320];
        struct outcome o;
        char *text;

        snprintf(trace, sizeof trace, "output.trace=%s", support_path("trace.json"));
        o = penstock("train", config(), "--set", trace, "--set", devices[i]);
        expect_code(&o, 0);
        text = support_read(support_path("trace.json"));
        expect_text(text, "OFFLOAD 0 mb7");
        expect_text(text, "FETCH 1 mb0");
        free(text);
        outcome_finish(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run), cmocka_unit_test(a_limit),
                                       cmocka_unit_test(a_simulation), cmocka_unit_test(traces)};

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
