/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in models: shapes worked out by hand, names, types. zoo_test.c has published sizes.
 */
#include "config/config.h"
#include "unit/graph/model_support.h"

TEST(table_is_sound)
{
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        const struct pst_model_builder *b = pst_model_builders[i];
        struct pst_error err;

        assert_ptr_equal(pst_model_builder_find(b->id), b);
        if (pst_params_verify(b->params, b->n_params, sizeof *b->params, b->config_size, &err) !=
            PST_OK) {
            fail_msg("%s: %s", b->id, err.message);
        }
        /* A model needs no settings, unless it comes from a file. */
        for (uint32_t k = 0; k < b->n_params && b->build == NULL; k++) {
            assert_non_null(b->params[k].initial);
        }
    }
    assert_null(pst_model_builder_find("elman"));
}

TEST(mlp_shapes)
{
    struct pst_graph *graph =
        make_model("mlp", "inputs=5 hidden=7 layers=2 classes=3 act=relu", PST_F32);

    /* 5*7+7 + 7*7+7 + 7*3+3 */
    assert_int_equal(count_parameters(graph), 42 + 56 + 24);
    assert_int_equal(graph->n_ops, 4); /* two fused layers, head, loss */
    assert_int_equal(graph->n_tensors, 2 + 4 + 1);
    check_dims(find_output(graph, "layers.0", 0), 1, 7, 0, 0);
    check_dims(find_output(graph, "head", 0), 1, 3, 0, 0);
    assert_int_equal(graph->tensors[graph->loss].rank, 0);
    assert_int_equal(graph->tensors[graph->loss].bytes, 4);
    assert_string_equal(graph->tensors[graph->logits].name, "head");
    assert_string_equal(graph->tensors[0].name, "x");
    assert_int_equal(graph->tensors[0].field, PST_FIELD_X);
    assert_int_equal(graph->tensors[1].field, PST_FIELD_TARGET);
    pst_graph_destroy(graph);
}

TEST(gpt_shapes)
{
    struct pst_graph *graph =
        make_model("gpt", "layers=2 dim=24 heads=3 context=10 vocab=50", PST_F32);
    const struct pst_parameter *table = find_param(graph, "wte.weight");

    /* embedding, 2 x (ln, qkv, attention, proj, add, ln, fc+gelu, proj, add), ln, head, loss */
    assert_int_equal(graph->n_ops, 1 + 2 * 9 + 3);
    check_dims(find_output(graph, "wte", 0), 2, 10, 24, 0);
    check_dims(find_output(graph, "h.0.ln_1", 1), 1, 10, 0, 0);
    check_dims(find_output(graph, "h.0.attn.c_attn", 0), 2, 10, 72, 0);
    check_dims(find_output(graph, "h.1.attn", 0), 2, 10, 24, 0);
    check_dims(find_output(graph, "h.1.attn", 1), 2, 3, 10, 0);
    check_dims(find_output(graph, "h.1.mlp.c_fc", 0), 2, 10, 96, 0);
    check_dims(find_output(graph, "h.1.mlp.c_fc", 1), 2, 10, 96, 0);
    check_dims(find_output(graph, "lm_head", 0), 2, 10, 50, 0);
    check_dims(find_output(graph, "loss", 1), 1, 10, 0, 0);
    assert_int_equal(table->n_users, 2);
    assert_int_equal(table->users[0], find_op(graph, "wte"));
    assert_int_equal(table->users[1], find_op(graph, "lm_head"));
    assert_int_equal(table->user_slots[1], 0);
    assert_true(graph->ops[table->users[1]].transposed);
    assert_true(graph->ops[find_op(graph, "h.0.attn")].causal);
    assert_true(table->decay);
    assert_false(find_param(graph, "h.1.attn.c_proj.bias")->decay);
    assert_float_equal(find_param(graph, "h.0.mlp.c_proj.weight")->init_scale, 0.01f, 1e-9f);
    pst_graph_destroy(graph);
}

TEST(resnet50_shapes)
{
    struct pst_graph *graph =
        make_model("resnet", "depth=50 image=224 width=64 classes=1000", PST_F32);

    check_dims(find_output(graph, "conv1", 0), 3, 112, 112, 64);
    check_dims(find_output(graph, "maxpool", 0), 3, 56, 56, 64);
    check_dims(find_output(graph, "layer1.2.relu", 0), 3, 56, 56, 256);
    check_dims(find_output(graph, "layer2.0.conv1", 0), 3, 56, 56, 128); /* stride is on conv2 */
    check_dims(find_output(graph, "layer2.0.conv2", 0), 3, 28, 28, 128);
    check_dims(find_output(graph, "layer4.2.relu", 0), 3, 7, 7, 2048);
    check_dims(find_output(graph, "avgpool", 0), 1, 2048, 0, 0);
    check_dims(find_output(graph, "fc", 0), 1, 1000, 0, 0);
    assert_int_equal(find_output(graph, "maxpool", 1)->dtype, PST_I32);
    assert_false(find_output(graph, "bn1", 1)->batched);
    assert_int_equal(graph->ops[find_op(graph, "bn1")].n_state, 2);
    assert_int_equal(graph->ops[find_op(graph, "bn1")].state_elems[1], 64);
    pst_graph_destroy(graph);
}

