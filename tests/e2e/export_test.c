/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock export`: files of every format from a config and from a plan, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

static const char config[] = "[model]\nuse = \"mlp\"\n\n"
                             "[data]\nkind = \"synthetic\"\n\n"
                             "[train]\nbatch = 8\nmicrobatch = 2\n\n"
                             "[cluster]\ndevices = 2\n\n"
                             "[partitioner]\nuse = \"uniform\"\n\n"
                             "[scheduler]\nuse = \"gpipe\"\n\n[[memopt]]\nuse = \"none\"\n";

static void run_ok(const char *const *args)
{
    struct outcome outcome = support_run(args);

    expect_code(&outcome, 0);
    outcome_finish(&outcome);
}

#define RUN(...) run_ok((const char *const[]){__VA_ARGS__, NULL})

static void expect_refusal(int code, const char *words, const char *const *args)
{
    struct outcome outcome = support_run(args);

    expect_code(&outcome, code);
    expect_text(outcome.err, words);
    outcome_finish(&outcome);
}

#define REFUSED(code, words, ...)                                                                  \
    expect_refusal(code, words, (const char *const[]){__VA_ARGS__, NULL})

/* All forwards, then all backwards. */
static void torch_csv(void **state)
{
    const char *path = support_write("c.toml", config), *out = support_path("order.csv");
    char *text;

    (void)state;
    RUN("export", "pytorch-csv", path, "-o", out);
    text = support_read(out);
    assert_string_equal(text, "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n");
    free(text);
    RUN("export", "pytorch-csv", path, "-o", out, "--flavour", "comms");
    text = support_read(out);
    assert_string_equal(text, "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,"
                              "0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3\n"
                              "1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2,1RECV_F3,1F3,"
                              "1B0,1SEND_B0,1B1,1SEND_B1,1B2,1SEND_B2,1B3,1SEND_B3\n");
    free(text);
}

/* The same bytes from the config and from its plan file. */
static void from_a_plan(void **state)
{
    const char *path = support_write("c.toml", config), *plan = support_path("plan.json");
    static const char *const formats[] = {"pytorch-csv", "chrome-trace", "svg", "png", "pdf"};

    (void)state;
    RUN("plan", path, "-o", plan);
    for (size_t i = 0; i < 5; i++) {
        const char *first = support_path("first"), *second = support_path("second");
        char command[400];

        RUN("export", formats[i], path, "-o", first);
        RUN("export", formats[i], plan, "-o", second);
        snprintf(command, sizeof command, "cmp '%s' '%s'", first, second);
        assert_int_equal(system(command), 0);
    }
}

static void trace(void **state)
{
    const char *path = support_write("c.toml", config), *out = support_path("t.json");
    json_t *root, *events, *event;
    size_t i, n_passes = 0;

    (void)state;
    RUN("export", "chrome-trace", path, "-o", out);
    root = json_load_file(out, 0, NULL);
    assert_non_null(root);
    events = json_object_get(root, "traceEvents");
    json_array_foreach(events, i, event)
    {
        const char *category = json_string_value(json_object_get(event, "cat"));

        n_passes += category != NULL && (strcmp(category, "F") == 0 || strcmp(category, "BW") == 0);
    }
    assert_int_equal(n_passes, 2 * 2 * 4);
    assert_non_null(
        json_string_value(json_object_get(json_object_get(root, "otherData"), "plan_digest")));
    json_decref(root);
}

static void dropped_actions(void **state)
{
    const char *path = support_write("c.toml", config), *out = support_path("order.csv");
    struct outcome outcome =
        penstock("export", "pytorch-csv", path, "-o", out, "--json", "--set", "memopt.0.use=full");
    json_t *answer;

    (void)state;
    expect_code(&outcome, 0);
    answer = json_loads(outcome.out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(answer, "format")), "pytorch-csv");
    assert_string_equal(json_string_value(json_object_get(answer, "flavour")), "compute");
    assert_string_equal(json_string_value(json_object_get(answer, "file")), out);
    assert_true(json_integer_value(json_object_get(answer, "dropped")) > 0);
    json_decref(answer);
    outcome_finish(&outcome);
}

static void refusals(void **state)
{
    const char *path = support_write("c.toml", config), *out = support_path("x");

    (void)state;
    REFUSED(2, "did you mean \"svg\"", "export", "svgs", path, "-o", out);
    REFUSED(2, "no format \"tikz-picture\"", "export", "tikz-picture", path, "-o", out);
    REFUSED(2, "writes no html", "export", "html", path, "-o", out);
    REFUSED(2, "-o FILE is missing", "export", "svg", path);
    REFUSED(2, "CONFIG|PLAN", "export", "svg");
    REFUSED(2, "did you mean \"comms\"", "export", "pytorch-csv", path, "-o", out, "--flavour",
            "coms");
    REFUSED(2, "only pytorch-csv", "export", "svg", path, "-o", out, "--flavour", "comms");
    REFUSED(2, "--width", "export", "svg", path, "-o", out, "--width", "wide");
    REFUSED(2, "200 to 14000", "export", "svg", path, "-o", out, "--width", "20");
    REFUSED(2, "/nonexistent/x", "export", "svg", path, "-o", "/nonexistent/x");
    assert_null(support_read(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_csv), cmocka_unit_test(from_a_plan),     cmocka_unit_test(trace),
        cmocka_unit_test(refusals),  cmocka_unit_test(dropped_actions),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
