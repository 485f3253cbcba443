/* SPDX-License-Identifier: Apache-2.0
 *
 * Which plugins are penstock's own, and what the others can do: copied into its own folder, altered
 * there, or on the search path, they end no command but the one that is about them. The program is
 * a copy with a folder of plugins beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <limits.h>

static const char real_program[] = PENSTOCK_BINARY;
static char program[PATH_MAX];
#undef PENSTOCK_BINARY
#define PENSTOCK_BINARY program

#include "isolate_rig.h"

#define LIST "shipped.xxh128"

static char folder[128]; /* of the plugins */

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
    char command[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

/* A program of its own for each test: some alter it. */
static int fresh(void **state)
{
    (void)state;
    unsetenv("PENSTOCK_PLUGIN_PATH");
    snprintf(folder, sizeof folder, "%s/plugins", support_folder);
    snprintf(program, sizeof program, "%s/penstock", support_folder);
    shell("cd %s && rm -rf * && mkdir plugins other && cp %s penstock && cd %s && cp " LIST
          " device-emulated.so device-cpu.so transport-threads.so partitioner-uniform.so "
          "partitioner-chain-dp.so scheduler-gpipe.so scheduler-1f1b.so scheduler-csv.so "
          "memopt-none.so memopt-full.so %s",
          support_folder, real_program, PENSTOCK_PLUGIN_DIR, folder);
    support_write("job.toml", job);
    return 0;
}

static void plant(const char *kind, const char *id, const char *into)
{
    shell("cp %s/%s-%s.so %s/%s", BAD_FOLDER, kind, id, support_folder, into);
}

static struct outcome run_clean(const char *const *args)
{
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    pid_t pid = support_spawn(args, out, err);
    struct outcome o = {.code = support_wait(pid)};

    o.out = support_drain(out);
    o.err = support_drain(err);
    expect_gone(pid);
    return o;
}

#define RUN(...) run_clean((const char *const[]){__VA_ARGS__, NULL})

static void expect(int code, const char *words, const char *const *args)
{
    struct outcome o = run_clean(args);

    expect_code(&o, code);
    expect_text(code == 0 && strstr(o.err, words) == NULL ? o.out : o.err, words);
    outcome_finish(&o);
}

#define EXPECT(code, words, ...) expect(code, words, (const char *const[]){__VA_ARGS__, NULL})

static json_t *json_of(const struct outcome *o)
{
    json_t *object = json_loads(o->out, JSON_REJECT_DUPLICATES, NULL);

    if (object == NULL) {
        fail_msg("no JSON:\n%.300s\n%.300s", o->out, o->err);
    }
    return object;
}

/* --- which are penstock's own ------------------------------------------------------------------*/

static void test_own(void **state)
{
    const char *path = support_path("job.toml");

    (void)state;
    EXPECT(0, "  isolated    no\n", "plugins", "info", "gpipe");
    EXPECT(0, "\"shipped\":true,\"abi", "plugins", "info", "gpipe", "--json");
    EXPECT(0, "strategies run in this process", "plan", path, "-v");
    /* Another build's file, and one that has the name of one that is not there. */
    plant("scheduler", "well", "plugins");
    EXPECT(0, "plugins/" LIST "\n  reference", "plugins", "info", "well");
    EXPECT(0, "\"shipped\":false,\"not_shipped\":\"is not on the list of what penstock came with, ",
           "plugins", "info", "well", "--json");
    EXPECT(0, "strategies run in a process of their own", "plan", path, "-v", "--set",
           "scheduler.use=well");
}

static void test_altered(void **state)
{
    static const struct {
        const char *change, *words;
    } cases[] = {
        {"printf x >>partitioner-uniform.so",
         "partitioner-uniform.so) is not the file of that name that penstock came with; its XXH128 "
         "digest is another"},
        {"chmod o+w " LIST, LIST " can be written by everybody"},
        {"rm " LIST, LIST ": No such file or directory"},
    };
    const char *path = support_path("job.toml");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shell("cd %s && %s", folder, cases[i].change);
        EXPECT(0, cases[i].words, "plan", path, "-v");
        EXPECT(0, "strategies run in a process of their own", "plan", path, "-v");
    }
    /* Whose it is, is not asked for a list that somebody else wrote. */
    if (geteuid() == 0) {
        shell("cp %s/" LIST " %s && chown 12345 %s/" LIST, PENSTOCK_PLUGIN_DIR, folder, folder);
        EXPECT(0, LIST " belongs to user 12345", "plan", path, "-v");
    }
}

