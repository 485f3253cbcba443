/* SPDX-License-Identifier: Apache-2.0
 *
 * The amount that a refusal names: the same number in the hint and in the field of --json, and the
 * same command with just that much works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "commands.h"

#define LITTLE "cluster.memory=60000"
#define TABLES                                                                                     \
    "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"                      \
    "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 2\neval_batches = 0\n[cluster]\ndevices = 2\n"

/* Its stages have up to 16 operators to decide about, so whether `exact` takes them depends on
   where the cuts are, and these on how much memory there is. */
static const char picky[] =
    "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 16\nheads = 2\ncontext = 16\n" TABLES
    "[partitioner]\nuse = \"graphpipe\"\n[scheduler]\nuse = \"1f1b\"\n"
    "[[memopt]]\nuse = \"exact\"\nmax_nodes = 12\n";
static const char plain[] =
    "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 16\nheads = 2\ncontext = 16\n" TABLES
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"sqrt\"\n"
    "[compare]\nschedulers = [\"1f1b\", \"gpipe\"]\n";

static struct outcome run_with(const char *const *args, const char *const *more)
{
    struct command command = {.n_args = 0};

    add_args(&command, args);
    add_args(&command, more);
    return support_run(command.args);
}

/* The amount that the error says would do, in words, too. */
static uint64_t amount_of(const json_t *error, const char *key)
{
    uint64_t bytes = (uint64_t)json_integer_value(json_object_get(error, "enough_bytes"));
    char words[64];

    assert_non_null(error);
    if (bytes == 0) {
        fail_msg("no amount: %s", json_string_value(json_object_get(error, "message")));
    }
    snprintf(words, sizeof words, "%s = %" PRIu64 " would do", key, bytes);
    expect_text(json_string_value(json_object_get(error, "hint")), words);
    return bytes;
}

/* Refused for want of memory with that exit code; then run with what would do. */
static void refused_then_done(const char *const *args, int code)
{
    struct outcome o = run_with(args, (const char *const[]){"--json", "--set", LITTLE, NULL});
    char set[64];
    json_t *root;

    expect_code(&o, code);
    root = only_line(&o);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "error"), "code")),
                     code);
    snprintf(set, sizeof set, "cluster.memory=%" PRIu64,
             amount_of(json_object_get(root, "error"), "cluster.memory"));
    json_decref(root);
    outcome_finish(&o);
    o = run_with(args, (const char *const[]){"--json", "--set", set, NULL});
    expect_code(&o, 0);
    outcome_finish(&o);
}

#define REFUSED_THEN_DONE(code, ...)                                                               \
    refused_then_done((const char *const[]){__VA_ARGS__, NULL}, code)

/* The plan of all the memory it wants has cuts that `exact` takes, because nothing is to be
   decided; the cuts for just that much are others, which it does not take. */
static void picky_optimizer(void **state)
{
    const char *path = support_write("picky.toml", picky);

    (void)state;
    REFUSED_THEN_DONE(1, "plan", path);
    REFUSED_THEN_DONE(2, "plan", path, "--set", "partitioner.use=chain-dp");
    /* It cannot tell the least of the stages of the plan that it takes. */
    REFUSED_THEN_DONE(1, "plan", path, "--set", "memopt.max_nodes=9");
}

static void planning_commands(void **state)
{
    static const char *const commands[] = {"plan", "simulate", "train"};
    static const char *const isolate[] = {"plugins.isolate=never", "plugins.isolate=auto",
                                          "plugins.isolate=always"};
    const char *path = support_write("plain.toml", plain);

    (void)state;
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        REFUSED_THEN_DONE(1, commands[c], path, "--set", isolate[c]);
    }
    REFUSED_THEN_DONE(1, "plan", path, "--set", isolate[2], "--set", "cluster.reserve=5000");
}

