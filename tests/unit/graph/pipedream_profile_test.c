/* SPDX-License-Identifier: Apache-2.0
 *
 * PipeDream's profiles: numbers and their units, what becomes of inputs and of nodes that take
 * nothing, mistakes with their lines.
 */
#include "base/util.h"
#include "exchange/pipedream_profile.h"

#include "test.h"

#include "../../support.h"

#define TIMES(f, b, a, p)                                                                          \
    "forward_compute_time=" #f ", backward_compute_time=" #b ", activation_size=" #a               \
    ", parameter_size=" #p "\n"

/* A made-up classifier whose size and view stand beside the chain; edges and nodes mixed. */
static const char classifier[] =
    "node3 -- Linear(in_features=4, out_features=2, bias=True) -- " TIMES(
        1.5, 4.25, 64.0,
        40.0) "node1 -- Input -- " TIMES(2.0, 0.000, 128,
                                         0.000) "\tnode1 -- node2\r\n"
                                                "\tnode2 -- node5\n"
                                                "node5 -- Size(0) -- " TIMES(
                                                    0.000, 0.000, 4.000,
                                                    0.000) "node2 -- ReLU(inplace) "
                                                           "-- " TIMES(
                                                               1, 2, 256,
                                                               0) "\n"
                                                                  "\tnode2 -- "
                                                                  "node4\n"
                                                                  "\tnode5 -- "
                                                                  "node4\n"
                                                                  "\tnode4 -- "
                                                                  "node3\n"
                                                                  "node4 -- "
                                                                  "View(-1, 4) "
                                                                  "-- " TIMES(
                                                                      0.000, 0.000, 256.000,
                                                                      0.000) "node6 "
                                                                             "-- "
                                                                             "Softma"
                                                                             "x() "
                                                                             "--"
                                                                             " " TIMES(
                                                                                 0.5, 0.5,
                                                                                 [32.0; 16.0; 16],
                                                                                 0.000) "\tno"
                                                                                        "de3 "
                                                                                        "-- "
                                                                                        "node"
                                                                                        "6";

static struct pst_costed *read_text(const char *text, const struct pst_pipedream_options *options,
                                    struct pst_pipedream_summary *summary)
{
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    if (pst_pipedream_read(support_write("small.txt", text), options, &graph, summary, &err) !=
        PST_OK) {
        fail_msg("line %u: %s: %s", err.line, err.kind, err.message);
    }
    return graph;
}

static void expect_names(const struct pst_costed *graph, const char *names)
{
    char all[256] = "";

    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        strcat(all, i == 0 ? "" : " ");
        strcat(all, graph->nodes[i].name);
    }
    assert_string_equal(all, names);
}

TEST(everything_can_be_kept)
{
    const struct pst_pipedream_options options = {.batch = 8, .keep_empty = true};
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = read_text(classifier, &options, &summary);
    const struct pst_costed_node *linear = &graph->nodes[4], *softmax = &graph->nodes[5];

    expect_names(graph, "node1 node2 node5 node4 node3 node6");
    assert_string_equal(graph->name, "small");
    assert_int_equal(graph->batch, 8);
    assert_int_equal(graph->n_edges, 6);
    assert_string_equal(linear->op, "Linear");
    /* Milliseconds; the backward pass is halved where there are parameters. */
    assert_true(linear->ns[0] == 1.5e6 && linear->ns[1] == 2.125e6 && linear->ns[2] == 2.125e6);
    assert_true(linear->param_bytes == 40);
    assert_true(linear->saved_bytes == 64 && linear->output_bytes == 64);
    assert_true(softmax->ns[1] == 0.5e6 && softmax->ns[2] == 0);
    assert_true(softmax->saved_bytes == 64); /* 32 + 16 + 16 */
    assert_true(graph->edges[5].bytes == 64);
    assert_int_equal(summary.n_inputs, 1);
    assert_int_equal(summary.n_collapsed, 0);
    pst_costed_destroy(graph);
}

/* Size becomes part of View, and View, which then has one consumer, of Linear. */
TEST(nodes_that_take_nothing_are_collapsed)
{
    const struct pst_pipedream_options options = {.batch = 8};
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = read_text(classifier, &options, &summary);

    expect_names(graph, "node1 node2 node3 node6");
    assert_int_equal(summary.n_nodes, 6);
    assert_int_equal(summary.n_edges, 6);
    assert_int_equal(summary.n_collapsed, 2);
    assert_int_equal(graph->n_edges, 3);
    assert_true(graph->edges[1].from == 1 && graph->edges[1].to == 2);
    assert_true(graph->edges[1].bytes == 256);                /* once, not by both ways */
    assert_true(graph->nodes[2].saved_bytes == 64 + 256 + 4); /* nothing is lost */
    assert_true(graph->nodes[2].output_bytes == 64);
    assert_non_null(strstr(graph->notes, "part of their one consumer"));
    assert_non_null(strstr(graph->notes, "loading data"));
    pst_costed_destroy(graph);
}

TEST(inputs_can_be_dropped)
{
    const struct pst_pipedream_options options = {.batch = 8, .drop_inputs = true};
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = read_text(classifier, &options, &summary);

    expect_names(graph, "node2 node3 node6");
    assert_int_equal(graph->n_edges, 2);
    assert_int_equal(summary.n_inputs, 1);
    assert_non_null(strstr(graph->notes, "left out"));
    pst_costed_destroy(graph);
}

/*
 * What picks a part of an output (0 and 1 here) is read by one and by two. The first becomes part
 * of its reader, to which only its 10 bytes are sent; the second stays.
 */