/* The same job by every command that asks strategies. */
static void test_every_command(void **state)
{
    static const char by[] = "scheduler-crash-create.so): crashed with SIGSEGV in create(); report";
    const char *path = support_path("job.toml"), *use = "scheduler.use=crash-create";
    const char *problem = PENSTOCK_SOURCE_DIR "/configs/problems/four-layers.json";

    (void)state;
    plant("scheduler", "crash-create", "plugins");
    plant("memopt", "crash-price", "plugins");
    EXPECT(3, by, "plan", path, "--set", use);
    EXPECT(3, by, "train", path, "--set", use);
    EXPECT(3, by, "simulate", path, "--set", use);
    EXPECT(3, by, "export", "pytorch-csv", path, "--set", use, "-o", support_path("x.csv"));
    EXPECT(3, by, "schedule", "crash-create", "--devices", "2", "--microbatches", "4");
    EXPECT(3, "memopt-crash-price.so): crashed with SIGSEGV in price(); report", "memopt",
           "crash-price", "--problem", problem);
    shell("printf x >>%s/partitioner-chain-dp.so", folder);
    EXPECT(0, "partitioner-chain-dp.so) is not the file of that name", "partition", "chain-dp",
           "--problem", PENSTOCK_SOURCE_DIR "/configs/problems/two-branches.json", "-v");
}

/* What the issue saw of plugins in the program's own folder. */
static void test_deeds(void **state)
{
    const char *path = support_path("job.toml");
    struct outcome o;

    (void)state;
    plant("scheduler", "exit-zero", "plugins");
    plant("scheduler", "loop", "plugins");
    plant("scheduler", "talk", "plugins");
    plant("scheduler", "garble", "plugins");
    EXPECT(3, "scheduler-exit-zero.so): ended the planner with exit status 0 in schedule()", "plan",
           path, "--set", "scheduler.use=exit-zero");
    EXPECT(3, "scheduler-garble.so): garbled the planner's answer", "plan", path, "--set",
           "scheduler.use=garble");
    EXPECT(3,
           "scheduler-loop.so): made no plan in 100 ms, the plugins.time_limit; it had been in "
           "schedule() for 2.",
           "plan", path, "--set", "scheduler.use=loop", "--set", "plugins.time_limit='100 ms'");
    o = RUN("plan", path, "--set", "scheduler.use=talk", "--json");
    expect_code(&o, 0);
    json_decref(json_of(&o));
    outcome_finish(&o);
}

/* A limit of time is kept by who heeds cancelled(), who is told of it, and blamed with its name. */
static void test_heeding(void **state)
{
    static const char *const words =
        "scheduler-heed.so): made no plan in 200 ms, the %s; it was in schedule(); raise the "
        "limit, or use another scheduler";
    char expected[256];

    (void)state;
    plant("scheduler", "heed", "plugins");
    snprintf(expected, sizeof expected, words, "plugins.time_limit");
    for (int i = 0; i < 2; i++) {
        EXPECT(3, expected, "plan", support_path("job.toml"), "--set", "scheduler.use=heed",
               "--set", "plugins.time_limit='200 ms'", "--set",
               i == 0 ? "plugins.isolate=auto" : "plugins.isolate=never");
    }
    snprintf(expected, sizeof expected, words, "--time-limit");
    EXPECT(3, expected, "schedule", "heed", "--devices", "2", "--microbatches", "4", "--time-limit",
           "200 ms");
}

