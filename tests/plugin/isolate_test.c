/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning in a process of its own: one message and exit code 3 for whatever a plugin does to that
 * process, signals, and no process left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "isolate_rig.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct deed {
    const char *id;
    int code;
    const char *kind, *words;
};

static void expect_deed(const struct deed *deed, const char *more)
{
    char set[64];
    struct outcome plain, json;

    snprintf(set, sizeof set, "scheduler.use=%s", deed->id);
    plain = plan(set, more, NULL);
    expect_code(&plain, deed->code);
    expect_text(plain.err, deed->words);
    json = plan(set, more, "--json");
    expect_code(&json, deed->code);
    expect_text(json.out, deed->kind);
    outcome_finish(&plain);
    outcome_finish(&json);
}

static void test_blame(void **state)
{
    static const struct deed deeds[] = {
        {"crash-load", 3, "plugin.crash",
         BY("crash-load", "crashed with SIGSEGV while it was loaded")},
        {"crash-create", 3, "plugin.crash", BY("crash-create", "crashed with SIGSEGV in create()")},
        {"crash-schedule", 3, "plugin.crash",
         BY("crash-schedule", "crashed with SIGSEGV in schedule()")},
        {"crash-destroy", 3, "plugin.crash",
         BY("crash-destroy", "crashed with SIGSEGV in destroy()")},
        {"abort-schedule", 3, "plugin.crash",
         BY("abort-schedule", "crashed with SIGABRT in schedule()")},
        {"exit-zero", 3, "plugin.crash",
         BY("exit-zero", "ended the planner with exit status 0 in schedule()")},
        {"exit-seven", 3, "plugin.crash",
         BY("exit-seven", "ended the planner with exit status 7 in schedule()")},
        {"close", 3, "plugin.crash", BY("close", "closed the planner's way out in schedule()")},
        {"garble", 3, "plugin.contract", BY("garble", "garbled the planner's answer")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        expect_deed(&deeds[i], NULL);
    }
}

/* A question of a partitioner runs a memory optimizer inside its own call. */
static void test_blame_inside_a_call(void **state)
{
    struct outcome o = plan("partitioner.use=chain-dp", "memopt=[{use='crash-price'}]", NULL);

    (void)state;
    expect_code(&o, 3);
    expect_text(o.err, "memopt \"crash-price\" (" BAD_FOLDER
                       "/memopt-crash-price.so): crashed with SIGSEGV in price()");
    outcome_finish(&o);
}

static void test_endless_loop(void **state)
{
    double begin = now(), took;
    struct outcome o = plan("scheduler.use=loop", "plugins.time_limit='500 ms'", NULL);

    (void)state;
    took = now() - begin;
    expect_code(&o, 3);
    expect_text(o.err, BY("loop", "made no plan in 500 ms, the plugins.time_limit; it had been in "
                                  "schedule() for 2."));
    /* 2 s are for plugins that heed cancelled(). */
    assert_true(took > 2.4);
    assert_true(took < 6);
    outcome_finish(&o);
}

static void test_memory(void **state)
{
    struct outcome o;

    (void)state;
    if (SANITIZED) {
        skip(); /* address space is not limited there */
    }
    o = plan("scheduler.use=hog", "plugins.memory_limit='768 MiB'", NULL);
    expect_code(&o, 3);
    expect_text(o.err, BY("hog", "took more memory than 768 MiB, the plugins.memory_limit, in "
                                 "schedule()"));
    outcome_finish(&o);
    expect_deed(&(struct deed){"no-memory", 3, "plugin.memory",
                               "scheduler \"no-memory\": ran out of memory"},
                "plugins.memory_limit='768 MiB'");
}

/* The first 64 KiB from the end, named, at -v only; the last lines with a crash. */
static void test_output(void **state)
{
    struct outcome quiet = plan("scheduler.use=talk", NULL, NULL);
    struct outcome loud = plan("scheduler.use=talk", NULL, "-v");
    struct outcome crash = plan("scheduler.use=abort-schedule", NULL, NULL);
    const char *line;
    size_t n = 0;

    (void)state;
    expect_code(&quiet, 0);
    assert_null(strstr(quiet.err, "very many lines"));
    assert_null(strstr(quiet.out, "very many lines"));
    expect_code(&loud, 0);
    n = (size_t)(strstr(quiet.out, "searched for") - quiet.out); /* which takes its time */
    assert_memory_equal(quiet.out, loud.out, n);
    n = 0;
    expect_text(loud.err, "info talk: printed: line 5999 of very many lines");
    expect_text(loud.err, "info talk: printed: not a whole line");
    expect_text(loud.err, "bytes that were printed before are left out");
    assert_null(strstr(loud.err, "the first line"));
    for (line = loud.err; (line = strstr(line, "of very many")) != NULL; line++) {
        n += strlen("line 5999 of very many lines\n");
    }
    assert_true(n > 60 * 1024);
    assert_true(n <= 64 * 1024);
    expect_text(crash.err, "it printed last:\nassertion of the plugin failed\n");
    outcome_finish(&quiet);
    outcome_finish(&loud);
    outcome_finish(&crash);
}

static void test_promises_about_the_process(void **state)
{
    int fd = fcntl(open("/dev/null", O_RDONLY), F_DUPFD, 9); /* not close-on-exec */
    struct outcome o = plan("scheduler.use=look", NULL, NULL);

    (void)state;
    assert_true(fd >= 9);
    close(fd);
    expect_code(&o, 0);
    outcome_finish(&o);
}

/* Bytes of its own in the place of an answer: to a job, and to a question. */
static void test_forged_answer(void **state)
{
    static const struct deed plan_of_its_own = {
        "forge", 3, "plugin.contract",
        "what came back from the process of partitioner \"uniform\", scheduler \"forge\", memopt "
        "\"none\" is no plan that can run"};
    struct outcome o = penstock("schedule", "forge", "--devices", "2", "--microbatches", "2");

    (void)state;
    expect_deed(&plan_of_its_own, NULL);
    expect_code(&o, 3);
    expect_text(o.err, "scheduler \"forge\": what came back from its process is no answer to what "
                       "was asked");
    outcome_finish(&o);
}

/* plan() looks for what was left behind. */
static void test_what_a_plugin_starts_ends(void **state)
{
    double begin = now();
    struct outcome o = plan("scheduler.use=spawn", NULL, NULL);

    (void)state;
    expect_code(&o, 0);
    assert_true(now() - begin < 10);
    outcome_finish(&o);
}

/* --- signals
 * ------------------------------------------------------------------------------------*/

/* Starts a search by that scheduler and waits until it is under way. */
static pid_t begin_search(const char *set, int *ret_err)
{
    const char *args[] = {"plan",  support_write("job.toml", job), "--set", set,
                          "--set", "plugins.time_limit=0",         NULL};
    const struct timespec pause = {0, 10000000}, moment = {0, 200000000};
    int out = memfd_create("out", MFD_CLOEXEC);
    pid_t pid;

    *ret_err = memfd_create("err", MFD_CLOEXEC);
    pid = support_spawn(args, out, *ret_err);
    close(out);
    for (int i = 0; i < 1000 && planner_of(pid) == 0; i++) {
        nanosleep(&pause, NULL);
    }
    assert_true(planner_of(pid) != 0);
    nanosleep(&moment, NULL);
    return pid;
}

static void test_killed_parent(void **state)
{
    int err;
    pid_t pid = begin_search("scheduler.use=loop", &err);

    (void)state;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(support_wait(pid), 128 + SIGKILL);
    close(err);
    expect_gone(pid);
}

static void test_interrupt(void **state)
{
    int err;
    pid_t pid = begin_search("scheduler.use=heed", &err);
    double begin = now();
    char *text;

    (void)state;
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(support_wait(pid), 130);
    assert_true(now() - begin < 1.5); /* it was asked, not killed */
    text = support_drain(err);
    expect_text(text, "stopped by SIGINT");
    free(text);
    expect_gone(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blame),         cmocka_unit_test(test_blame_inside_a_call),
        cmocka_unit_test(test_endless_loop),  cmocka_unit_test(test_memory),
        cmocka_unit_test(test_output),        cmocka_unit_test(test_promises_about_the_process),
        cmocka_unit_test(test_forged_answer), cmocka_unit_test(test_what_a_plugin_starts_ends),
        cmocka_unit_test(test_killed_parent), cmocka_unit_test(test_interrupt),
    };

    return cmocka_run_group_tests(tests, begin, support_end);
}
