/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognition of series-parallel graphs: known trees, the edges of a tree against those of its
 * graph, success against a plain reduction of a matrix, and what becomes of other graphs.
 */
#include "block.h"
#include "partition_rig.h"

#include "test.h"

static struct gp_tree tree_of(const struct rig_graph *g, uint32_t rule, struct part_problem *p)
{
    struct rig_case c = rig_case_of(g);
    struct gp_tree tree;
    int64_t *work = calloc(g->n, sizeof *work);

    assert_non_null(work);
    for (uint32_t v = 0; v < g->n; v++) {
        work[v] = (int64_t)g->tau[v];
    }
    rig_problem(&c, p);
    gp_tree_init(&tree, p, work, rule);
    free(work);
    return tree;
}

static void write_block(const struct gp_tree *tree, const struct part_problem *problem, FILE *out,
                        uint32_t at)
{
    const struct gp_block *block = &tree->blocks[at];
    const char *gap = "";
    uint32_t i;

    if (block->kind == GP_EDGE) {
        fputs("e", out);
        return;
    }
    fputs(block->kind == GP_SERIES ? "S(" : "P(", out);
    for (i = 0; i < block->n_kids; i++) {
        uint32_t kid = tree->kids[block->first_kid + i];

        if (block->kind == GP_SERIES && i > 0) {
            uint32_t op = tree->ops[block->first_op + i - 1];

            fputs(gap, out);
            if (op < problem->n) {
                fprintf(out, "%u", op);
            } else {
                fputs("*", out);
            }
            gap = " ";
        }
        if (block->kind == GP_PARALLEL || tree->blocks[kid].kind != GP_EDGE) {
            fputs(gap, out);
            write_block(tree, problem, out, kid);
            gap = " ";
        }
    }
    fputs(")", out);
}

/* "S(0 P(1 2) 3)": operators by number, virtual ones as *, bare edges beside branches as e. */
static void expect_text(struct rig_graph *g, const char *expected, bool reduced, bool sp)
{
    struct part_problem p;
    struct gp_tree tree;
    char text[1024] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    rig_sort(g);
    tree = tree_of(g, GP_SP_FLEXIBLE, &p);
    write_block(&tree, &p, out, tree.n_blocks - 1);
    fclose(out);
    assert_string_equal(text, expected);
    assert_int_equal(tree.reduced, reduced);
    assert_int_equal(tree.series_parallel, sp);
    rig_graph_finish(g);
}

static void edges(struct rig_graph *g, uint32_t n, const uint32_t (*list)[2], uint32_t n_list)
{
    rig_graph_init(g, n);
    for (uint32_t e = 0; e < n_list; e++) {
        rig_edge(g, list[e][0], list[e][1], 0);
    }
}

TEST(test_known_trees)
{
    static const uint32_t skip[][2] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}};
    static const uint32_t nested[][2] = {{0, 1}, {1, 2}, {1, 3}, {2, 4},
                                         {3, 4}, {4, 6}, {0, 5}, {5, 6}};
    struct rig_graph g;

    rig_chain(&g, 1);
    expect_text(&g, "S(0)", true, true);
    rig_chain(&g, 4);
    expect_text(&g, "S(0 1 2 3)", true, true);
    rig_branches(&g, 2, (const uint32_t[]){2, 1}, 1, 2, true);
    expect_text(&g, "S(0 P(S(1 2) S(3) e) 4 5)", true, true);
    rig_branches(&g, 2, (const uint32_t[]){2, 2}, 0, 1, false);
    expect_text(&g, "S(P(S(0 1) S(2 3)) 4)", true, true);
    edges(&g, 5, skip, 5);
    expect_text(&g, "S(0 P(S(1 2) e) 3 4)", true, true);
    edges(&g, 7, nested, 8);
    expect_text(&g, "S(0 P(S(1 P(S(2) S(3)) 4) S(5)) 6)", true, true);
    rig_graph_init(&g, 3); /* no edges at all */
    expect_text(&g, "S(P(S(0) S(1) S(2)))", true, true);
    rig_special(&g, RIG_UNET, 6);
    expect_text(&g, "S(0 P(S(1 P(S(2 3) e) 4) e) 5)", true, true);
}

