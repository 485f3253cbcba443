/* SPDX-License-Identifier: Apache-2.0
 *
 * Combinations side by side: every record is what the other commands say of that config, the rest
 * has its reason; the largest batch fits and one more sample does not; what is done stays.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "expect_error.h"

#define MODEL                                                                                      \
    "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 16\nheads = 2\ncontext = 16\n"                      \
    "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"                      \
    "[train]\nsteps = 3\nbatch = 8\nmicrobatch = 2\neval_batches = 0\n"
#define OWN                                                                                        \
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"none\"\n"

static const char config[] = MODEL "[cluster]\ndevices = 2\n" OWN "[compare]\n"
                                   "partitioners = [\"uniform\", \"chain-dp\"]\n"
                                   "schedulers = [\"gpipe\", \"1f1b\"]\n"
                                   "memopts = [\"none\", \"full\"]\nmicrobatches = [2, 3]\n";
static const char tight[] =
    MODEL "[cluster]\ndevices = 2\nmemory = \"400 KiB\"\n" OWN
          "[compare]\nschedulers = [\"gpipe\"]\nmemopts = [\"none\", \"full\"]\n";

static json_t *run_json(int code, const char *const *args)
{
    struct outcome outcome = support_run(args);
    json_t *object;

    expect_code(&outcome, code);
    object = json_loads(outcome.out, JSON_REJECT_DUPLICATES, NULL);
    if (object == NULL) {
        fail_msg("no JSON:\n%s\n%s", outcome.out, outcome.err);
    }
    outcome_finish(&outcome);
    return object;
}

#define RUN_JSON(code, ...) run_json(code, (const char *const[]){__VA_ARGS__, NULL})

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value)) {
        fail_msg("%s is no number", key);
    }
    return json_number_value(value);
}

/* `simulate` of the combination's own config says the same. */
static void check_simulated(const char *path, const json_t *record)
{
    char sets[3][64];
    json_t *simulated;

    snprintf(sets[0], sizeof sets[0], "partitioner.use=%s", word(record, "partitioner"));
    snprintf(sets[1], sizeof sets[1], "scheduler.use=%s", word(record, "scheduler"));
    snprintf(sets[2], sizeof sets[2], "memopt.use=%s", word(record, "memopt"));
    simulated = RUN_JSON(0, "simulate", path, "--json", "--set", sets[0], "--set", sets[1], "--set",
                         sets[2]);
    assert_true(number(simulated, "step_us") == number(record, "step_us"));
    for (size_t d = 0; d < 2; d++) {
        const json_t *rank = json_array_get(json_object_get(simulated, "ranks"), d);

        assert_int_equal(
            json_integer_value(json_array_get(json_object_get(record, "memory_bytes"), d)),
            json_integer_value(json_object_get(rank, "arena_bytes")));
    }
    json_decref(simulated);
}

static void test_records(void **state)
{
    const char *path = support_write("compare.toml", config);
    json_t *answer = RUN_JSON(0, "compare", path, "--json");
    const json_t *records = json_object_get(answer, "records");
    const json_t *order = json_object_get(answer, "order");
    double before = 1e300;

    (void)state;
    assert_int_equal(json_array_size(records), 16);
    assert_int_equal(json_array_size(order), 8);
    for (size_t i = 0; i < 8; i++) {
        const json_t *record =
            json_array_get(records, (size_t)json_integer_value(json_array_get(order, i)));

        assert_string_equal(word(record, "state"), "done");
        assert_true(number(record, "samples_per_second") <= before);
        before = number(record, "samples_per_second");
        assert_true(before > 0.999 * 8e6 / number(record, "step_us"));
        check_simulated(path, record);
    }
    for (size_t i = 1; i < 16; i += 2) { /* micro-batches of 3 */
        const json_t *record = json_array_get(records, i);

        assert_string_equal(word(record, "state"), "incompatible");
        expect_text(word(json_object_get(record, "error"), "message"), "does not divide");
    }
    json_decref(answer);
}

