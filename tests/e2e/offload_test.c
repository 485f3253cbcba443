/* SPDX-License-Identifier: Apache-2.0
 *
 * What is offloaded comes back: every scheduler trains the quickstart model in small with all that
 * may go to the host there, and with half of it recomputed, to the bits of a run that keeps
 * everything, and each device's arena peaks where it was predicted to. So do other models.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"
#include "schedulers.h"

#define LETTERS "memopt.use=letters"

static const char *const letters[] = {"memopt.letters=S", "memopt.letters=SR"};

static void add(const char **sets, const char *set)
{
    uint32_t n = 0;

    while (sets[n] != NULL) {
        n++;
    }
    sets[n] = set;
    sets[n + 1] = NULL;
}

static void test_every_scheduler(void **state)
{
    uint32_t n_moved = 0;

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    check_reference();
    for (uint32_t i = 0; i < n_ids; i++) {
        struct trace trace;
        char texts[MAX_SETTINGS][192];
        const char *sets[8];
        uint32_t n_copies;
        json_int_t bytes;
        bool asynchronous;

        settings(ids[i], texts, sets);
        add(sets, LETTERS);
        add(sets, letters[i % 2]);
        asynchronous = write_plan(sets, support_path("plan.json"));
        bytes = host_bytes(support_path("plan.json"), &n_copies);
        print_message("%s %s: %u copies, %lld bytes\n", ids[i], letters[i % 2], n_copies,
                      (long long)bytes);
        assert_int_equal(bytes > 0, n_copies > 0);
        n_moved += n_copies > 0;
        bits_train(config, sets, &trace);
        check_bits(ids[i], &trace, asynchronous);
    }
    assert_true(n_moved > n_ids / 2);
}

/* Without a flush bytes lie in host memory from one batch to the next. To the bits of a run that
   keeps everything, and what goes out comes back: with a norm over all devices and without, drained
   now and then, every time and never, with a link of its own each way or one, and slow. */
static void test_asynchronous(void **state)
{
    static const char *const clips[] = {"train.clip=0", "train.clip=0.7"};
    static const char *const drains[] = {"train.drain_every=0", "train.drain_every=2",
                                         "train.drain_every=1"};
    static const char *const links[] = {"cluster.link_directions=1", "cluster.link_directions=2"};
    static const char *const rates[] = {"run.host_bandwidth=0", "run.host_bandwidth=20e6"};
    static const char *const degrees[] = {"train.degrees=[1]", "train.degrees=[2]"};
    static const char *const devices[] = {"cluster.devices=4", "cluster.devices=6"};
    char *path = strdup(bits_config("gpt.toml", bits_gpt));

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    for (uint32_t i = 0; i < 12; i++) {
        const char *sets[16] = {"scheduler.use=2bw", "train.steps=5",    clips[i % 2],
                                drains[i % 3],       degrees[i / 6 % 2], devices[i / 6 % 2]};
        struct trace first, trace;

        bits_train(path, sets, &first);
        assert_int_equal(first.n_steps, 5);
        add(sets, LETTERS);
        add(sets, letters[i / 3 % 2]);
        add(sets, links[i / 2 % 2]);
        add(sets, rates[i % 4 == 1]);
        add(sets, "run.copy_check=true");
        bits_train(path, sets, &trace);
        bits_expect_same(drains[i % 3], &trace, &first);
    }
    free(path);
}

/* Both letters under schedulers of all kinds: rows, in turn, W late, chunks, a V. */
static void test_models(void **state)
{
    static const char *const kinds[] = {"gpipe", "1f1b", "zb-h1", "interleaved", "zbv"};
    static const char *const models[][2] = {
        {"gpt.toml", bits_gpt}, {"resnet.toml", bits_resnet}, {"mmt.toml", bits_mmt}};

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    for (uint32_t m = 0; m < 3; m++) {
        char *path = strdup(bits_config(models[m][0], models[m][1]));
        struct trace first, trace;

        bits_train(path, (const char *const[]){NULL}, &first);
        for (uint32_t k = 0; k < 10; k++) {
            char scheduler[64];
            const char *sets[] = {scheduler,
                                  "cluster.devices=2",
                                  LETTERS,
                                  letters[k % 2],
                                  k % 3 == 0 ? "cluster.link_directions=2" : NULL,
                                  NULL};

            snprintf(scheduler, sizeof scheduler, "scheduler.use=%s", kinds[k / 2]);
            bits_train(path, sets, &trace);
            bits_expect_same(kinds[k / 2], &trace, &first);
        }
        free(path);
    }
}

/* Both ways at once or, with `directions` 2, one after the other; MB/s are bytes a microsecond. */
static void check_link(const char *directions, double times)
{
    struct outcome o =
        penstock("plan", config, "--set", LETTERS, "--set", letters[0], "--set",
                 "cluster.host_bandwidth=100MB/s", "--set", directions, "--json");
    json_t *root, *stage;
    size_t i;

    expect_code(&o, 0);
    root = json_loads(o.out, 0, NULL);
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "stages"), i, stage)
    {
        double bytes = json_number_value(json_object_get(stage, "offloaded_bytes"));
        double us = json_number_value(json_object_get(stage, "link_us"));

        assert_true(bytes > 0);
        assert_true(us >= times * bytes / 100 && us < times * (bytes / 100 + 0.002));
    }
    assert_true(i > 1);
    json_decref(root);
    outcome_finish(&o);
}

/* A device with one stage: the report's sum is the peak, host memory left out. */
static void check_sums(const char *text)
{
    json_t *root = json_loads(text, 0, NULL), *stage;
    size_t i;

    assert_non_null(root);
    json_array_foreach(json_object_get(root, "stages"), i, stage)
    {
        json_t *device = json_array_get(json_object_get(root, "devices"), i);

        assert_int_equal(json_integer_value(json_object_get(stage, "total_bytes")),
                         json_integer_value(json_object_get(device, "peak_bytes")));
        assert_true(json_integer_value(json_object_get(device, "host_bytes")) > 0);
    }
    assert_true(i > 1);
    json_decref(root);
}

/* A plan that is too large says what it takes, on the device and on the host; one that fits prints
   the latter. */
static void test_what_it_takes(void **state)
{
    static const char *const said[] = {"fetched from the host", "offloaded: ", "of host memory"};
    struct outcome o;

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    o = penstock("plan", config, "--set", LETTERS, "--set", letters[0], "--set",
                 "scheduler.use=gpipe", "--set", "partitioner.use=uniform", "--set",
                 "cluster.memory=100KiB");
    assert_int_not_equal(o.code, 0);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        assert_non_null(strstr(o.err, said[i]));
    }
    outcome_finish(&o);
    o = penstock("plan", config, "--set", LETTERS, "--set", letters[0], "--set",
                 "scheduler.use=1f1b");
    expect_code(&o, 0);
    assert_non_null(strstr(o.out, "host memory"));
    outcome_finish(&o);
    o = penstock("plan", config, "--set", LETTERS, "--set", letters[0], "--set",
                 "scheduler.use=gpipe", "--json");
    expect_code(&o, 0);
    check_sums(o.out);
    outcome_finish(&o);
    check_link("cluster.link_directions=1", 1);
    check_link("cluster.link_directions=2", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_scheduler),
        cmocka_unit_test(test_asynchronous),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_what_it_takes),
    };

    return cmocka_run_group_tests(tests, schedulers_begin, schedulers_end);
}
