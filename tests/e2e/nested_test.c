/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays within replays train to the bits of a run that keeps everything, and each device's arena
 * peaks where it was predicted to: lists at random under every scheduler and on models of other
 * shapes, and what rotor plans where memory is short.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"
#include "schedulers.h"

#define RANDOM "memopt.use=replays"

/* In how many replays of the plan file the operator that most of them name is, over all stages. */
static uint32_t most_replayed(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL), *stage, *replay, *name;
    uint32_t most = 0;
    size_t s, r, v;

    assert_non_null(root);
    json_array_foreach(json_object_get(root, "stages"), s, stage)
    {
        uint32_t times[512] = {0};

        json_array_foreach(json_object_get(stage, "sequence"), r, replay)
        {
            bool inside = false;

            json_array_foreach(json_object_get(stage, "nodes"), v, name)
            {
                assert_true(v < 512);
                inside |= json_equal(name, json_array_get(replay, 1));
                times[v] += inside;
                most = times[v] > most ? times[v] : most;
                inside &= !json_equal(name, json_array_get(replay, 2));
            }
        }
    }
    json_decref(root);
    return most;
}

static void test_every_scheduler(void **state)
{
    uint32_t n_nested = 0;

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    for (uint32_t i = 0; i < n_ids; i++) {
        struct trace trace;
        char texts[MAX_SETTINGS][192], seed[32];
        const char *sets[MAX_SETTINGS + 4];
        uint32_t n = 0;

        settings(ids[i], texts, sets);
        while (sets[n] != NULL) {
            n++;
        }
        snprintf(seed, sizeof seed, "memopt.seed=%u", i + 1);
        sets[n++] = "partitioner.use=uniform"; /* replays do not move its cuts */
        sets[n] = RANDOM;
        sets[n + 1] = seed;
        sets[n + 2] = NULL;
        print_message("%s seed %u\n", ids[i], i + 1);
        if (!write_plan(sets, support_path("plan.json"))) {
            bits_train(config, sets, &trace);
            bits_expect_same(ids[i], &trace, &gpipe);
        } else { /* other weights: held against the same without replays */
            struct trace plain;

            bits_train(config, sets, &trace);
            sets[n] = NULL;
            bits_train(config, sets, &plain);
            bits_expect_same(ids[i], &trace, &plain);
        }
        n_nested += most_replayed(support_path("plan.json")) > 1;
    }
    assert_true(n_nested == n_ids);
}

/* Convolutions with running statistics, branches, two kinds of inputs. */
static void test_models(void **state)
{
    static const char *const kinds[] = {"1f1b", "zb-h1", "zbv"};
    static const char *const models[][2] = {{"gpt.toml", bits_gpt},
                                            {"resnet.toml", bits_resnet},
                                            {"mmt.toml", bits_mmt},
                                            {"t5.toml", bits_t5}};

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    for (uint32_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        char *path = strdup(bits_config(models[m][0], models[m][1]));
        struct trace first, trace;

        bits_train(path, (const char *const[]){NULL}, &first);
        for (uint32_t k = 0; k < 3; k++) {
            char scheduler[64], seed[32];
            const char *sets[] = {scheduler, "cluster.devices=2", RANDOM, seed, NULL};

            snprintf(scheduler, sizeof scheduler, "scheduler.use=%s", kinds[k]);
            snprintf(seed, sizeof seed, "memopt.seed=%u", 10 * m + k + 1);
            bits_train(path, sets, &trace);
            bits_expect_same(kinds[k], &trace, &first);
        }
        free(path);
    }
}

/* --- rotor -------------------------------------------------------------------------------------*/

static const char deep[] =
    "[model]\nuse = \"gpt\"\nlayers = 10\ndim = 32\nheads = 2\ncontext = 32\n"
    "dropout = 0.1\n"
    "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"
    "[train]\nsteps = 2\nbatch = 16\nmicrobatch = 4\neval_batches = 0\n"
    "eval_every = 0\nsample = 0\n"
    "[cluster]\ndevices = 2\nhost_bandwidth = \"4 GB/s\"\n"
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n";

static const char alone[] = "[[memopt]]\nuse = \"none\"\n";

static char *write_deep(const char *memopts)
{
    char text[1024];

    snprintf(text, sizeof text, "%s%s", deep, memopts);
    return strdup(support_write("deep.toml", text));
}

/* What penstock says would do where next to nothing is there: "cluster.memory=1716224". */
static void find_least(const char *path, const char *scheduler, char *ret_set, size_t size)
{
    struct outcome o = penstock("plan", path, "--set", scheduler, "--set", "memopt.use=rotor",
                                "--set", "cluster.memory=50KiB");
    const char *at = strstr(o.err, "cluster.memory = ");

    assert_int_equal(o.code, 1);
    assert_non_null(at);
    at += strlen("cluster.memory = ");
    snprintf(ret_set, size, "cluster.memory=%.*s",
             (int)(*at == '"' ? strcspn(at + 1, "\"") + 2 : strspn(at, "0123456789")), at);
    outcome_finish(&o);
}