/* A plan of a file takes what it takes. */
static void plan_file(void **state)
{
    const char *path = support_write("plain.toml", plain);
    char file[512];
    struct outcome o;

    (void)state;
    snprintf(file, sizeof file, "%s", support_path("plan.json"));
    o = run_with((const char *const[]){"plan", path, "-o", file, NULL},
                 (const char *const[]){NULL});
    expect_code(&o, 0);
    outcome_finish(&o);
    REFUSED_THEN_DONE(1, "train", path, "--plan", file);
}

/* Orders that are searched for long: exact bytes, and no more than is known to do (120000). */
static void searching_scheduler(void **state)
{
    static const char *const args[] = {
        "plan",  PENSTOCK_SOURCE_DIR "/configs/models/dlrm-small.toml",
        "--set", "cluster.devices=3",
        "--set", "scheduler.use=v-adaptive",
        "--set", "memopt.use=sqrt",
        "--set", "partitioner.use=greedy",
        "--set", "run.device=emulated",
        NULL};
    struct outcome o = run_with(args, (const char *const[]){"--json", "--set", LITTLE, NULL});
    json_t *root = only_line(&o);

    (void)state;
    expect_code(&o, 1);
    assert_true(amount_of(json_object_get(root, "error"), "cluster.memory") <= 120000);
    json_decref(root);
    outcome_finish(&o);
    refused_then_done(args, 1);
}

/* Whether record `i` is done, with that much memory. */
static bool is_done(const char *const *args, uint64_t bytes, size_t i)
{
    char set[64];
    struct outcome o;
    const json_t *record;
    json_t *root;
    bool done;

    snprintf(set, sizeof set, "cluster.memory=%" PRIu64, bytes);
    o = run_with(args, (const char *const[]){"--json", "--set", set, NULL});
    expect_code(&o, 0);
    root = only_line(&o);
    record = json_array_get(json_object_get(root, "records"), i);
    done = strcmp(json_string_value(json_object_get(record, "state")), "done") == 0;
    json_decref(root);
    outcome_finish(&o);
    return done;
}

/* Every record that does not fit. tune looks no further once one of them is done. */
static void combinations(void **state)
{
    static const char *const commands[] = {"compare", "tune"};
    const char *path = support_write("plain.toml", plain);

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        const char *args[] = {commands[c], path, "--set", "compare.microbatches=[2]", NULL};
        struct outcome o = run_with(args, (const char *const[]){"--json", "--set", LITTLE, NULL});
        json_t *root = only_line(&o);
        const json_t *records = json_object_get(root, "records");

        expect_code(&o, 1);
        assert_int_equal(json_array_size(records), 2);
        for (size_t i = 0; i < 2; i++) {
            const json_t *error = json_object_get(json_array_get(records, i), "error");

            assert_true(is_done(args, amount_of(error, "cluster.memory"), i) || c == 1);
        }
        json_decref(root);
        outcome_finish(&o);
    }
}

static void column(void **state)
{
    const char *path = support_write("plain.toml", plain);
    struct outcome o = run_with(
        (const char *const[]){"compare", path, "--json", "-o", support_path("t.csv"), NULL},
        (const char *const[]){"--set", LITTLE, NULL});
    json_t *root = only_line(&o);
    char *text = support_read(support_path("t.csv")), *line = strtok(text, "\n");

    (void)state;
    assert_string_equal(strrchr(line, ','), ",enough_bytes");
    for (size_t i = 0; i < 2; i++) {
        const json_t *record = json_array_get(json_object_get(root, "records"), i);

        line = strtok(NULL, "\n");
        assert_true(strtoull(strrchr(line, ',') + 1, NULL, 10) ==
                    amount_of(json_object_get(record, "error"), "cluster.memory"));
    }
    free(text);
    json_decref(root);
    outcome_finish(&o);
}

