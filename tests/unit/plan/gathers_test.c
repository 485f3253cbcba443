/* SPDX-License-Identifier: Apache-2.0
 *
 * What passes gather, parameter by parameter, and after which operators they sum gradients, against
 * sequences that follow from the rules of plan/gathers.h by hand.
 */
#include "test.h"

#include "plan/gathers.h"
#include "plan/shards.h"

enum { NONE = PST_NONE, N_OPS = 6, N_PARAMS = 7, MOST = 4 };

/*
 * operator   0       1       2       3       4       5
 * layer      0       1       1       2       3       3
 * reads      0       1 2     3       4       5 0     6
 *
 * Parameter 0 is tied; operator 5 has no second one.
 */
static const uint32_t reads[N_OPS][2] = {{0, NONE}, {1, 2}, {3, NONE},
                                         {4, NONE}, {5, 0}, {6, NONE}};
static const uint32_t nodes[N_OPS] = {0, 1, 2, 3, 4, 5}, ranks[] = {0, 1, 2, 3};
static const uint32_t both[] = {0, 1};

struct scene {
    struct pst_op ops[N_OPS];
    struct pst_parameter params[N_PARAMS];
    struct pst_graph graph;
    struct pst_plan_stage stages[2];
    struct pst_plan_tie tie;
    struct pst_plan plan;
    struct pst_arena arena;
    struct pst_gathers gathers;
};

static void begin_pass(struct scene *scene)
{
    pst_gathers_init(&scene->gathers, &scene->plan, &scene->graph, &scene->arena);
}

/* Stages of so many ranks, of operators 0 to first - 1 and the others; 0: there is no other. */
static void open_scene(struct scene *scene, uint32_t zero, uint32_t first, uint32_t a, uint32_t b)
{
    static const uint32_t layers[N_OPS] = {0, 1, 1, 2, 3, 3};

    *scene = (struct scene){.tie = {.parameter = 0, .stages = both, .n_stages = b > 0 ? 2 : 1}};
    for (uint32_t i = 0; i < N_OPS; i++) {
        scene->ops[i] = (struct pst_op){.layer = layers[i], .n_param = 2, .param = reads[i]};
    }
    for (uint32_t p = 0; p < N_PARAMS; p++) {
        scene->params[p] = (struct pst_parameter){.elems = 10, .n_users = p == 0 ? 2 : 1};
    }
    scene->graph = (struct pst_graph){
        .n_ops = N_OPS, .n_params = N_PARAMS, .ops = scene->ops, .params = scene->params};
    scene->stages[0] = (struct pst_plan_stage){
        .nodes = nodes, .n_nodes = first, .ranks = ranks, .n_ranks = a, .tensor = 1};
    scene->stages[1] = (struct pst_plan_stage){.nodes = nodes + first,
                                               .n_nodes = N_OPS - first,
                                               .ranks = ranks + a,
                                               .n_ranks = b,
                                               .tensor = 1};
    scene->plan = (struct pst_plan){.zero = zero,
                                    .n_stages = b > 0 ? 2 : 1,
                                    .stages = scene->stages,
                                    .n_ties = 1,
                                    .ties = &scene->tie};
    begin_pass(scene);
}

static void close_scene(struct scene *scene)
{
    pst_arena_finish(&scene->arena);
}

/* An operator reads all of its parameters: what comes for each, in a row; NONE ends each of them.
 */
static void expect(struct scene *scene, uint32_t stage, uint32_t op, const uint32_t *expected)
{
    const uint32_t node = op - scene->stages[stage].nodes[0];

    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t *bucket = NULL;
        uint32_t n;

        if (reads[op][i] == NONE) {
            continue;
        }
        n = pst_gathers_need(&scene->gathers, stage, node, reads[op][i], &bucket);
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(bucket[k], *expected++);
        }
        assert_int_equal(*expected++, NONE);
    }
}

#define EXPECT(scene, stage, op, ...)                                                              \
    expect(scene, stage, op, (const uint32_t[]){__VA_ARGS__, NONE})

/* Buckets: A = {0}, B = {1 2 3}, C = {4}, D = {5 6}. Two are there. */
static void expect_forward(struct scene *scene)
{
    EXPECT(scene, 0, 0, 0, NONE);             /* A */
    EXPECT(scene, 0, 1, 1, 2, 3, NONE, NONE); /* A B; the second of its parameters is there */
    EXPECT(scene, 0, 2, NONE);
    EXPECT(scene, 0, 3, 4, NONE);             /* B C */
    EXPECT(scene, 0, 4, 5, 6, NONE, 0, NONE); /* C D, then D A: one operator reads both */
    EXPECT(scene, 0, 5, NONE);                /* D is the last but one */
}

TEST(forward)
{
    struct scene scene;

    open_scene(&scene, 3, N_OPS, 2, 0);
    expect_forward(&scene);
    close_scene(&scene);
}

