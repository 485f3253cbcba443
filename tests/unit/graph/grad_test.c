/* SPDX-License-Identifier: Apache-2.0
 *
 * What the backward parts of each operator read and write, against tables written by hand, and the
 * work that the passes are said to do.
 */
#include "unit/graph/graph_support.h"

/* A product with weights; one that reads data. */
static const struct expected_parts product = {
    .has_b = true, .has_w = true, .b_reads_p = 1, .w_reads_x = 1, .w_reads_dy = true, .b_dx = 1};
static const struct expected_parts on_data = {.has_w = true, .w_reads_x = 1, .w_reads_dy = true};

/* A normalization. */
static struct expected_parts normed(uint64_t b_reads_y, uint64_t b_adds)
{
    return (struct expected_parts){.has_b = true,
                                   .has_w = true,
                                   .b_reads_x = 1,
                                   .b_reads_p = 1,
                                   .b_reads_y = b_reads_y,
                                   .b_dx = 1,
                                   .b_adds = b_adds,
                                   .n_z = 2};
}

/* data -> in -> relu -> gelu -> out -> loss, all linear */
TEST(linear_parts)
{
    struct pst_graph_builder *b = new_builder(PST_BF16);
    uint32_t h = linear(b, "in", input(b, "x", PST_BF16, 4, 3, 0), 3, 5, PST_ACT_NONE);
    OWN(graph) * graph;
    struct pst_op_grad info;

    h = linear(b, "relu", h, 5, 6, PST_ACT_RELU);
    h = linear(b, "gelu", h, 6, 7, PST_ACT_GELU);
    graph = finish(b, linear(b, "out", h, 7, 2, PST_ACT_NONE), 4, 0);
    check_parts(graph, "in", on_data);
    info = check_parts(graph, "relu",
                       (struct expected_parts){.has_b = true,
                                               .has_w = true,
                                               .b_reads_p = 1,
                                               .b_reads_y = 1,
                                               .w_reads_x = 1,
                                               .b_dx = 1,
                                               .n_z = 1});
    assert_int_equal(info.z_elems[0], 4 * 6);
    assert_true(info.z_batched[0]);
    assert_int_equal(info.z_dtype[0], PST_BF16);
    check_parts(graph, "gelu",
                (struct expected_parts){.has_b = true,
                                        .has_w = true,
                                        .b_reads_p = 1,
                                        .b_reads_y = 2,
                                        .w_reads_x = 1,
                                        .b_dx = 1,
                                        .n_z = 1});
    check_parts(graph, "out", product);
    check_parts(graph, "loss",
                (struct expected_parts){.has_b = true, .b_reads_x = 3, .b_reads_y = 2, .b_dx = 1});
}

/* On data the activation's gradient is still made, for W. */
TEST(linear_on_data_with_act)
{
    OWN(graph) *graph = make_model("mlp", "layers=1 act=gelu", PST_F32);

    check_parts(graph, "layers.0",
                (struct expected_parts){
                    .has_b = true, .has_w = true, .b_reads_y = 2, .w_reads_x = 1, .n_z = 1});
}

TEST(transformer_parts)
{
    struct pst_graph *graph = make_model("gpt", "layers=1 dropout=0.5", PST_F32);
    struct pst_op_grad info;

    check_parts(graph, "wte", on_data);
    check_parts(graph, "drop", (struct expected_parts){.has_b = true, .b_dx = 1});
    info = check_parts(graph, "h.0.ln_1", normed(6, 1));
    assert_int_equal(info.z_elems[0], 128);
    assert_int_equal(info.z_elems[1], 128);
    assert_false(info.z_batched[0]);
    assert_int_equal(info.z_dtype[1], PST_F32);
    check_parts(graph, "h.0.attn",
                (struct expected_parts){.has_b = true, .b_reads_x = 1, .b_reads_y = 3, .b_dx = 1});
    check_parts(graph, "h.0.attn.add",
                (struct expected_parts){.has_b = true, .b_dx = 2, .b_alias = 1});
    pst_graph_destroy(graph);
    graph = make_model("gpt", "layers=1", PST_F32);
    check_parts(graph, "h.0.attn.add", (struct expected_parts){.b_alias = 3});
    pst_graph_destroy(graph);
}

TEST(image_parts)
{
    struct pst_graph *graph =
        make_model("resnet", "stages=2 blocks=1 width=4 image=16 stem=large", PST_F32);
    struct pst_op_grad info;

    check_parts(graph, "conv1", on_data);
    info = check_parts(graph, "bn1", normed(7, 0));
    assert_int_equal(info.z_elems[0], 4);
    assert_false(info.z_batched[1]);
    check_parts(graph, "maxpool",
                (struct expected_parts){.has_b = true, .b_reads_y = 2, .b_dx = 1});
    check_parts(graph, "layer1.0.bn2", normed(6, 0));
    check_parts(graph, "layer1.0.conv1", product);
    check_parts(graph, "layer1.0.relu",
                (struct expected_parts){.has_b = true, .b_reads_y = 1, .b_dx = 1});
    check_parts(graph, "avgpool", (struct expected_parts){.has_b = true, .b_dx = 1});
    pst_graph_destroy(graph);
}

