/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference cost model against its formulas, worked out by hand, and the in-flight counts that
 * are published: Jeon et al., "GraphPipe", ASPLOS 2025.
 */
#include "ask/rcm.h"
#include "models/costed/costed_file.h"

#include <penstock/ext/profile.h>

#include <math.h>
#include "test.h"

OWNER(costed)

/* Four nodes in a diamond 0 -> {1, 2} -> 3 and an edge 0 -> 3; costs for a batch of 2. */
static struct pst_costed *diamond(void)
{
    static struct pst_costed_node nodes[] = {
        {.name = "n0",
         .op = "x",
         .ns = {2, 4, 6},
         .fixed_ns = 8,
         .param_bytes = 10,
         .saved_bytes = 6},
        {.name = "n1",
         .op = "x",
         .ns = {4, 0, 0},
         .param_bytes = 0,
         .saved_bytes = 3,
         .workspace_bytes = 5,
         .backward_workspace_bytes = 9},
        {.name = "n2",
         .op = "x",
         .ns = {2, 2, 2},
         .param_bytes = 30,
         .saved_bytes = 0,
         .workspace_bytes = 7},
        {.name = "n3", .op = "x", .ns = {0, 0, 10}, .param_bytes = 2, .saved_bytes = 1},
    };
    static struct pst_costed_edge edges[] = {{0, 1, 2}, {0, 2, 4}, {0, 3, 6}, {1, 3, 8}, {2, 3, 1}};
    const struct pst_costed draft = {
        .name = "diamond", .batch = 2, .n_nodes = 4, .n_edges = 5, .nodes = nodes, .edges = edges};
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    assert_ok(pst_costed_create(&draft, &graph, &err), &err);
    return graph;
}

static struct pst_problem problem_of(struct pst_costed *graph)
{
    return (struct pst_problem){.graph = graph,
                                .n_devices = 4,
                                .memory_bytes = 1000,
                                .mini_batch = 16,
                                .weight_multiplier = 3,
                                .p2p_bandwidth = 0.5e9,      /* 2 ns a byte */
                                .allreduce_bandwidth = 1e9}; /* 1 ns a byte */
}

static struct pst_rcm_cost cost_of(const struct pst_problem *problem, const uint32_t *nodes,
                                   uint32_t n, uint32_t d, uint32_t b)
{
    const struct pst_rcm_stage stage = {nodes, n, d, b};
    struct pst_rcm_cost cost;
    struct pst_arena arena = {0};
    struct pst_rcm rcm;

    pst_rcm_init(&rcm, problem, &arena);
    pst_rcm_cost(&rcm, &stage, &cost);
    pst_arena_finish(&arena);
    return cost;
}

static void near(double is, double should)
{
    if (!(fabs(is - should) <= 1e-12 * fabs(should))) {
        fail_msg("is %.17g, should be %.17g", is, should);
    }
}

TEST(a_stage)
{
    const uint32_t nodes[] = {0, 1};
    OWN(costed) *graph = diamond();
    struct pst_problem problem = problem_of(graph);
    struct pst_rcm_cost cost = cost_of(&problem, nodes, 2, 2, 4);

    /* 4 samples on 2 ranks: 2 each, the batch of the file. n0: 2 + 4 + 6 + 8 fixed; n1: 4. */
    near(cost.pass_ns[0] + cost.pass_ns[1] + cost.pass_ns[2], 24);
    near(cost.compute_ns, 24.0 / 4);
    /* Cut: 0->2 (4 / 2), 0->3 (6 / 2), 1->3 (8 / 2): 9 bytes a sample, there and back, 2 ns a byte,
       over 2 links. */
    near(cost.transfer_ns, 2 * 9 * 2.0 / 2);
    /* 2 (d - 1) / d = 1 times 10 bytes over 16 samples. */
    near(cost.reduce_ns, 10.0 / 16);
    near(cost.total_ns, 6 + 10.0 / 16); /* transfers are free */
    near(cost.weight_bytes, 10);
    near(cost.saved_bytes, 4.5);
    near(cost.workspace_bytes, 9);
    /* 3 x 10 + 4.5 x 8 / 2 + 9; more samples than the mini-batch are never held; one more version
       is one more copy of the weights. */
    near(pst_rcm_memory(&problem, &cost, 2, 8, 1), 30 + 18 + 9);
    near(pst_rcm_memory(&problem, &cost, 2, 99, 1), 30 + 36 + 9);
    near(pst_rcm_memory(&problem, &cost, 2, 8, 2), 40 + 18 + 9);
}