TEST(small_resnet_shapes)
{
    OWN(graph) *graph = make_model("resnet", "stages=2 blocks=1 width=4 image=8", PST_F32);

    /* conv1 3*3*3*4 + bn 8; layer1.0: 2*(3*3*4*4 + 8); layer2.0: 3*3*4*8 + 3*3*8*8 + 2*16,
       downsample 4*8 + 16; fc 8*10 + 10 */
    assert_int_equal(count_parameters(graph), 116 + 304 + 896 + 48 + 90);
    check_dims(find_output(graph, "layer1.0.relu", 0), 3, 8, 8, 4);
    check_dims(find_output(graph, "layer2.0.relu", 0), 3, 4, 4, 8);
}

TEST(mmt_is_a_graph_of_branches)
{
    struct pst_graph *graph =
        make_model("mmt", "branches=3 layers=2 dim=8 heads=2 context=6 vocab=11", PST_F32);
    const struct pst_op *concat = &graph->ops[find_op(graph, "concat")];

    assert_int_equal(graph->n_ops, 3 * (1 + 2 * 9) + 5);
    assert_int_equal(graph->tensors[0].n_consumers, 3); /* tokens */
    assert_int_equal(concat->n_in, 3);
    check_dims(&graph->tensors[concat->out[0]], 2, 6, 24, 0);
    check_dims(find_output(graph, "join", 0), 2, 6, 8, 0);
    assert_false(graph->ops[find_op(graph, "branch.1.h.0.attn")].causal);
    /* branches lie one behind the other */
    assert_int_equal(find_op(graph, "branch.1.wte"), 19);
    assert_int_equal(graph->ops[19].layer, 3);
    /* branch: tables (11+6)*8, 2 blocks of 12*8^2 + 13*8; join 24*8+8, ln 16, head 88 */
    assert_int_equal(count_parameters(graph), 3 * (136 + 2 * 872) + 200 + 16 + 88);
    pst_graph_destroy(graph);
}

/* Words, and nothing else: a segment of that number is no padding. */
TEST(the_padding_gets_no_gradient)
{
    static const char *const models[][2] = {
        {"bert", "layers=1 dim=8 heads=2 context=4 vocab=9"},
        {"llama", "layers=1 dim=8 heads=2 ff=12 context=4 vocab=9"},
    };

    for (uint32_t m = 0; m < 2; m++) {
        for (int pad = -1; pad < 2; pad++) {
            char settings[128];
            struct pst_graph *graph;

            snprintf(settings, sizeof settings, "%s pad_token=%d", models[m][1], pad);
            graph = make_model(models[m][0], settings, PST_F32);
            for (uint32_t v = 0; v < graph->n_ops; v++) {
                const bool words = strstr(graph->ops[v].name, m == 0 ? "words" : "embed_tokens");

                assert_int_equal(graph->ops[v].padding, words ? pad + 1 : 0);
            }
            pst_graph_destroy(graph);
        }
    }
}

TEST(f64_models_are_f64_throughout)
{
    OWN(graph) *graph = make_model("gpt", "", PST_F64);

    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        assert_int_equal(graph->tensors[i].dtype, i < 2 ? PST_I32 : PST_F64);
    }
    for (uint32_t i = 0; i < graph->n_params; i++) {
        assert_int_equal(graph->params[i].dtype, PST_F64);
    }
}

TEST(bf16_keeps_statistics_in_f32)
{
    OWN(graph) *graph = make_model("gpt", "", PST_BF16);

    assert_int_equal(find_param(graph, "wpe.weight")->dtype, PST_BF16);
    assert_int_equal(find_param(graph, "h.0.ln_1.weight")->dtype, PST_F32);
    assert_int_equal(find_output(graph, "h.0.ln_1", 0)->dtype, PST_BF16);
    assert_int_equal(find_output(graph, "h.0.ln_1", 1)->dtype, PST_F32);
    assert_int_equal(find_output(graph, "h.0.attn", 1)->dtype, PST_F32);
    assert_int_equal(find_output(graph, "h.0.mlp.c_fc", 1)->dtype, PST_BF16);
    assert_int_equal(find_output(graph, "lm_head", 0)->dtype, PST_BF16);
    assert_int_equal(find_output(graph, "loss", 0)->dtype, PST_F32);
}
