/* SPDX-License-Identifier: Apache-2.0
 *
 * penstock schedule: exact figures of known instances, every field of the answer, problems from
 * files, refusals, schedulers that crash, hang or leave, what the terminal gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "expect_error.h"

/* The answer of a command that must succeed. */
static json_t *answer(const char *const *args)
{
    struct outcome o = support_run(args);
    json_error_t why;
    json_t *root;

    expect_code(&o, 0);
    assert_string_equal(o.err, "");
    root = json_loads(o.out, 0, &why);
    if (root == NULL) {
        fail_msg("not one JSON object (%s): %s", why.text, o.out);
    }
    outcome_finish(&o);
    return root;
}

#define schedule(...) answer((const char *const[]){"schedule", __VA_ARGS__, "--json", NULL})

static double get(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);

    if (!json_is_number(value)) {
        fail_msg("\"%s\" is missing or no number", key);
    }
    return json_number_value(value);
}

/* The very double: what is 33 must not be 32.999999. */
static void expect(const json_t *root, const char *key, double expected)
{
    if (get(root, key) != expected) {
        fail_msg("%s is %.17g, not %.17g", key, get(root, key), expected);
    }
}

static void expect_list(const json_t *root, const char *key, const double *expected, size_t n)
{
    const json_t *list = json_object_get(root, key);

    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++) {
        if (json_number_value(json_array_get(list, i)) != expected[i]) {
            fail_msg("%s[%zu] is %.17g, not %.17g", key, i,
                     json_number_value(json_array_get(list, i)), expected[i]);
        }
    }
}

/* 1F1B on four devices: (m + p - 1) (f + b + w) in all, p - d held. */
static void test_figures(void **state)
{
    static const double peaks[] = {4, 3, 2, 1}, busy[] = {24, 24, 24, 24};
    json_t *root = schedule("1f1b", "--devices", "4", "--microbatches", "8");

    (void)state;
    assert_string_equal(json_string_value(json_object_get(root, "scheduler")), "1f1b");
    expect(root, "devices", 4);
    expect(root, "stages", 4);
    expect(root, "microbatches", 8);
    expect(root, "makespan", 33);
    expect(root, "span", 33);
    expect(root, "bubble_makespan", 9);
    expect(root, "bubble_span", 9);
    expect(root, "steady_period", 3);
    expect(root, "lower_bound", 27);
    expect_list(root, "peak_activation", peaks, 4);
    expect(root, "steps", 1);
    expect(root, "work", 24);
    expect_list(root, "busy", busy, 4);
    expect(root, "bubble_rate_makespan", 9.0 / 33);
    /* 3 links, 8 micro-batches, both ways */
    expect(root, "transfers", 48);
    json_decref(root);
}

/* The first device of 1F1B, pass by pass. */
static void test_timeline(void **state)
{
    static const struct {
        const char *op;
        double microbatch, start, end;
    } expected[] = {{"F", 0, 0, 1}, {"F", 1, 1, 2},  {"BW", 0, 4, 6},
                    {"F", 2, 6, 7}, {"BW", 1, 7, 9}, {"BW", 2, 10, 12}};
    json_t *root = schedule("1f1b", "-d", "2", "-m", "3"), *row;

    (void)state;
    assert_int_equal(json_array_size(json_object_get(root, "timeline")), 2);
    row = json_array_get(json_object_get(root, "timeline"), 0);
    assert_int_equal(json_array_size(row), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *pass = json_array_get(row, i);

        assert_string_equal(json_string_value(json_object_get(pass, "op")), expected[i].op);
        expect(pass, "stage", 0);
        expect(pass, "microbatch", expected[i].microbatch);
        expect(pass, "start", expected[i].start);
        expect(pass, "end", expected[i].end);
        assert_null(json_object_get(pass, "step"));
    }
    json_decref(root);
}

/* Costs are those of a device's share: two chunks cost half each, and half of an activation. The
   makespans are those of unit chunks (57; 51 and 48) halved, with decimals that doubles lack. */
