/* SPDX-License-Identifier: Apache-2.0
 *
 * Every partitioner that there is cuts a language model, a convolutional one, one of branches and
 * one with tables: the plan is proven, trained, and computes what one device computes, bit for bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"

enum { MAX_PARTITIONERS = 64 };

static const struct {
    const char *name, *toml;
} models[] = {{"gpt", bits_gpt}, {"resnet", bits_resnet}, {"mmt", bits_mmt}, {"dlrm", bits_dlrm}};

/* What must be said to partitioners that do not answer without. */
static const struct {
    const char *id, *set;
} needs[] = {
    {"manual", "partitioner.stages=*"},
};

static char ids[MAX_PARTITIONERS][64];
static uint32_t n_ids;

static int begin(void **state)
{
    struct outcome o;
    json_t *root, *row;
    size_t i;

    if (support_begin(state) != 0) {
        return -1;
    }
    o = penstock("plugins", "list", "--json");
    root = json_loads(o.out, 0, NULL);
    json_array_foreach(json_object_get(root, "plugins"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "kind")), "partitioner") == 0) {
            assert_true(n_ids < MAX_PARTITIONERS);
            snprintf(ids[n_ids++], sizeof ids[0], "%s",
                     json_string_value(json_object_get(row, "id")));
        }
    }
    json_decref(root);
    outcome_finish(&o);
    return n_ids >= 3 ? 0 : -1;
}

/* Up to NULL. */
static void settings(const char *id, char use[96], const char **ret_sets)
{
    uint32_t n = 0;

    snprintf(use, 96, "partitioner.use=%s", id);
    ret_sets[n++] = use;
    ret_sets[n++] = "cluster.devices=4";
    ret_sets[n++] = "scheduler.use=per-stage";
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (strcmp(needs[i].id, id) == 0) {
            ret_sets[n++] = needs[i].set;
        }
    }
    ret_sets[n] = NULL;
}

/* The plan as a file is legal, and more than one device has a stage of it. */
static void check_plan(const char *id, const char *path, const char *const *sets)
{
    const char *file = support_path("plan.json"), *args[SUPPORT_ARGUMENTS] = {"plan", path, "-o"};
    struct outcome o;
    json_t *root;
    uint32_t n = 4;

    args[3] = file;
    for (uint32_t i = 0; sets[i] != NULL; i++) {
        args[n++] = "--set";
        args[n++] = sets[i];
    }
    o = support_run(args);
    expect_code(&o, 0);
    outcome_finish(&o);
    root = json_load_file(file, 0, NULL);
    assert_non_null(root);
    if (strcmp(id, "manual") != 0) {
        assert_true(json_array_size(json_object_get(root, "stages")) > 1);
    }
    json_decref(root);
    o = penstock("check", file);
    expect_code(&o, 0);
    outcome_finish(&o);
}

static void check_model(const char *name, const char *toml)
{
    const char *path = bits_config("model.toml", toml);
    struct trace first, trace;

    bits_train(path, (const char *const[]){NULL}, &first);
    for (uint32_t i = 0; i < n_ids; i++) {
        const char *sets[8];
        char use[96];

        print_message("%s: %s\n", name, ids[i]);
        settings(ids[i], use, sets);
        check_plan(ids[i], path, sets);
        bits_train(path, sets, &trace);
        bits_expect_same(ids[i], &trace, &first);
    }
    assert_string_not_equal(first.losses[0], first.losses[first.n_steps - 1]);
}

static void test_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        check_model(models[m].name, models[m].toml);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };

    return cmocka_run_group_tests(tests, begin, support_end);
}
