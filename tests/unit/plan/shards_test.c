/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of parameters against the rule, block by block; square sums of pieces against the tree of
 * the whole parameter, bit for bit.
 */
#include "test.h"

#include "random.h"
#include "plan/shards.h"

enum { BLOCK = PST_SHARD_BLOCK, MOST = 24 };

/* A model of one parameter an operator, in layers. */
struct model {
    struct pst_graph graph;
    struct pst_op ops[MOST];
    struct pst_parameter params[MOST];
    uint32_t of[MOST], users[MOST], nodes[MOST], n;
};

static void draw(struct model *model, uint64_t *seed)
{
    memset(model, 0, sizeof *model);
    model->n = 1 + (uint32_t)(next_random(seed) % MOST);
    for (uint32_t i = 0, layer = 0; i < model->n; i++) {
        layer += next_random(seed) % 3 == 0;
        model->of[i] = model->users[i] = model->nodes[i] = i;
        model->ops[i] = (struct pst_op){.layer = layer, .n_param = 1, .param = &model->of[i]};
        model->params[i] = (struct pst_parameter){
            .elems = 1 + next_random(seed) % (next_random(seed) % 2 ? 6 * BLOCK : 700),
            .muon = next_random(seed) % 5 == 0,
            .n_users = 1,
            .users = &model->users[i]};
    }
    model->graph = (struct pst_graph){
        .n_ops = model->n, .n_params = model->n, .ops = model->ops, .params = model->params};
}

/* The member that the rule gives a block that begins at this element of its layer. */
static uint32_t member_of(const struct model *model, uint32_t i, uint64_t at, uint32_t n)
{
    uint64_t before = 0, all = 0;
    uint32_t bucket = 0;

    for (uint32_t k = 0; k < model->n; k++) {
        bucket += k > 0 && k <= i && model->ops[k].layer != model->ops[k - 1].layer;
        if (model->ops[k].layer == model->ops[i].layer) {
            before += k < i ? model->params[k].elems : 0;
            all += model->params[k].elems;
        }
    }
    return (uint32_t)(((before + at) * n / all + bucket) % n);
}

TEST(blocks_have_the_member_of_the_rule)
{
    uint64_t seed = 1;

    for (uint32_t round = 0; round < 3000; round++) {
        struct pst_arena arena = {0};
        struct pst_shards shards;
        static struct model model;
        const uint32_t n = 2 + (uint32_t)(next_random(&seed) % 6);

        draw(&model, &seed);
        pst_shards_make(&model.graph, model.nodes, model.n, n, NULL, &arena, &shards);
        for (uint32_t i = 0; i < model.n; i++) {
            const struct pst_parameter *parameter = &model.params[i];
            const uint64_t block = parameter->muon ? parameter->elems : BLOCK;
            uint64_t covered = 0;

            for (uint64_t at = 0; at < parameter->elems; at += block) {
                const uint64_t end = at + block < parameter->elems ? at + block : parameter->elems;
                const struct pst_shard piece =
                    pst_shard_of(&shards, &model.graph, i, member_of(&model, i, at, n));

                assert_true(piece.first <= at && end <= piece.first + piece.elems);
            }
            for (uint32_t m = 0; m < n; m++) {
                covered += pst_shard_of(&shards, &model.graph, i, m).elems;
            }
            assert_int_equal(covered, parameter->elems);
        }
        pst_arena_finish(&arena);
    }
}

/* Six blocks of one layer on three members, the second bucket one further on, by hand. */
TEST(as_worked_out)
{
    static struct model model;
    struct pst_arena arena = {0};
    struct pst_shards shards;

    model.n = 3;
    for (uint32_t i = 0; i < 3; i++) {
        static const uint64_t elems[] = {4 * BLOCK, 2 * BLOCK, 3 * BLOCK - 1};

        model.of[i] = model.users[i] = model.nodes[i] = i;
        model.ops[i] = (struct pst_op){.layer = i / 2, .n_param = 1, .param = &model.of[i]};
        model.params[i] =
            (struct pst_parameter){.elems = elems[i], .n_users = 1, .users = &model.users[i]};
    }
    model.graph =
        (struct pst_graph){.n_ops = 3, .n_params = 3, .ops = model.ops, .params = model.params};
    pst_shards_make(&model.graph, model.nodes, 3, 3, NULL, &arena, &shards);
    const struct pst_shard expected[3][3] = {
        {{0, 2 * BLOCK}, {2 * BLOCK, 2 * BLOCK}, {4 * BLOCK, 0}},
        {{0, 0}, {0, 0}, {0, 2 * BLOCK}},
        /* blocks begin at 0, 1/3 and 2/3 of 3 blocks less one element: in thirds 0, 1, 2 */
        {{2 * BLOCK, BLOCK - 1}, {0, BLOCK}, {BLOCK, BLOCK}},
    };
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t m = 0; m < 3; m++) {
            const struct pst_shard piece = pst_shard_of(&shards, &model.graph, i, m);

            assert_int_equal(piece.elems, expected[i][m].elems);
            assert_true(piece.elems == 0 || piece.first == expected[i][m].first);
        }
    }
    pst_arena_finish(&arena);
}

/* --- the norm ----------------------------------------------------------------------------------*/

/* Sums of very different size, so that every order of adding has a result of its own. */
static double sum_of_block(uint32_t parameter, uint64_t block)
{
    uint64_t seed = parameter * 7919u + block * 104729u;
    const uint64_t bits = next_random(&seed);

    return (double)(bits >> 40) * (double)(1u << (bits & 31));
}

static double tree_of(uint32_t parameter, uint64_t block, uint64_t width, uint64_t n_blocks)
{
    if (block >= n_blocks) {
        return 0;
    }
    return width == 1 ? sum_of_block(parameter, block)
                      : tree_of(parameter, block, width / 2, n_blocks) +
                            tree_of(parameter, block + width / 2, width / 2, n_blocks);
}

