/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of general operators alone, as one from a file is: a norm and attention by their parts,
 * constants, a parameter that two operators take, results that several read.
 */
#ifndef PST_TEST_EXEC_GENERAL_MODEL_H
#define PST_TEST_EXEC_GENERAL_MODEL_H

#include "test.h"

#include "graph/graph.h"

enum { GENERAL_ROWS = 4, GENERAL_WIDTH = 6 };

struct general {
    struct pst_graph_builder *b;
    uint32_t n;
};

/* Adds *op with those of three inputs that are there. */
static uint32_t general_add(struct general *g, struct pst_op op, uint32_t x0, uint32_t x1,
                            uint32_t x2)
{
    const uint32_t in[3] = {x0, x1, x2};
    char name[16];

    snprintf(name, sizeof name, "%s%u", pst_op_kind_name(op.kind), g->n);
    pst_graph_layer(g->b, g->n++ / 8);
    op.name = name;
    op.in = in;
    op.n_in = x0 == PST_NONE ? 0 : x1 == PST_NONE ? 1 : x2 == PST_NONE ? 2 : 3;
    return pst_graph_add(g->b, &op);
}

static uint32_t general_map(struct general *g, uint32_t map, float s, float t, uint32_t x0,
                            uint32_t x1)
{
    return general_add(g, (struct pst_op){.kind = PST_OP_MAP, .map = map, .constants = {s, t}}, x0,
                       x1, PST_NONE);
}

static uint32_t general_reduce(struct general *g, uint32_t reduce, uint32_t axes, uint32_t x)
{
    return general_add(g, (struct pst_op){.kind = PST_OP_REDUCE, .reduce = reduce, .axes = axes}, x,
                       PST_NONE, PST_NONE);
}

static uint32_t general_product(struct general *g, uint32_t a, uint32_t b, bool swapped)
{
    return general_add(g, (struct pst_op){.kind = PST_OP_MATMUL, .swapped = {false, swapped}}, a, b,
                       PST_NONE);
}

static uint32_t general_parameter(struct general *g, uint32_t param)
{
    return general_add(g, (struct pst_op){.kind = PST_OP_PARAMETER, .n_param = 1, .param = &param},
                       PST_NONE, PST_NONE, PST_NONE);
}

static uint32_t general_weight(struct general *g, const char *name, uint64_t rows, uint64_t columns)
{
    const uint64_t dims[] = {rows == 0 ? columns : rows, columns};

    return pst_graph_param(g->b, name, rows == 0 ? 1 : 2, dims, PST_INIT_NORMAL, 0.5f, rows != 0);
}

/* x minus its mean by its deviation, times gain. */
static uint32_t general_norm(struct general *g, uint32_t x)
{
    const uint32_t gain = general_parameter(g, general_weight(g, "gain", 0, GENERAL_WIDTH));
    const uint32_t mean = general_reduce(g, PST_REDUCE_MEAN, 1, x);
    const uint32_t d = general_map(g, PST_MAP_SUB, 0, 0, x, mean);
    uint32_t v = general_map(g, PST_MAP_POWER, 2, 0, d, PST_NONE);

    v = general_reduce(g, PST_REDUCE_MEAN, 1, v);
    v = general_map(g, PST_MAP_AFFINE, 1, 1e-3f, v, PST_NONE);
    v = general_map(g, PST_MAP_SQRT, 0, 0, v, PST_NONE);
    v = general_map(g, PST_MAP_DIV, 0, 0, d, v);
    return general_map(g, PST_MAP_MUL, 0, 0, v, gain);
}

/* [rows, width] to [2, rows, width / 2]. */
static uint32_t general_heads(struct general *g, uint32_t x)
{
    const struct pst_form split = {.rank = 3, .dims = {GENERAL_ROWS, 2, GENERAL_WIDTH / 2}};
    const struct pst_form turn = {.rank = 3,
                                  .dims = {2, GENERAL_ROWS, GENERAL_WIDTH / 2},
                                  .from = {1, 0, 2},
                                  .step = {1, 1, 1}};

    x = general_add(g, (struct pst_op){.kind = PST_OP_RESHAPE, .form = &split}, x, PST_NONE,
                    PST_NONE);
    return general_add(g, (struct pst_op){.kind = PST_OP_STRIDED, .form = &turn}, x, PST_NONE,
                       PST_NONE);
}

