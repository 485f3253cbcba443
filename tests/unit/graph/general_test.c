/* SPDX-License-Identifier: Apache-2.0
 *
 * The general operators: shapes as numpy has them, refusals that name the numbers, what backward
 * parts read, and the work of a pass, all worked out by hand.
 */
#include "unit/graph/graph_support.h"

#include "graph/draft.h"

static uint32_t number_of(uint64_t rank, const uint64_t *dims)
{
    uint32_t n = 0;

    for (uint64_t i = 0; i < rank; i++) {
        n = n * 10 + (uint32_t)dims[i];
    }
    return n;
}

/* The digits of the result's axes: 235 for [2, 3, 5]. */
static uint32_t shape_of(struct pst_op op, uint32_t dtype, const uint64_t x[3], const uint64_t z[3])
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x0 = input(b, "x", PST_F32, x[0], x[1], x[2]);
    uint32_t x1 = z == NULL ? PST_NONE : input(b, "z", dtype, z[0], z[1], z[2]);
    uint32_t y = add_op(b, op, "op", x0, x1, PST_NONE, PST_NONE), number = 0;

    if (y != PST_NONE) {
        number = number_of(b->tensors[y].rank, b->tensors[y].dims);
    } else {
        print_message("%s\n", b->error.message);
    }
    pst_graph_builder_destroy(b);
    return number;
}

#define DIMS(...) ((const uint64_t[3]){__VA_ARGS__})

TEST(shapes)
{
    const struct pst_op sum = {.kind = PST_OP_MAP, .map = PST_MAP_ADD};
    const struct pst_op product = {.kind = PST_OP_MATMUL};
    const struct pst_op swapped = {.kind = PST_OP_MATMUL, .swapped = {true, true}};
    const struct pst_op gather = {.kind = PST_OP_GATHER, .axis = 1};
    const struct pst_op reduce = {.kind = PST_OP_REDUCE, .axes = 5};
    const struct pst_op concat = {.kind = PST_OP_CONCAT, .axis = 1};
    const struct pst_op conv = {.kind = PST_OP_MAXPOOL2D,
                                .kernel = {2, 3},
                                .stride = {2, 1},
                                .pad = {0, 1},
                                .pad_more = {1, -1},
                                .dilation = {2, 1}};

    assert_int_equal(shape_of(sum, PST_F32, DIMS(2, 3, 5), DIMS(5)), 235);
    assert_int_equal(shape_of(sum, PST_F32, DIMS(3, 1), DIMS(2, 1, 5)), 235);
    assert_int_equal(shape_of(sum, PST_F32, DIMS(3, 4), DIMS(3, 5)), 0);
    assert_int_equal(shape_of(product, PST_F32, DIMS(2, 3), DIMS(4, 3, 5)), 425);
    assert_int_equal(shape_of(product, PST_F32, DIMS(4, 2, 3), DIMS(1, 3, 5)), 425);
    assert_int_equal(shape_of(swapped, PST_F32, DIMS(3, 2), DIMS(5, 3)), 25);
    assert_int_equal(shape_of(swapped, PST_F32, DIMS(2, 3), DIMS(5, 3)), 0);
    assert_int_equal(shape_of(gather, PST_I32, DIMS(2, 9, 5), DIMS(3, 4)), 2345);
    assert_int_equal(shape_of(gather, PST_F32, DIMS(2, 9, 5), DIMS(3, 4)), 0);
    assert_int_equal(shape_of(reduce, PST_F32, DIMS(2, 3, 5), NULL), 131);
    assert_int_equal(shape_of(reduce, PST_F32, DIMS(2, 3), NULL), 0);
    assert_int_equal(shape_of(concat, PST_F32, DIMS(2, 3, 5), DIMS(2, 4, 5)), 275);
    assert_int_equal(shape_of(concat, PST_F32, DIMS(2, 3, 5), DIMS(2, 4, 4)), 0);
    /* (5 + 1 - 3) / 2 + 1 = 2; (6 + 1 - 3) / 1 + 1 = 5 */
    assert_int_equal(shape_of(conv, PST_F32, DIMS(5, 6, 3), NULL), 253);
}

