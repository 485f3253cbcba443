/* SPDX-License-Identifier: Apache-2.0
 *
 * What a partition is worth, from stages written down by hand: depth, what is held, bottleneck,
 * time of a step. No plugin takes part.
 */
#include "ask/problem_partition.h"
#include "models/costed/costed_file.h"

#include <math.h>
#include "test.h"

#define MOST 16

/* One node a stage. */
struct world {
    struct pst_costed_node nodes[MOST];
    struct pst_costed_edge edges[MOST];
    struct pst_costed draft;
    struct pst_problem problem;
    struct pst_partition_stage stages[MOST];
    uint32_t ranks[MOST], index[MOST], n_ranks;
    struct pst_partition_result answer;
};

static char names[MOST][8];

static void begin(struct world *w, uint32_t n, uint32_t mini_batch)
{
    static const uint32_t sizes[] = {1, 2, 4, 8}, degrees[] = {1, 2, 4};

    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < MOST; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        w->index[i] = w->ranks[i] = i;
        w->nodes[i] = (struct pst_costed_node){.name = names[i], .op = "x", .ns = {1000, 2000, 0}};
        w->stages[i] = (struct pst_partition_stage){
            .n_nodes = 1, .n_ranks = 1, .microbatch_size = 1, .k = 1, .nodes = &w->index[i]};
    }
    w->draft = (struct pst_costed){
        .name = "world", .batch = 1, .n_nodes = n, .nodes = w->nodes, .edges = w->edges};
    w->problem = (struct pst_problem){.n_devices = MOST,
                                      .memory_bytes = (double)INFINITY,
                                      .mini_batch = mini_batch,
                                      .n_micro_batches = 4,
                                      .micro_batches = sizes,
                                      .n_degrees = 3,
                                      .degrees = degrees,
                                      .weight_multiplier = 4};
    w->answer.stages = w->stages;
    w->answer.n_stages = n;
    w->answer.places = (struct pst_places){.n = MOST, .shared = 1};
    snprintf(w->answer.id, sizeof w->answer.id, "hand");
}

static void edge(struct world *w, uint32_t from, uint32_t to, double bytes)
{
    w->edges[w->draft.n_edges++] = (struct pst_costed_edge){from, to, bytes};
}

static void chain(struct world *w, double bytes)
{
    for (uint32_t i = 0; i + 1 < w->draft.n_nodes; i++) {
        edge(w, i, i + 1, bytes);
    }
}

/* Ranks in order; the caller finishes the result. */
static pst_status judge(struct world *w, struct pst_partition_result *result, struct pst_error *err)
{
    struct pst_error why = {0};
    pst_status st;

    assert_ok(pst_costed_create(&w->draft, &w->problem.graph, &why), &why);
    for (uint32_t s = 0; s < w->answer.n_stages; s++) {
        w->stages[s].ranks = &w->ranks[w->n_ranks];
        w->n_ranks += w->stages[s].n_ranks;
    }
    *result = w->answer;
    st = pst_partition_check(&w->problem, result, err);
    if (st == PST_OK) {
        st = pst_partition_judge(&w->problem, result, err);
    }
    if (st != PST_OK) {
        pst_partition_result_finish(result);
    }
    pst_costed_destroy(w->problem.graph);
    return st;
}

static struct pst_partition_result judged(struct world *w)
{
    struct pst_partition_result result;
    struct pst_error err = {0};

    assert_ok(judge(w, &result, &err), &err);
    return result;
}

static void near(double is, double should)
{
    if (!(fabs(is - should) <= 1e-12 * fabs(should))) {
        fail_msg("is %.17g, should be %.17g", is, should);
    }
}

/* The example of GraphPipe's figure with numbers: F 1, B 2 a sample; 64 samples. */
TEST(mixed_sizes)
{
    static const struct {
        uint32_t b[3], k[3], held[3];
        double step_us;
    } cases[] = {{{1, 2, 4}, {1, 2, 1}, {10, 8, 4}, 210}, {{4, 4, 4}, {1, 1, 1}, {12, 8, 4}, 216}};

    for (size_t i = 0; i < 2; i++) {
        FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
        struct world w;

        begin(&w, 3, 64);
        chain(&w, 0);
        for (uint32_t s = 0; s < 3; s++) {
            w.stages[s].microbatch_size = cases[i].b[s];
            w.stages[s].k = cases[i].k[s];
        }
        result = judged(&w);
        for (uint32_t s = 0; s < 3; s++) {
            assert_int_equal(result.stages[s].in_flight_samples, cases[i].held[s]);
            assert_int_equal(result.stages[s].depth, 3 - s);
        }
        near(result.bottleneck_ns, 3000);
        near(result.step_ns, cases[i].step_us * 1000);
    }
}

/* k equal chains merged by a join: (micro-batches + depth - 1) x b x T, however many there are. */
TEST(branches_cost_their_depth)
{
    for (uint32_t n_chains = 1; n_chains <= 3; n_chains++) {
        FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
        struct world w;
        uint32_t join = 2 * n_chains;

        begin(&w, join + 1, 32);
        for (uint32_t c = 0; c < n_chains; c++) {
            edge(&w, 2 * c, 2 * c + 1, 0);
            edge(&w, 2 * c + 1, join, 0);
        }
        for (uint32_t s = 0; s <= join; s++) {
            w.stages[s].microbatch_size = 2;
        }
        result = judged(&w);
        near(result.step_ns, (16 + 3 - 1) * 2 * 3000.0);
        assert_int_equal(result.stages[0].depth, 3);
        assert_int_equal(result.stages[0].n_successors, 1);
        assert_int_equal(result.stages[0].successors[0], 1);
        assert_int_equal(result.stages[join].n_successors, 0);
        assert_int_equal(result.stages[0].in_flight_samples, 6);
    }
}