static void test_shares(void **state)
{
    static const double interleaved[] = {5.5, 4.5, 3.5, 2.5}, v[] = {4, 4, 4, 4};
    json_t *root = schedule("interleaved", "-d", "4", "-m", "8", "-o", "chunks=2");

    (void)state;
    expect(root, "makespan", 28.5);
    expect(root, "stages", 8);
    expect_list(root, "peak_activation", interleaved, 4);
    json_decref(root);
    root = schedule("v-zb", "-d", "4", "-m", "8", "--cost", "f=0.2,b=0.2,w=0.2");
    expect(root, "makespan", 5.1);
    expect(root, "span", 4.8);
    expect(root, "bubble_span", 0);
    expect_list(root, "peak_activation", v, 4);
    json_decref(root);
    /* 3 chunks: (v m + p - 1)(f + b + w) of a third each */
    root = schedule("interleaved", "-d", "4", "-m", "8", "-o", "chunks=3");
    expect(root, "makespan", 27);
    json_decref(root);
}

/* What other programs compute has more digits than a millionth: 7 thirds just fit. */
static void test_rounding(void **state)
{
    json_t *root = schedule("interleaved", "-d", "2", "-m", "4", "-o", "chunks=3", "--memory-limit",
                            "2.3333333333333335", "--cost", "f=0.30000000000000004,b=0.3,w=0.3");

    (void)state;
    expect(root, "makespan", 3.9); /* (v m + p - 1) (f + b + w) / v = 13 x 0.3 */
    json_decref(root);
}

/* p = 4, m = 8 of ZB-H1 and 1F1B; times of the 1.5B model of the zero bubble paper, whose bubble of
   1F1B is 0.2431 of the span. */
static void test_costs_and_latency(void **state)
{
    json_t *root = schedule("1f1b", "-d", "4", "-m", "8", "--comm", "1");

    (void)state;
    expect(root, "makespan", 49);
    json_decref(root);
    root = schedule("1f1b", "-d", "8", "-m", "24", "--cost", "f=18.522,b=18.086,w=9.337", "--comm",
                    "0.601");
    assert_true(get(root, "bubble_rate_span") > 0.24305 && get(root, "bubble_rate_span") < 0.24315);
    json_decref(root);
    root = schedule("zb-h1", "-d", "3", "-m", "6", "--cost", "w=1,b=3,f=2");
    expect(root, "makespan", 44);
    json_decref(root);
    /* A = 1, AW = 1/4: the last device of ZB-H1 holds (p - d) + d AW = 1 + 3/4 */
    root = schedule("zb-h1", "-d", "4", "-m", "8", "--aw", "0.25");
    assert_true(json_number_value(json_array_get(json_object_get(root, "peak_activation"), 3)) ==
                1.75);
    json_decref(root);
}

/* Synchronous steps end at a barrier; 2BW's batches run into each other: (T m + p - 1)(f + b + w).
 */
static void test_steps(void **state)
{
    json_t *root = schedule("zb-h2", "-d", "4", "-m", "8", "--steps", "3"), *pass;

    (void)state;
    expect(root, "makespan", 3 * 27);
    expect(root, "span", 2 * 27 + 24);
    expect(root, "bubble_makespan", 3 * 3);
    pass = json_array_get(json_array_get(json_object_get(root, "timeline"), 0), 24);
    expect(pass, "step", 1);
    expect(pass, "microbatch", 0);
    expect(pass, "start", 27);
    json_decref(root);
    root = schedule("2bw", "-d", "4", "-m", "4", "--steps", "3");
    expect(root, "makespan", 45);
    expect(root, "steady_period", 3);
    assert_true(json_is_true(json_object_get(root, "asynchronous")));
    json_decref(root);
}

static const char sizes[] =
    "{\"format\": \"penstock-schedule-problem\", \"version\": 1, \"samples\": 16, \"stages\": ["
    "{\"microbatch_size\": 1, \"forward_us_per_sample\": 1, \"backward_input_us_per_sample\": 1,"
    " \"backward_weight_us_per_sample\": 1},"
    "{\"microbatch_size\": 2, \"forward_us_per_sample\": 1, \"backward_input_us_per_sample\": 1,"
    " \"backward_weight_us_per_sample\": 1},"
    "{\"microbatch_size\": 4, \"forward_us_per_sample\": 1, \"backward_input_us_per_sample\": 1,"
    " \"backward_weight_us_per_sample\": 1}]}";

#define ONE  "{\"forward_us\": 1, \"backward_input_us\": 1, \"backward_weight_us\": 1}"
#define HEAD "{\"format\": \"penstock-schedule-problem\", \"version\": 1, \"samples\": 8, "

