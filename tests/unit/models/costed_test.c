/* SPDX-License-Identifier: Apache-2.0
 *
 * Costed graphs: what files say, in which order nodes stand, what passes take at any size.
 */
#include "unit/models/costed_rig.h"

TEST(nodes_and_edges_are_read)
{
    OWN(costed) *graph = read_text(
        HEAD "\"name\":\"g\",\"notes\":\"by hand\",\"batch\":4,\"nodes\":["
             "{\"name\":\"a\",\"op\":\"conv\",\"forward_us\":8,\"backward_input_us\":4,"
             "\"backward_weight_us\":2,\"fixed_us\":7,\"param_bytes\":100,\"saved_bytes\":10,"
             "\"output_bytes\":16,\"workspace_bytes\":5},{\"name\":\"b\"}],"
             "\"edges\":[{\"from\":\"a\",\"to\":\"b\"}]}");
    const struct pst_node *a = pst_graph_node(&graph->view, 0);
    const struct pst_node *b = pst_graph_node(&graph->view, 1);
    double ns[3];

    assert_string_equal(graph->name, "g");
    assert_string_equal(graph->notes, "by hand");
    assert_int_equal(graph->batch, 4);
    assert_string_equal(a->op, "conv");
    assert_string_equal(b->op, "op");
    assert_int_equal(a->param_bytes, 100);
    assert_int_equal(a->saved_bytes, 3); /* 10 / 4, rounded up */
    assert_true(graph->saved_bytes[0] == 2.5);
    assert_int_equal(a->output_bytes, 4);
    assert_int_equal(a->forward_work_bytes, 5);
    assert_int_equal(a->backward_work_bytes, 5);
    assert_true(graph->edge_bytes[0] == 4); /* the output of its start */
    assert_int_equal(a->n_out, 1);
    assert_int_equal(b->n_in, 1);
    assert_int_equal(graph->view.in_edges[b->first_in], 0);
    /* Half the samples, half the time; 7 us are shared as 8 : 4 : 2. */
    pst_costed_node_ns(graph, 0, 2, ns);
    assert_true(ns[0] == 4000 + 4000 && ns[1] == 2000 + 2000 && ns[2] == 1000 + 1000);
    pst_costed_node_ns(graph, 1, 2, ns);
    assert_true(ns[0] == 0 && ns[1] == 0 && ns[2] == 0);
}

TEST(fixed_time_alone_is_the_forward_pass)
{
    OWN(costed) *graph = read_text(HEAD "\"nodes\":[{\"name\":\"a\",\"fixed_us\":3}]}");
    double ns[3];

    pst_costed_node_ns(graph, 0, 100, ns);
    assert_true(ns[0] == 3000 && ns[1] == 0 && ns[2] == 0);
}

/* As in the file where the edges leave a choice: b before c, both after d, a last. */
TEST(order_is_topological_and_stable)
{
    struct pst_costed *graph =
        read_text(HEAD "\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},"
                       "{\"name\":\"d\"},{\"name\":\"e\"}],\"edges\":["
                       "{\"from\":\"c\",\"to\":\"a\",\"bytes\":3},"
                       "{\"from\":\"d\",\"to\":\"c\",\"bytes\":1},"
                       "{\"from\":\"d\",\"to\":\"b\",\"bytes\":1},"
                       "{\"from\":\"d\",\"to\":\"c\",\"bytes\":0.5}]}");
    static const char *const order[] = {"d", "b", "c", "a", "e"};

    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(graph->nodes[i].name, order[i]);
    }
    assert_int_equal(graph->n_edges, 3); /* two of them are one */
    assert_int_equal(graph->edges[0].to, 1);
    assert_int_equal(graph->edges[1].to, 2);
    assert_true(graph->edges[1].bytes == 1.5);
    assert_int_equal(graph->edges[2].from, 2);
    assert_int_equal(graph->edges[2].to, 3);
    pst_costed_destroy(graph);
}

#define TABLE(rows)      HEAD "\"nodes\":[{\"name\":\"a\",\"times\":[" rows "]}]}"
#define ROW(batch, f, b) "{\"batch\":" #batch ",\"forward_us\":" #f ",\"backward_input_us\":" #b "}"

static void expect_ns(const struct pst_costed *graph, uint32_t samples, double f, double b)
{
    double ns[3];

    pst_costed_node_ns(graph, 0, samples, ns);
    if (ns[0] != f || ns[1] != b || ns[2] != 0) {
        fail_msg("%u samples: %g %g %g, expected %g %g 0", samples, ns[0], ns[1], ns[2], f, b);
    }
}

