/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning in a process of its own: the same plans, remarks and messages as without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "isolate_rig.h"

static void replace(char *text, const char *word, const char *other)
{
    size_t n = strlen(word), k = strlen(other);

    assert_true(k <= n);
    while ((text = strstr(text, word)) != NULL) {
        memcpy(text, other, k);
        memmove(text + k, text + n, strlen(text + n) + 1);
    }
}

static char *plan_text(const char *isolate, const char *partitioner, const char *scheduler,
                       const char *memopt)
{
    const char *path = support_path("plan.json");
    struct outcome o = penstock("plan", support_write("job.toml", job), "--set", isolate, "--set",
                                partitioner, "--set", scheduler, "--set", memopt, "-o", path);
    char *text;

    expect_code(&o, 0);
    outcome_finish(&o);
    text = support_read(path);
    assert_non_null(text);
    return text;
}

static void test_the_same_plans(void **state)
{
    static const char *const jobs[][3] = {
        {"partitioner.use=uniform", "scheduler.use=gpipe", "memopt=[{use='none'}]"},
        {"partitioner.use=chain-dp", "scheduler.use=1f1b", "memopt=[{use='full'}]"},
        {"partitioner.use=chain-dp", "scheduler.use=well", "train.lr=0.3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const char *const *j = jobs[i];
        char *here = plan_text("plugins.isolate=never", j[0], j[1], j[2]);
        char *apart = plan_text("plugins.isolate=always", j[0], j[1], j[2]);

        expect_text(here, "\"isolated\":false");
        expect_text(apart, "\"isolated\":true");
        /* Nothing but these two words may differ. */
        replace(apart, "\"isolate\":\"always\"", "\"isolate\":\"never\"");
        replace(apart, "\"isolated\":true", "\"isolated\":");
        replace(here, "\"isolated\":false", "\"isolated\":");
        assert_string_equal(here, apart);
        free(here);
        free(apart);
    }
}

/* The part of `penstock plan --json` that begins with remarks. */
static char *remarks_text(const char *isolate)
{
    struct outcome o = penstock("plan", support_write("job.toml", job), "--json", "--set", isolate,
                                "--set", "partitioner.use=dapple");
    const char *begin, *end;
    char *text;

    expect_code(&o, 0);
    begin = strstr(o.out, "\"remarks\"");
    assert_non_null(begin);
    end = strchr(begin, '}');
    assert_non_null(end);
    text = strndup(begin, (size_t)(end - begin));
    outcome_finish(&o);
    return text;
}

/* What the partitioner says beside its plan comes over, too. */
static void test_the_same_remarks(void **state)
{
    char *here = remarks_text("plugins.isolate=never");
    char *apart = remarks_text("plugins.isolate=always");

    (void)state;
    expect_text(here, "latency_us");
    assert_string_equal(here, apart);
    free(here);
    free(apart);
}

static void test_the_same_messages(void **state)
{
    static const char *const faults[][2] = {
        {"scheduler.use=gpip", NULL},
        {"scheduler.depth=4", NULL}, /* gpipe has no such key */
        {"scheduler={use='well',depth=9}", NULL},
        {"scheduler.use=odd", NULL},
        {"scheduler.use=illegal", NULL},
        {"scheduler.use=heed", "plugins.time_limit='200 ms'"},
        {"cluster.memory='64 KiB'", NULL}, /* with a table */
        {"cluster.devices=64", NULL},
        {"scheduler.path='/nonexistent/scheduler-gpipe.so'", NULL},
    };
    static const char *const codes[] = {"2", "2", "2", "3", "3", "3", "1", "1", "2"};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *path = support_write("job.toml", job);
        const char *other = faults[i][1] != NULL ? faults[i][1] : "train.lr=0.5";
        struct outcome here = penstock("plan", path, "--set", faults[i][0], "--set", other, "--set",
                                       "plugins.isolate=never", "--json");
        struct outcome apart = penstock("plan", path, "--set", faults[i][0], "--set", other,
                                        "--set", "plugins.isolate=always", "--json");

        expect_code(&here, atoi(codes[i]));
        expect_code(&apart, here.code);
        assert_string_equal(here.out, apart.out);
        assert_string_equal(here.err, apart.err);
        outcome_finish(&here);
        outcome_finish(&apart);
    }
}

/* Line and column of a mistake in the file, which the other process never saw. */
static void test_the_same_positions(void **state)
{
    char text[1024];
    const char *path;
    struct outcome o;

    (void)state;
    snprintf(text, sizeof text, "%s[plugins]\nisolate = \"always\"\n[scheduler.x]\n", job);
    path = support_write("position.toml", text);
    o = penstock("plan", path);
    expect_code(&o, 2);
    /* 18 lines before: 2 + 2 + 4 + 2 + 2 + 2 + 2 of the job, 2 of [plugins] */
    expect_text(o.err, "position.toml:19:");
    outcome_finish(&o);
}

static void test_auto(void **state)
{
    struct outcome own = plan("train.lr=0.1", NULL, "-v");
    struct outcome foreign = plan("scheduler.use=well", NULL, "-v");
    struct outcome never = plan("scheduler.use=well", "plugins.isolate=never", "-v");

    (void)state;
    expect_text(own.err, "strategies run in this process");
    expect_text(foreign.err, "strategies run in a process of their own");
    expect_text(foreign.err, BAD_FOLDER "/scheduler-well.so) is not from the program's own folder");
    expect_text(never.err, "strategies run in this process");
    outcome_finish(&own);
    outcome_finish(&foreign);
    outcome_finish(&never);
}

/* The text from `key` to the end of that value. */
static void copy_value(const char *text, const char *key, char value[64])
{
    const char *at = strstr(text, key);

    assert_non_null(at);
    snprintf(value, 64, "%.*s", (int)strcspn(at, ",}"), at);
}

static void test_train(void **state)
{
    const char *path = support_write("job.toml", job);
    struct outcome here = penstock("train", path, "--json", "--set", "plugins.isolate=never");
    struct outcome apart = penstock("train", path, "--json", "--set", "plugins.isolate=always");
    char a[64], b[64];

    (void)state;
    expect_code(&here, 0);
    expect_code(&apart, 0);
    copy_value(here.out, "\"loss_hex\":", a);
    copy_value(apart.out, "\"loss_hex\":", b);
    assert_string_equal(a, b);
    outcome_finish(&here);
    outcome_finish(&apart);
    here = penstock("train", path, "--set", "scheduler.use=crash-create");
    expect_code(&here, 3);
    expect_text(here.err, BY("crash-create", "crashed with SIGSEGV in create()"));
    outcome_finish(&here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_plans),
        cmocka_unit_test(test_the_same_remarks),
        cmocka_unit_test(test_the_same_messages),
        cmocka_unit_test(test_the_same_positions),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_train),
    };

    return cmocka_run_group_tests(tests, begin, support_end);
}
