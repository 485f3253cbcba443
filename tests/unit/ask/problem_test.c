/* SPDX-License-Identifier: Apache-2.0
 *
 * Problem files: what is read, what stands in where nothing is said, what is refused.
 */
#include "base/util.h"
#include "ask/problem_file.h"

#include <penstock/ext/profile.h>

#include <math.h>
#include "test.h"

#include "../../support.h"

#define HEAD  "{\"format\":\"penstock-problem\",\"version\":1,"
#define GRAPH "\"graph\":{\"batch\":12,\"nodes\":[{\"name\":\"a\",\"param_bytes\":5}]}"

static struct pst_problem *read_text(const char *text)
{
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};

    if (pst_problem_read(support_write("problem.json", text), &problem, &err) != PST_OK) {
        fail_msg("%s: %s", err.kind, err.message);
    }
    return problem;
}

TEST(little_suffices)
{
    struct pst_problem *problem = read_text(HEAD "\"devices\":3," GRAPH "}");

    assert_int_equal(problem->n_devices, 3);
    assert_int_equal(problem->node_size, 0);
    assert_true(isinf(problem->memory_bytes));
    assert_int_equal(problem->mini_batch, 12);
    assert_int_equal(problem->n_micro_batches, 3); /* 1, 2, 4 divide 12 */
    assert_int_equal(problem->micro_batches[2], 4);
    assert_int_equal(problem->n_degrees, 1);
    assert_int_equal(problem->degrees[0], 1);
    assert_true(problem->weight_multiplier == 4);
    assert_true(problem->p2p_bandwidth == 0 && problem->allreduce_bandwidth == 0);
    assert_int_equal(problem->comm_model, PST_COMM_NONE);
    assert_false(problem->planned);
    assert_null(problem->scheduler);
    assert_null(problem->options);
    assert_int_equal(problem->in_flight, 1);
    assert_true(problem->static_bytes == 20);
    assert_int_equal(problem->staging, 2);
    assert_int_equal(problem->link_directions, 1); /* like [cluster] */
    assert_int_equal(problem->stage_samples, 12);
    pst_problem_destroy(problem);
}

/* One stage is asked about for any size, the first that is named. */
TEST(sizes_of_a_stage)
{
    struct pst_problem *problem =
        read_text(HEAD "\"in_flight\":2,\"micro_batches\":[48,6]," GRAPH "}");

    assert_int_equal(problem->stage_samples, 48);
    pst_problem_destroy(problem);
    problem = read_text(HEAD "\"in_flight\":2,\"micro_batches\":5," GRAPH "}");
    assert_int_equal(problem->stage_samples, 5);
    pst_problem_destroy(problem);
}

static void check_all(const struct pst_problem *problem)
{
    assert_int_equal(problem->node_size, 4);
    assert_true(problem->memory_bytes == 1e9);
    assert_int_equal(problem->mini_batch, 24);
    assert_int_equal(problem->n_micro_batches, 2);
    assert_int_equal(problem->micro_batches[0], 2);
    assert_int_equal(problem->micro_batches[1], 6);
    assert_int_equal(problem->n_degrees, 2);
    assert_int_equal(problem->degrees[0], 1);
    assert_int_equal(problem->degrees[1], 4);
    assert_true(problem->weight_multiplier == 2 && problem->p2p_bandwidth == 1e6);
    assert_int_equal(problem->comm_model, PST_COMM_MAX);
    assert_true(problem->planned);
    assert_string_equal(problem->scheduler, "s");
    assert_string_equal(problem->memopt, "m");
    assert_int_equal(json_integer_value(json_object_get(problem->scheduler_options, "k")), 1);
    assert_null(problem->memopt_options);
    assert_int_equal(json_integer_value(json_object_get(problem->options, "x")), 2);
    assert_int_equal(problem->in_flight, 3);
    assert_true(problem->static_bytes == 7 && problem->input_bytes == 8);
    assert_true(problem->swap_bandwidth == 9);
    assert_int_equal(problem->link_directions, 1);
    assert_int_equal(problem->staging, 4);
}

/* The second one is as a plugin's process gets it. */
TEST(all_is_read_and_written)
{
    struct pst_problem *again = NULL;
    struct pst_problem *problem = read_text(
        HEAD "\"name\":\"p\",\"notes\":\"n\",\"devices\":8,\"node_size\":4,\"memory_bytes\":1e9,"
             "\"mini_batch\":24,\"micro_batches\":[6,2,6],\"degrees\":[4,1],"
             "\"weight_multiplier\":2,\"p2p_bandwidth\":1e6,\"allreduce_bandwidth\":null,"
             "\"comm_model\":\"max\",\"cost\":\"planned\",\"scheduler\":\"s\",\"memopt\":\"m\","
             "\"scheduler_options\":{\"k\":1},\"options\":{\"x\":2},\"in_flight\":3,"
             "\"static_bytes\":7,\"input_bytes\":8,\"swap_bandwidth\":9,\"link_directions\":1,"
             "\"staging\":4," GRAPH "}");
    char *text = pst_problem_write(problem);

    check_all(problem);
    assert_int_equal(pst_problem_parse(text, &again, NULL), PST_OK);
    check_all(again);
    assert_true(again->graph->digest == problem->graph->digest);
    free(text);
    pst_problem_destroy(again);
    pst_problem_destroy(problem);
}

