/* SPDX-License-Identifier: Apache-2.0
 *
 * What does not fit together is refused with a message that names operator and numbers, and the
 * first failure is the one that comes back.
 */
#include "unit/graph/graph_support.h"

TEST(linear_needs_its_width)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t y = linear(b, "fc", input(b, "x", PST_F32, 4, 3, 0), 2, 5, PST_ACT_NONE);

    assert_int_equal(y, PST_NONE);
    /* later calls are silent and change nothing */
    assert_int_equal(linear(b, "next", y, 5, 5, PST_ACT_NONE), PST_NONE);
    check_fails(b, y, PST_ERR_CONFIG, "fc: parameter fc.w has shape [2, 5], expected [3, 5]");
}

TEST(heads_must_divide)
{
    struct pst_graph *graph = NULL;
    struct pst_error err;

    assert_int_equal(try_model("gpt", "dim=100 heads=7", PST_F32, &graph, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_string_equal(err.message, "\"heads\" in [model] is 7, which does not divide dim = 100");
    assert_null(graph);
}

TEST(attention_needs_three_parts)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h = linear(b, "fc", input(b, "x", PST_F32, 4, 3, 0), 3, 8, PST_ACT_NONE);
    struct pst_op attention = {.kind = PST_OP_ATTENTION, .heads = 1};

    h = add_op(b, attention, "attn", h, PST_NONE, PST_NONE, PST_NONE);
    check_fails(b, h, PST_ERR_CONFIG, "attn: input has last axis 8, which is not three parts");
}

TEST(sums_need_equal_shapes)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = input(b, "x", PST_F32, 4, 3, 0), z = input(b, "z", PST_F32, 3, 4, 0);

    check_fails(b, plain(b, PST_OP_ADD, "sum", x, z), PST_ERR_CONFIG,
                "sum: cannot add shapes [4, 3] and [3, 4]");
}

TEST(tokens_are_integers)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = input(b, "x", PST_F32, 4, 0, 0);
    struct pst_op embedding = {.kind = PST_OP_EMBEDDING};

    x = add_op(b, embedding, "wte", x, PST_NONE, param(b, "w", 9, 3, 0, 0), PST_NONE);
    check_fails(b, x, PST_ERR_CONFIG, "wte: input 0 has elements of type f32, expected i32");
}

TEST(positions_fit_tokens)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = input(b, "tokens", PST_I32, 4, 0, 0);
    struct pst_op embedding = {.kind = PST_OP_EMBEDDING};

    x = add_op(b, embedding, "wte", x, PST_NONE, param(b, "w", 9, 3, 0, 0),
               param(b, "p", 5, 3, 0, 0));
    check_fails(b, x, PST_ERR_CONFIG, "parameter p has shape [5, 3], expected [4, 3]");
}

TEST(targets_fit_logits)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h = linear(b, "fc", input(b, "x", PST_F32, 4, 3, 0), 3, 8, PST_ACT_NONE);

    h = plain(b, PST_OP_CROSS_ENTROPY, "loss", h, input(b, "t", PST_I32, 5, 0, 0));
    check_fails(b, h, PST_ERR_CONFIG,
                "loss: targets of shape [5] do not go with logits of shape [4, 8]");
}

TEST(windows_fit_images)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = input(b, "x", PST_F32, 4, 4, 2);

    check_fails(b, conv(b, "conv", x, 2, 3, 7, 1, 1), PST_ERR_CONFIG,
                "conv: image is 6 high or wide with its padding, the kernel 7");
    b = new_builder(PST_F32);
    x = input(b, "x", PST_F32, 4, 4, 2);
    check_fails(b, conv(b, "conv", x, 2, 3, 3, 0, 1), PST_ERR_CONFIG,
                "conv: kernel 3, stride 0, padding 1");
    b = new_builder(PST_F32);
    x = input(b, "x", PST_F32, 4, 4, 0);
    check_fails(b, conv(b, "conv", x, 4, 3, 3, 1, 1), PST_ERR_CONFIG,
                "conv: input has shape [4, 4], expected [height, width, channels]");
}