TEST(data_gets_no_gradient)
{
    struct pst_graph_builder *b = new_builder(PST_F64);
    uint32_t x = input(b, "x", PST_F64, 3, 0, 0);
    uint32_t in[3] = {0, x, 0};
    struct pst_op concat = {.kind = PST_OP_CONCAT, .name = "concat", .n_in = 3, .in = in};
    struct pst_graph *graph;
    struct pst_op_grad info;

    in[0] = linear(b, "fc", x, 3, 3, PST_ACT_NONE);
    in[0] = plain(b, PST_OP_ADD, "add", x, in[0]);
    in[2] = act(b, "gelu", plain(b, PST_OP_ADD, "twice", in[0], in[0]), PST_ACT_GELU);
    x = norm(b, PST_OP_LAYERNORM, "ln", pst_graph_add(b, &concat), 9, PST_ACT_NONE);
    graph = finish(b, x, 0, 0);
    check_parts(graph, "add", (struct expected_parts){.b_alias = 2});
    check_parts(graph, "twice", (struct expected_parts){.b_alias = 3});
    check_parts(graph, "gelu", (struct expected_parts){.has_b = true, .b_reads_x = 1, .b_dx = 1});
    check_parts(graph, "concat", (struct expected_parts){.has_b = true, .b_dx = 5});
    pst_op_grad_info(graph, find_op(graph, "ln"), &info);
    assert_int_equal(info.z_dtype[0], PST_F64);
    pst_graph_destroy(graph);

    /* data alone: no backward at all before the first parameter */
    b = new_builder(PST_F32);
    x = dropout(b, "drop", act(b, "relu", input(b, "x", PST_F32, 3, 0, 0), PST_ACT_RELU), 0.5f);
    graph = finish(b, norm(b, PST_OP_LAYERNORM, "ln", x, 3, PST_ACT_NONE), 0, 0);
    check_parts(graph, "relu", (struct expected_parts){0});
    check_parts(graph, "drop", (struct expected_parts){0});
    check_parts(graph, "ln",
                (struct expected_parts){
                    .has_b = true, .has_w = true, .b_reads_x = 1, .b_reads_y = 6, .n_z = 2});
    assert_false(graph->tensors[graph->ops[1].out[0]].needs_grad);
    pst_graph_destroy(graph);
}

TEST(work_of_products)
{
    struct pst_graph *graph =
        make_model("gpt", "layers=1 dim=8 heads=2 context=6 vocab=11", PST_F32);

    /* c_attn: [6, 8] x [8, 24]; x 192 B, y 576 B a sample; weights 768 B, bias 96 B */
    check_work(graph, "h.0.attn.c_attn", 0, 3, 2.0 * 18 * 8 * 24, 3 * (192 + 576) + 768 + 96);
    check_work(graph, "h.0.attn.c_attn", 1, 3, 2.0 * 18 * 8 * 24, 3 * (192 + 576) + 768);
    check_work(graph, "h.0.attn.c_attn", 2, 3, 2.0 * 18 * 8 * 24, 3 * (192 + 576) + 768 + 96);
    /* scores and context, half of them masked: 2 x 2 T^2 C / 2 */
    check_work(graph, "h.0.attn", 0, 1, 2.0 * 36 * 8, -1);
    check_work(graph, "h.0.attn", 1, 1, 5.0 * 36 * 8, -1);
    check_work(graph, "h.0.attn", 2, 1, 0, 0);
    /* 6 tokens, 6 rows read, positions read, 6 rows written; the table's gradient is 88 floats */
    check_work(graph, "wte", 0, 1, 48, 24 + 192 + 192 + 192);
    check_work(graph, "wte", 1, 1, 0, 0);
    check_work(graph, "wte", 2, 1, 48, 24 + 192 + 4 * 88 + 192);
    check_work(graph, "h.0.attn.add", 0, 2, 2 * 48, 2 * 3 * 192);
    check_work(graph, "h.0.attn.add", 1, 2, 0, 0);
    pst_graph_destroy(graph);

    graph = make_model("mmt", "branches=2 layers=1 dim=8 heads=2 context=6 vocab=11", PST_F32);
    check_work(graph, "branch.0.h.0.attn", 0, 1, 4.0 * 36 * 8, -1);
    pst_graph_destroy(graph);
}

/* Of one 224 x 224 image: 4.09e9 multiply-adds are the figure that everybody quotes. */
TEST(work_of_resnet50)
{
    struct pst_graph *graph =
        make_model("resnet", "depth=50 image=224 width=64 classes=1000", PST_F32);
    double products = 0;

    check_work(graph, "conv1", 0, 2, 2.0 * 2 * 112 * 112 * 64 * 7 * 7 * 3, -1);
    check_work(graph, "conv1", 1, 2, 0, 0);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        double flops, bytes;

        if (graph->ops[i].kind == PST_OP_CONV2D || graph->ops[i].kind == PST_OP_LINEAR) {
            pst_op_work(graph, i, 0, 1, &flops, &bytes);
            products += flops / 2;
        }
    }
    assert_true(products > 4.08e9 && products < 4.10e9);
    pst_graph_destroy(graph);
}