/* Runs: every synchronous combination of one size ends with the same loss. */
static void test_run(void **state)
{
    const char *path = support_write("compare.toml", config);
    json_t *answer = RUN_JSON(0, "compare", path, "--json", "--run", "--steps", "3", "--set",
                              "compare.microbatches=[2]");
    const json_t *records = json_object_get(answer, "records"), *record;
    size_t i;

    (void)state;
    assert_int_equal(json_array_size(records), 8);
    json_array_foreach(records, i, record)
    {
        assert_string_equal(word(record, "state"), "done");
        assert_true(json_is_true(json_object_get(record, "memory_as_predicted")));
        assert_true(number(record, "final_loss") ==
                    number(json_array_get(records, 0), "final_loss"));
        assert_true(number(record, "measured_step_us") > 0);
    }
    json_decref(answer);
}

static void test_files(void **state)
{
    const char *path = support_write("compare.toml", config);
    char csv[512], folder[512], plan[600], line[1024];
    struct outcome outcome;
    FILE *file;
    int n = 0;

    (void)state;
    snprintf(csv, sizeof csv, "%s", support_path("table.csv"));
    snprintf(folder, sizeof folder, "%s", support_path("plans"));
    outcome = support_run((const char *const[]){"compare", path, "-o", csv, "--plans", folder,
                                                "--set", "compare.microbatches=[2]", NULL});
    expect_code(&outcome, 0);
    expect_text(outcome.out, "8 of 8 combinations simulated");
    outcome_finish(&outcome);
    file = fopen(csv, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        int commas = 0;

        for (const char *at = line; *at != '\0'; at++) {
            commas += *at == ',';
        }
        assert_int_equal(commas, 19);
        n++;
    }
    fclose(file);
    assert_int_equal(n, 9);
    snprintf(plan, sizeof plan, "%s/0007.json", folder);
    outcome = support_run((const char *const[]){"check", plan, NULL});
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
}

/* Whether a plan is found for micro-batches of that size, four a step. */
static int plan_code(const char *path, const char *memopt, int size)
{
    char sets[3][64];
    struct outcome outcome;
    int code;

    snprintf(sets[0], sizeof sets[0], "memopt.use=%s", memopt);
    snprintf(sets[1], sizeof sets[1], "train.microbatch=%d", size);
    snprintf(sets[2], sizeof sets[2], "train.batch=%d", 4 * size);
    outcome = support_run((const char *const[]){"plan", path, "--json", "--set",
                                                "scheduler.use=gpipe", "--set", sets[0], "--set",
                                                sets[1], "--set", sets[2], NULL});
    code = outcome.code;
    outcome_finish(&outcome);
    return code;
}

static void test_max_batch(void **state)
{
    const char *path = support_write("tight.toml", tight);
    const char *file = support_path("best.json");
    json_t *answer = RUN_JSON(0, "tune", path, "--objective", "max-batch", "--json", "-o", file);
    const json_t *records = json_object_get(answer, "records"), *record;
    int least = INT32_MAX, most = 0;
    struct outcome outcome;
    size_t i;

    (void)state;
    json_array_foreach(records, i, record)
    {
        int size = (int)number(record, "max_microbatch");

        assert_true(size > 0);
        assert_int_equal((int)number(record, "max_batch"), 4 * size);
        assert_true(json_is_true(json_object_get(record, "bounded")));
        assert_int_equal(plan_code(path, word(record, "memopt"), size), 0);
        assert_int_equal(plan_code(path, word(record, "memopt"), size + 1), 1);
        least = size < least ? size : least;
        most = size > most ? size : most;
    }
    assert_true(most > least); /* dropping results makes room */
    assert_int_equal((int)number(answer, "common_microbatch"), least);
    assert_string_equal(word(json_array_get(records, (size_t)json_integer_value(json_array_get(
                                                         json_object_get(answer, "order"), 0))),
                             "memopt"),
                        "full");
    json_decref(answer);
    outcome = support_run((const char *const[]){"check", file, NULL});
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
}

