/* SPDX-License-Identifier: Apache-2.0
 *
 * What `train` says: the fields that tools rely on, progress away from a terminal, signals, a
 * reader that goes away, a plan from a file.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

static const char config[] = "[model]\n"
                             "use = \"gpt\"\n"
                             "layers = 2\n"
                             "dim = 16\n"
                             "heads = 2\n"
                             "context = 16\n"
                             "[data]\n"
                             "train = \"text.txt\"\n"
                             "[train]\n"
                             "steps = 6\n"
                             "batch = 4\n"
                             "microbatch = 2\n"
                             "eval_every = 2\n"
                             "eval_batches = 2\n"
                             "sample = 12\n"
                             "prompt = \"abc\"\n"
                             "[cluster]\n"
                             "devices = 2\n"
                             "[partitioner]\n"
                             "use = \"chain-dp\"\n"
                             "[scheduler]\n"
                             "use = \"1f1b\"\n"
                             "[output]\n"
                             "log_every = 2\n";

static const char *write_config(void)
{
    char text[4096];

    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = (char)('a' + i * i % 23);
    }
    text[sizeof text - 1] = '\0';
    support_write("text.txt", text);
    return support_write("run.toml", config);
}

/* The lines of a stream as JSON values; ends the test where one is none. */
static size_t parse_lines(const char *text, json_t **ret_lines, size_t max)
{
    size_t n = 0;

    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        json_error_t why;

        assert_true(n < max && text[length] == '\n');
        ret_lines[n] = json_loadb(text, length, 0, &why);
        if (ret_lines[n] == NULL) {
            fail_msg("line %zu: %s: %.200s", n + 1, why.text, text);
        }
        n++;
        text += length + 1;
    }
    return n;
}

static double number(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);

    if (!json_is_number(value)) {
        fail_msg("%s is no number", key);
    }
    return json_number_value(value);
}

static void check_step(const json_t *line, int step)
{
    const char *hex = json_string_value(json_object_get(line, "loss_hex"));
    double seconds = number(line, "seconds"), rate = number(line, "tokens_per_second");

    assert_true(number(line, "step") == step);
    assert_true(number(line, "samples") == 4);
    assert_true(seconds > 0);
    /* 4 samples of 16 tokens. */
    assert_true(fabs(rate * seconds - 64) < 1e-6);
    assert_non_null(hex);
    assert_true(strtod(hex, NULL) == number(line, "loss"));
    assert_true(number(line, "grad_norm") > 0);
    assert_true(number(line, "lr") >= 0);
}

static void check_peaks(const json_t *done)
{
    const json_t *measured = json_object_get(done, "peak_bytes");
    const json_t *predicted = json_object_get(done, "predicted_peak_bytes");

    assert_int_equal(json_array_size(measured), 2);
    assert_int_equal(json_array_size(predicted), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(json_integer_value(json_array_get(measured, i)),
                         json_integer_value(json_array_get(predicted, i)));
    }
}

/* 6 steps, evaluations after 2 and 4 and at the end, one last line: 10 lines, in this order. */
static void test_json(void **state)
{
    struct outcome o = penstock("train", write_config(), "--json");
    json_t *lines[16];
    static const int evals_after[] = {2, 4, 6};
    size_t n, at = 0;
    const char *sample;

    (void)state;
    expect_code(&o, 0);
    n = parse_lines(o.out, lines, 16);
    assert_int_equal(n, 10);
    for (int step = 1, e = 0; step <= 6; step++) {
        check_step(lines[at++], step);
        if (step == evals_after[e]) {
            assert_true(json_is_true(json_object_get(lines[at], "eval")));
            assert_true(number(lines[at], "step") == step);
            assert_true(number(lines[at++], "loss") > 0);
            e++;
        }
    }
    assert_true(json_is_true(json_object_get(lines[9], "done")));
    assert_true(number(lines[9], "steps") == 6);
    assert_true(number(lines[9], "final_loss") == number(lines[7], "loss"));
    assert_true(number(lines[9], "eval_loss") == number(lines[8], "loss"));
    assert_true(number(lines[9], "step_seconds") > 0);
    assert_true(number(lines[9], "predicted_step_seconds") > 0);
    check_peaks(lines[9]);
    sample = json_string_value(json_object_get(lines[9], "sample"));
    assert_non_null(sample);
    assert_int_equal(strncmp(sample, "abc", 3), 0);
    assert_true(strlen(sample) >= 15);
    while (n > 0) {
        json_decref(lines[--n]);
    }
    outcome_finish(&o);
}