/* Rounding down of the last window, by hand: (7 + 2 - 3) / 2 + 1 = 4; (6 + 2 - 3) / 2 + 1 = 3. */
TEST(windows_round_down)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    struct pst_op pool = {
        .kind = PST_OP_MAXPOOL2D, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
    uint32_t x = conv(b, "conv", input(b, "x", PST_F32, 7, 6, 2), 2, 5, 1, 1, 0);
    struct pst_graph *graph =
        finish(b, add_op(b, pool, "pool", x, PST_NONE, PST_NONE, PST_NONE), 4, 3);

    check_dims(find_output(graph, "pool", 0), 3, 4, 3, 5);
    check_dims(find_output(graph, "pool", 1), 3, 4, 3, 5);
    pst_graph_destroy(graph);
}

TEST(concat_adds_widths)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = input(b, "x", PST_F32, 4, 3, 0), z = input(b, "z", PST_F32, 4, 5, 0);
    uint32_t y = plain(b, PST_OP_CONCAT, "cat", x, z);
    struct pst_graph *graph = finish(b, linear(b, "fc", y, 8, 2, PST_ACT_NONE), 4, 0);

    check_dims(find_output(graph, "cat", 0), 2, 4, 8, 0);
    assert_false(find_output(graph, "cat", 0)->needs_grad);
    pst_graph_destroy(graph);
    b = new_builder(PST_F32);
    x = input(b, "x", PST_F32, 4, 3, 0);
    z = input(b, "z", PST_F32, 5, 3, 0);
    check_fails(b, plain(b, PST_OP_CONCAT, "cat", x, z), PST_ERR_CONFIG,
                "cat: inputs of shape [4, 3] and [5, 3] differ in more than the last axis");
}

TEST(numbers_have_limits)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, huge[3] = {1u << 20, 1u << 20, 2};
    uint64_t none[2] = {3, 0};

    pst_graph_input(b, "x", PST_FIELD_X, PST_F32, 9, many);
    check_fails(b, PST_NONE, PST_ERR_CONFIG, "input x: 9 axes");
    b = new_builder(PST_F32);
    pst_graph_param(b, "w", 3, huge, PST_INIT_ZERO, 0.0f, true);
    check_fails(b, PST_NONE, PST_ERR_CONFIG, "parameter w: shape [1048576, 1048576, 2]");
    b = new_builder(PST_F32);
    pst_graph_input(b, "x", PST_FIELD_X, PST_F32, 2, none);
    check_fails(b, PST_NONE, PST_ERR_CONFIG, "input x: shape [3, 0]");
    b = new_builder(PST_F32);
    check_fails(b, dropout(b, "drop", input(b, "x", PST_F32, 3, 0, 0), 1.0f), PST_ERR_CONFIG,
                "drop: dropout probability 1 is not in [0, 1)");
    /* an input within limits whose product with the vocabulary is not */
    b = new_builder(PST_F32);
    check_fails(b,
                linear(b, "fc", input(b, "x", PST_F32, 1u << 30, 4, 0), 4, 1u << 20, PST_ACT_NONE),
                PST_ERR_CONFIG, "fc: output [1073741824, 1048576] has more than 2^40 elements");
    assert_int_equal(pst_graph_builder_create("test", PST_I32, &b, NULL), PST_ERR_UNSUPPORTED);
}

TEST(graphs_are_whole)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h, t;

    h = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 8, PST_ACT_NONE);
    check_fails(b, h, PST_ERR_BUG, "its loss does not come from a loss operator");

    b = new_builder(PST_F32);
    h = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 8, PST_ACT_NONE);
    t = input(b, "t", PST_I32, 0, 0, 0);
    linear(b, "lost", h, 8, 2, PST_ACT_NONE);
    check_fails(b, plain(b, PST_OP_CROSS_ENTROPY, "loss", h, t), PST_ERR_BUG,
                "lost: nothing reads it");

    b = new_builder(PST_F32);
    h = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 3, PST_ACT_NONE);
    h = dropout(b, "fc", h, 0.5f);
    t = input(b, "t", PST_I32, 0, 0, 0);
    check_fails(b, plain(b, PST_OP_CROSS_ENTROPY, "loss", h, t), PST_ERR_BUG,
                "two operators are called fc");

    b = new_builder(PST_F32);
    h = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 3, PST_ACT_NONE);
    param(b, "w", 3, 0, 0, 0);
    t = input(b, "t", PST_I32, 0, 0, 0);
    check_fails(b, plain(b, PST_OP_CROSS_ENTROPY, "loss", h, t), PST_ERR_BUG,
                "parameter w: no operator uses it");

    b = new_builder(PST_F32);
    pst_graph_layer(b, 2);
    h = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 3, PST_ACT_NONE);
    pst_graph_layer(b, 1);
    t = input(b, "t", PST_I32, 0, 0, 0);
    check_fails(b, plain(b, PST_OP_CROSS_ENTROPY, "loss", h, t), PST_ERR_BUG,
                "loss: layer 1 comes after layer 2");
}

