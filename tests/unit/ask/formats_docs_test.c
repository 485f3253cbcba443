/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples of docs/formats.md are what the readers read.
 */
#include "base/util.h"
#include "ask/problem_file.h"
#include "models/costed/costed_file.h"

#include "test.h"

#include "../../support.h"

/* The n-th block of JSON of the page, written into the test's folder under `name`. */
static const char *example(int n, const char *name)
{
    char *page = support_read(PENSTOCK_SOURCE_DIR "/docs/formats.md"), *begin = page, *end;
    const char *path;

    assert_non_null(page);
    for (int i = 0; i <= n; i++) {
        begin = strstr(begin, "```json\n");
        assert_non_null(begin);
        begin += strlen("```json\n");
    }
    end = strstr(begin, "```");
    assert_non_null(end);
    *end = '\0';
    path = support_write(name, begin);
    free(page);
    return path;
}

TEST(examples_are_read)
{
    struct pst_costed *graph = NULL;
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};

    assert_ok(pst_costed_read(example(0, "two-towers.json"), &graph, &err), &err);
    assert_int_equal(graph->n_nodes, 3);
    assert_ok(pst_problem_read(example(1, "problem.json"), &problem, &err), &err);
    assert_true(problem->graph->digest == graph->digest);
    pst_costed_destroy(graph);
    pst_problem_destroy(problem);
}

TEST_GROUP(support_begin, support_end)
