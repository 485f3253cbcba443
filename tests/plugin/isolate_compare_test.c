/* SPDX-License-Identifier: Apache-2.0
 *
 * One plugin that misbehaves among those that compare and tune try: its row has the reason and
 * names it, the others have theirs, and the exit code is 3 at the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "isolate_rig.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const struct row {
    const char *id, *kind, *words; /* kind NULL: done */
} rows[] = {
    {"heed", "plugin.timeout",
     "made no plan in 300 ms, the plugins.time_limit; it was in schedule()"},
    {"gpipe", NULL, NULL},
    {"loop", "plugin.timeout",
     "made no plan in 300 ms, the plugins.time_limit; it had been in schedule() for "},
    {"crash-load", "plugin.crash", "crashed with SIGSEGV while it was loaded"},
    {"crash-schedule", "plugin.crash", "crashed with SIGSEGV in schedule()"},
    {"exit-zero", "plugin.crash", "ended the planner with exit status 0 in schedule()"},
    {"no-memory", "plugin.memory", "ran out of memory"},
    {"hog", "plugin.memory", "took more memory than 768 MiB, the plugins.memory_limit"},
    {"garble", "plugin.contract", "garbled the planner's answer"},
    {"illegal", "plan.illegal", "comes before its F"},
    {"odd", "plugin.contract", "returned the unknown status 42"},
    {"fail", "plugin.contract", "broke its contract in schedule():  [31mred of ?"},
    {"escape", "plugin.descriptor", "has a control character or is no UTF-8"},
    {"1f1b", NULL, NULL},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static bool is_quick; /* without what does not heed cancelled(), which takes 2 s */

/* The address space is not limited under sanitizers. */
static bool is_left_out(const struct row *row)
{
    return (is_quick && strcmp(row->id, "loop") == 0) ||
           (SANITIZED && row->kind != NULL && strcmp(row->kind, "plugin.memory") == 0);
}

static size_t n_tried(void)
{
    size_t n = 0;

    for (size_t i = 0; i < N_ROWS; i++) {
        n += !is_left_out(&rows[i]);
    }
    return n;
}

static const char *config(void)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "%s[plugins]\ntime_limit = \"300 ms\"\nmemory_limit = \"768 MiB\"\n"
                     "[compare]\nschedulers = [",
                     job);

    for (size_t i = 0; i < N_ROWS; i++) {
        if (!is_left_out(&rows[i])) {
            n += snprintf(text + n, sizeof text - (size_t)n, "\"%s\", ", rows[i].id);
        }
    }
    snprintf(text + n, sizeof text - (size_t)n, "]\n");
    return support_write("compare.toml", text);
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

static void check_record(const struct row *row, const json_t *record, const json_t *trial)
{
    const json_t *error = json_object_get(trial, "error");
    char blame[64];

    assert_string_equal(json_string_value(json_object_get(record, "scheduler")), row->id);
    if (row->kind == NULL) {
        assert_string_equal(json_string_value(json_object_get(trial, "state")), "done");
        return;
    }
    assert_string_equal(json_string_value(json_object_get(trial, "state")), "failed");
    assert_int_equal(json_integer_value(json_object_get(error, "code")), 3);
    assert_string_equal(json_string_value(json_object_get(error, "kind")), row->kind);
    expect_text(json_string_value(json_object_get(error, "message")), row->words);
    snprintf(blame, sizeof blame,
             strcmp(row->kind, "plugin.descriptor") == 0 ? "scheduler-%s.so" : "scheduler \"%s\"",
             row->id);
    expect_text(json_string_value(json_object_get(error, "message")), blame);
}

/* part: where a record has its trial; NULL: it is one. */
static void check_json(const struct outcome *o, const char *part)
{
    json_t *answer = json_loads(o->out, JSON_REJECT_DUPLICATES, NULL);
    const json_t *records = json_object_get(answer, "records"), *record;
    size_t n = 0;

    expect_code(o, 3);
    assert_int_equal(json_array_size(records), n_tried());
    for (size_t i = 0; i < N_ROWS; i++) {
        if (!is_left_out(&rows[i])) {
            record = json_array_get(records, n++);
            check_record(&rows[i], record, part == NULL ? record : json_object_get(record, part));
        }
    }
    assert_int_equal(json_array_size(json_object_get(answer, "order")), 2);
    json_decref(answer);
}

/* Each row of the text, too: a line with the scheduler and the reason. */
static void check_text(const char *text, size_t n_lines)
{
    const char *at;
    size_t n = 0;

    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].kind != NULL && !is_left_out(&rows[i])) {
            expect_text(text, rows[i].words);
        }
    }
    for (at = text; *at != '\0'; at++) {
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        n += *at == '\n';
    }
    if (n_lines > 0) {
        assert_int_equal(n, n_lines);
    }
}

static void test_compare(void **state)
{
    const char *path = config(), *csv = support_path("table.csv");
    struct outcome o = RUN("compare", path, "--json", "-o", csv);
    char *text = support_read(csv);

    (void)state;
    check_json(&o, NULL);
    outcome_finish(&o);
    assert_non_null(text);
    check_text(text, n_tried() + 1);
    free(text);
}

/* The table, and each combination at its largest batch. */
static void test_text_and_tune(void **state)
{
    struct outcome table, largest;
    const char *path;

    (void)state;
    is_quick = true;
    path = config();
    table = RUN("compare", path);
    expect_code(&table, 3);
    check_text(table.out, 0);
    expect_text(table.out, "2 of ");
    outcome_finish(&table);
    largest = RUN("tune", path, "--objective", "max-batch", "--limit", "2", "--json");
    check_json(&largest, "at_max");
    outcome_finish(&largest);
}

/* What a plugin does at a larger size than the largest that it can is no less its own. */
static void test_larger(void **state)
{
    const char *path = support_write("job.toml", job);
    struct outcome o =
        RUN("tune", path, "--objective", "max-batch", "--set", "scheduler.use=crash-large");

    (void)state;
    expect_code(&o, 3);
    expect_text(o.out, "a plugin failed at another size: 1\n");
    expect_text(o.out, "scheduler-crash-large.so): crashed with SIGSEGV in schedule()");
    outcome_finish(&o);
    o = RUN("tune", path, "--objective", "max-batch", "--json", "--set",
            "scheduler.use=crash-large");
    expect_code(&o, 3);
    expect_text(o.out, "\"max_microbatch\":2,");
    expect_text(o.out, "\"beyond\":\"scheduler \\\"crash-large\\\"");
    outcome_finish(&o);
}

/* Nothing else is left: the exit code is still that of the plugin. */
static void test_alone(void **state)
{
    struct outcome o =
        RUN("tune", support_write("job.toml", job), "--json", "--set", "scheduler.use=exit-zero");
    json_t *answer = json_loads(o.out, 0, NULL);

    (void)state;
    expect_code(&o, 3);
    assert_int_equal(json_array_size(json_object_get(answer, "records")), 4); /* 1, 2, 4, 8 */
    json_decref(answer);
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_text_and_tune),
        cmocka_unit_test(test_larger),
        cmocka_unit_test(test_alone),
    };

    return cmocka_run_group_tests(tests, begin, support_end);
}