TEST(communication_models)
{
    const uint32_t nodes[] = {2};
    OWN(costed) *graph = diamond();
    struct pst_problem problem = problem_of(graph);
    /* compute 6 / 2; transfers 2 x (2 + 0.5) x 2 / 1; no replicas */
    const double compute = 3, transfer = 10;

    problem.comm_model = PST_COMM_SUM;
    near(cost_of(&problem, nodes, 1, 1, 2).total_ns, compute + transfer);
    problem.comm_model = PST_COMM_MAX;
    near(cost_of(&problem, nodes, 1, 1, 2).total_ns, transfer);
    /* d = 4: compute 4 samples on 4 ranks: 1 each, 3 ns, over 4; 2 x 3 / 4 x 30 bytes / 16 */
    near(cost_of(&problem, nodes, 1, 4, 4).compute_ns, 0.75);
    near(cost_of(&problem, nodes, 1, 4, 4).reduce_ns, 1.5 * 30 / 16);
    near(cost_of(&problem, nodes, 1, 4, 4).total_ns, 1.5 * 30 / 16);
    problem.comm_model = PST_COMM_SUM;
    near(cost_of(&problem, nodes, 1, 4, 4).total_ns, 0.75 + 2.5 + 1.5 * 30 / 16);
    problem.p2p_bandwidth = problem.allreduce_bandwidth = 0; /* free */
    near(cost_of(&problem, nodes, 1, 4, 4).total_ns, 0.75);
}

/* Nothing of one question is left in the next. */
TEST(one_after_the_other)
{
    const uint32_t all[] = {0, 1, 2, 3}, last[] = {3};
    OWN(costed) *graph = diamond();
    struct pst_problem problem = problem_of(graph);
    const struct pst_rcm_stage stages[] = {{all, 4, 1, 2}, {last, 1, 1, 2}};
    struct pst_rcm_cost cost;
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
    struct pst_rcm rcm;

    pst_rcm_init(&rcm, &problem, &arena);
    rcm.stamp = UINT32_MAX - 2; /* the numbers of questions wrap on the way */
    for (uint32_t i = 0; i < 8; i++) {
        pst_rcm_cost(&rcm, &stages[i % 2], &cost);
        near(cost.transfer_ns, i % 2 == 0 ? 0 : 2 * (3 + 4 + 0.5) * 2);
    }
}

TEST(fitting)
{
    assert_true(pst_rcm_fits(24, 24));
    assert_true(pst_rcm_fits(0.3, 0.1 + 0.2)); /* rounding is no reason */
    assert_false(pst_rcm_fits(24, 24.000001));
    assert_true(pst_rcm_fits(INFINITY, 1e300));
    assert_true(pst_rcm_fits(0, 0));
}

/* --- what is held ------------------------------------------------------------------------------*/

struct spot {
    uint32_t b, k;
    uint32_t next[4], n_next; /* indices of later spots */
};

