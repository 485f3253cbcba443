/* SPDX-License-Identifier: Apache-2.0
 *
 * The small configs of configs/models train as they are, on several devices, to the bits of one;
 * the largest size from a paper is planned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "bits_models.h"

#define FOLDER PENSTOCK_SOURCE_DIR "/configs/models/"

static void check_config(const char *name)
{
    static const char *const short_run[] = {"train.steps=4", "train.eval_batches=0", NULL};
    static const char *const alone[] = {"train.steps=4", "train.eval_batches=0",
                                        "cluster.devices=1", NULL};
    char path[512];
    struct trace several, one;

    snprintf(path, sizeof path, FOLDER "%s", name);
    bits_train(path, short_run, &several);
    bits_train(path, alone, &one);
    bits_expect_same(name, &several, &one);
    assert_string_not_equal(one.losses[0], one.losses[3]);
}

static void test_small(void **state)
{
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;
    uint32_t n = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (strstr(entry->d_name, "-small.toml") != NULL) {
            check_config(entry->d_name);
            n++;
        }
    }
    closedir(folder);
    assert_int_equal(n, 8);
}

static void test_largest(void **state)
{
    const char *const args[] = {"plan", FOLDER "gpt-98.5b.toml", "--json", NULL};
    struct outcome outcome = support_run(args);
    json_t *plan;

    (void)state;
    expect_code(&outcome, 0);
    plan = json_loads(outcome.out, 0, NULL);
    assert_non_null(plan);
    assert_int_equal(json_array_size(json_object_get(plan, "stages")), 40);
    /* 12 L h^2 + 13 L h + 2 h, tables of 32000 tokens and 1024 positions */
    assert_int_equal(json_integer_value(json_object_get(plan, "parameters")),
                     12ll * 78 * 10240 * 10240 + 13ll * 78 * 10240 + 2 * 10240 +
                         (32000ll + 1024) * 10240);
    json_decref(plan);
    outcome_finish(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_largest),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