static void refuse(struct pst_op op, const uint64_t x[3], uint32_t dtype, const uint64_t z[3],
                   const char *text)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x0 = x == NULL ? PST_NONE : input(b, "x", PST_F32, x[0], x[1], x[2]);
    uint32_t x1 = z == NULL ? PST_NONE : input(b, "z", dtype, z[0], z[1], z[2]);

    assert_int_equal(add_op(b, op, "op", x0, x1, PST_NONE, PST_NONE), PST_NONE);
    if (strstr(b->error.message, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, b->error.message);
    }
    pst_graph_builder_destroy(b);
}

TEST(refusals)
{
    const struct pst_form five = {.rank = 1, .dims = {5}}, none = {.rank = 1};
    const struct pst_form twice = {.rank = 2, .dims = {2, 3}, .from = {0, 0}, .step = {1, 1}};
    const struct pst_form far = {
        .rank = 2, .dims = {2, 3}, .from = {1, 0}, .step = {1, INT64_MAX / 2}};

    refuse((struct pst_op){.kind = PST_OP_MAP, .map = PST_MAP_ADD}, DIMS(3, 4), PST_F32, DIMS(3, 5),
           "op: shapes [3, 4] and [3, 5] do not go together (sum)");
    refuse((struct pst_op){.kind = PST_OP_MAP, .map = PST_MAP_EXP}, DIMS(3), PST_F32, DIMS(3),
           "map 8 (exp) does not go with 2 inputs");
    refuse((struct pst_op){.kind = PST_OP_MAP, .map = PST_MAPS}, DIMS(3), 0, NULL, "there is none");
    refuse((struct pst_op){.kind = PST_OP_MATMUL, .swapped = {true, false}}, DIMS(3, 4), PST_F32,
           DIMS(4, 5), "shapes [3, 4] (swapped) and [4, 5] cannot be multiplied");
    refuse((struct pst_op){.kind = PST_OP_MATMUL}, DIMS(3), PST_F32, DIMS(3, 5),
           "both need rows and columns");
    refuse((struct pst_op){.kind = PST_OP_REDUCE, .axes = 4}, DIMS(3, 4), 0, NULL, "mask 0x4");
    refuse((struct pst_op){.kind = PST_OP_SOFTMAX, .axis = 2}, DIMS(3, 4), 0, NULL,
           "no axis 2 before the last");
    refuse((struct pst_op){.kind = PST_OP_GATHER}, DIMS(3, 4), PST_F32, DIMS(2), "expected i32");
    refuse((struct pst_op){.kind = PST_OP_RESHAPE, .form = &five}, DIMS(3, 4), 0, NULL,
           "shape [3, 4] cannot become [5]");
    refuse((struct pst_op){.kind = PST_OP_RESHAPE, .form = &none}, DIMS(3, 4), 0, NULL,
           "an axis of 0");
    refuse((struct pst_op){.kind = PST_OP_RESHAPE}, DIMS(3), 0, NULL, "no form");
    refuse((struct pst_op){.kind = PST_OP_STRIDED, .form = &twice}, DIMS(2, 3), 0, NULL,
           "not every axis of shape [2, 3] comes once");
    refuse((struct pst_op){.kind = PST_OP_STRIDED, .form = &far}, DIMS(3, 2), 0, NULL,
           "which is too far");
    refuse((struct pst_op){.kind = PST_OP_CONSTANT, .form = &five}, NULL, 0, NULL,
           "numbers of type f32 or i32");
}

static void refuse_conv(struct pst_op op, const char *message)
{
    struct pst_graph_builder *b = new_builder(PST_F32);

    op.kind = PST_OP_CONV2D;
    op.kernel[0] = op.kernel[1] = op.stride[0] = op.stride[1] = 1;
    assert_int_equal(add_op(b, op, "conv", input(b, "x", PST_F32, 4, 4, 6), PST_NONE,
                            param(b, "w", 1, 1, 2, 4), PST_NONE),
                     PST_NONE);
    assert_non_null(strstr(b->error.message, message));
    pst_graph_builder_destroy(b);
}

/* No kernel of a convolution applies an activation function. */
TEST(refusals_of_convolutions)
{
    refuse_conv((struct pst_op){.groups = 3}, "conv: 3 groups do not divide 6 channels to 4");
    refuse_conv((struct pst_op){.act = PST_ACT_RELU}, "conv: conv2d does not read `act`");
}

