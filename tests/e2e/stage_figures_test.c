/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of stages from the commands that make stages, `penstock partition` and `penstock plan`,
 * and of the memory of one, `penstock memopt`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "expect_error.h"

static void expect_file(const char *path, const char *begin)
{
    char *text = support_read(path);

    assert_non_null(text);
    assert_memory_equal(text, begin, strlen(begin));
    free(text);
}

static void test_partition(void **state)
{
    const char *problem = support_write(
        "problem.json",
        "{\"format\":\"penstock-problem\",\"version\":1,\"devices\":2,\"graph\":{\"batch\":4,"
        "\"nodes\":[{\"name\":\"a\",\"forward_us\":2},{\"name\":\"b\",\"forward_us\":3}],"
        "\"edges\":[{\"from\":\"a\",\"to\":\"b\"}]}}");
    const char *svg = support_path("p.svg"), *png = support_path("p.png");
    struct outcome o = penstock("partition", "uniform", "--problem", problem, "--svg", svg, "--png",
                                png, "--pdf", support_path("p.pdf"));

    (void)state;
    expect_code(&o, 0);
    expect_file(svg, "<?xml");
    expect_file(png, "\x89PNG");
    expect_file(support_path("p.pdf"), "%PDF");
    outcome_finish(&o);
    EXPECT_ERROR(2, "output.write", "/nonexistent", "partition", "uniform", "--problem", problem,
                 "--svg", "/nonexistent/x.svg");
}

static void test_plan(void **state)
{
    const char *svg = support_path("s.svg"), *png = support_path("s.png");
    struct outcome o = penstock("plan", PENSTOCK_SOURCE_DIR "/configs/mmt-graph.toml",
                                "--stages-svg", svg, "--stages-png", png, "--json");
    json_t *root = json_loads(o.out, 0, NULL);

    (void)state;
    expect_code(&o, 0);
    assert_non_null(root);
    expect_file(svg, "<?xml");
    expect_file(png, "\x89PNG");
    json_decref(root);
    outcome_finish(&o);
}

/* Four events of forward and as many of backward, one of them replayed: the pictures are there, and
   the memory of the text is that of the figure. */
static void test_memopt(void **state)
{
    const char *problem = support_write(
        "memory.json",
        "{\"format\":\"penstock-problem\",\"version\":1,\"graph\":{\"batch\":1,\"nodes\":["
        "{\"name\":\"a\",\"forward_us\":1,\"backward_input_us\":2,\"saved_bytes\":8},"
        "{\"name\":\"b\",\"forward_us\":6,\"backward_input_us\":12,\"saved_bytes\":4}],"
        "\"edges\":[{\"from\":\"a\",\"to\":\"b\"}]},\"in_flight\":2,\"static_bytes\":10,"
        "\"memory_bytes\":26}");
    const char *svg = support_path("m.svg"), *png = support_path("m.png");
    struct outcome o = penstock("memopt", "dawnpiper", "--problem", problem, "--svg", svg, "--png",
                                png, "--pdf", support_path("m.pdf"));
    char *first, *again;

    (void)state;
    expect_code(&o, 0);
    expect_file(svg, "<?xml");
    expect_file(png, "\x89PNG");
    expect_file(support_path("m.pdf"), "%PDF");
    first = support_read(svg);
    outcome_finish(&o);
    o = penstock("memopt", "none", "--problem", problem, "--svg", svg);
    expect_code(&o, 1); /* everything kept takes 34: nothing to draw, the file stays */
    outcome_finish(&o);
    again = support_read(svg);
    assert_string_equal(first, again);
    free(first);
    free(again);
    EXPECT_ERROR(2, "output.write", "/nonexistent", "memopt", "dawnpiper", "--problem", problem,
                 "--svg", "/nonexistent/x.svg");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partition),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_memopt),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