/* Samples held at every spot for `batch` samples a step. */
static void held(const struct spot *spots, uint32_t n, uint32_t batch, uint32_t *ret_samples)
{
    for (uint32_t s = n; s-- > 0;) {
        struct pst_successor next[4];
        struct pst_place place = {.size = sizeof place,
                                  .stage = s,
                                  .n_stages = n,
                                  .n_devices = n,
                                  .n_microbatches = batch / spots[s].b,
                                  .microbatch_size = spots[s].b,
                                  .k = spots[s].k,
                                  .n_successors = spots[s].n_next,
                                  .successor_size = sizeof next[0],
                                  .successors = next};

        for (uint32_t i = 0; i < spots[s].n_next; i++) {
            const struct spot *to = &spots[spots[s].next[i]];

            next[i] = (struct pst_successor){to->b, to->k, ret_samples[spots[s].next[i]] / to->b};
        }
        ret_samples[s] = (uint32_t)pst_rcm_in_flight(&place);
    }
}

static void expect_held(const struct spot *spots, uint32_t n, uint32_t batch,
                        const uint32_t *should)
{
    uint32_t samples[16];

    held(spots, n, batch, samples);
    for (uint32_t s = 0; s < n; s++) {
        if (samples[s] != should[s]) {
            fail_msg("stage %u holds %u samples, should be %u", s, samples[s], should[s]);
        }
    }
}

/* The paper's chain of stages with micro-batches of 1, 2 and 4 samples, against 4 everywhere. */
TEST(mixed_sizes)
{
    static const struct spot mixed[] = {{1, 1, {1}, 1}, {2, 2, {2}, 1}, {4, 1, {0}, 0}};
    static const struct spot paper[] = {{1, 2, {1}, 1}, {2, 2, {2}, 1}, {4, 1, {0}, 0}};
    static const struct spot equal[] = {{4, 1, {1}, 1}, {4, 1, {2}, 1}, {4, 1, {0}, 0}};

    expect_held(mixed, 3, 64, (const uint32_t[]){10, 8, 4});
    expect_held(paper, 3, 64, (const uint32_t[]){10, 8, 4});
    expect_held(equal, 3, 64, (const uint32_t[]){12, 8, 4});
    expect_held(equal, 3, 8, (const uint32_t[]){8, 8, 4}); /* no more than there are */
}

/* Eight stages, the first four of them with half the size and k = 2: 16, 14, ..., 2. */
TEST(groups)
{
    struct spot spots[8];

    for (uint32_t s = 0; s < 8; s++) {
        spots[s] = (struct spot){s < 4 ? 1 : 2, s < 4 ? 2 : 1, {s + 1}, s < 7 ? 1 : 0};
    }
    expect_held(spots, 8, 64, (const uint32_t[]){16, 14, 12, 10, 8, 6, 4, 2});
}

/* CANDLE-Uno: four branches into the stage with the join, and a sink; and the same six in a row. */
TEST(branches)
{
    static const struct spot graph[] = {{64, 1, {4}, 1}, {64, 1, {4}, 1}, {64, 1, {4}, 1},
                                        {64, 1, {4}, 1}, {64, 1, {5}, 1}, {64, 1, {0}, 0}};
    static const struct spot chain[] = {{64, 1, {1}, 1}, {64, 1, {2}, 1}, {64, 1, {3}, 1},
                                        {64, 1, {4}, 1}, {64, 1, {5}, 1}, {64, 1, {0}, 0}};

    expect_held(graph, 6, 4096, (const uint32_t[]){192, 192, 192, 192, 128, 64});
    expect_held(chain, 6, 4096, (const uint32_t[]){384, 320, 256, 192, 128, 64});
}

/* 4, 1, 4 samples with k = 1, 4, 1: 12, 8, 4; a rule that ignores the successor's k says 16. */
TEST(successors_k)
{
    static const struct spot spots[] = {{4, 1, {1}, 1}, {1, 4, {2}, 1}, {4, 1, {0}, 0}};
    static const struct spot longest[] = {
        {2, 1, {1, 3}, 2}, {2, 1, {2}, 1}, {2, 1, {3}, 1}, {2, 1, {0}, 0}};

    expect_held(spots, 3, 64, (const uint32_t[]){12, 8, 4});
    expect_held(longest, 4, 64, (const uint32_t[]){8, 6, 4, 2}); /* the skip does not count */
}