/* --- autodiff ------------------------------------------------------------------------------*/

/* Of an operator on a layer's result and, where `data` is set, on data, too. */
static void check_grad(struct pst_op op, bool data, struct expected_parts e)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = linear(b, "fc", input(b, "x", PST_F32, 4, 4, 0), 4, 4, PST_ACT_NONE);
    uint32_t z = data ? input(b, "z", op.kind == PST_OP_GATHER ? PST_I32 : PST_F32, 4, 4, 0)
                      : linear(b, "fd", x, 4, 4, PST_ACT_NONE);
    bool two = op.kind != PST_OP_MAP || pst_map_row(op.map)->n_in == 2;
    uint32_t y = add_op(b, op, "op", x, two ? z : PST_NONE, PST_NONE, PST_NONE);
    struct pst_op pool = {.kind = PST_OP_AVGPOOL};
    OWN(graph) * graph;

    if (!two && !data) { /* what was made of x is read, too */
        y = plain(b, PST_OP_ADD, "both", y, z);
    }
    graph = finish(b, add_op(b, pool, "pool", y, PST_NONE, PST_NONE, PST_NONE), 0, 0);
    e.b_adds = op.kind == PST_OP_MATMUL ? 0 : e.b_dx;
    e.has_b = true;
    check_parts(graph, "op", e);
}

#define MAP(which)                                                                                 \
    (struct pst_op)                                                                                \
    {                                                                                              \
        .kind = PST_OP_MAP, .map = which                                                           \
    }

TEST(backward_parts)
{
    check_grad(MAP(PST_MAP_EXP), false, (struct expected_parts){.b_dx = 1, .b_reads_y = 1});
    check_grad(MAP(PST_MAP_LOG), false, (struct expected_parts){.b_dx = 1, .b_reads_x = 1});
    check_grad(MAP(PST_MAP_AFFINE), false, (struct expected_parts){.b_dx = 1});
    check_grad(MAP(PST_MAP_MUL), false, (struct expected_parts){.b_dx = 3, .b_reads_x = 3});
    check_grad(MAP(PST_MAP_MUL), true, (struct expected_parts){.b_dx = 1, .b_reads_x = 2});
    check_grad(MAP(PST_MAP_SUB), false, (struct expected_parts){.b_dx = 3});
    check_grad(MAP(PST_MAP_DIV), false,
               (struct expected_parts){.b_dx = 3, .b_reads_x = 2, .b_reads_y = 1});
    check_grad(MAP(PST_MAP_DIV), true, (struct expected_parts){.b_dx = 1, .b_reads_x = 2});
    check_grad((struct pst_op){.kind = PST_OP_MATMUL}, false,
               (struct expected_parts){.b_dx = 3, .b_reads_x = 3});
    check_grad((struct pst_op){.kind = PST_OP_MATMUL}, true,
               (struct expected_parts){.b_dx = 1, .b_reads_x = 2});
    check_grad((struct pst_op){.kind = PST_OP_GATHER}, true,
               (struct expected_parts){.b_dx = 1, .b_reads_x = 2});
}