static void test_nothing_fits(void **state)
{
    const char *path = support_write("tight.toml", tight);
    json_t *answer = RUN_JSON(1, "tune", path, "--objective", "max-batch", "--json", "--set",
                              "cluster.memory=1e3");
    json_t *compared = RUN_JSON(1, "compare", path, "--json", "--set", "cluster.memory=1e3");

    (void)state;
    assert_int_equal(
        (int)number(json_array_get(json_object_get(answer, "records"), 0), "max_microbatch"), 0);
    assert_string_equal(word(json_array_get(json_object_get(compared, "records"), 0), "state"),
                        "does-not-fit");
    json_decref(answer);
    json_decref(compared);
}

/* "cluster.memory=N" of what a record says would do; or with a byte less. */
static const char *enough(const json_t *record, char text[64], bool less)
{
    const json_t *error = json_object_get(record, "error");
    unsigned long long bytes =
        (unsigned long long)json_integer_value(json_object_get(error, "enough_bytes"));

    snprintf(text, 64, "cluster.memory = %llu would do", bytes);
    expect_text(word(error, "hint"), text);
    snprintf(text, 64, "cluster.memory=%llu", bytes - less);
    return text;
}

/* What is said to be enough is, for `plan` as well, and one byte less is not. */
static void test_enough(void **state)
{
    const char *path = support_write("tight.toml", tight);
    json_t *compared = RUN_JSON(1, "compare", path, "--json", "--set", "cluster.memory=1e3");
    const json_t *records = json_object_get(compared, "records");
    char text[64], memopt[64];
    size_t i;
    json_t *record;

    (void)state;
    assert_int_equal(json_array_size(records), 2);
    json_array_foreach(records, i, record)
    {
        snprintf(memopt, sizeof memopt, "memopt.use=%s", word(record, "memopt"));
        json_decref(RUN_JSON(0, "plan", path, "--json", "--set", "scheduler.use=gpipe", "--set",
                             memopt, "--set", enough(record, text, false)));
        json_decref(RUN_JSON(1, "plan", path, "--json", "--set", "scheduler.use=gpipe", "--set",
                             memopt, "--set", enough(record, text, true)));
    }
    json_decref(compared);
}

/* Of micro-batches of 1, 2, 4 and 8 samples the first alone, and nothing where something fits. */
static void test_enough_to_tune(void **state)
{
    const char *path = support_write("tight.toml", tight);
    json_t *answer = RUN_JSON(1, "tune", path, "--json", "--set", "cluster.memory=1e3");
    const json_t *records = json_object_get(answer, "records");
    char text[64];
    size_t i;
    json_t *record, *fitting;

    (void)state;
    assert_int_equal(json_array_size(records), 8);
    json_array_foreach(records, i, record)
    {
        const json_t *error = json_object_get(record, "error");

        assert_true((strstr(word(error, "hint"), "would do") != NULL) == (i % 4 == 0));
    }
    fitting = RUN_JSON(0, "tune", path, "--json", "--set",
                       enough(json_array_get(records, 0), text, false));
    json_array_foreach(json_object_get(fitting, "records"), i, record)
    {
        assert_string_equal(word(json_object_get(record, "error"), "hint"), "");
    }
    json_decref(fitting);
    json_decref(answer);
}

/* The same of the largest batch, and in the table. */
static void test_enough_for_one(void **state)
{
    const char *path = support_write("tight.toml", tight);
    struct outcome outcome =
        penstock("tune", path, "--objective", "max-batch", "--set", "cluster.memory=1e3");
    json_t *answer = RUN_JSON(1, "tune", path, "--objective", "max-batch", "--json", "--set",
                              "cluster.memory=1e3");
    const json_t *record = json_array_get(json_object_get(answer, "records"), 0);
    char text[64];

    (void)state;
    expect_code(&outcome, 1);
    expect_text(outcome.out, " would do");
    enough(json_object_get(record, "at_max"), text, false);
    json_decref(RUN_JSON(0, "tune", path, "--objective", "max-batch", "--json", "--set", text));
    json_decref(answer);
    outcome_finish(&outcome);
}