/* Completely joined layers, and edges that others imply: a virtual operator, no loss. */
TEST(test_joins)
{
    static const uint32_t k22[][2] = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
    static const uint32_t k23[][2] = {{0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {4, 5}};
    struct rig_graph g;

    edges(&g, 4, k22, 4);
    expect_text(&g, "S(P(S(0) S(1)) * P(S(2) S(3)))", false, true);
    edges(&g, 6, k23, 7);
    expect_text(&g, "S(P(S(0) S(1)) * P(S(2) S(3) S(4 5)))", false, true);
    rig_special(&g, RIG_BRIDGE, 0);
    expect_text(&g, "S(0 1 2 3)", false, true);
}

/* The edges that a block stands for, s and t at its ends (n: none). */
static void count_edges(const struct gp_tree *tree, uint32_t at, uint32_t s, uint32_t t, uint32_t n,
                        uint32_t *seen)
{
    const struct gp_block *b = &tree->blocks[at];

    if (b->kind == GP_EDGE) {
        if (s < n && t < n) {
            assert_int_equal(b->n_edges, 1);
        } else {
            assert_int_equal(b->n_edges, 0);
        }
        for (uint32_t i = 0; i < b->n_edges; i++) {
            seen[tree->edges[b->first_edge + i]]++;
        }
        return;
    }
    for (uint32_t i = 0; i < b->n_kids; i++) {
        const uint32_t *ops = tree->ops + b->first_op;
        bool series = b->kind == GP_SERIES;

        count_edges(tree, tree->kids[b->first_kid + i], series && i > 0 ? ops[i - 1] : s,
                    series && i < b->n_ops ? ops[i] : t, n, seen);
    }
}

TEST(test_edges_of_trees)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t draws = seed;
        uint32_t n = (uint32_t)rig_draw(&draws, 10, 300);
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct part_problem p;
        struct gp_tree tree;
        uint32_t *seen;

        rig_nested(&g, n, 5, 6, 50, &draws);
        rig_costs(&g, RIG_UNIFORM, &draws);
        tree = tree_of(&g, GP_SP_REQUIRE, &p);
        assert_true(tree.reduced);
        assert_int_equal(tree.n_virtual, 0);
        seen = calloc(g.n_edges + 1, sizeof *seen);
        assert_non_null(seen);
        count_edges(&tree, tree.n_blocks - 1, n, n, n, seen);
        for (uint32_t e = 0; e < g.n_edges; e++) {
            assert_int_equal(seen[e], 1);
        }
        free(seen);
    }
}

/* A matrix of edges with source and sink; operators with one edge in and out go, as long as any. */
static bool reduces(const struct rig_graph *g)
{
    bool edge[16][16] = {{false}}, changed = true, out[16] = {false}, in[16] = {false};
    uint32_t n = g->n, left = g->n;
    bool gone[16] = {false};

    for (uint32_t e = 0; e < g->n_edges; e++) {
        edge[g->from[e]][g->to[e]] = true;
        out[g->from[e]] = in[g->to[e]] = true;
    }
    for (uint32_t v = 0; v < n; v++) {
        edge[n][v] = !in[v];
        edge[v][n + 1] = !out[v];
    }
    while (changed) {
        changed = false;
        for (uint32_t v = 0; v < n; v++) {
            uint32_t n_in = 0, n_out = 0, from = 0, to = 0;

            for (uint32_t u = 0; u < n + 2; u++) {
                n_in += edge[u][v];
                n_out += edge[v][u];
                from = edge[u][v] ? u : from;
                to = edge[v][u] ? u : to;
            }
            if (!gone[v] && n_in == 1 && n_out == 1) {
                edge[from][v] = edge[v][to] = false;
                edge[from][to] = true;
                gone[v] = changed = true;
                left--;
            }
        }
    }
    return left == 0;
}

struct draw {
    uint64_t seed;
    uint32_t n_reduced; /* of all so far */
};

/* A call: what a search that gives up had taken is given back with it. */
static pst_status expect_success(void *context)
{
    struct draw *draw = context;
    uint64_t draws = draw->seed;
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct part_problem p;
    struct gp_tree tree;
    bool expected;

    rig_random(&g, (uint32_t)rig_draw(&draws, 2, 8), (uint32_t)rig_draw(&draws, 5, 40), &draws);
    rig_costs(&g, RIG_UNIFORM, &draws);
    expected = reduces(&g);
    draw->n_reduced += expected;
    tree = tree_of(&g, GP_SP_REQUIRE, &p);
    if (tree.reduced != expected) {
        fail_msg("seed %llu", (unsigned long long)draw->seed);
    }
    if (!tree.series_parallel) {
        assert_int_equal(tree.n_blocks, 0);
        assert_true(tree.n_kernel >= 2);
    }
    return PST_OK;
}