/* Five nodes of 100 bytes kept for each sample, 10 bytes of parameters; `rest`: of the problem. */
static const char *problem(const char *rest)
{
    char text[2048];
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "{\"format\":\"penstock-problem\",\"version\":1,%s,\"graph\":{\"nodes\":[", rest);

    for (uint32_t v = 0; v < 5; v++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\":\"n%u\",\"forward_us\":1,\"saved_bytes\":100,"
                                 "\"param_bytes\":10}",
                                 v > 0 ? "," : "", v);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"edges\":[");
    for (uint32_t v = 1; v < 5; v++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\":\"n%u\",\"to\":\"n%u\",\"bytes\":100}",
                                 v > 1 ? "," : "", v - 1, v);
    }
    snprintf(text + used, sizeof text - used, "]}}");
    return support_write("problem.json", text);
}

/* An answer without a plan says `key` false and why; with what would do it has one. */
static void of_problem(const char *command, const char *name, const char *key, const char *rest)
{
    char text[256];
    struct outcome o;
    uint64_t bytes;
    json_t *root;

    snprintf(text, sizeof text, "\"memory_bytes\":100,%s", rest);
    o = support_run(
        (const char *const[]){command, name, "--json", "--problem", problem(text), NULL});
    expect_code(&o, 1);
    root = only_line(&o);
    assert_true(json_is_false(json_object_get(root, key)));
    bytes = amount_of(json_object_get(root, "error"), "memory_bytes");
    json_decref(root);
    outcome_finish(&o);
    snprintf(text, sizeof text, "\"memory_bytes\":%" PRIu64 ",%s", bytes, rest);
    o = support_run(
        (const char *const[]){command, name, "--json", "--problem", problem(text), NULL});
    expect_code(&o, 0);
    root = only_line(&o);
    assert_false(json_is_false(json_object_get(root, key)));
    json_decref(root);
    outcome_finish(&o);
}

static void problems(void **state)
{
    static const char *const memopts[] = {"none", "full", "sqrt", "dawnpiper", "exact"};

    (void)state;
    of_problem("partition", "pipedream", "feasible",
               "\"devices\":2,\"mini_batch\":8,\"micro_batches\":[2]");
    /* With what its cuts take by themselves `exact` has more to decide about than it takes. */
    of_problem("partition", "uniform", "feasible",
               "\"devices\":2,\"mini_batch\":8,\"micro_batches\":[2],\"cost\":\"planned\","
               "\"scheduler\":\"1f1b\",\"memopt\":\"exact\"");
    for (size_t i = 0; i < sizeof memopts / sizeof *memopts; i++) {
        of_problem("memopt", memopts[i], "fits", "\"in_flight\":2,\"static_bytes\":50");
    }
}

/* In micro-batches of one device's share, as the option has it. */
static void schedule(void **state)
{
    static const struct {
        const char *name, *limit;
        double enough; /* 1F1B's first device holds as many micro-batches as there are devices */
    } rows[] = {{"1f1b", "2.5", 4}, {"v-half", "1", 0}, {"v-adaptive", "0.5", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *args[] = {"schedule", rows[i].name,     "-d",          "4", "-m", "8",
                              "--json",   "--memory-limit", rows[i].limit, NULL};
        struct outcome o = support_run(args);
        json_t *root = only_line(&o);
        const json_t *error = json_object_get(root, "error");
        double enough = json_number_value(json_object_get(error, "enough_memory_limit"));
        char limit[32], words[64];

        expect_code(&o, 1);
        assert_null(json_object_get(error, "enough_bytes"));
        assert_true(rows[i].enough == 0 || enough == rows[i].enough);
        snprintf(limit, sizeof limit, "%.15g", enough);
        snprintf(words, sizeof words, "the smallest that works is %s", limit);
        expect_text(json_string_value(json_object_get(error, "message")), words);
        json_decref(root);
        outcome_finish(&o);
        args[8] = limit;
        o = support_run(args);
        expect_code(&o, 0);
        outcome_finish(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picky_optimizer), cmocka_unit_test(planning_commands),
        cmocka_unit_test(plan_file),       cmocka_unit_test(searching_scheduler),
        cmocka_unit_test(combinations),    cmocka_unit_test(column),
        cmocka_unit_test(problems),        cmocka_unit_test(schedule),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