/* From the last operator to the first. What the pass before had is not there. */
TEST(backward)
{
    struct scene scene;

    open_scene(&scene, 3, N_OPS, 3, 0);
    expect_forward(&scene);
    begin_pass(&scene);
    EXPECT(&scene, 0, 5, 5, 6, NONE);    /* D */
    EXPECT(&scene, 0, 4, NONE, 0, NONE); /* D A */
    EXPECT(&scene, 0, 3, 4, NONE);       /* A C */
    EXPECT(&scene, 0, 2, 1, 2, 3, NONE); /* C B */
    EXPECT(&scene, 0, 1, NONE, NONE);
    EXPECT(&scene, 0, 0, 0, NONE); /* A again: two have come since */
    begin_pass(&scene);
    EXPECT(&scene, 0, 0, 0, NONE);
    close_scene(&scene);
}

/* A replay inside a backward pass goes forward and comes back. */
TEST(once_more)
{
    struct scene scene;

    open_scene(&scene, 3, N_OPS, 2, 0);
    EXPECT(&scene, 0, 2, 1, 2, 3, NONE); /* B, of which the first is not read */
    EXPECT(&scene, 0, 3, 4, NONE);       /* B C */
    EXPECT(&scene, 0, 3, NONE);
    EXPECT(&scene, 0, 2, NONE);       /* still there, and no younger for that */
    EXPECT(&scene, 0, 5, 5, 6, NONE); /* C D */
    EXPECT(&scene, 0, 3, NONE);
    EXPECT(&scene, 0, 2, 1, 2, 3, NONE); /* D B */
    EXPECT(&scene, 0, 3, 4, NONE);       /* B C */
    close_scene(&scene);
}

/* A layer of two stages: each gathers what it has of it. A tied parameter is in pieces in both. */
TEST(stages)
{
    struct scene scene;

    open_scene(&scene, 3, 2, 2, 2);
    EXPECT(&scene, 0, 0, 0, NONE);
    EXPECT(&scene, 0, 1, 1, 2, NONE, NONE);
    begin_pass(&scene);
    EXPECT(&scene, 1, 2, 3, NONE);
    EXPECT(&scene, 1, 3, 4, NONE);
    EXPECT(&scene, 1, 4, 5, 6, NONE, 0, NONE);
    close_scene(&scene);
}

/* A tied parameter whose stages have other numbers of replicas is whole, and counts for none. */
TEST(whole)
{
    struct scene scene;

    open_scene(&scene, 3, 3, 3, 1);
    EXPECT(&scene, 0, 0, NONE);
    EXPECT(&scene, 0, 1, 1, 2, 3, NONE, NONE);
    EXPECT(&scene, 0, 0, NONE);
    EXPECT(&scene, 0, 2, NONE);
    begin_pass(&scene);
    EXPECT(&scene, 1, 3, NONE); /* one replica */
    EXPECT(&scene, 1, 4, NONE, NONE);
    close_scene(&scene);
    open_scene(&scene, 2, N_OPS, 2, 0);
    EXPECT(&scene, 0, 1, NONE, NONE); /* zero 2 */
    close_scene(&scene);
}

/* After the operators of the stage with an end the gradients of those up to there are summed. */
static void expect_sums(struct scene *scene, uint32_t stage, const uint32_t *ends)
{
    for (uint32_t node = 0; node < scene->stages[stage].n_nodes; node++) {
        uint32_t end;
        const bool sums = pst_scatters_layer(&scene->plan, &scene->graph, stage, node, &end);

        assert_int_equal(sums ? end : NONE, ends[node]);
    }
}

/* Operator 0 has a tied parameter alone, which is summed apart. */
TEST(sums)
{
    static const uint32_t all[] = {NONE, 3, NONE, 4, 6, NONE};
    static const uint32_t first[] = {NONE, 2}, second[] = {1, 2, 4, NONE};
    static const uint32_t never[] = {NONE, NONE, NONE, NONE, NONE, NONE};
    struct scene scene;

    open_scene(&scene, 2, N_OPS, 2, 0);
    expect_sums(&scene, 0, all);
    assert_false(pst_scatters_in_layer(&scene.plan, &scene.graph, 0, 0));
    assert_true(pst_scatters_in_layer(&scene.plan, &scene.graph, 0, 5));
    close_scene(&scene);
    open_scene(&scene, 3, 2, 2, 2); /* a layer of two stages */
    expect_sums(&scene, 0, first);
    expect_sums(&scene, 1, second);
    close_scene(&scene);
    open_scene(&scene, 1, N_OPS, 2, 0);
    expect_sums(&scene, 0, never);
    close_scene(&scene);
    open_scene(&scene, 2, N_OPS, 1, 0); /* one replica */
    expect_sums(&scene, 0, never);
    close_scene(&scene);
}