static const char diamond[] =
    HEAD "\"stages\": [" ONE ", " ONE ", " ONE ", " ONE "], \"links\": [{\"from\": 0, \"to\": 1}, "
         "{\"from\": 0, \"to\": 2}, {\"from\": 1, \"to\": 3}, {\"from\": 2, \"to\": 3}]}";

/* Micro-batches of 1, 2, 4 samples: 66, and 10, 8, 4 samples in flight; a diamond: (N + 2) 3, where
   a chain of four stages takes (N + 3) 3. GraphPipe's examples. */
static void test_problems(void **state)
{
    static const double samples[] = {10, 8, 4}, held[] = {3, 2, 2, 1};
    const char *file = support_write("sizes.json", sizes);
    json_t *root = schedule("per-stage", "--problem", file);

    (void)state;
    expect(root, "makespan", 66);
    expect_list(root, "in_flight_samples", samples, 3);
    expect_list(root, "peak_activation", samples, 3);
    json_decref(root);
    file = support_write("diamond.json", diamond);
    root = schedule("per-stage", "--problem", file);
    expect(root, "makespan", 30);
    expect_list(root, "peak_activation", held, 4);
    expect(root, "transfers", 4 * 8 * 2);
    json_decref(root);
    /* stages of its own for a chain scheduler, which places them: one slow stage of 5 rules */
    file = support_write("slow.json",
                         HEAD "\"stages\": [" ONE ", {\"forward_us\": 3, \"backward_input_us\": 1, "
                              "\"backward_weight_us\": 1}, " ONE "]}");
    root = schedule("1f1b", "--problem", file);
    expect(root, "steady_period", 5);
    expect(root, "work", 40);
    json_decref(root);
}

static void refuse_problem(const char *kind, const char *text, const char *words)
{
    const char *file = support_write("bad.json", text);

    expect_error((const char *const[]){"schedule", "1f1b", "--problem", file, NULL}, 2, kind,
                 words);
}

static void test_problems_refused(void **state)
{
    (void)state;
    refuse_problem("input.syntax", "{", "bad.json");
    refuse_problem("input.syntax", "{\"format\": \"x\"}", "format: must be");
    refuse_problem("config.value", HEAD "\"stages\": []}", "stages: must be");
    refuse_problem("config.key", HEAD "\"stages\": [" ONE "], \"stage\": 1}", "did you mean");
    refuse_problem("config.key", HEAD "\"stages\": [{\"forward_us\": 1}]}", "backward_input_us");
    refuse_problem("config.value", HEAD "\"stages\": [{\"forward_us\": -1}]}",
                   "stages[0].forward_us: must be");
    refuse_problem("config.value", HEAD "\"stages\": [{\"microbatch_size\": 3}]}",
                   "does not divide the 8 samples");
    refuse_problem("config.value",
                   HEAD "\"stages\": [" ONE ", " ONE "], \"links\": [{\"from\": 1, \"to\": 0}]}",
                   "links[0]: goes from stage 1 to 0");
    refuse_problem("config.value", HEAD "\"devices\": 1, \"stages\": [" ONE ", " ONE "]}",
                   "stage 1 is on device 1");
    refuse_problem("config.value", HEAD "\"memory_bytes\": [1, 2], \"stages\": [" ONE "]}",
                   "memory_bytes: has 2");
    expect_error((const char *const[]){"schedule", "v-half", "--problem",
                                       support_write("diamond.json", diamond), NULL},
                 2, "plan.mismatch", "wants 8 stages on 4 devices; the problem has 4");
    expect_error((const char *const[]){"schedule", "1f1b", "-d", "2", "--problem",
                                       support_path("diamond.json"), NULL},
                 2, "usage", "--devices exclude each other");
    expect_error(
        (const char *const[]){"schedule", "1f1b", "--problem", support_path("no.json"), NULL}, 2,
        "input.path", "no.json");
}

#define refuse(code, kind, words, ...)                                                             \
    expect_error((const char *const[]){"schedule", __VA_ARGS__, NULL}, code, kind, words)

