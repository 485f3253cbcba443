/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning in a process of its own: the same plans and the same messages as without, one message
 * and exit code 3 for whatever a plugin does to that process, and no process left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "../support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char job[] = "[model]\nuse = \"mlp\"\n"
                          "[data]\nkind = \"synthetic\"\n"
                          "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 2\n"
                          "[cluster]\ndevices = 2\n"
                          "[partitioner]\nuse = \"uniform\"\n"
                          "[scheduler]\nuse = \"gpipe\"\n"
                          "[[memopt]]\nuse = \"none\"\n";

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A planner process of that parent, or 0. What it forked has the same command line. */
static pid_t planner_of(pid_t parent)
{
    char path[300], line[256], number[24];
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;

    assert_non_null(dir);
    snprintf(number, sizeof number, "%ld", (long)parent);
    while (found == 0 && (entry = readdir(dir)) != NULL) {
        FILE *file;
        size_t n = 0;

        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file != NULL) {
            n = fread(line, 1, sizeof line - 1, file);
            fclose(file);
        }
        line[n] = '\0';
        if (n > 9 && strcmp(line, "penstock") == 0 && strcmp(line + 9, "--planner-child") == 0 &&
            strcmp(line + 25, number) == 0) {
            found = (pid_t)atol(entry->d_name);
        }
    }
    closedir(dir);
    return found;
}

/* A process that was killed is seen until it is reaped. */
static void expect_gone(pid_t parent)
{
    const struct timespec pause = {0, 10000000};

    for (int i = 0; i < 300 && planner_of(parent) != 0; i++) {
        nanosleep(&pause, NULL);
    }
    assert_int_equal(planner_of(parent), 0);
}

/* `penstock plan` on the job with two overrides and other words (NULL: none); nothing stays. */
static struct outcome plan(const char *set, const char *other_set, const char *word)
{
    const char *args[10] = {"plan", support_write("job.toml", job)};
    int n = 2, out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    struct outcome o;
    pid_t pid;

    if (set != NULL) {
        args[n++] = "--set";
        args[n++] = set;
    }
    if (other_set != NULL) {
        args[n++] = "--set";
        args[n++] = other_set;
    }
    args[n] = word;
    pid = support_spawn(args, out, err);
    o.code = support_wait(pid);
    o.out = support_drain(out);
    o.err = support_drain(err);
    expect_gone(pid);
    return o;
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

#define BY(id, words) "scheduler \"" id "\" (" BAD_FOLDER "/scheduler-" id ".so): " words

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
        {"garble", 3, "plugin.crash", "garbled the planner's answer"},
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

/* --- the same as in process --------------------------------------------------------------------*/

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
    expect_text(foreign.err, BAD_FOLDER "/scheduler-well.so, not from ");
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

static int begin(void **state)
{
    setenv("PENSTOCK_PLUGIN_PATH", BAD_FOLDER, 1);
    return support_begin(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blame),
        cmocka_unit_test(test_blame_inside_a_call),
        cmocka_unit_test(test_endless_loop),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_promises_about_the_process),
        cmocka_unit_test(test_what_a_plugin_starts_ends),
        cmocka_unit_test(test_the_same_plans),
        cmocka_unit_test(test_the_same_remarks),
        cmocka_unit_test(test_the_same_messages),
        cmocka_unit_test(test_the_same_positions),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_train),
        cmocka_unit_test(test_killed_parent),
        cmocka_unit_test(test_interrupt),
    };

    return cmocka_run_group_tests(tests, begin, support_end);
}