static uint64_t blocks_in(uint64_t elems)
{
    return (elems + BLOCK - 1) / BLOCK;
}

static uint64_t power_from(uint64_t n)
{
    uint64_t width = 1;

    while (width < n) {
        width *= 2;
    }
    return width;
}

TEST(square_sums_are_those_of_whole_parameters)
{
    uint64_t seed = 2;

    for (uint32_t round = 0; round < 2000; round++) {
        static struct model model;
        struct pst_arena arena = {0};
        struct pst_plan *plan;
        struct pst_square_tree *trees;
        uint32_t ranks[8], n_trees;
        double *sums, whole = 0;
        const uint32_t n = 1 + (uint32_t)(next_random(&seed) % 8);

        draw(&model, &seed);
        for (uint32_t r = 0; r < n; r++) {
            ranks[r] = r;
        }
        pst_plan_create(&model.graph, n, n, &plan);
        pst_plan_add_stage(plan, model.nodes, model.n, ranks, n, n, 1);
        plan->zero = 1;
        n_trees = pst_plan_square_trees(plan, &model.graph, &arena, &trees);
        sums = pst_arena_array(&arena, n_trees, sizeof *sums);
        for (uint32_t t = 0; t < n_trees; t++) {
            const uint64_t blocks = blocks_in(trees[t].elems);

            assert_int_equal(trees[t].first % BLOCK, 0);
            sums[t] = tree_of(trees[t].parameter, trees[t].first / BLOCK, power_from(blocks),
                              blocks_in(model.params[trees[t].parameter].elems));
        }
        for (uint32_t p = 0; p < model.n; p++) {
            const uint64_t blocks = blocks_in(model.params[p].elems);

            whole += tree_of(p, 0, power_from(blocks), blocks);
        }
        assert_true(pst_square_trees_sum(trees, n_trees, sums) == whole);
        pst_plan_destroy(plan);
        pst_arena_finish(&arena);
    }
}

/* --- parts -------------------------------------------------------------------------------------*/

/* Replicas 0, 1, ... of T parts on ranks in a row; some parameters are split. */
static void plan_parts(struct model *model, uint32_t n, uint32_t tensor, uint64_t *seed,
                       struct pst_plan **ret_plan)
{
    uint32_t ranks[32];

    for (uint32_t r = 0; r < n * tensor; r++) {
        ranks[r] = r;
    }
    for (uint32_t p = 0; p < model->n; p++) {
        model->params[p].box.parts = next_random(seed) % 2 ? tensor : 0;
    }
    pst_plan_create(&model->graph, n, n * tensor, ret_plan);
    pst_plan_add_stage(*ret_plan, model->nodes, model->n, ranks, n * tensor, n, 1);
    (*ret_plan)->stages[0].tensor = tensor;
    (*ret_plan)->zero = next_random(seed) % 2;
}

/* Each part of a split parameter has a separate tree; they come in the order of the parts. Of a
   whole parameter only the first part is counted. Pieces belong to replicas. */
TEST(square_sums_of_parts)
{
    uint64_t seed = 3;

    for (uint32_t round = 0; round < 2000; round++) {
        static struct model model;
        struct pst_arena arena = {0};
        struct pst_plan *plan;
        struct pst_square_tree *trees;
        struct pst_shards shards;
        uint32_t n_trees;
        double *sums, whole = 0;
        const uint32_t n = 1 + (uint32_t)(next_random(&seed) % 4);
        const uint32_t tensor = 2 + (uint32_t)(next_random(&seed) % 3);

        draw(&model, &seed);
        plan_parts(&model, n, tensor, &seed, &plan);
        pst_shards_make(&model.graph, model.nodes, model.n, plan->zero ? n : 1, NULL, &arena,
                        &shards);
        n_trees = pst_plan_square_trees(plan, &model.graph, &arena, &trees);
        sums = pst_arena_array(&arena, n_trees, sizeof *sums);
        for (uint32_t t = 0; t < n_trees; t++) {
            const uint32_t p = trees[t].parameter;
            const struct pst_shard piece = pst_shard_of(&shards, &model.graph, p, trees[t].member);

            assert_true(piece.first <= trees[t].first &&
                        trees[t].first + trees[t].elems <= piece.first + piece.elems);
            sums[t] =
                tree_of(p * 4 + trees[t].part, trees[t].first / BLOCK,
                        power_from(blocks_in(trees[t].elems)), blocks_in(model.params[p].elems));
        }
        for (uint32_t p = 0; p < model.n; p++) {
            const uint64_t blocks = blocks_in(model.params[p].elems);

            for (uint32_t part = 0; part < (model.params[p].box.parts > 0 ? tensor : 1); part++) {
                whole += tree_of(p * 4 + part, 0, power_from(blocks), blocks);
            }
        }
        assert_true(pst_square_trees_sum(trees, n_trees, sums) == whole);
        pst_plan_destroy(plan);
        pst_arena_finish(&arena);
    }
}

/* Parts are no replicas: nothing is cut among them. */
TEST(parts_share_no_state)
{
    uint64_t seed = 4;
    static struct model model;
    struct pst_arena arena = {0};
    struct pst_plan *plan;
    struct pst_shards shards;

    draw(&model, &seed);
    plan_parts(&model, 1, 4, &seed, &plan);
    plan->zero = 1;
    pst_plan_shards(plan, &model.graph, 0, &arena, &shards);
    assert_int_equal(shards.n, 1);
    assert_false(pst_plan_cuts(plan, 0, 0));
    pst_plan_destroy(plan);
    pst_arena_finish(&arena);
}
