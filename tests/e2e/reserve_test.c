/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that plans leave free: with so much more of it in each device everything is as if there
 * were neither, and what a refusal says would do counts it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

enum { RESERVE = 192 * 1024 + 5 };

static const char config[] = "[model]\nuse = \"mlp\"\nlayers = 4\n[data]\nkind = \"synthetic\"\n"
                             "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 2\n"
                             "[cluster]\ndevices = 2\n[partitioner]\nuse = \"uniform\"\n"
                             "[scheduler]\nuse = \"gpipe\"\n[[memopt]]\nuse = \"none\"\n";

static struct outcome plan(const char *path, const char *file, unsigned long long memory,
                           unsigned long long reserve, const char *json)
{
    char sets[2][64];

    snprintf(sets[0], sizeof sets[0], "cluster.memory=%llu", memory);
    snprintf(sets[1], sizeof sets[1], "cluster.reserve=%llu", reserve);
    return penstock("plan", path, "-o", file, "--set", sets[0], "--set", sets[1], json);
}

static unsigned long long most_of(const char *file)
{
    json_t *root = json_load_file(file, 0, NULL), *device;
    unsigned long long most = 0;
    size_t i;

    assert_non_null(root);
    json_array_foreach(json_object_get(root, "devices"), i, device)
    {
        unsigned long long bytes =
            (unsigned long long)json_integer_value(json_object_get(device, "arena_bytes"));

        most = bytes > most ? bytes : most;
    }
    json_decref(root);
    assert_true(most > 0);
    return most;
}

static unsigned long long number_behind(const char *text, const char *words)
{
    const char *at = strstr(text, words);

    if (at == NULL) {
        fail_msg("\"%s\" is missing in: %s", words, text);
        return 0;
    }
    return strtoull(at + strlen(words), NULL, 10);
}

static void expect_words(const struct outcome *o, int code, const char *words)
{
    expect_code(o, code);
    if (strstr(o->out, words) == NULL && strstr(o->err, words) == NULL) {
        fail_msg("\"%s\" is missing in: %s%s", words, o->out, o->err);
    }
}

static void test_left_free(void **state)
{
    const char *path = support_write("reserve.toml", config);
    const char *file = support_path("reserve.json");
    unsigned long long most, enough;
    struct outcome o = plan(path, file, 0, RESERVE, NULL);

    (void)state;
    expect_words(&o, 0, "(no limit)");
    outcome_finish(&o);
    most = most_of(file);

    o = plan(path, file, most + RESERVE, RESERVE, NULL);
    expect_words(&o, 0, "192 KiB are reserved");
    outcome_finish(&o);
    assert_true(most_of(file) <= most);
    most = most_of(file);

    /* What would do is known to the byte. */
    o = plan(path, file, most / 2 + RESERVE, RESERVE, NULL);
    expect_code(&o, 1);
    enough = number_behind(o.err, "cluster.memory = ");
    outcome_finish(&o);
    assert_true(enough > most / 2 + RESERVE && enough <= most + RESERVE);
    o = plan(path, file, enough - 1, RESERVE, NULL);
    expect_code(&o, 1);
    outcome_finish(&o);
    o = plan(path, file, enough, RESERVE, NULL);
    expect_code(&o, 0);
    outcome_finish(&o);
    assert_true(most_of(file) + RESERVE <= enough);
}

static void test_of_a_file(void **state)
{
    const char *path = support_write("reserve.toml", config);
    const char *file = support_path("reserve.json");
    struct outcome o = plan(path, file, 0, 0, NULL);
    unsigned long long most;
    char sets[2][64];

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    most = most_of(file);
    for (uint32_t less = 0; less < 2; less++) {
        snprintf(sets[0], sizeof sets[0], "cluster.memory=%llu", most + RESERVE - less);
        snprintf(sets[1], sizeof sets[1], "cluster.reserve=%u", RESERVE);
        o = penstock("train", path, "--plan", file, "--set", sets[0], "--set", sets[1]);
        expect_code(&o, (int)less);
        if (less == 1) {
            assert_true(number_behind(o.err, "cluster.memory = ") == most + RESERVE);
        }
        outcome_finish(&o);
    }
}

static void test_nothing_left(void **state)
{
    const char *path = support_write("reserve.toml", config);
    const char *file = support_path("reserve.json");
    struct outcome o = plan(path, file, RESERVE, RESERVE, NULL);

    (void)state;
    expect_words(&o, 2, "cluster.reserve = 192 KiB leaves nothing");
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left_free),
                                       cmocka_unit_test(test_of_a_file),
                                       cmocka_unit_test(test_nothing_left)};

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