/* Two replicas halve the time; their gradients are summed at the end of the step. */
TEST(replicas)
{
    FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
    struct world w;

    begin(&w, 2, 16);
    chain(&w, 0);
    w.nodes[0].ns[0] = w.nodes[0].ns[1] = 3000;
    w.nodes[0].param_bytes = 8;
    w.stages[0].n_ranks = 2;
    w.stages[0].microbatch_size = w.stages[1].microbatch_size = 2;
    w.problem.allreduce_bandwidth = 1e6; /* a byte takes 1000 ns */
    result = judged(&w);
    near(result.stages[0].compute_ns, 6000);
    near(result.stages[0].compute_per_sample_ns, 3000);
    near(result.stages[0].sync_per_sample_ns, 8000.0 / 16);
    near(result.bottleneck_ns, 3500);
    /* Eight micro-batches of 6 us behind each other on two stages, then the all-reduce: 9 x 6 + 8.
     */
    near(result.step_ns, 62000);
}

/* Transfers take no time under "none", and delay under the others: F, 4 us, F, BW, 4 us, BW. */
TEST(transfers)
{
    for (uint32_t model = PST_COMM_NONE; model <= PST_COMM_MAX; model++) {
        FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
        struct world w;

        begin(&w, 2, 1);
        chain(&w, 4);
        w.problem.p2p_bandwidth = 1e6;
        w.problem.comm_model = model;
        result = judged(&w);
        near(result.step_ns, model == PST_COMM_NONE ? 6000 : 14000);
        near(result.bottleneck_ns, model == PST_COMM_NONE  ? 3000
                                   : model == PST_COMM_SUM ? 3000 + 8000
                                                           : 8000);
    }
}

/* Two edges between the same stages are one successor, and both count as transfers. */
TEST(parallel_edges)
{
    static const uint32_t both[] = {0, 1};
    FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
    struct world w;

    begin(&w, 3, 4);
    edge(&w, 0, 2, 1);
    edge(&w, 1, 2, 2);
    w.answer.n_stages = 2;
    w.stages[0].n_nodes = 2;
    w.stages[0].nodes = both;
    w.stages[1].nodes = &w.index[2];
    w.problem.p2p_bandwidth = 1e9;
    result = judged(&w);
    assert_int_equal(result.stages[0].n_successors, 1);
    near(result.stages[0].p2p_per_sample_ns, 6);
    near(result.stages[1].p2p_per_sample_ns, 6);
}

TEST(nothing_takes_time)
{
    FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
    struct world w;

    begin(&w, 2, 4);
    chain(&w, 0);
    memset(w.nodes[0].ns, 0, sizeof w.nodes[0].ns);
    memset(w.nodes[1].ns, 0, sizeof w.nodes[1].ns);
    result = judged(&w);
    assert_true(result.step_ns == 0 && result.bottleneck_ns == 0);
}

TEST(memory_decides)
{
    struct pst_partition_result result;
    struct pst_error err = {0};
    struct world w;

    for (uint32_t bytes = 24; bytes >= 23; bytes--) {
        begin(&w, 3, 16);
        chain(&w, 0);
        for (uint32_t s = 0; s < 3; s++) {
            w.nodes[s].saved_bytes = 4;
            w.stages[s].microbatch_size = 2;
        }
        w.problem.memory_bytes = bytes; /* the first of three stages holds 3 x 2 x 4 */
        if (bytes == 24) {
            result = judged(&w);
            near(result.stages[0].memory_bytes, 24);
            pst_partition_result_finish(&result);
        } else {
            assert_int_equal(judge(&w, &result, &err), PST_ERR_INFEASIBLE);
            assert_non_null(strstr(err.message, "stage 0 (\"n0\""));
            assert_non_null(strstr(err.message, "24 B"));
        }
    }
}

TEST(rules)
{
    static const uint32_t wrong[] = {0, 2};
    struct pst_partition_result result;
    struct world w;

    for (uint32_t rule = 0; rule < 8; rule++) {
        static const char *const words[] = {
            "convex",          "is in no stage", "in stage 0 and", "has a stage already",
            "sizes are those", "degrees",        "replicas",       "but there are 16"};
        struct pst_error err = {0};

        begin(&w, 3, 16);
        chain(&w, 0);
        switch (rule) {
        case 0:
            w.stages[0].nodes = wrong;
            w.stages[0].n_nodes = 2;
            w.answer.n_stages = 2;
            break;
        case 1:
            w.answer.n_stages = 2;
            break;
        case 2:
            w.stages[1].nodes = &w.index[0];
            break;
        case 3:
            w.ranks[1] = 0;
            break;
        case 4:
            w.stages[1].microbatch_size = 3;
            break;
        case 5:
            w.stages[1].n_ranks = 3;
            break;
        case 6:
            w.stages[1].n_ranks = 2; /* of one sample */
            break;
        default:
            w.ranks[2] = 16;
        }
        assert_int_equal(judge(&w, &result, &err), PST_ERR_BUG);
        assert_string_equal(err.kind, "plan.illegal");
        assert_int_equal(err.exit_code, 3);
        if (strstr(err.message, words[rule]) == NULL) {
            fail_msg("rule %u: %s", rule, err.message);
        }
    }
}
