/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a slice of sequences: what each slice costs, described and measured, and what stands
 * behind its targets.
 */
#include "base/json.h"
#include "graph/cost.h"
#include "models/costed/costed_file.h"
#include "slice_rig.h"

OWNER(graph)
OWNER(costed)

enum { SLICES = 3, ROWS = TOKENS / SLICES };

/* Pairs of a query and a key that it sees, half of the own one counted, of rows 0 ... n - 1: half
   of n x n; in a window of 10 that of 10 rows, then 10 a row. */
static const double pairs[2][SLICES + 1] = {{0, 32, 128, 288}, {0, 32, 110, 190}};

TEST(work)
{
    for (uint32_t w = 0; w < 2; w++) {
        OWN(graph) *graph = make_sliced(PST_F32, 10 * w, SLICES);
        double flops, bytes;

        for (uint32_t pass = 0; pass < 2; pass++) {
            const double per_pair = (pass == 0 ? 2 : 5) * 2 * COLUMNS;
            const double own = pass == 0 ? WIDTH + COLUMNS + HEADS : 2 * (WIDTH + COLUMNS) + HEADS;
            /* keys and values, and read and written their gradients */
            const double past = ROWS * 2 * KV_HEADS * DEPTH * 4 * (pass == 0 ? 1 : 3);

            for (uint32_t i = 0; i < SLICES; i++) {
                pst_op_slice_work(graph, ATTENTION, i, pass, 2, &flops, &bytes);
                assert_true(flops == 2 * per_pair * (pairs[w][i + 1] - pairs[w][i]));
                assert_true(bytes == 2 * (ROWS * 4 * own + i * past));
            }
            pst_op_work(graph, ATTENTION, pass, 2, &flops, &bytes);
            assert_true(flops == 2 * per_pair * pairs[w][SLICES] / SLICES);
            assert_true(bytes == 2 * (ROWS * 4 * own + past));
        }
        pst_op_slice_work(graph, EMBEDDING, 2, 0, 2, &flops, &bytes);
        assert_true(flops == ROWS * WIDTH * 2);
        assert_true(pst_op_softmax_bytes(graph, ATTENTION, 1, 0, 2) == 2.0 * HEADS * ROWS * 16 * 4);
        assert_true(pst_op_softmax_bytes(graph, ATTENTION, PST_NONE, 1, 2) ==
                    2.0 * HEADS * ROWS * 16 * 4);
    }
}

/* At 1 ns a flop and 2 ns a byte traffic takes longer in the first slice, arithmetic in the others.
   Of two sequences 2 * 96 flops for each of 32, 96 and 160 pairs; 2 * 2432 bytes, and 2 * 768 for
   each slice before. The mean work would take 18432. */
TEST(mean_of_times)
{
    OWN(graph) *graph = make_sliced(PST_F32, 0, SLICES);
    struct pst_cluster cluster = {.flops = 1e9, .memory_bandwidth = 500000000, .efficiency = 1};
    const struct pst_cost_model cost = {.graph = graph, .cluster = &cluster};
    const uint64_t expected[SLICES] = {9728, 18432, 30720};
    struct pst_times found;

    for (uint32_t i = 0; i < SLICES; i++) {
        const struct pst_cost_model slice = pst_cost_of_slice(&cost, i);

        pst_cost_op(&slice, ATTENTION, 2, &found);
        assert_int_equal(found.forward_ns, expected[i]);
    }
    pst_cost_op(&cost, ATTENTION, 2, &found);
    assert_int_equal(found.forward_ns, 19627);
}

/* Behind the targets of a slice stands how many of its sequence count. */
TEST(targets)
{
    OWN(graph) *graph = make_sliced(PST_F32, 0, SLICES);

    assert_int_equal(graph->tensors[0].dims[0], ROWS);
    assert_int_equal(graph->tensors[1].dims[0], ROWS + 1);
    assert_int_equal(graph->tensors[1].bytes, 4 * (ROWS + 1));
    pst_graph_join(graph);
    assert_int_equal(graph->tensors[1].bytes, 4 * TOKENS);
    assert_int_equal(graph->tensors[1].dims[0], TOKENS);
    assert_int_equal(graph->tensors[2].elems, TOKENS * WIDTH);
    assert_int_equal(graph->slices, 1);
    assert_int_equal(graph->ops[ATTENTION].slices, 0);
}