TEST(test_success)
{
    struct draw draw = {.n_reduced = 0};

    for (draw.seed = 1; draw.seed <= 600; draw.seed++) {
        assert_int_equal(call_run(expect_success, &draw), PST_OK);
    }
    assert_in_range(draw.n_reduced, 50, 550);
}

static void count_ops(const struct gp_tree *tree, uint32_t *seen)
{
    for (uint32_t i = 0; i < tree->n_ops; i++) {
        seen[tree->ops[i]]++;
    }
}

/* Position of operators when a tree is walked from left to right: a topological order. */
static void walk(const struct gp_tree *tree, uint32_t at, uint32_t n, uint32_t *number,
                 uint32_t *next)
{
    const struct gp_block *b = &tree->blocks[at];

    for (uint32_t i = 0; b->kind != GP_EDGE && i < b->n_kids; i++) {
        if (b->kind == GP_SERIES && i > 0 && tree->ops[b->first_op + i - 1] < n) {
            number[tree->ops[b->first_op + i - 1]] = (*next)++;
        }
        walk(tree, tree->kids[b->first_kid + i], n, number, next);
    }
}

TEST(test_other_graphs)
{
    static const int kinds[] = {RIG_N, RIG_W, RIG_GRID};
    static const uint32_t rules[] = {GP_SP_FLEXIBLE, GP_SP_STRATA, GP_SP_ESCRIBANO};

    for (uint64_t seed = 0; seed < 90; seed++) {
        uint64_t draws = seed;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct part_problem p;
        uint32_t seen[256], number[256];

        if (seed < 3) {
            rig_special(&g, kinds[seed], 4);
        } else if (seed % 2 == 0) {
            rig_layered(&g, (uint32_t)rig_draw(&draws, 6, 60), 3, 3, 2, &draws);
        } else {
            rig_nearsp(&g, (uint32_t)rig_draw(&draws, 6, 120), 100, &draws);
        }
        rig_costs(&g, RIG_UNIFORM, &draws);
        for (uint32_t r = 0; r < 3; r++) {
            struct gp_tree tree = tree_of(&g, rules[r], &p);
            uint32_t next = 0;

            assert_true(seed >= 3 || !tree.series_parallel);
            memset(seen, 0, sizeof seen);
            assert_true(p.n + 2 + tree.n_virtual <= 256);
            count_ops(&tree, seen);
            for (uint32_t v = 0; v < p.n; v++) {
                assert_int_equal(seen[v], 1);
            }
            /* everything that had to come before still does */
            walk(&tree, tree.n_blocks - 1, p.n, number, &next);
            assert_int_equal(next, p.n);
            for (uint32_t e = 0; e < p.n_edges; e++) {
                assert_true(number[p.from[e]] < number[p.to[e]]);
            }
        }
    }
}

/* 1e5 operators in a row, side by side, and nested to the depth that is followed. */
TEST(test_large)
{
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct part_problem p;
    struct gp_tree tree;
    uint32_t lens[50];

    rig_chain(&g, 100000);
    rig_sort(&g);
    tree = tree_of(&g, GP_SP_REQUIRE, &p);
    assert_true(tree.reduced);
    assert_int_equal(tree.blocks[tree.n_blocks - 1].n_ops, 100000);
    rig_graph_finish(&g);
    for (uint32_t i = 0; i < 50; i++) {
        lens[i] = 1000;
    }
    rig_branches(&g, 50, lens, 1, 1, false);
    rig_sort(&g);
    tree = tree_of(&g, GP_SP_REQUIRE, &p);
    assert_true(tree.reduced);
    rig_graph_finish(&g);
    rig_special(&g, RIG_UNET, 20000); /* nested too deeply: recognised, no blocks */
    rig_sort(&g);
    tree = tree_of(&g, GP_SP_REQUIRE, &p);
    assert_true(tree.reduced);
    assert_int_equal(tree.n_blocks, 0);
}