/* With the least memory that rotor can do with operators run twice and more; nothing else shows. */
static void test_rotor_in_little_memory(void **state)
{
    static const char *const kinds[] = {"1f1b", "gpipe", "zb-h1", "2bw"};
    char *path = write_deep(alone);
    uint32_t n_nested = 0;

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        char scheduler[64], memory[64];
        const char *plain[] = {scheduler, NULL};
        const char *sets[] = {scheduler, "memopt.use=rotor", memory, NULL};
        struct outcome o;
        struct trace trace, without;

        snprintf(scheduler, sizeof scheduler, "scheduler.use=%s", kinds[k]);
        find_least(path, scheduler, memory, sizeof memory);
        o = penstock("plan", path, "-o", support_path("plan.json"), "--set", sets[0], "--set",
                     sets[1], "--set", sets[2]);
        expect_code(&o, 0);
        outcome_finish(&o);
        print_message("%s: %s, %u replays of one operator\n", kinds[k], memory,
                      most_replayed(support_path("plan.json")));
        n_nested += most_replayed(support_path("plan.json")) > 1;
        bits_train(path, plain, &without);
        bits_train(path, sets, &trace);
        bits_expect_same(kinds[k], &trace, &without);
        o = penstock("check", support_path("plan.json")); /* and from the file */
        expect_code(&o, 0);
        outcome_finish(&o);
    }
    assert_true(n_nested >= 3); /* not where W comes late and holds it all */
    free(path);
}

/* rotor is the last of several; what another one offloads stays away and is read by replays. */
static void test_in_a_list(void **state)
{
    static const char first[] = "[[memopt]]\nuse = \"rotor\"\n[[memopt]]\nuse = \"none\"\n";
    static const char last[] = "[[memopt]]\nuse = \"letters\"\nletters = \"KKSKK\"\n"
                               "[[memopt]]\nuse = \"rotor\"\n";
    const char *sets[] = {"scheduler.use=gpipe", "cluster.memory=2500 KiB", NULL};
    struct trace trace, without;
    uint32_t n_copies = 0;
    struct outcome o;
    char *path;

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    path = write_deep(first);
    o = penstock("plan", path);
    expect_code(&o, 2);
    expect_text(o.err, "its [[memopt]] must come behind that of \"none\"");
    outcome_finish(&o);
    free(path);
    path = write_deep(alone);
    bits_train(path, (const char *const[]){sets[0], NULL}, &without);
    free(path);
    path = write_deep(last);
    o = penstock("plan", path, "-o", support_path("plan.json"), "--set", sets[0], "--set", sets[1]);
    expect_code(&o, 0);
    outcome_finish(&o);
    assert_true(host_bytes(support_path("plan.json"), &n_copies) > 0 && n_copies > 0);
    assert_true(most_replayed(support_path("plan.json")) > 0);
    bits_train(path, sets, &trace);
    bits_expect_same("letters and rotor", &trace, &without);
    free(path);
}

/* rotor before bpipe: replays of micro-batches whose saved tensors were on another device. */
static void test_with_guests(void **state)
{
    static const char both[] = "[[memopt]]\nuse = \"rotor\"\n"
                               "[[memopt]]\nuse = \"bpipe\"\nwhen = \"always\"\n";
    static const char *const memory[] = {"cluster.memory=2200 KiB", "cluster.memory=3000 KiB"};
    const char *plain[] = {"cluster.devices=4", "train.batch=32", NULL};
    struct trace trace, without;
    char *path = write_deep(alone);

    (void)state;
    bits_train(path, plain, &without);
    free(path);
    path = write_deep(both);
    for (size_t i = 0; i < 2; i++) {
        const char *sets[] = {plain[0], plain[1], memory[i], NULL};
        struct outcome o = penstock("plan", path, "-o", support_path("plan.json"), "--set", sets[0],
                                    "--set", sets[1], "--set", sets[2]);
        json_t *plan, *stage;
        bool found = false;
        size_t s;

        expect_code(&o, 0);
        outcome_finish(&o);
        plan = json_load_file(support_path("plan.json"), 0, NULL);
        json_array_foreach(json_object_get(plan, "stages"), s, stage)
        {
            found |= json_array_size(json_object_get(stage, "guests")) > 0 &&
                     json_array_size(json_object_get(stage, "sequence")) > 0;
        }
        json_decref(plan);
        assert_true(found); /* in one stage */
        bits_train(path, sets, &trace);
        bits_expect_same(memory[i], &trace, &without);
    }
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_scheduler),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_rotor_in_little_memory),
        cmocka_unit_test(test_in_a_list),
        cmocka_unit_test(test_with_guests),
    };

    return cmocka_run_group_tests(tests, schedulers_begin, schedulers_end);
}