static void test_requests_refused(void **state)
{
    (void)state;
    refuse(2, "plugin.not-found", "did you mean", "zb-h7", "-d", "2", "-m", "2");
    refuse(2, "usage", "--devices must be a number from 1", "1f1b", "-d", "0", "-m", "2");
    refuse(2, "usage", "--microbatches must be a number from 1", "1f1b", "-d", "2", "-m", "two");
    refuse(2, "usage", "--devices is missing", "1f1b", "-m", "2");
    refuse(2, "usage", "--microbatches is missing", "1f1b", "-d", "2");
    refuse(2, "usage", "is no part of one", "1f1b", "-d", "2", "-m", "2", "--cost", "f=1,x");
    refuse(2, "usage", "--cost must be a number", "1f1b", "-d", "2", "-m", "2", "--cost", "f=-1");
    refuse(2, "usage", "--cost must be a number", "1f1b", "-d", "2", "-m", "2", "--cost", "f=nan");
    refuse(2, "usage", "less than a millionth", "1f1b", "-d", "2", "-m", "2", "--cost",
           "f=0.0000001");
    refuse(2, "usage", "--comm must be", "1f1b", "-d", "2", "-m", "2", "--comm", "");
    refuse(2, "usage", "--aw is a part", "1f1b", "-d", "2", "-m", "2", "--aw", "2");
    refuse(2, "usage", "--steps must be", "1f1b", "-d", "2", "-m", "2", "--steps", "0");
    refuse(2, "usage", "--options gives", "1f1b", "-d", "2", "-m", "2", "--set", "a.b=1");
    refuse(2, "config.key", "did you mean", "1f1b", "-d", "2", "-m", "2", "-o", "spilt=true");
    refuse(2, "config.syntax", "not of the form key=value", "1f1b", "-d", "2", "-m", "2", "-o",
           "split");
    refuse(2, "config.value", "must be true or false", "1f1b", "-d", "2", "-m", "2", "-o",
           "split=2");
    refuse(2, "config.limit", "choose a larger unit", "1f1b", "-d", "4096", "-m", "1000000",
           "--cost", "f=1e9");
    refuse(2, "usage", "NAME", "-d", "2", "-m", "2");
    refuse(2, "plugin.not-found", "no-such.so", "./no-such.so", "-d", "2", "-m", "2");
}

/* What would do is named; and it does. */
static void test_infeasible(void **state)
{
    struct outcome o;

    (void)state;
    refuse(1, "plan.infeasible", "micro-batches", "2bw", "-d", "4", "-m", "2");
    refuse(1, "plan.infeasible", "micro-batches", "dualpipev", "-d", "4", "-m", "5");
    refuse(1, "plan.infeasible", "holds 4 on device 0", "1f1b", "-d", "4", "-m", "8",
           "--memory-limit", "3.5");
    refuse(1, "plan.infeasible", "v-half", "v-half", "-d", "4", "-m", "8", "--memory-limit", "2.5");
    o = penstock("schedule", "v-half", "-d", "4", "-m", "8", "--memory-limit", "3");
    expect_code(&o, 0);
    outcome_finish(&o);
}

/* --- schedulers from elsewhere
 * ------------------------------------------------------------------*/

#define BAD PENSTOCK_BUILD_DIR "/tests/isolate/scheduler-"

static void refuse_bad(const char *id, const char *kind, const char *words)
{
    char path[256];

    snprintf(path, sizeof path, BAD "%s.so", id);
    expect_error((const char *const[]){"schedule", path, "-d", "2", "-m", "2", "--time-limit",
                                       "300 ms", NULL},
                 3, kind, words);
}

static void test_misbehaviour(void **state)
{
    struct outcome o = penstock("schedule", BAD "well.so", "-d", "2", "-m", "3");

    (void)state;
    expect_code(&o, 0);
    expect_text(o.out, "makespan    12");
    outcome_finish(&o);
    refuse_bad("crash-schedule", "plugin.crash", "SIGSEGV in schedule()");
    refuse_bad("crash-create", "plugin.crash", "SIGSEGV in create()");
    refuse_bad("crash-load", "plugin.crash", "crashed with SIGSEGV");
    refuse_bad("abort-schedule", "plugin.crash", "SIGABRT");
    refuse_bad("exit-zero", "plugin.crash", "exit status 0");
    refuse_bad("exit-seven", "plugin.crash", "exit status 7");
    refuse_bad("illegal", "plan.illegal", "illegal");
    refuse_bad("odd", "plugin.contract", "unknown status 42");
}

