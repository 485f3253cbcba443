/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock import pipedream-profile`: what it writes and says, which requests it refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "expect_error.h"
#include "support.h"

static const char profile[] =
    "node1 -- Input -- forward_compute_time=1.000, backward_compute_time=0.000, "
    "activation_size=96.000, parameter_size=0.000\n"
    "node2 -- Linear(8, 8) -- forward_compute_time=2.000, backward_compute_time=3.000, "
    "activation_size=64.000, parameter_size=256.000\n"
    "node3 -- View(-1) -- forward_compute_time=0.000, backward_compute_time=0.000, "
    "activation_size=64.000, parameter_size=0.000\n"
    "node4 -- Linear(8, 2) -- forward_compute_time=2.000, backward_compute_time=4.000, "
    "activation_size=16.000, parameter_size=64.000\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";

static double number(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);

    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void test_graph_is_written(void **state)
{
    const char *file = support_write("net.txt", profile), *graph = support_path("net.json");
    struct outcome o = penstock("import", "pipedream-profile", file, "--batch", "4", "--inputs",
                                "drop", "-o", graph, "--json");
    json_t *root = json_loads(o.out, 0, NULL), *written;
    char *text = support_read(graph);

    (void)state;
    expect_code(&o, 0);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "file")), graph);
    assert_true(number(root, "batch") == 4 && number(root, "nodes") == 2);
    assert_true(number(root, "edges") == 1 && number(root, "profile_nodes") == 4);
    assert_true(number(root, "collapsed") == 1 && number(root, "inputs_dropped") == 1);
    assert_true(number(root, "forward_us") == 4000 && number(root, "backward_us") == 7000);
    assert_true(number(root, "param_bytes") == 320);
    assert_true(number(root, "saved_bytes") == 64 + 64 + 16);
    assert_non_null(text);
    written = json_loads(text, 0, NULL);
    assert_non_null(written);
    assert_string_equal(json_string_value(json_object_get(written, "format")), "penstock-graph");
    assert_int_equal(json_array_size(json_object_get(written, "nodes")), 2);
    json_decref(root);
    json_decref(written);
    free(text);
    outcome_finish(&o);
}

static void test_words(void **state)
{
    const char *file = support_write("net.txt", profile);
    struct outcome o = penstock("import", "pipedream-profile", file, "-b", "4");

    (void)state;
    expect_code(&o, 0);
    expect_text(o.out, "net: 3 nodes, 2 edges, 4 samples");
    expect_text(o.out, "forward 5.00 ms, backward 7.00 ms");
    expect_text(o.out, "from 4 nodes and 3 edges; without time and parameters");
    outcome_finish(&o);
}

static void test_requests_refused(void **state)
{
    const char *file = support_write("net.txt", profile);
    const char *wrong = support_write("wrong.txt", "node1 -- ReLU\n");

    (void)state;
    EXPECT_ERROR(2, "usage", "--batch is missing", "import", "pipedream-profile", file);
    EXPECT_ERROR(2, "usage", "--batch must be", "import", "pipedream-profile", file, "--batch",
                 "0");
    EXPECT_ERROR(2, "usage", "--inputs must be", "import", "pipedream-profile", file, "--batch",
                 "1", "--inputs", "some");
    EXPECT_ERROR(2, "usage", "no config is read", "import", "pipedream-profile", file, "--batch",
                 "1", "--config", "x.toml");
    EXPECT_ERROR(2, "usage", "are about profiles", "import", "pytorch-csv", file, "--batch", "1");
    EXPECT_ERROR(2, "usage", "did you mean", "import", "pipedream-profil", file);
    EXPECT_ERROR(2, "input.syntax", "has no measures", "import", "pipedream-profile", wrong,
                 "--batch", "1");
    EXPECT_ERROR(2, "input.path", "none.txt", "import", "pipedream-profile",
                 support_path("none.txt"), "--batch", "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_is_written),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_requests_refused),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
