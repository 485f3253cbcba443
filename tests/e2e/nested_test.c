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
        char texts[2][192], seed[32];
        const char *sets[8];
        uint32_t n = 0;

        settings(ids[i], texts, sets);
        while (sets[n] != NULL) {
            n++;
        }
        snprintf(seed, sizeof seed, "memopt.seed=%u", i + 1);
        sets[n] = RANDOM;
        sets[n + 1] = seed;
        sets[n + 2] = NULL;
        print_message("%s seed %u\n", ids[i], i + 1);
        if (!write_plan(sets, support_path("plan.json"))) {
            bits_train(config, sets, &trace);
            bits_expect_same(ids[i], &trace, &gpipe);
        } else { /* other weights: held against the same without replays */
            struct trace plain;
            const char *const none[] = {sets[0], NULL};

            bits_train(config, sets, &trace);
            bits_train(config, none, &plain);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_scheduler),
        cmocka_unit_test(test_models),
    };

    return cmocka_run_group_tests(tests, schedulers_begin, schedulers_end);
}
