/* SPDX-License-Identifier: Apache-2.0
 *
 * Costed graphs: which files and drafts are refused and how; no file does harm.
 */
#include "unit/models/costed_rig.h"

struct refusal {
    const char *text, *kind, *words;
};

#define NODE(more) HEAD "\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"," more "}]}"
#define EDGES(more)                                                                                \
    HEAD "\"nodes\":[{\"name\":\"encoder.0\"},{\"name\":\"encoder.1\"},{\"name\":\"encoder.2\"},"  \
         "{\"name\":\"head\"}],\"edges\":[" more "]}"
#define EDGE(from, to) "{\"from\":\"" from "\",\"to\":\"" to "\"}"

static const struct refusal refusals[] = {
    {"{\n \"format\": }", "input.syntax", "unexpected token"},
    {"[]", "input.syntax", "must be an object"},
    {"{\"version\":1}", "input.syntax", "format: must be \"penstock-graph\""},
    {"{\"format\":\"penstock-plan\",\"version\":1}", "input.syntax", "not \"penstock-plan\""},
    {"{\"format\":\"penstock-graph\",\"version\":2}", "input.syntax", "version"},
    {HEAD "\"node\":[]}", "config.key", "unknown key \"node\"; did you mean \"nodes\"?"},
    {HEAD "\"batch\":1}", "config.key", "\"nodes\" is missing"},
    {HEAD "\"notes\":\"n\"}", "config.key", "\"nodes\" is missing"}, /* notes is known */
    {HEAD "\"nodes\":{}}", "config.value", "nodes: must be an array"},
    {HEAD "\"nodes\":[]}", "graph.empty", "nodes"},
    {HEAD "\"nodes\":[3]}", "config.value", "nodes[0]: must be an object"},
    {HEAD "\"batch\":0,\"nodes\":[{\"name\":\"a\"}]}", "config.value", "batch: must be"},
    {HEAD "\"batch\":1.5,\"nodes\":[{\"name\":\"a\"}]}", "config.value", "whole number"},
    {HEAD "\"nodes\":[{\"op\":\"a\"}]}", "config.key", "nodes[0]: \"name\" is missing"},
    {HEAD "\"nodes\":[{\"name\":\"\"}]}", "config.value", "nodes[0].name"},
    {HEAD "\"nodes\":[{\"name\":\"a\\u0000\"}]}", "input.syntax", "\\u0000"},
    {HEAD "\"nodes\":[{\"name\":\"a\",\"name\":\"b\"}]}", "input.syntax", "duplicate"},
    {NODE("\"forward_us\":-1"), "config.value",
     "nodes[1].forward_us (\"b\"): must be a number from 0 to"},
    {NODE("\"forward_us\":NaN"), "input.syntax",
     "nodes[1].forward_us (\"b\"): must be a finite number, not NaN"},
    {NODE("\"times\":[{},{\"forward_us\":-Infinity"), "input.syntax",
     "nodes[1].times[1].forward_us (\"b\"): must be a finite number, not -Infinity"},
    {HEAD "\"name\":\"a, \\\"NaN\\\"}\",\"batch\":Infinity}", "input.syntax",
     "batch (\"a, \\\"NaN\\\"}\"): must be a finite number, not Infinity"},
    {NODE("\"forward_us\":1e999"), "input.syntax", "real number overflow"},
    {NODE("\"forward_us\":1e13"), "config.value", "nodes[1].forward_us"},
    {NODE("\"saved_bytes\":1e18"), "config.value", "nodes[1].saved_bytes"},
    {NODE("\"param_bytes\":\"1\""), "config.value", "nodes[1].param_bytes"},
    {NODE("\"parambytes\":1"), "config.key", "did you mean \"param_bytes\"?"},
    {NODE("\"times\":[]"), "config.value", "nodes[1].times"},
    {NODE("\"times\":[{\"forward_us\":1}]"), "config.key", "nodes[1].times[0] (\"b\"): \"batch\""},
    {NODE("\"times\":[{\"bacth\":1}]"), "config.key", "\"bacth\"; did you mean \"batch\"?"},
    {NODE("\"times\":[{\"batch\":0}]"), "config.value", "nodes[1].times[0].batch"},
    {NODE("\"times\":[{\"batch\":2},{\"batch\":2}]"), "config.value", "batch 2 stands twice"},
    {NODE("\"times\":[{\"batch\":2}],\"fixed_us\":1"), "config.value", "nodes[1].fixed_us"},
    {NODE("\"configs\":[{\"name\":\"x\",\"tensor_degree\":0}]"), "config.value",
     "nodes[1].configs[0].tensor_degree"},
    {HEAD "\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"a\"}]}", "graph.duplicate",
     "nodes[2].name: \"a\" is the name of nodes[0]"},
    /* What is wrong with the nodes is said first, not what follows from it. */
    {HEAD "\"nodes\":[],\"edges\":[" EDGE("a", "b") "]}", "graph.empty", "nodes"},
    {HEAD "\"nodes\":[{\"name\":\"a\"},{\"name\":\"a\"}],\"edges\":[" EDGE("a", "b") "]}",
     "graph.duplicate", "\"a\" is the name of nodes[0]"},
    {EDGES(EDGE("encoder.0", "encoder.1") "," EDGE("encoder.1", "haed")), "graph.edge",
     "edges[1].to: no node has the name \"haed\"; did you mean \"head\"?"},
    {EDGES("{\"from\":\"head\"}"), "config.key", "edges[0]: \"to\" is missing"},
    {EDGES(EDGE("head", "head")), "graph.edge", "edges[0]: goes from \"head\" to itself"},
    {EDGES(EDGE("encoder.2", "encoder.1") "," EDGE("encoder.0", "encoder.1") "," EDGE(
         "encoder.1", "head") "," EDGE("encoder.1", "encoder.2")),
     "graph.cycle", "encoder.1 -> encoder.2 -> encoder.1"},
};

