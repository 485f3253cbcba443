/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock import pytorch-csv`: shows a schedule, rewrites it, plans with it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

static const char one_f_one_b[] = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";

static const char config[] = "[model]\nuse = \"mlp\"\n\n"
                             "[data]\nkind = \"synthetic\"\n\n"
                             "[train]\nbatch = 8\nmicrobatch = 4\n\n"
                             "[cluster]\ndevices = 2\n\n"
                             "[partitioner]\nuse = \"uniform\"\n\n"
                             "[scheduler]\nuse = \"gpipe\"\n\n"
                             "[[memopt]]\nuse = \"none\"\n";

/* F 1, BW 2: the last backward of rank 0 follows F0 F0' B0' B0: 9 units of time; 6 of work. */
static void shown(void **state)
{
    const char *path = support_write("in.csv", one_f_one_b);
    struct outcome outcome = penstock("import", "pytorch-csv", path);

    (void)state;
    expect_code(&outcome, 0);
    expect_text(outcome.out, "in.csv: 2 devices, 2 stages, 2 micro-batches");
    expect_text(outcome.out, "33.33 %");
    outcome_finish(&outcome);
}

static void as_json(void **state)
{
    const char *path = support_write("in.csv", one_f_one_b);
    struct outcome outcome = penstock("import", "pytorch-csv", path, "--json");
    json_t *root, *schedule;

    (void)state;
    expect_code(&outcome, 0);
    root = json_loads(outcome.out, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    schedule = json_object_get(root, "schedule");
    assert_string_equal(json_string_value(json_object_get(root, "input")), path);
    assert_int_equal(json_integer_value(json_object_get(schedule, "devices")), 2);
    assert_int_equal(json_integer_value(json_object_get(schedule, "stages")), 2);
    assert_int_equal(json_integer_value(json_object_get(schedule, "microbatches")), 2);
    assert_float_equal(json_number_value(json_object_get(schedule, "makespan")), 9, 0);
    assert_float_equal(
        json_number_value(json_array_get(json_object_get(schedule, "peak_activation"), 0)), 2, 0);
    json_decref(root);
    outcome_finish(&outcome);
}

/* Older letters, idle cells, blanks, CRLF and transfers: the same order in today's letters. A pair
   becomes its two halves. */
static void canonical(void **state)
{
    static const struct {
        const char *in, *out;
    } files[] = {
        {one_f_one_b, one_f_one_b},
        {"0F0 , 0F1,,0BW0,0BW1\r\n,1F0,1BW0,1F1,1BW1\r\n", one_f_one_b},
        {"0F0,,,3F0,3I0,,,0I0,3W0,0W0\n,1F0,2F0,,,2I0,1I0,2W0,1W0\n",
         "0F0,3F0,3I0,0I0,3W0,0W0\n1F0,2F0,2I0,1I0,2W0,1W0\n"},
        {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1\n"
         "1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1I1,1SEND_B1,1W0,1W1\n",
         "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"},
        {"0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", "0F0,0F1,0B0,0B1\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *in = support_write("in.csv", files[i].in), *out = support_path("out.csv");
        struct outcome outcome = penstock("import", "pytorch-csv", in, "-o", out);
        char *text;

        expect_code(&outcome, 0);
        text = support_read(out);
        assert_string_equal(text, files[i].out);
        free(text);
        outcome_finish(&outcome);
    }
}

/* Export, import, export: nothing changes; and the plan is legal. */
static void planned(void **state)
{
    const char *job = support_write("c.toml", config),
               *in = support_write("a \"b\".csv", one_f_one_b);
    const char *plan = support_path("plan.json"), *out = support_path("again.csv");
    struct outcome outcome = penstock("import", "pytorch-csv", in, "--config", job, "-o", plan);
    char *text;

    (void)state;
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    outcome = penstock("check", plan);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    outcome = penstock("export", "pytorch-csv", plan, "-o", out);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    text = support_read(out);
    assert_string_equal(text, one_f_one_b);
    free(text);
}

static void expect_refusal(const char *words, const char *const *args)
{
    struct outcome outcome = support_run(args);

    expect_code(&outcome, 2);
    expect_text(outcome.err, words);
    outcome_finish(&outcome);
}

#define REFUSED(words, ...) expect_refusal(words, (const char *const[]){__VA_ARGS__, NULL})

static void refusals(void **state)
{
    const char *good = support_write("in.csv", one_f_one_b);
    const char *bad = support_write("bad.csv", "0F0,0B0\n1F0,1B0x\n");
    const char *job = support_write("c.toml", config), *out = support_path("x");

    (void)state;
    REFUSED("did you mean \"pytorch-csv\"", "import", "pytorch-cvs", good);
    REFUSED("FORMAT FILE", "import", "pytorch-csv");
    REFUSED("nope.csv: cannot open", "import", "pytorch-csv", "nope.csv");
    REFUSED("row 2, cell 2", "import", "pytorch-csv", bad, "-o", out);
    REFUSED("there is no --config", "import", "pytorch-csv", good, "--set", "train.batch=4");
    REFUSED("2 rows", "import", "pytorch-csv", good, "--config", job, "-o", out, "--set",
            "cluster.devices=3");
    REFUSED("/nonexistent/x", "import", "pytorch-csv", good, "-o", "/nonexistent/x");
    assert_null(support_read(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shown),   cmocka_unit_test(as_json),  cmocka_unit_test(canonical),
        cmocka_unit_test(planned), cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