/* Progress in whole lines on standard error, the result on standard output, silence with -q. */
static void test_text(void **state)
{
    struct outcome o = penstock("train", write_config());

    (void)state;
    expect_code(&o, 0);
    expect_text(o.err, "step 2/6 ");
    expect_text(o.err, "step 6/6 ");
    assert_null(strstr(o.err, "step 3/6 "));
    assert_null(strchr(o.err, '\r'));
    assert_null(strchr(o.out, '\r'));
    assert_null(strchr(o.out, '\033'));
    expect_text(o.out, "trained 6 steps");
    expect_text(o.out, "held-out");
    outcome_finish(&o);
    o = penstock("train", write_config(), "-q");
    expect_code(&o, 0);
    assert_string_equal(o.err, "");
    outcome_finish(&o);
}

/* The losses in a stream, as their hexadecimal texts joined; free() them. */
static char *losses(const char *text)
{
    char *joined = calloc(1, strlen(text) + 1), *end = joined;

    assert_non_null(joined);
    while ((text = strstr(text, "\"loss_hex\":\"")) != NULL) {
        size_t n;

        text += strlen("\"loss_hex\":\"");
        n = strcspn(text, "\"");
        memcpy(end, text, n);
        end[n] = ' ';
        end += n + 1;
    }
    return joined;
}

/* A run from a plan file has the losses of the run that searched; a run on one device too. */
static void test_plan_file(void **state)
{
    const char *path = write_config(), *plan = support_path("plan.json");
    struct outcome made = penstock("plan", path, "-o", plan), checked = penstock("check", plan);
    struct outcome searched = penstock("train", path, "--json");
    struct outcome read = penstock("train", path, "--json", "--plan", plan);
    struct outcome alone = penstock("train", path, "--json", "--set", "cluster.devices=1");
    char *a = losses(searched.out), *b = losses(read.out), *c = losses(alone.out);

    (void)state;
    expect_code(&made, 0);
    expect_code(&checked, 0);
    expect_text(checked.out, "legal");
    expect_code(&searched, 0);
    expect_code(&read, 0);
    expect_code(&alone, 0);
    assert_true(strlen(a) > 6 * 8);
    assert_string_equal(a, b);
    assert_string_equal(a, c);
    free(a);
    free(b);
    free(c);
    outcome_finish(&made);
    outcome_finish(&checked);
    outcome_finish(&searched);
    outcome_finish(&read);
    outcome_finish(&alone);
}

/* Starts an endless run and waits for its first step. */
static pid_t start_endless(int out, int err)
{
    const char *path = write_config();
    const char *args[] = {"train", path, "--json", "--set", "train.steps=100000000", NULL};
    const struct timespec pause = {0, 5000000};
    pid_t pid = support_spawn(args, out, err);

    for (int i = 0; lseek(out, 0, SEEK_END) == 0; i++) {
        assert_true(i < 6000);
        nanosleep(&pause, NULL);
    }
    return pid;
}

static void expect_stop(int number, int code)
{
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    pid_t pid = start_endless(out, err);
    struct outcome o;

    assert_int_equal(kill(pid, number), 0);
    o.code = support_wait(pid);
    o.out = support_drain(out);
    o.err = support_drain(err);
    expect_code(&o, code);
    expect_text(o.out, "\"done\":true");
    expect_text(o.out, "\"eval_loss\":null");
    assert_int_equal(o.out[strlen(o.out) - 2], '}');
    outcome_finish(&o);
}

static void test_signals(void **state)
{
    (void)state;
    expect_stop(SIGTERM, 143);
    expect_stop(SIGINT, 130);
}

/* Nobody reads: the run goes on to its end. */
static void test_closed_pipe(void **state)
{
    int pipes[2], err = memfd_create("err", MFD_CLOEXEC);
    const char *path = write_config();
    const char *args[] = {"train", path, "--json", NULL};
    pid_t pid;
    char *text;

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    close(pipes[0]);
    pid = support_spawn(args, pipes[1], err);
    close(pipes[1]);
    assert_int_equal(support_wait(pid), 0);
    text = support_drain(err);
    expect_text(text, "step 6/6 ");
    free(text);
}

static double held_out(const char *set)
{
    const char *args[] = {"train", write_config(), "--json", "--set", set, NULL};
    struct outcome outcome = support_run(args);
    json_t *lines[32];
    size_t n;
    double loss;

    expect_code(&outcome, 0);
    n = parse_lines(outcome.out, lines, 32);
    loss = json_real_value(json_object_get(lines[n - 1], "eval_loss"));
    for (size_t i = 0; i < n; i++) {
        json_decref(lines[i]);
    }
    outcome_finish(&outcome);
    return loss;
}

/* Evaluation reads the same samples whether or not text is written afterwards. */
static void test_held_out(void **state)
{
    double with = held_out("train.sample=5"), without = held_out("train.sample=0");

    (void)state;
    assert_true(with > 0 && fabs(with - without) < 1e-6 * with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),        cmocka_unit_test(test_text),
        cmocka_unit_test(test_plan_file),   cmocka_unit_test(test_signals),
        cmocka_unit_test(test_closed_pipe), cmocka_unit_test(test_held_out),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