static void test_endless_loop(void **state)
{
    (void)state;
    refuse_bad("loop", "plugin.timeout", "in 300 ms, the --time-limit");
}

/* --- terminal
 * -----------------------------------------------------------------------------------*/

static size_t longest_line(const char *text)
{
    size_t longest = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        longest = n > longest ? n : longest;
        text += n + (text[n] == '\n');
    }
    return longest;
}

static void test_what_people_see(void **state)
{
    struct outcome o;

    (void)state;
    unsetenv("COLUMNS");
    setenv("LC_ALL", "C", 1);
    o = penstock("schedule", "zb-h1", "-d", "3", "-m", "4");
    expect_code(&o, 0);
    expect_text(o.out, "zb-h1: 3 devices, 4 micro-batches\n");
    expect_text(o.out, "device 0 F0--F1--F2--........B0--W0--F3--B1--W1--B2--W2--B3--W3--\n");
    expect_text(o.out, "device 2 ........F0--B0--F1--B1--F2--B2--W0--F3--B3--W1--W2--W3--\n");
    assert_null(strchr(o.out, '\033'));
    for (const char *c = o.out; *c != '\0'; c++) {
        assert_true((unsigned char)*c < 128);
    }
    outcome_finish(&o);
    /* far too long for 80 columns: scaled */
    o = penstock("schedule", "zb-h1", "-d", "3", "-m", "400");
    expect_code(&o, 0);
    expect_text(o.out, ", scaled\n");
    assert_true(longest_line(o.out) <= 80);
    outcome_finish(&o);
    setenv("COLUMNS", "200", 1);
    o = penstock("schedule", "zb-h1", "-d", "3", "-m", "400");
    assert_true(longest_line(o.out) > 150 && longest_line(o.out) <= 200);
    outcome_finish(&o);
    setenv("COLUMNS", "wide", 1); /* heeded where it is a number */
    o = penstock("schedule", "zb-h1", "-d", "3", "-m", "400");
    assert_true(longest_line(o.out) <= 80);
    outcome_finish(&o);
    unsetenv("COLUMNS");
    setenv("LC_ALL", "C.UTF-8", 1);
    o = penstock("schedule", "zb-h1", "-d", "3", "-m", "4", "--color", "always");
    expect_code(&o, 0);
    expect_text(o.out, "\033[38;5;16;48;5;75mF0  \033[0m");
    outcome_finish(&o);
    o = penstock("schedule", "zb-h1", "-d", "3", "-m", "4");
    expect_text(o.out, "F0──F1──F2──········B0──W0");
    outcome_finish(&o);
    unsetenv("LC_ALL");
}

static void test_files(void **state)
{
    const char *csv = support_path("order.csv"), *svg = support_path("t.svg");
    const char *trace = support_path("t.json");
    struct outcome o = penstock("schedule", "1f1b", "-d", "2", "-m", "2", "--csv", csv, "--svg",
                                svg, "--trace", trace);
    char *text;

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    text = support_read(csv);
    assert_string_equal(text, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    free(text);
    text = support_read(svg);
    expect_text(text, "<svg");
    free(text);
    text = support_read(trace);
    expect_text(text, "\"1F0\"");
    free(text);
    o = penstock("schedule", "csv", "-o", "file=/nowhere");
    expect_code(&o, 2);
    outcome_finish(&o);
    /* an order from a file brings its own numbers */
    {
        char option[160];
        json_t *root;

        snprintf(option, sizeof option, "file=\"%s\"", csv);
        root = schedule("csv", "-o", option);
        expect(root, "devices", 2);
        expect(root, "makespan", 9);
        assert_true(json_is_null(json_object_get(root, "steady_period")));
        json_decref(root);
    }
    refuse(1, "output.form", "PyTorch", "2bw", "-d", "2", "-m", "2", "--csv", csv);
    refuse(2, "output.write", "nowhere", "1f1b", "-d", "2", "-m", "2", "--csv", "/nowhere/x.csv");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_costs_and_latency),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_problems_refused),
        cmocka_unit_test(test_requests_refused),
        cmocka_unit_test(test_infeasible),
        cmocka_unit_test(test_misbehaviour),
        cmocka_unit_test(test_endless_loop),
        cmocka_unit_test(test_what_people_see),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