TEST(operands_are_checked)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = input(b, "x", PST_F32, 3, 0, 0);

    check_fails(b, plain(b, PST_OP_ADD, "sum", x, PST_NONE), PST_ERR_BUG,
                "sum: 1 inputs and 0 parameters given");
    b = new_builder(PST_F32);
    check_fails(b, act(b, "act", 7, PST_ACT_RELU), PST_ERR_BUG, "act: input 0 is not a tensor");
    b = new_builder(PST_F32);
    x = input(b, "x", PST_F32, 3, 0, 0);
    check_fails(b, plain(b, PST_OP_LINEAR, "fc", x, PST_NONE), PST_ERR_BUG,
                "fc: parameter 0 is missing");
    b = new_builder(PST_F32);
    x = input(b, "x", PST_F32, 3, 0, 0);
    check_fails(b, plain(b, PST_OP_KINDS, "what", x, PST_NONE), PST_ERR_BUG,
                "what: no such kind of operator");
}

/* Models that say 1 where another kind reads it say nothing. */
TEST(a_dilation_or_a_number_of_groups_of_1_is_accepted)
{
    static const struct {
        uint32_t dilation[2], groups;
    } rows[] = {{{1, 1}, 1}, {{1, 0}, 0}, {{0, 1}, 1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pst_graph_builder *b = new_builder(PST_F32);
        const uint32_t x = input(b, "x", PST_F32, 4, 4, 2);
        const struct pst_op op = {.kind = PST_OP_AVGPOOL2D,
                                  .name = "op",
                                  .n_in = 1,
                                  .in = &x,
                                  .kernel = {2, 2},
                                  .stride = {2, 2},
                                  .dilation = {rows[i].dilation[0], rows[i].dilation[1]},
                                  .groups = rows[i].groups};

        assert_int_not_equal(pst_graph_add(b, &op), PST_NONE);
        pst_graph_builder_destroy(b);
    }
}

/* What a kind does not read would be ignored, and the model would be another than was meant. */
TEST(attributes_that_a_kind_does_not_read_are_refused)
{
    static const struct {
        struct pst_op op;
        const char *wrong;
    } rows[] = {
        {{.kind = PST_OP_AVGPOOL, .act = PST_ACT_RELU}, "op: avgpool does not read `act`"},
        {{.kind = PST_OP_ACT, .act = PST_ACT_RELU, .p = 0.1f}, "op: act does not read `p`"},
        {{.kind = PST_OP_AVGPOOL2D, .kernel = {2, 2}, .stride = {2, 2}, .dilation = {2, 2}},
         "op: avgpool2d does not read `dilation`"},
        {{.kind = PST_OP_SHIFT2D, .pad = {1, 0}, .stride = {0, 2}},
         "op: shift2d does not read `stride`"},
        {{.kind = PST_OP_DROPOUT, .p = 0.1f, .rope = {.theta = 1e4f}},
         "op: dropout does not read `rope`"},
        {{.kind = PST_OP_SOFTMAX, .axis = 1, .axes = 1}, "op: softmax does not read `axes`"},
        {{.kind = PST_OP_REDUCE, .axes = 1, .logarithm = true},
         "op: reduce does not read `logarithm`"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pst_graph_builder *b = new_builder(PST_F32);
        const uint32_t x = input(b, "x", PST_F32, 4, 4, 2);
        struct pst_op op = rows[i].op;

        op.name = "op";
        op.n_in = 1;
        op.in = &x;
        check_fails(b, pst_graph_add(b, &op), PST_ERR_BUG, rows[i].wrong);
    }
}