/* data -> minus a parameter -> reshaped -> loss; a constant goes in beside it. */
TEST(parameters_and_constants)
{
    static const float numbers[] = {1, 2, 3, 4, 5, 6};
    const struct pst_form held = {.rank = 2, .dims = {2, 3}, .dtype = PST_F32, .data = numbers};
    const struct pst_form flat = {.rank = 1, .dims = {6}};
    struct pst_graph_builder *b = new_builder(PST_BF16);
    uint32_t x = input(b, "x", PST_BF16, 2, 3, 0);
    uint32_t w = param(b, "w", 2, 3, 0, 0);
    uint32_t p = pst_graph_add(
        b, &(struct pst_op){.kind = PST_OP_PARAMETER, .name = "p", .n_param = 1, .param = &w});
    uint32_t c = add_op(b, (struct pst_op){.kind = PST_OP_CONSTANT, .form = &held}, "c", PST_NONE,
                        PST_NONE, PST_NONE, PST_NONE);
    struct pst_op reshape = {.kind = PST_OP_RESHAPE, .form = &flat};
    struct pst_op_grad info;
    OWN(graph) * graph;
    const struct pst_op *constant;

    x = add_op(b, MAP(PST_MAP_SUB), "sub", x, p, PST_NONE, PST_NONE);
    x = add_op(b, MAP(PST_MAP_MUL), "mul", x, c, PST_NONE, PST_NONE);
    x = add_op(b, reshape, "flat", x, PST_NONE, PST_NONE, PST_NONE);
    graph = finish(b, x, 0, 0);
    pst_op_grad_info(graph, find_op(graph, "p"), &info);
    assert_true(!info.has_b && info.has_w && info.w_reads_dy && info.w_reads_x == 0);
    pst_op_grad_info(graph, find_op(graph, "c"), &info);
    assert_true(!info.has_b && !info.has_w);
    pst_op_grad_info(graph, find_op(graph, "sub"), &info);
    assert_int_equal(info.b_dx, 2); /* x is data */
    pst_op_grad_info(graph, find_op(graph, "mul"), &info);
    assert_true(info.b_dx == 1 && info.b_reads_x == 2);
    pst_op_grad_info(graph, find_op(graph, "flat"), &info);
    assert_true(!info.has_b && info.b_dx == 0 && info.b_alias == 1);
    constant = &graph->ops[find_op(graph, "c")];
    assert_ptr_not_equal(constant->form->data, numbers); /* the graph's own */
    assert_memory_equal(constant->form->data, numbers, sizeof numbers);
    assert_int_equal(graph->tensors[constant->out[0]].dtype, PST_BF16);
    /* 2 of a sample: reads 12 B of w, writes 3 x 12 B; then dy and 6 floats of gradient */
    check_work(graph, "p", 0, 3, 0, 12 + 36);
    check_work(graph, "p", 2, 3, 18, 24 + 36);
}

TEST(work_of_products)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = linear(b, "fc", input(b, "x", PST_F32, 4, 3, 0), 3, 5, PST_ACT_NONE);
    uint32_t y = add_op(b, (struct pst_op){.kind = PST_OP_MATMUL, .swapped = {false, true}}, "xx",
                        x, x, PST_NONE, PST_NONE);
    OWN(graph) *graph = finish(b, y, 4, 0);

    /* [4, 5] by [5, 4]; two factors, each with a gradient of as much work */
    check_work(graph, "xx", 0, 2, 2 * 2.0 * 4 * 5 * 4, -1);
    check_work(graph, "xx", 1, 2, 2 * 2 * 2.0 * 4 * 5 * 4, -1);
}

/* --- digest --------------------------------------------------------------------------------*/

static uint64_t digest_of(const float *numbers, float s, int64_t start)
{
    const struct pst_form held = {.rank = 1, .dims = {3}, .dtype = PST_F32, .data = numbers};
    const struct pst_form cut = {.rank = 1, .dims = {2}, .start = {start}, .step = {1}};
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 3, PST_ACT_NONE);
    uint32_t c = add_op(b, (struct pst_op){.kind = PST_OP_CONSTANT, .form = &held}, "c", PST_NONE,
                        PST_NONE, PST_NONE, PST_NONE);
    struct pst_graph *graph;
    uint64_t digest;

    x = add_op(b, MAP(PST_MAP_MUL), "mul", x, c, PST_NONE, PST_NONE);
    x = add_op(b, (struct pst_op){.kind = PST_OP_MAP, .constants = {s}}, "scale", x, PST_NONE,
               PST_NONE, PST_NONE);
    x = add_op(b, (struct pst_op){.kind = PST_OP_STRIDED, .form = &cut}, "cut", x, PST_NONE,
               PST_NONE, PST_NONE);
    graph = finish(b, x, 0, 0);
    digest = graph->digest;
    pst_graph_destroy(graph);
    return digest;
}

TEST(attributes_show_in_the_digest)
{
    static const float a[] = {1, 2, 3}, same[] = {1, 2, 3}, other[] = {1, 2, 4};
    const uint64_t digest = digest_of(a, 2, 0);

    assert_true(digest_of(same, 2, 0) == digest);
    assert_true(digest_of(other, 2, 0) != digest);
    assert_true(digest_of(a, 3, 0) != digest);
    assert_true(digest_of(a, 2, 1) != digest);
}