TEST(tables_are_interpolated)
{
    /* Rows in any order. F: 6 + 2 x up to 4, then slope 4. B: the line through 4 -> 2 and 8 -> 10
       is below 0 at none, so in proportion below 4. */
    struct pst_costed *graph = read_text(TABLE(ROW(8, 30, 10) "," ROW(2, 10, 1) "," ROW(4, 14, 2)));

    expect_ns(graph, 1, 8000, 500);
    expect_ns(graph, 2, 10000, 1000);
    expect_ns(graph, 3, 12000, 1500);
    expect_ns(graph, 6, 22000, 6000);
    expect_ns(graph, 8, 30000, 10000);
    expect_ns(graph, 16, 62000, 26000);
    pst_costed_destroy(graph);

    graph = read_text(TABLE(ROW(4, 8, 1) "," ROW(8, 24, 5)));
    expect_ns(graph, 2, 4000, 500); /* lines begin at -8 and -3 */
    pst_costed_destroy(graph);

    graph = read_text(TABLE(ROW(4, 8, 2))); /* one row: in proportion */
    expect_ns(graph, 1, 2000, 500);
    expect_ns(graph, 12, 24000, 6000);
    pst_costed_destroy(graph);

    graph = read_text(TABLE(ROW(1, 9, 2) "," ROW(2, 8, 1))); /* noise: less for more */
    expect_ns(graph, 1, 9000, 2000);
    expect_ns(graph, 1000000, 8000, 1000);
    pst_costed_destroy(graph);
}

TEST(configurations_are_read)
{
    OWN(costed) *graph = read_text(
        HEAD "\"nodes\":[{\"name\":\"a\",\"param_bytes\":9,\"configs\":["
             "{\"name\":\"vanilla\",\"time_us\":6,\"in_flight_bytes\":4,\"fixed_bytes\":2},"
             "{\"name\":\"split\",\"tensor_degree\":2,\"time_us\":4,\"param_bytes\":5}]}]}");
    const struct pst_costed_config *configs = graph->nodes[0].configs;

    assert_int_equal(graph->nodes[0].n_configs, 2);
    assert_string_equal(configs[0].name, "vanilla");
    assert_int_equal(configs[0].tensor_degree, 1);
    assert_true(configs[0].ns == 6000 && configs[0].param_bytes == 9);
    assert_true(configs[0].in_flight_bytes == 4 && configs[0].fixed_bytes == 2);
    assert_int_equal(configs[1].tensor_degree, 2);
    assert_true(configs[1].param_bytes == 5);
}

/* A digest stands for all numbers, so each change of one must change it. */
TEST(digest_sees_everything_but_the_notes)
{
    static const char *const texts[] = {
        HEAD "\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
        HEAD "\"name\":\"x\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
        HEAD "\"batch\":2,\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
        HEAD "\"update_bytes_per_second\":1,\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
        HEAD "\"update_bytes_per_second\":2,\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
        HEAD "\"nodes\":[{\"name\":\"a\"},{\"name\":\"c\"}]}",
        HEAD "\"nodes\":[{\"name\":\"a\",\"saved_bytes\":1},{\"name\":\"b\"}]}",
        HEAD "\"nodes\":[{\"name\":\"a\",\"output_bytes\":1},{\"name\":\"b\"}]}",
        HEAD "\"nodes\":[{\"name\":\"a\",\"fixed_us\":1},{\"name\":\"b\"}]}",
        HEAD
        "\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"edges\":[{\"from\":\"a\",\"to\":\"b\"}"
        "]}",
        HEAD
        "\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"edges\":[{\"from\":\"a\",\"to\":\"b\","
        "\"bytes\":1}]}",
        HEAD "\"nodes\":[{\"name\":\"a\",\"times\":[{\"batch\":1}]},{\"name\":\"b\"}]}",
    };
    enum { N = sizeof texts / sizeof *texts };
    uint64_t digests[N];
    struct pst_costed *graph;

    for (int i = 0; i < N; i++) {
        graph = read_text(texts[i]);
        digests[i] = graph->digest;
        pst_costed_destroy(graph);
        for (int j = 0; j < i; j++) {
            if (digests[i] == digests[j]) {
                fail_msg("%s and %s have one digest", texts[i], texts[j]);
            }
        }
    }
    graph = read_text(HEAD "\"notes\":\"n\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}]}");
    assert_true(graph->digest == digests[0]);
    pst_costed_destroy(graph);
}

static double next_number(uint64_t *seed)
{
    return (double)(next_random(seed) >> 12) / 7.0 / (double)(1ull << (next_random(seed) % 45));
}