TEST(wrong_files_are_refused)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        struct pst_costed *graph = NULL;
        struct pst_error err = {0};
        const char *path = support_write("wrong.json", r->text);

        if (pst_costed_read(path, &graph, &err) != PST_ERR_CONFIG ||
            strcmp(err.kind, r->kind) != 0 || strstr(err.message, r->words) == NULL) {
            fail_msg("%s\ngives %s: %s\nexpected %s: %s", r->text, err.kind, err.message, r->kind,
                     r->words);
        }
        assert_string_equal(err.file, path);
        assert_int_equal(pst_error_exit_code(&err), 2);
        assert_null(graph);
    }
}

TEST(broken_json_has_a_line)
{
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    assert_int_equal(pst_costed_read(support_write("line.json", "{\n\n  \"a\": x}"), &graph, &err),
                     PST_ERR_CONFIG);
    assert_int_equal(err.line, 3);
    assert_true(err.column > 0);
}

/* Cut off anywhere, a file is refused, never half read. */
TEST(truncated_files_are_refused)
{
    static const char text[] = HEAD "\"nodes\":[{\"name\":\"a\",\"times\":[{\"batch\":1}]},"
                                    "{\"name\":\"b\"}],\"edges\":[{\"from\":\"a\",\"to\":\"b\"}]}";
    char part[sizeof text];

    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct pst_costed *graph = NULL;
        struct pst_error err = {0};

        memcpy(part, text, n);
        part[n] = '\0';
        assert_int_equal(pst_costed_read(support_write("part.json", part), &graph, &err),
                         PST_ERR_CONFIG);
    }
}

/* Any byte changed or left out: read or refused, and what is read can be written and read. */
TEST(mutated_files_do_no_harm)
{
    static const char text[] =
        HEAD "\"batch\":2,\"nodes\":[{\"name\":\"a\",\"times\":[{\"batch\":1,\"forward_us\":1e3},"
             "{\"batch\":4}],\"configs\":[{\"name\":\"c\",\"time_us\":5}]},{\"name\":\"b\","
             "\"saved_bytes\":12345}],\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"bytes\":7}]}";
    static const char bytes[] = "0123456789-+.eE\"{}[],: \\ab\x80\x01";
    char changed[sizeof text];
    uint64_t seed = 99;
    uint32_t n_read = 0;

    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 3000; round++) {
        OWN(costed) *graph = NULL;
        struct pst_error err = {0};
        size_t at = next_random(&seed) % (sizeof text - 1);
        pst_status st;

        memcpy(changed, text, sizeof text);
        if (round % 4 == 0) {
            memmove(changed + at, changed + at + 1, sizeof text - at - 1);
        } else {
            changed[at] = bytes[next_random(&seed) % (sizeof bytes - 1)];
        }
        st = pst_costed_read(support_write("changed.json", changed), &graph, &err);
        if (st == PST_OK) {
            size_t length = 0;
            char *again = pst_costed_write(graph, &length);
            struct pst_costed *copy = read_text(again);

            assert_true(copy->digest == graph->digest);
            n_read++;
            free(again);
            pst_costed_destroy(copy);
        } else {
            assert_int_equal(st, PST_ERR_CONFIG);
            assert_true(err.message[0] != '\0');
        }
    }
    assert_true(n_read > 100); /* some changes are harmless */
}

TEST(nesting_is_bounded)
{
    char text[100001];
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(pst_costed_read(support_write("deep.json", text), &graph, &err),
                     PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.limit");
}

TEST(a_byte_order_mark_is_skipped)
{
    pst_costed_destroy(read_text("\xEF\xBB\xBF" HEAD "\r\n\"nodes\":[{\"name\":\"a\"}]}"));
}

TEST(drafts_are_checked)
{
    struct pst_costed_node nodes[2] = {{.name = "a"}, {.name = "b"}};
    struct pst_costed_edge edge = {0, 2, 1};
    struct pst_costed draft = {.batch = 1, .n_nodes = 2, .nodes = nodes, .edges = &edge};
    OWN(costed) *graph = NULL;
    struct pst_error err = {0};

    draft.n_edges = 1;
    assert_int_equal(pst_costed_create(&draft, &graph, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "graph.edge");
    edge.to = 1;
    nodes[1].ns[2] = __builtin_nan("");
    assert_int_equal(pst_costed_create(&draft, &graph, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "nodes[1].backward_weight_us"));
    nodes[1].ns[2] = __builtin_inf();
    assert_int_equal(pst_costed_create(&draft, &graph, &err), PST_ERR_CONFIG);
    nodes[1].ns[2] = 0;
    nodes[0].name = NULL;
    assert_int_equal(pst_costed_create(&draft, &graph, &err), PST_ERR_CONFIG);
    nodes[0].name = "a";
    draft.batch = 0;
    assert_int_equal(pst_costed_create(&draft, &graph, &err), PST_ERR_CONFIG);
    draft.batch = 1;
    assert_ok(pst_costed_create(&draft, &graph, &err), &err);
}

TEST_GROUP(support_begin, support_end)