TEST(a_graph_file_stands_beside)
{
    struct pst_problem *problem;

    support_write("beside.json", "{\"format\":\"penstock-graph\",\"version\":1,\"batch\":2,"
                                 "\"nodes\":[{\"name\":\"z\"}]}");
    problem = read_text(HEAD "\"devices\":1,\"graph_file\":\"beside.json\"}");
    assert_string_equal(problem->graph->nodes[0].name, "z");
    assert_int_equal(problem->mini_batch, 2);
    pst_problem_destroy(problem);
}

/* One stage's memory is asked about: no devices. */
TEST(a_question_of_memory_needs_no_devices)
{
    struct pst_problem *problem = read_text(HEAD "\"in_flight\":2," GRAPH "}");

    assert_int_equal(problem->n_devices, 1);
    assert_false(problem->no_devices);
    pst_problem_destroy(problem);
    problem = read_text(HEAD "\"micro_batches\":[5]," GRAPH "}");
    assert_int_equal(problem->in_flight, 1);
    assert_int_equal(problem->stage_samples, 5);
    assert_true(problem->no_devices); /* so nothing can be cut */
    pst_problem_destroy(problem);
}

static const struct {
    const char *text, *kind, *words;
} refusals[] = {
    {"{\"format\":\"penstock-graph\",\"version\":1}", "input.syntax", "penstock-problem"},
    {HEAD "\"devices\":1}", "config.key", "\"graph\" or \"graph_file\" is missing"},
    {HEAD "\"devices\":1,\"graph_file\":\"x.json\"," GRAPH "}", "config.key", "exclude"},
    {HEAD "\"devices\":1,\"graph_file\":\"../x.json\"}", "config.value", "leads out"},
    {HEAD "\"devices\":1,\"graph_file\":\"a/../../x.json\"}", "config.value", "leads out"},
    {HEAD "\"devices\":1,\"graph_file\":\"/etc/passwd\"}", "config.value", "relative"},
    {HEAD "\"devices\":0," GRAPH "}", "config.value", "devices: must be a number from 1"},
    {HEAD "\"device\":1," GRAPH "}", "config.key", "did you mean \"devices\"?"},
    {HEAD "\"devices\":1,\"mini_batch\":0," GRAPH "}", "config.value", "mini_batch"},
    {HEAD "\"devices\":1,\"micro_batches\":[2,13]," GRAPH "}", "config.value",
     "13 is more than mini_batch, which is 12"},
    {HEAD "\"devices\":1,\"micro_batches\":[]," GRAPH "}", "config.value", "micro_batches"},
    {HEAD "\"devices\":1,\"micro_batches\":[0]," GRAPH "}", "config.value", "micro_batches"},
    {HEAD "\"devices\":1,\"degrees\":[1.5]," GRAPH "}", "config.value", "degrees"},
    {HEAD "\"devices\":1,\"p2p_bandwidth\":0," GRAPH "}", "config.value", "null means free"},
    {HEAD "\"devices\":1,\"allreduce_bandwidth\":-1," GRAPH "}", "config.value", "null means free"},
    {HEAD "\"devices\":1,\"comm_model\":\"som\"," GRAPH "}", "config.value",
     "\"som\" is none of none, sum, max; did you mean \"sum\"?"},
    {HEAD "\"devices\":1,\"cost\":\"plan\"," GRAPH "}", "config.value", "reference, planned"},
    {HEAD "\"devices\":1,\"scheduler\":\"x\"," GRAPH "}", "config.value", "scheduler: counts only"},
    {HEAD "\"devices\":1,\"options\":[]," GRAPH "}", "config.value", "options: must be an object"},
    {HEAD "\"devices\":1,\"memory_bytes\":-1," GRAPH "}", "config.value", "memory_bytes"},
    {HEAD "\"devices\":1,\"graph\":{\"nodes\":[{\"name\":\"a\",\"forward_us\":-2}]}}",
     "config.value", "graph.nodes[0].forward_us"},
    {HEAD "\"devices\":1,\"graph\":{\"nodes\":[{\"name\":\"a\"},{\"name\":\"a\"}]}}",
     "graph.duplicate", "graph.nodes[1].name"},
    {HEAD "\"devices\":1,\"graph\":{\"nodes\":[]}}", "graph.empty", "graph.nodes"},
};

TEST(wrong_files_are_refused)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct pst_problem *problem = NULL;
        struct pst_error err = {0};
        const char *path = support_write("wrong.json", refusals[i].text);

        if (pst_problem_read(path, &problem, &err) != PST_ERR_CONFIG ||
            strcmp(err.kind, refusals[i].kind) != 0 ||
            strstr(err.message, refusals[i].words) == NULL) {
            fail_msg("%s\ngives %s: %s\nexpected %s: %s", refusals[i].text, err.kind, err.message,
                     refusals[i].kind, refusals[i].words);
        }
        assert_string_equal(err.file, path);
    }
}

/* The message is about the graph's file then. */
TEST(faults_in_the_graph_file_name_it)
{
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};
    const char *path = support_write("p.json", HEAD "\"devices\":1,\"graph_file\":\"g.json\"}");

    support_write("g.json", "{");
    assert_int_equal(pst_problem_read(path, &problem, &err), PST_ERR_CONFIG);
    assert_string_equal(err.file, support_path("g.json"));
    assert_int_equal(err.line, 1);
}

TEST_GROUP(support_begin, support_end)