/* --- listing -----------------------------------------------------------------------------------*/

static const struct refused {
    const char *id, *kind, *words;
} refused[] = {
    {"crash-load", "plugin.crash", ": crashed with SIGSEGV while it was loaded"},
    {"crash-entry", "plugin.crash", ": crashed with SIGSEGV while it was loaded"},
    {"exit-load", "plugin.crash", ": ended the planner with exit status 0 while it was loaded"},
    {"loop-load", "plugin.timeout", ": said nothing of itself for 3.00 s, while it was loaded"},
    {"escape", "plugin.descriptor",
     "its description's .summary has a control character or is no UTF-8"},
    {"newline", "plugin.descriptor",
     "its description's .summary has a control character or is no UTF-8"},
    {"latin", "plugin.descriptor",
     "its description's .summary has a control character or is no UTF-8"},
};
#define N_REFUSED (sizeof refused / sizeof refused[0])

static const json_t *listed(const json_t *list, const char *id)
{
    const json_t *plugin;
    size_t i;

    json_array_foreach(json_object_get(list, "plugins"), i, plugin)
    {
        if (strcmp(json_string_value(json_object_get(plugin, "id")), id) == 0) {
            return plugin;
        }
    }
    fail_msg("%s is not listed", id);
    return NULL;
}

static void expect_state(const json_t *list, const char *id, const char *state)
{
    assert_string_equal(json_string_value(json_object_get(listed(list, id), "state")), state);
}

/* Half of them on the search path, half in the program's own folder. */
static void plant_refused(void)
{
    for (size_t i = 0; i < N_REFUSED; i++) {
        plant("scheduler", refused[i].id, i % 2 == 0 ? "plugins" : "other");
    }
    plant("scheduler", "well", "other");
    setenv("PENSTOCK_PLUGIN_PATH", support_path("other"), 1);
}