static void test_throughput(void **state)
{
    const char *path = support_write("tight.toml", tight);
    json_t *answer = RUN_JSON(0, "tune", path, "--json", "--set", "cluster.memory=64e6");

    (void)state;
    assert_int_equal(json_array_size(json_object_get(answer, "records")), 8); /* 1, 2, 4, 8 */
    json_decref(answer);
}

static void test_errors(void **state)
{
    const char *path = support_write("compare.toml", config);

    (void)state;
    EXPECT_ERROR(2, "plugin.not-found", "nonesuch", "compare", path, "--set",
                 "compare.memopts=[\"nonesuch\"]");
    EXPECT_ERROR(2, "config.key", "schedulers", "compare", path, "--set",
                 "compare.scheduler=[\"1f1b\"]");
    EXPECT_ERROR(2, "config.key", "it has methods, partitioners", "compare", path, "--set",
                 "compare.xyzzy=[1]");
    EXPECT_ERROR(2, "usage", "--run", "compare", path, "--steps", "3");
    EXPECT_ERROR(2, "usage", "--steps", "compare", path, "--run", "--steps", "0");
    EXPECT_ERROR(2, "usage", "fastest", "tune", path, "--objective", "fastest");
    EXPECT_ERROR(2, "usage", "--limit", "tune", path, "--limit", "3");
    EXPECT_ERROR(2, "usage", "--limit", "tune", path, "--objective", "max-batch", "--limit", "x");
}

/* What is wrong whatever the other strategies are is wrong input. */
static void test_wrong_lists(void **state)
{
    static const struct {
        const char *kind, *words, *set;
    } wrong[] = {
        {"config.key", "objectiv", "compare.partitioners=[{use=\"chain-dp\",objectiv=1}]"},
        {"config.key", "in [[memopt]] (sqrt)", "compare.memopts=[[\"none\",{use=\"sqrt\",x=1}]]"},
        {"config.key", "in [scheduler] (1f1b)", "scheduler.y=3"},
        {"config.key", "did you mean", "cluster.memry=3"},
        {"config.value", "true or false", "compare.memopts=[{use=\"sqrt\",fit=\"x\"}]"},
        {"config.value", "between", "compare.schedulers=[{use=\"zb-auto\",memory_limit=-3}]"},
        {"config.value", "must be a string", "compare.schedulers=[{use=\"1f1b\",path=3}]"},
        {"config.value", "array of names", "compare.schedulers=\"1f1b\""},
        {"config.value", "is empty", "compare.schedulers=[]"},
        {"config.value", " twice", "compare.schedulers=[\"1f1b\",\"gpipe\",\"1f1b\"]"},
        {"config.value", " twice", "compare.devices=[2,2]"},
        {"config.value", "from 1 to", "compare.devices=[-1]"},
        {"config.value", "must be a table", "compare=3"},
        {"config.value", "have the name", "compare={methods=[{name=\"a\"},{name=\"a\"}]}"},
        {"config.value", "bytes", "cluster.memory=-3"},
    };
    static const char misspelt[] = MODEL "[cluster]\ndevices = 2\n" OWN
                                         "[compare]\nschedulers = [\"gpipe\", { use = \"1f1b\", "
                                         "splitt = true }]\n";
    const char *path = support_write("compare.toml", config);

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EXPECT_ERROR(2, wrong[i].kind, wrong[i].words, "compare", path, "--set", wrong[i].set);
    }
    EXPECT_ERROR(2, "config.key", "objectiv", "tune", path, "--set", wrong[0].set);
    path = support_write("misspelt.toml", misspelt);
    EXPECT_ERROR(2, "config.key", "did you mean", "compare", path, "--set",
                 "plugins.isolate=always", "-v");
    EXPECT_ERROR(2, "config.key", "misspelt.toml", "compare", path);
}