/* A graph of 500 nodes in shuffled order with numbers of all digits, twice through a file. */
TEST(writing_round_trips)
{
    enum { N = 500, M = 1500 };
    static struct pst_costed_node nodes[N];
    static struct pst_costed_edge edges[M];
    static char names[N][16];
    struct pst_costed_times times[2] = {{.samples = 3}, {.samples = 1}};
    struct pst_costed_config config = {.name = "only", .tensor_degree = 3};
    struct pst_costed draft = {.name = "a \"random\" one",
                               .notes = "line\nline",
                               .batch = 7,
                               .update_bytes_per_second = 1.25e9,
                               .host_step_ns = 12500,
                               .host_sample_ns = 250,
                               .host_devices = 2,
                               .n_nodes = N,
                               .n_edges = M,
                               .nodes = nodes,
                               .edges = edges};
    OWN(costed) *graph = NULL, *again = NULL;
    struct pst_error err = {0};
    uint64_t seed = 20240607;
    size_t length = 0;
    char *text;

    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        nodes[i] = (struct pst_costed_node){.name = names[i], .op = "x"};
        for (int p = 0; p < 3; p++) {
            nodes[i].ns[p] = next_number(&seed);
        }
        nodes[i].fixed_ns = next_number(&seed);
        nodes[i].param_bytes = next_number(&seed);
        nodes[i].saved_bytes = next_number(&seed);
        nodes[i].workspace_bytes = next_number(&seed);
    }
    times[0].ns[1] = next_number(&seed);
    config.ns = next_number(&seed);
    nodes[17].times = times;
    nodes[17].n_times = 2;
    nodes[18].configs = &config;
    nodes[18].n_configs = 1;
    for (int i = 0; i < M; i++) {
        uint32_t u = (uint32_t)(next_random(&seed) % (N - 1));
        uint32_t v = u + 1 + (uint32_t)(next_random(&seed) % (N - 1 - u));

        /* Node i * 7 mod N is the i-th of a hidden order. */
        edges[i] = (struct pst_costed_edge){u * 7 % N, v * 7 % N, next_number(&seed)};
    }
    assert_ok(pst_costed_create(&draft, &graph, &err), &err);
    text = pst_costed_write(graph, &length);
    assert_non_null(text);
    assert_int_equal(strlen(text), length);
    again = read_text(text);
    assert_true(again->digest == graph->digest);
    assert_string_equal(again->name, graph->name);
    assert_string_equal(again->notes, graph->notes);
    assert_true(again->update_bytes_per_second == 1.25e9);
    assert_true(again->host_step_ns == 12500 && again->host_sample_ns == 250);
    assert_int_equal(again->host_devices, 2);
    for (uint32_t e = 0; e < again->n_edges; e++) {
        assert_true(again->edges[e].from < again->edges[e].to);
    }
    /* Nobody's numbers were moved by more than the last digit. */
    for (uint32_t i = 0; i < N; i++) {
        int k = atoi(graph->nodes[i].name + 1);

        assert_true(k == 17 || (graph->nodes[i].ns[0] <= nodes[k].ns[0] * (1 + 1e-15) &&
                                graph->nodes[i].ns[0] >= nodes[k].ns[0] * (1 - 1e-15)));
    }
    free(text);
}

/* A chain of 100,000 nodes, written backwards. */
TEST(large_graphs_are_sorted)
{
    enum { N = 100000 };
    struct pst_costed_node *nodes = calloc(N, sizeof *nodes);
    struct pst_costed_edge *edges = calloc(N, sizeof *edges);
    char(*names)[16] = calloc(N, sizeof *names);
    struct pst_costed draft = {.batch = 1, .n_nodes = N, .n_edges = N - 1};
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    assert_true(nodes != NULL && edges != NULL && names != NULL);
    draft.nodes = nodes;
    draft.edges = edges;
    for (uint32_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%u", i);
        nodes[i].name = names[i];
        edges[i] = (struct pst_costed_edge){i + 1, i, 1};
    }
    assert_ok(pst_costed_create(&draft, &graph, &err), &err);
    assert_string_equal(graph->nodes[0].name, "99999");
    assert_string_equal(graph->nodes[N - 1].name, "0");
    assert_int_equal(graph->view.n_edges, N - 1);
    pst_costed_destroy(graph);
    edges[N - 1] = (struct pst_costed_edge){0, N - 1, 1}; /* all of it a cycle */
    draft.n_edges = N;
    assert_int_equal(pst_costed_create(&draft, &graph, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "graph.cycle");
    assert_non_null(strstr(err.message, "0 -> 99999 -> 99998"));
    assert_non_null(strstr(err.message, "(100000 nodes)"));
    free(nodes);
    free(edges);
    free(names);
}

TEST_GROUP(support_begin, support_end)