/* Of a mean over tokens the number stands behind the targets of whole sequences, too; what it is
   divided by are the samples of the step. */
TEST(targets_of_a_mean_over_tokens)
{
    OWN(graph) *graph = make_sliced(PST_F32, 0, 1);
    struct pst_error err = {0};
    const uint64_t digest = graph->digest;

    assert_ok(pst_graph_mean_tokens(graph, 5, &err), &err);
    assert_int_equal(graph->tensors[1].bytes, 4 * (TOKENS + 1));
    assert_int_equal(pst_graph_counts_over(graph), 5);
    assert_true(graph->digest != digest);
    assert_ok(pst_graph_slice(graph, SLICES, &err), &err);
    assert_int_equal(graph->tensors[1].dims[0], ROWS + 1);
    assert_int_equal(pst_graph_counts_over(graph), 5 * SLICES);
    pst_graph_join(graph);
    assert_int_equal(graph->tensors[1].bytes, 4 * TOKENS);
    assert_int_equal(pst_graph_counts_over(graph), 0);
    assert_true(graph->digest == digest);
    /* 24 x 89478486 is more than 2^31 - 1 */
    assert_int_equal(pst_graph_mean_tokens(graph, 89478486, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.limit");
    assert_ok(pst_graph_mean_tokens(graph, 89478485, &err), &err);
}

/* A profile has the mean and by how much passes grow from the first to the last; others lie between
   them by what they compute. B of the last of two samples saves 30, of which the mean has 10. */
TEST(measured)
{
    static const struct pst_costed_times times[] = {{1, {100, 200, 0}, {60, 90, 15}},
                                                    {3, {300, 600, 0}, {120, 90, 45}}};
    struct pst_costed_node nodes[N_OPS] = {{.name = "embedding", .op = "embedding"},
                                           {.name = "rotary", .op = "rotary"},
                                           {.name = "attention", .op = "attention"},
                                           {.name = "loss", .op = "cross_entropy"}};
    const struct pst_costed draft = {
        .name = "slices", .batch = 1, .n_nodes = N_OPS, .nodes = nodes};
    static const uint32_t of[N_OPS] = {EMBEDDING, ROTARY, ATTENTION, LOSS};
    OWN(costed) *profile = NULL, *again = NULL;
    struct pst_cluster cluster = {0};
    struct pst_error err = {0};
    struct pst_codec c = {.in = &(struct pst_fields){.err = &err}, .format = "penstock-graph"};
    size_t length;
    char *text;

    for (uint32_t i = 0; i < N_OPS; i++) {
        nodes[i].times = times;
        nodes[i].n_times = 2;
    }
    assert_ok(pst_costed_create(&draft, &profile, &err), &err);
    for (uint32_t w = 0; w < 2; w++) {
        OWN(graph) *graph = make_sliced(PST_F32, 10 * w, SLICES);
        const struct pst_cost_model cost = {
            .graph = graph, .cluster = &cluster, .profile = profile, .profile_nodes = of};
        const double *sum = pairs[w], most = sum[3] - sum[2] - sum[1];
        struct pst_times found;

        for (uint32_t i = 0; i < SLICES; i++) {
            const struct pst_cost_model slice = pst_cost_of_slice(&cost, i);
            const double part = (sum[i + 1] - sum[i] - sum[3] / 3) / most;

            pst_cost_op(&slice, ATTENTION, 2, &found);
            assert_true(found.forward_ns == (uint64_t)(200 + 90 * part + 0.5));
            assert_true(found.backward_input_ns ==
                        (uint64_t)(410 + 90 * part - (i == 2 ? 30 : 0) + 0.5));
            pst_cost_op(&slice, EMBEDDING, 2, &found);
            assert_int_equal(found.forward_ns, 200);
        }
        pst_cost_op(&cost, ATTENTION, 2, &found);
        assert_int_equal(found.forward_ns, 200);
    }
    text = pst_costed_write(profile, &length);
    c.root = json_loadb(text, length, 0, NULL);
    pst_costed_code(&c, NULL, &again);
    assert_ok(c.in->status, &err);
    assert_true(again->digest == profile->digest &&
                again->nodes[ATTENTION].times[1].growth[0] == 120 &&
                again->nodes[ATTENTION].times[1].growth[2] == 45);
    json_decref(c.root);
    free(text);
}