static void test_list(void **state)
{
    struct outcome o;
    json_t *list;

    (void)state;
    plant_refused();
    o = RUN("plugins", "list", "--json");
    expect_code(&o, 0);
    list = json_of(&o);
    for (size_t i = 0; i < N_REFUSED; i++) {
        const json_t *refusal = json_object_get(listed(list, refused[i].id), "refusal");

        expect_state(list, refused[i].id, "refused");
        assert_string_equal(json_string_value(json_object_get(refusal, "kind")), refused[i].kind);
        expect_text(json_string_value(json_object_get(refusal, "message")), refused[i].words);
    }
    expect_state(list, "well", "ok");
    expect_state(list, "gpipe", "ok");
    expect_state(list, "uniform", "ok");
    assert_int_equal(json_array_size(json_object_get(list, "plugins")), N_REFUSED + 8);
    json_decref(list);
    outcome_finish(&o);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What is about others opens none of them: the one that loops would take 3 s. */
static void test_others(void **state)
{
    double begin = seconds();
    const char *csv = support_write("order.csv", "0F0,,,0B0\n,1F0,1B0,\n");

    (void)state;
    plant_refused();
    EXPECT(0, "One forward, one backward", "plugins", "info", "1f1b");
    EXPECT(0, "makespan", "import", "pytorch-csv", csv);
    EXPECT(0, "device-cpu", "doctor");
    EXPECT(0, "peak per device", "plan", support_path("job.toml"));
    EXPECT(2, "no plugin \"1f1c\"; did you mean \"1f1b\"?", "plugins", "info", "1f1c");
    assert_true(seconds() - begin < 3);
    EXPECT(3, "scheduler-crash-entry.so): crashed with SIGSEGV while it was loaded", "plugins",
           "info", "crash-entry");
    EXPECT(3, "scheduler-crash-load.so): crashed with SIGSEGV while it was loaded", "plugins",
           "info", BAD_FOLDER "/scheduler-crash-load.so");
}

/* A module that did not come with the program is said, and not opened. */
static void test_modules(void **state)
{
    struct outcome o;

    (void)state;
    shell("cp %s/scheduler-exit-load.so %s/device-mine.so", BAD_FOLDER, folder);
    o = RUN("doctor", "--json");
    expect_code(&o, 0);
    expect_text(o.out,
                "{\"kind\":\"device\",\"id\":\"mine\",\"usable\":false,\"text\":\"not opened: "
                "it is not on the list of what penstock came with");
    json_decref(json_of(&o));
    outcome_finish(&o);
}

/* --- what they say -----------------------------------------------------------------------------*/

/* No byte that a terminal would obey, and none that is no UTF-8. */
static void expect_tame(const char *text)
{
    for (; *text != '\0'; text++) {
        assert_true(((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7F) || *text == '\n');
    }
}

static size_t count(const char *text, const char *words)
{
    size_t n = 0;

    for (; (text = strstr(text, words)) != NULL; text++) {
        n++;
    }
    return n;
}

/* 64 KiB, each record with its NUL, then how many bytes there were more: schedule() logs 20000
   records, and is asked once or several times. */
static void test_log(void **state)
{
    const size_t bytes = sizeof "\033[31mred\nof very \377 many lines", kept = 65536 / bytes;

    (void)state;
    plant("scheduler", "log", "plugins");
    for (int i = 0; i < 3; i++) {
        struct outcome o =
            i < 2 ? RUN("plan", support_path("job.toml"), "--json", "--set", "scheduler.use=log",
                        "--set", i == 0 ? "plugins.isolate=auto" : "plugins.isolate=never")
                  : RUN("schedule", "log", "--devices", "2", "--microbatches", "2", "--json");
        unsigned long dropped;
        char *at;

        expect_code(&o, 0);
        json_decref(json_of(&o));
        expect_tame(o.err);
        at = strstr(o.err, "warn plugin: ");
        assert_non_null(at);
        dropped = strtoul(at + strlen("warn plugin: "), &at, 10);
        assert_string_equal(at, " bytes of what plugins logged are left out\n");
        assert_int_equal(dropped % bytes, 0);
        assert_int_equal((dropped / bytes + kept) % 20000, 0);
        assert_int_equal(count(o.err, "warn log:  [31mred of very ? many lines\n"), kept);
        assert_int_equal(count(o.err, "\n"), kept + 1);
        outcome_finish(&o);
    }
}

static void test_fail(void **state)
{
    struct outcome o;

    (void)state;
    plant("scheduler", "fail", "plugins");
    o = RUN("plan", support_path("job.toml"), "--set", "scheduler.use=fail");
    expect_code(&o, 3);
    expect_tame(o.err);
    expect_text(o.err, "broke its contract in schedule():  [31mred of ?\n");
    outcome_finish(&o);
    o = RUN("plan", support_path("job.toml"), "--set", "scheduler.use=fail", "--json");
    expect_code(&o, 3);
    expect_tame(o.out);
    json_decref(json_of(&o));
    outcome_finish(&o);
    o = RUN("plugins", "check", BAD_FOLDER "/scheduler-fail.so", "--only", "answers");
    expect_code(&o, 3);
    expect_tame(o.out);
    expect_text(o.out, "[31mred");
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_own, fresh),
        cmocka_unit_test_setup(test_altered, fresh),
        cmocka_unit_test_setup(test_every_command, fresh),
        cmocka_unit_test_setup(test_deeds, fresh),
        cmocka_unit_test_setup(test_heeding, fresh),
        cmocka_unit_test_setup(test_list, fresh),
        cmocka_unit_test_setup(test_others, fresh),
        cmocka_unit_test_setup(test_modules, fresh),
        cmocka_unit_test_setup(test_log, fresh),
        cmocka_unit_test_setup(test_fail, fresh),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