/* Files of plugins are found from the folder of the config. */
static void test_relative_path(void **state)
{
    static const char text[] = MODEL
        "[cluster]\ndevices = 2\n[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n"
        "[[memopt]]\nuse = \"full\"\npath = \"memopt-full.so\"\n"
        "[compare]\nschedulers = [{ use = \"gpipe\", path = \"scheduler-gpipe.so\" }]\n";
    const char *path = support_write("relative.toml", text);
    const char *files[] = {"memopt-full.so", "scheduler-gpipe.so"};
    char command[1200];
    json_t *answer;

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(command, sizeof command, "cp '%s/%s' '%s'", PENSTOCK_PLUGIN_DIR, files[i],
                 support_path(files[i]));
        assert_int_equal(system(command), 0);
    }
    answer = RUN_JSON(0, "compare", path, "--json");
    assert_int_equal(json_array_size(json_object_get(answer, "order")), 1);
    json_decref(answer);
}

/* A config with methods beside one without: every cell stands below its title. */
static void test_some_methods(void **state)
{
    static const char with[] =
        MODEL "[cluster]\ndevices = 2\n" OWN "[compare]\nmethods = [{ name = \"ours\" }]\n";
    static const char without[] = MODEL "[cluster]\ndevices = 2\n" OWN;
    static const char *const commands[][2] = {{"compare", "--quiet"}, {"tune", "--limit=2"}};
    const char *paths[2] = {support_write("with.toml", with),
                            support_write("without.toml", without)};

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *const *command = commands[i % 2];
        const char *max_batch = i % 2 == 0 ? NULL : "--objective=max-batch";
        const char *args[] = {command[0], paths[i / 2], paths[1 - i / 2],
                              command[1], max_batch,    NULL};
        struct outcome outcome = support_run(args);
        const char *title, *row;

        expect_code(&outcome, 0);
        title = strchr(outcome.out, '\n') + 1;
        row = strstr(title, "without.toml");
        assert_non_null(row);
        while (row[-1] != '\n') {
            row--;
        }
        expect_text(title, " method ");
        assert_memory_equal(row + (strstr(title, "scheduler") - title), "1f1b ", 5);
        assert_memory_equal(row + (strstr(title, "partitioner") - title), "uniform ", 8);
        outcome_finish(&outcome);
    }
}

/* A signal ends it with what is done so far. */
static void test_stopped(void **state)
{
    const char *path = support_write("compare.toml", config);
    const char *args[] = {"compare", path, "--json", "--run", "--steps", "1000000", NULL};
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    pid_t pid = support_spawn(args, out, err);
    json_t *answer;
    char *text;

    (void)state;
    usleep(300000);
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(support_wait(pid), 130);
    text = support_drain(out);
    answer = json_loads(text, 0, NULL);
    if (answer == NULL) {
        fail_msg("no JSON: %s", text);
    }
    assert_int_equal(json_array_size(json_object_get(answer, "records")), 16);
    assert_string_equal(word(json_array_get(json_object_get(answer, "records"), 15), "state"),
                        "open");
    json_decref(answer);
    free(text);
    free(support_drain(err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),        cmocka_unit_test(test_run),
        cmocka_unit_test(test_files),          cmocka_unit_test(test_max_batch),
        cmocka_unit_test(test_nothing_fits),   cmocka_unit_test(test_throughput),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_some_methods),   cmocka_unit_test(test_enough),
        cmocka_unit_test(test_enough_to_tune), cmocka_unit_test(test_enough_for_one),
        cmocka_unit_test(test_wrong_lists),    cmocka_unit_test(test_relative_path),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