TEST(parts_of_an_output_stay_parts)
{
    static const char text[] =
        "lstm -- LSTM(8, 8) -- " TIMES(1, 1, [10; 90], 8) "first -- __getitem__(0) -- " TIMES(
            0, 0, 10,
            0) "second -- __getitem__(1) -- " TIMES(0, 0, 90,
                                                    0) "a -- Linear() -- " TIMES(1, 1, 1,
                                                                                 1) "b -- Linear() "
                                                                                    "-- " TIMES(
                                                                                        1, 1, 1,
                                                                                        1) "\tlstm "
                                                                                           "-- "
                                                                                           "first\n"
                                                                                           "\tlstm "
                                                                                           "-- "
                                                                                           "second"
                                                                                           "\n\tfir"
                                                                                           "st -- "
                                                                                           "a\n\tse"
                                                                                           "cond "
                                                                                           "-- "
                                                                                           "a\n\tse"
                                                                                           "cond "
                                                                                           "-- b\n";
    const struct pst_pipedream_options options = {.batch = 1};
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = read_text(text, &options, &summary);

    expect_names(graph, "lstm second a b");
    assert_int_equal(summary.n_collapsed, 1);
    assert_int_equal(graph->n_edges, 4);
    assert_true(graph->edges[0].to == 1 && graph->edges[0].bytes == 100);
    assert_true(graph->edges[1].to == 2 && graph->edges[1].bytes == 10);
    pst_costed_destroy(graph);
}

TEST(stages_are_counted_not_read)
{
    static const char text[] =
        "a -- ReLU() -- forward_compute_time=1, backward_compute_time=1, activation_size=1, "
        "parameter_size=0 -- stage_id=3\n";
    const struct pst_pipedream_options options = {.batch = 1};
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = read_text(text, &options, &summary);

    assert_int_equal(summary.n_staged, 1);
    pst_costed_destroy(graph);
}

#define A "a -- ReLU() -- " TIMES(1, 1, 1, 0)
#define B "b -- ReLU() -- " TIMES(1, 1, 1, 0)

static const struct {
    const char *text, *kind, *words;
    uint32_t line;
} refusals[] = {
    {"", "graph.empty", "no node", 0},
    {"\n\n", "graph.empty", "no node", 0},
    {"nonsense\n", "input.syntax", "neither", 1},
    {A "b -- ReLU()\n", "input.syntax", "no measures", 2},
    {A "b -- ReLU() -- forward_time=1\n", "input.syntax", "\"forward_time\" is no measure", 2},
    {A "b -- ReLU() -- forward_compute_time=1\n", "input.syntax", "backward_compute_time is missing",
     2},
    {A "b -- ReLU() -- forward_compute_time\n", "input.syntax", "forward_compute_time has no value",
     2},
    {A "b -- ReLU() -- forward_compute_time=1, \n", "input.syntax", "backward_compute_time is missing",
     2},
    {A "b -- ReLU() -- forward_compute_time=1, forward_compute_time=1\n", "input.syntax", "twice",
     2},
    {"a -- ReLU() -- " TIMES(nan, 1, 1, 0), "input.syntax",
     "node \"a\": forward_compute_time must be", 1},
    {"a -- ReLU() -- " TIMES(1, -1, 1, 0), "input.syntax", "backward_compute_time must be", 1},
    {"a -- ReLU() -- " TIMES(1, 1, [1; 2, 0), "input.syntax", "activation_size must be", 1},
    {"a -- ReLU() -- " TIMES(1, 1, 1e300, 0), "input.syntax", "activation_size must be", 1},
    {"a -- ReLU() -- " TIMES(1, 1 x, 1, 0), "input.syntax", "expected a comma", 1},
    {A B A, "graph.duplicate", "\"a\"", 3},
    {A "\ta -- c\n", "graph.edge", "no line is about node \"c\"", 2},
    {A "\ta\n", "input.syntax", "an edge is a tab", 2},
    {A "\ta -- a\n", "graph.edge", "to itself", 2},
    {A B "\ta -- b\n\tb -- a\n", "graph.cycle", "a -> b -> a", 0},
    {A "\xff\n", "input.syntax", "UTF-8", 2},
};

TEST(mistakes_have_lines)
{
    const struct pst_pipedream_options options = {.batch = 1};

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct pst_pipedream_summary summary;
        struct pst_costed *graph = NULL;
        struct pst_error err = {0};
        const char *path = support_write("wrong.txt", refusals[i].text);

        if (pst_pipedream_read(path, &options, &graph, &summary, &err) != PST_ERR_CONFIG ||
            strcmp(err.kind, refusals[i].kind) != 0 || err.line != refusals[i].line ||
            strstr(err.message, refusals[i].words) == NULL) {
            fail_msg("%s\ngives line %u: %s: %s\nexpected line %u: %s: %s", refusals[i].text,
                     err.line, err.kind, err.message, refusals[i].line, refusals[i].kind,
                     refusals[i].words);
        }
        assert_string_equal(err.file, path);
    }
}

/* Cut off anywhere: read or refused, but never read beyond its end. */
TEST(truncated_files_do_no_harm)
{
    const struct pst_pipedream_options options = {.batch = 1};
    char part[sizeof classifier];

    for (size_t n = 0; n < sizeof classifier; n++) {
        struct pst_pipedream_summary summary;
        struct pst_costed *graph = NULL;

        memcpy(part, classifier, n);
        part[n] = '\0';
        if (pst_pipedream_read(support_write("part.txt", part), &options, &graph, &summary, NULL) ==
            PST_OK) {
            assert_true(graph->n_nodes >= 1);
        }
        pst_costed_destroy(graph);
    }
}

TEST_GROUP(support_begin, support_end)