/* Rows that come later are not seen. */
static uint32_t general_masked(struct general *g, uint32_t scores)
{
    static const int32_t seen[] = {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1};
    static const float far[] = {-1e9f};
    const struct pst_form mask = {
        .rank = 2, .dims = {GENERAL_ROWS, GENERAL_ROWS}, .dtype = PST_I32, .data = seen};
    const struct pst_form number = {.rank = 1, .dims = {1}, .dtype = PST_F32, .data = far};
    const uint32_t m = general_add(g, (struct pst_op){.kind = PST_OP_CONSTANT, .form = &mask},
                                   PST_NONE, PST_NONE, PST_NONE);
    const uint32_t n = general_add(g, (struct pst_op){.kind = PST_OP_CONSTANT, .form = &number},
                                   PST_NONE, PST_NONE, PST_NONE);

    return general_add(g, (struct pst_op){.kind = PST_OP_MAP, .map = PST_MAP_SELECT}, m, scores, n);
}

static uint32_t general_attention(struct general *g, uint32_t x, uint32_t weight)
{
    const struct pst_form turn = {.rank = 3,
                                  .dims = {GENERAL_ROWS, 2, GENERAL_WIDTH / 2},
                                  .from = {1, 0, 2},
                                  .step = {1, 1, 1}};
    const struct pst_form join = {.rank = 2, .dims = {GENERAL_ROWS, GENERAL_WIDTH}};
    const uint32_t w = general_parameter(g, weight);
    const uint32_t q = general_heads(g, general_product(g, x, w, false));
    const uint32_t k = general_heads(g, general_product(g, x, w, true));
    uint32_t y = general_product(g, q, k, true);

    y = general_masked(g, general_map(g, PST_MAP_AFFINE, 0.5f, 0, y, PST_NONE));
    y = general_add(g, (struct pst_op){.kind = PST_OP_SOFTMAX}, y, PST_NONE, PST_NONE);
    y = general_product(g, y, general_heads(g, x), false);
    y = general_add(g, (struct pst_op){.kind = PST_OP_STRIDED, .form = &turn}, y, PST_NONE,
                    PST_NONE);
    return general_add(g, (struct pst_op){.kind = PST_OP_RESHAPE, .form = &join}, y, PST_NONE,
                       PST_NONE);
}

/* The rows in another order, times what of each column is largest, side by side. */
static uint32_t general_mixed(struct general *g, uint32_t x)
{
    static const int32_t order[] = {2, 0, 2, 3};
    const struct pst_form places = {
        .rank = 1, .dims = {GENERAL_ROWS}, .dtype = PST_I32, .data = order};
    const struct pst_form half = {.rank = 2,
                                  .dims = {GENERAL_ROWS, GENERAL_WIDTH / 2},
                                  .from = {0, 1},
                                  .start = {0, 1},
                                  .step = {1, 2}};
    const uint32_t at = general_add(g, (struct pst_op){.kind = PST_OP_CONSTANT, .form = &places},
                                    PST_NONE, PST_NONE, PST_NONE);
    uint32_t y = general_add(g, (struct pst_op){.kind = PST_OP_GATHER, .axis = 1}, x, at, PST_NONE);
    const uint32_t top = general_reduce(g, PST_REDUCE_MAX, 2, y);

    y = general_map(g, PST_MAP_MUL, 0, 0, y, top);
    y = general_map(g, PST_MAP_TANH, 0, 0, y, PST_NONE);
    x = general_add(g, (struct pst_op){.kind = PST_OP_STRIDED, .form = &half}, x, PST_NONE,
                    PST_NONE);
    y = general_add(g, (struct pst_op){.kind = PST_OP_STRIDED, .form = &half}, y, PST_NONE,
                    PST_NONE);
    return general_add(g, (struct pst_op){.kind = PST_OP_CONCAT}, x, y, PST_NONE);
}

static struct pst_graph *general_model(uint32_t dtype)
{
    const uint64_t x_dims[] = {GENERAL_ROWS, GENERAL_WIDTH}, t_dims[] = {GENERAL_ROWS};
    struct general g = {.n = 0};
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t x, targets, w, y, loss;

    assert_int_equal(pst_graph_builder_create("general", dtype, &g.b, &err), PST_OK);
    x = pst_graph_input(g.b, "x", PST_FIELD_X, dtype, 2, x_dims);
    targets = pst_graph_input(g.b, "t", PST_FIELD_TARGET, PST_I32, 1, t_dims);
    w = general_weight(&g, "weight", GENERAL_WIDTH, GENERAL_WIDTH);
    y = general_product(&g, x, general_parameter(&g, w), true);
    y = general_add(&g, (struct pst_op){.kind = PST_OP_ADD}, y,
                    general_attention(&g, general_norm(&g, y), w), PST_NONE);
    y = general_mixed(&g, y);
    loss = general_add(&g, (struct pst_op){.kind = PST_OP_CROSS_ENTROPY}, y, targets, PST_NONE);
    assert_ok(pst_graph_finish(g.b, loss, y, &graph, &err), &err);
    pst_graph_builder_destroy(g.b);
    return graph;
}

#endif
