/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock partition`: answers, parameters, what plugins may ask and remark, and every refusal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "partition_rig.h"

#define LIAR GALLERY "/partitioner-liar.so"

#define NODE(name)                                                                                 \
    "{\"name\":\"" name "\",\"forward_us\":2,\"backward_input_us\":2,\"backward_weight_us\":2,"    \
    "\"saved_bytes\":4}"
#define EDGE(from, to) "{\"from\":\"" from "\",\"to\":\"" to "\",\"bytes\":2}"

/* Four nodes of 6 us and 4 saved bytes in a row; `rest` states the devices. */
static const char *chain(const char *rest)
{
    static char text[4096];

    snprintf(text, sizeof text,
             HEAD
             "%s,\"graph\":{\"format\":\"penstock-graph\",\"version\":1,\"batch\":1,\"nodes\":["
             "%s,%s,%s,%s],\"edges\":[%s,%s,%s]}}",
             rest, NODE("a"), NODE("b"), NODE("c"), NODE("d"), EDGE("a", "b"), EDGE("b", "c"),
             EDGE("c", "d"));
    return support_write("chain.json", text);
}

static const char *file(const char *text)
{
    return support_write("problem.json", text);
}

/* Two stages of two nodes; b = 2, so the first holds two micro-batches: 2 x 2 x (4 + 4) bytes. */
static void all_fields(void **state)
{
    struct outcome o =
        penstock("partition", "uniform", "--json", "--problem",
                 chain("\"devices\":2,\"mini_batch\":8,\"micro_batches\":[2],\"memory_bytes\":32"));
    json_t *root, *stages, *first, *last;

    (void)state;
    expect_code(&o, 0);
    root = object_of(&o);
    assert_string_equal(json_string_value(json_object_get(root, "partitioner")), "uniform");
    assert_true(json_is_true(json_object_get(root, "feasible")));
    stages = json_object_get(root, "stages");
    assert_int_equal(json_array_size(stages), 2);
    first = json_array_get(stages, 0);
    last = json_array_get(stages, 1);
    expect_number(first, "id", 0);
    expect_list(first, "nodes", "[\"a\",\"b\"]");
    expect_list(first, "devices", "[0]");
    expect_list(first, "successors", "[1]");
    expect_number(first, "microbatch_size", 2);
    expect_number(first, "in_flight_samples", 4);
    expect_number(first, "compute_us", 24);
    expect_number(first, "memory_bytes", 32);
    expect_list(last, "successors", "[]");
    expect_list(last, "devices", "[1]");
    expect_number(last, "in_flight_samples", 2);
    expect_number(last, "memory_bytes", 16);
    expect_number(root, "bottleneck_us_per_sample", 12);
    expect_number(root, "step_us", (4 + 1) * 24);
    expect_number(root, "devices_idle", 0);
    expect_number(root, "depth", 2);
    expect_number(root, "peak_bytes", 32);
    assert_true(json_number_value(json_object_get(root, "search_seconds")) >= 0);
    json_decref(root);
    outcome_finish(&o);
}

static void for_people(void **state)
{
    const char *problem = chain("\"devices\":3,\"mini_batch\":8,\"micro_batches\":[2],"
                                "\"options\":{\"stages\":\"a;*\"}");
    struct outcome o = penstock("partition", "manual", "--problem", problem);

    (void)state;
    expect_code(&o, 0);
    expect_text(o.out, "b ... d");
    expect_text(o.out, "18 us a sample: stage 1");
    expect_text(o.out, "2 of 3");
    assert_string_equal(o.err, "");
    outcome_finish(&o);
    /* What the command line says takes the place of what the file says. */
    o = penstock("partition", "manual", "--problem", problem, "--options", "stages=\"a,b,c;*\"");
    expect_code(&o, 0);
    expect_text(o.out, "a ... c");
    outcome_finish(&o);
}

/* Every shipped partitioner of a plain kind answers a plain problem. */
static void shipped(void **state)
{
    static const char *const names[] = {"uniform", "chain-dp"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct outcome o = penstock("partition", names[i], "--json", "--problem",
                                    chain("\"devices\":4,\"mini_batch\":8"));
        json_t *root;

        expect_code(&o, 0);
        root = object_of(&o);
        expect_number(root, "bottleneck_us_per_sample", 6);
        json_decref(root);
        outcome_finish(&o);
    }
}

/* The shipped example: branches side by side leave memory for micro-batches of 4 instead of 2, and
   the fixed 8 us of an operator are paid half as often: 6 + 8 / 4 against 6 + 8 / 2. */
static void example(void **state)
{
    static const struct {
        const char *name;
        double us;
    } cases[] = {{"graphpipe", 8}, {"chain-dp", 10}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct outcome o = penstock("partition", cases[i].name, "--json", "--problem",
                                    PENSTOCK_SOURCE_DIR "/configs/problems/two-branches.json");
        json_t *root;

        expect_code(&o, 0);
        root = object_of(&o);
        expect_number(root, "bottleneck_us_per_sample", cases[i].us);
        json_decref(root);
        outcome_finish(&o);
    }
}

/* --- what plugins ask and remark ---------------------------------------------------------------*/

#define ASKED                                                                                      \
    HEAD "\"devices\":4,\"node_size\":2,\"memory_bytes\":200,\"mini_batch\":16,"                   \
         "\"micro_batches\":[4],\"weight_multiplier\":3,\"p2p_bandwidth\":1e9,"                    \
         "\"allreduce_bandwidth\":2e9,\"comm_model\":\"sum\",\"graph\":{\"batch\":2,\"nodes\":["   \
         "{\"name\":\"a\",\"forward_us\":2,\"backward_input_us\":4,\"backward_weight_us\":6,"      \
         "\"fixed_us\":6,\"saved_bytes\":3,\"param_bytes\":10,\"workspace_bytes\":7},"             \
         "{\"name\":\"b\",\"configs\":[{\"name\":\"again\",\"tensor_degree\":1,\"time_us\":8,"     \
         "\"param_bytes\":1,\"in_flight_bytes\":6,\"fixed_bytes\":5}]}],"                          \
         "\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"bytes\":5}]}}"

static void expect_asked(const json_t *root)
{
    /* 3 samples: 1.5 times the batch; 6 us once, shared as 2 : 4 : 6 */
    expect_number(root, "f_ns", 3000 + 1000);
    expect_number(root, "b_ns", 6000 + 2000);
    expect_number(root, "w_ns", 9000 + 3000);
    expect_number(root, "comm_model", 1);
    assert_true(json_is_true(json_object_get(root, "reference")));
    expect_number(root, "node_size", 2);
    expect_number(root, "weight_multiplier", 3);
    expect_number(root, "p2p", 1e9);
    expect_number(root, "allreduce", 2e9);
    expect_number(root, "saved", 1.5);
    expect_number(root, "edge", 2.5);
    expect_number(root, "topology", 0);
    /* successors hold 8 and 6 samples, one of them with 4 at a time: 8 + 4 = 12, in twos */
    expect_number(root, "held", 6);
    /* two ranks, 4 samples over both: 2 each: 12 + 6 us; 3 x 10 + 1.5 x 12 / 2 + 7 bytes */
    expect_number(root, "price_period", 18000);
    expect_number(root, "bound", 18000);
    expect_number(root, "price_peak", 46);
    assert_true(json_is_true(json_object_get(root, "price_fits")));
    expect_number(root, "compute_f", 4000 + 1000);
    expect_number(root, "transfer", 1000);
    expect_number(root, "sum_up", 2 * 3 / 4.0 * 500);
    expect_number(root, "n_configs", 1);
    assert_string_equal(json_string_value(json_object_get(root, "config_name")), "again");
    expect_number(root, "config_ns", 4000);
    expect_number(root, "config_in_flight", 3);
    expect_number(root, "config_fixed", 5);
    assert_string_equal(json_string_value(json_object_get(root, "twice")), "last");
    assert_null(json_object_get(root, "No Key"));
    assert_null(json_object_get(root, ""));
    assert_true(json_number_value(json_object_get(root, "step_us")) > 0);
}

/* The plugin lies outside of the program's folder, so it runs in a process of its own. */
static void questions(void **state)
{
    struct outcome o = penstock("partition", ASKER, "--json", "--problem", file(ASKED));
    json_t *root;

    (void)state;
    expect_code(&o, 0);
    root = object_of(&o);
    assert_string_equal(json_string_value(json_object_get(root, "partitioner")), "asker");
    expect_asked(root);
    /* 4 samples: 24 + 6 us of a */
    expect_number(root, "bottleneck_us_per_sample", 30 / 4.0);
    assert_null(json_object_get(root, "reference_us_per_sample"));
    json_decref(root);
    outcome_finish(&o);
}

static void own_objective(void **state)
{
    struct outcome o = penstock("partition", ASKER, "--json", "--options", "objective=true",
                                "--problem", file(ASKED));
    json_t *root;

    (void)state;
    expect_code(&o, 0);
    root = object_of(&o);
    expect_number(root, "bottleneck_us_per_sample", 12.5);
    expect_number(root, "reference_us_per_sample", 30 / 4.0);
    json_decref(root);
    outcome_finish(&o);
    o = penstock("partition", ASKER, "--options", "objective=true", "--problem", file(ASKED));
    expect_code(&o, 0);
    expect_text(o.out, "12.5 us a sample by the partitioner's own objective");
    expect_text(o.out, "twice: last");
    outcome_finish(&o);
}

/* --- refusals ----------------------------------------------------------------------------------*/

static void misbehaviour(void **state)
{
    struct outcome o = penstock("partition", ASKER, "--options", "way=hang", "--time-limit",
                                "50 ms", "--problem", file(ASKED));

    (void)state;
    expect_code(&o, 3);
    expect_text(o.err, "--time-limit");
    outcome_finish(&o);
    EXPECT_ERROR(3, "plugin.crash", "asker", "partition", ASKER, "--options", "way=crash",
                 "--problem", file(ASKED));
    EXPECT_ERROR(3, "plugin.contract", "no such node", "partition", ASKER, "--options", "way=wrong",
                 "--problem", file(ASKED));
    EXPECT_ERROR(3, "plan.illegal", "is in no stage", "partition", LIAR, "--options", "lie=missing",
                 "--problem", chain("\"devices\":2"));
    EXPECT_ERROR(3, "plan.illegal", "in stage 0 and in stage 1", "partition", LIAR, "--options",
                 "lie=twice", "--problem", chain("\"devices\":2"));
}

static void infeasible(void **state)
{
    struct outcome o;
    json_t *root;

    (void)state;
    EXPECT_ERROR(1, "plan.infeasible", "not to my liking", "partition", ASKER, "--options",
                 "way=refuse", "--problem", file(ASKED));
    EXPECT_ERROR(1, "plan.infeasible", "stage 0", "partition", "uniform", "--problem",
                 chain("\"devices\":2,\"mini_batch\":8,\"micro_batches\":[2],\"memory_bytes\":31"));
    o = penstock("partition", "uniform", "--json", "--problem",
                 chain("\"devices\":1,\"mini_batch\":8,\"memory_bytes\":3"));
    expect_code(&o, 1);
    root = object_of(&o);
    assert_true(json_is_false(json_object_get(root, "feasible")));
    assert_string_equal(json_string_value(json_object_get(root, "partitioner")), "uniform");
    assert_null(json_object_get(root, "stages"));
    json_decref(root);
    outcome_finish(&o);
}

/* Whoever plans, and whatever it says of stages, a node that fits no device is named. */
static void infeasible_node(void **state)
{
    static const char *const names[] = {"uniform",   "greedy",   "chain-dp", "graphpipe",
                                        "pipedream", "piper",    "dapple",   "pipedream-2bw",
                                        "vpipe",     "dawnpiper"};
    const char *problem =
        file(HEAD "\"devices\":2,\"mini_batch\":8,\"micro_batches\":[2],\"memory_bytes\":99,"
                  "\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"small\",\"forward_us\":1},"
                  "{\"name\":\"wide\",\"forward_us\":1,\"param_bytes\":20,\"saved_bytes\":10},"
                  "{\"name\":\"last\",\"forward_us\":1}],\"edges\":[{\"from\":\"small\",\"to\":"
                  "\"wide\",\"bytes\":1},{\"from\":\"wide\",\"to\":\"last\",\"bytes\":1}]}}");

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) { /* 4 * 20 + 2 * 10 bytes */
        struct outcome o = penstock("partition", names[i], "--problem", problem);

        expect_code(&o, 1);
        expect_text(o.err, "\"wide\" alone is charged 100 bytes");
        outcome_finish(&o);
    }
}

/* Planners that give every stage one device say so where that is not allowed. */
static void no_single_devices(void **state)
{
    const char *problem = chain("\"devices\":4,\"mini_batch\":8,\"degrees\":[2]");

    (void)state;
    EXPECT_ERROR(2, "plan.mismatch", "one device", "partition", "vpipe", "--problem", problem);
    EXPECT_ERROR(2, "plan.mismatch", "one device", "partition", "dawnpiper", "--problem", problem);
}

/* Two nodes of 12 us, the second of 40 parameter bytes, four devices, micro-batches of 4 of a batch
   of 10: two replicas each, 12 / 2 + 2 * 1/2 * 40 / 10 = 10 us a sample. Sizes that do not divide
   the batch are sizes all the same. */
static void uneven_batch(void **state)
{
    static const char *const names[] = {"chain-dp", "graphpipe", "pipedream"};
    const char *problem =
        file(HEAD "\"devices\":4,\"mini_batch\":10,\"micro_batches\":[4],\"degrees\":[1,2,4],"
                  "\"allreduce_bandwidth\":1e6,\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"a\","
                  "\"forward_us\":12},{\"name\":\"b\",\"forward_us\":12,\"param_bytes\":40}],"
                  "\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"bytes\":1}]}}");

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int own = strcmp(names[i], "pipedream") == 0;
        struct outcome o = penstock("partition", names[i], "--json", "--problem", problem,
                                    "--options", own ? "objective=reference" : "");
        json_t *root;

        expect_code(&o, 0);
        root = object_of(&o);
        expect_number(root, "bottleneck_us_per_sample", 10);
        json_decref(root);
        outcome_finish(&o);
    }
    problem = chain("\"devices\":4,\"mini_batch\":10,\"micro_batches\":[3],\"degrees\":[2]");
    EXPECT_ERROR(1, "plan.infeasible", "no allowed degree", "partition", "pipedream", "--problem",
                 problem);
}

static void bad_problems(void **state)
{
    (void)state;
    EXPECT_ERROR(2, "config.key", "devices", "partition", "uniform", "--problem",
                 chain("\"mini_batch\":8"));
    EXPECT_ERROR(2, "graph.cycle", "b -> c -> b", "partition", "uniform", "--problem",
                 file(HEAD
                      "\"devices\":1,\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"a\"},"
                      "{\"name\":\"b\"},{\"name\":\"c\"}],\"edges\":[{\"from\":\"b\","
                      "\"to\":\"c\",\"bytes\":1},{\"from\":\"c\",\"to\":\"b\",\"bytes\":1}]}}"));
    EXPECT_ERROR(2, "config.value", "forward_us", "partition", "uniform", "--problem",
                 file(HEAD "\"devices\":1,\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"a\","
                           "\"forward_us\":-1}]}}"));
    EXPECT_ERROR(2, "input.syntax", "NaN", "partition", "uniform", "--problem",
                 file(HEAD "\n\"devices\":1,\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"a\","
                           "\"forward_us\":NaN}]}}"));
    EXPECT_ERROR(2, "graph.edge", "no node has the name", "partition", "uniform", "--problem",
                 file(HEAD "\"devices\":1,\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"a\"}],"
                           "\"edges\":[{\"from\":\"a\",\"to\":\"z\",\"bytes\":1}]}}"));
    EXPECT_ERROR(2, "config.value", "devices", "partition", "uniform", "--problem",
                 chain("\"devices\":0"));
    EXPECT_ERROR(2, "config.value", "p2p_bandwidth", "partition", "uniform", "--problem",
                 chain("\"devices\":2,\"p2p_bandwidth\":0"));
    EXPECT_ERROR(2, "config.value", "degrees", "partition", "uniform", "--problem",
                 chain("\"devices\":2,\"mini_batch\":8,\"degrees\":[4]"));
    EXPECT_ERROR(2, "graph.empty", "node", "partition", "uniform", "--problem",
                 file(HEAD "\"devices\":1,\"graph\":{\"batch\":1,\"nodes\":[]}}"));
}

static void bad_requests(void **state)
{
    const char *problem = chain("\"devices\":2");

    (void)state;
    EXPECT_ERROR(2, "usage", "--problem is missing", "partition", "uniform");
    EXPECT_ERROR(2, "usage", "NAME", "partition", "--problem", problem);
    EXPECT_ERROR(2, "usage", "--options", "partition", "uniform", "--problem", problem, "--set",
                 "a=1");
    EXPECT_ERROR(2, "plugin.not-found", "uniform", "partition", "unifrom", "--problem", problem);
    EXPECT_ERROR(2, "config.key", "stages", "partition", "manual", "--problem", problem,
                 "--options", "stagse=1");
    EXPECT_ERROR(2, "config.key", "is no parameter", "partition", "uniform", "--problem", problem,
                 "--options", "use=manual");
    EXPECT_ERROR(2, "config.key", "chain.json", "partition", "uniform", "--problem",
                 chain("\"devices\":2,\"options\":{\"a\":1}"));
    EXPECT_ERROR(2, "usage", "--time-limit", "partition", "uniform", "--problem", problem,
                 "--time-limit", "soon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields),      cmocka_unit_test(for_people),
        cmocka_unit_test(shipped),         cmocka_unit_test(example),
        cmocka_unit_test(questions),       cmocka_unit_test(own_objective),
        cmocka_unit_test(misbehaviour),    cmocka_unit_test(infeasible),
        cmocka_unit_test(infeasible_node), cmocka_unit_test(no_single_devices),
        cmocka_unit_test(uneven_batch),    cmocka_unit_test(bad_problems),
        cmocka_unit_test(bad_requests),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
