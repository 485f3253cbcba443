/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: what merges, what must not, and that a merged graph is the one written by hand.
 */
#include "unit/graph/graph_support.h"

static uint32_t count_kind(const struct pst_graph *graph, uint32_t kind)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        n += graph->ops[i].kind == kind;
    }
    return n;
}

/* x -> fc (-> act apart or inside) -> out -> loss */
static struct pst_graph *two_layers(uint32_t f, bool apart)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h = input(b, "x", PST_F32, 4, 3, 0);

    h = linear(b, "fc", h, 3, 5, apart ? PST_ACT_NONE : f);
    if (apart) {
        h = act(b, "act", h, f);
    }
    return finish(b, linear(b, "out", h, 5, 2, PST_ACT_NONE), 4, 0);
}

TEST(act_moves_into_linear)
{
    static const uint32_t functions[] = {PST_ACT_RELU, PST_ACT_GELU};

    for (uint32_t i = 0; i < 2; i++) {
        OWN(graph) *apart = two_layers(functions[i], true);
        OWN(graph) *inside = two_layers(functions[i], false);

        assert_int_equal(apart->n_ops, 3); /* of four */
        assert_int_equal(apart->ops[0].act, functions[i]);
        assert_int_equal(apart->ops[0].n_out, functions[i] == PST_ACT_GELU ? 2 : 1);
        assert_int_equal(apart->digest, inside->digest);
    }
}

/* Kernels of products have no silu. */
TEST(silu_stays_apart)
{
    OWN(graph) *graph = two_layers(PST_ACT_SILU, true);

    assert_int_equal(graph->n_ops, 4);
    assert_int_equal(graph->ops[0].act, PST_ACT_NONE);
}

TEST(fused_gelu_saves_what_was_the_result)
{
    OWN(graph) *graph = two_layers(PST_ACT_GELU, true);
    const struct pst_tensor *y = find_output(graph, "fc", 0), *pre = find_output(graph, "fc", 1);

    assert_string_equal(y->name, "fc");
    assert_string_equal(pre->name, "fc.pre");
    assert_int_equal(y->role, PST_ROLE_ACTIVATION);
    assert_int_equal(pre->role, PST_ROLE_AUX);
    assert_true(pre->batched);
    assert_false(pre->needs_grad);
    assert_int_equal(pre->n_consumers, 0);
    assert_int_equal(y->n_consumers, 1);
    assert_int_equal(y->consumers[0], find_op(graph, "out"));
    assert_int_equal(y->output, 0);
    assert_int_equal(pre->output, 1);
}

TEST(shared_results_stay)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 3, PST_ACT_NONE);
    uint32_t y = act(b, "act", h, PST_ACT_RELU);
    OWN(graph) *graph = finish(b, plain(b, PST_OP_ADD, "add", h, y), 0, 0);

    assert_int_equal(graph->n_ops, 4);
    assert_int_equal(count_kind(graph, PST_OP_ACT), 1);
}

TEST(logits_stay)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    OWN(graph) *graph = NULL;
    uint32_t logits = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 3, PST_ACT_NONE);
    uint32_t y = act(b, "act", logits, PST_ACT_RELU);
    uint32_t loss =
        plain(b, PST_OP_CROSS_ENTROPY, "loss", y, input(b, "targets", PST_I32, 0, 0, 0));

    assert_int_equal(pst_graph_finish(b, loss, logits, &graph, NULL), PST_OK);
    pst_graph_builder_destroy(b);
    assert_int_equal(count_kind(graph, PST_OP_ACT), 1);
    assert_string_equal(graph->tensors[graph->logits].name, "fc");
}

/* x -> conv -> batch norm -> f -> loss */
static struct pst_graph *conv_norm(uint32_t f)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h = conv(b, "conv", input(b, "x", PST_F32, 4, 4, 2), 2, 3, 3, 1, 1);

    h = norm(b, PST_OP_BATCHNORM, "bn", h, 3, PST_ACT_NONE);
    return finish(b, act(b, "act", h, f), 4, 4);
}

TEST(relu_moves_into_batchnorm)
{
    OWN(graph) *relu = conv_norm(PST_ACT_RELU), *gelu = conv_norm(PST_ACT_GELU);
    const struct pst_op *bn = &relu->ops[find_op(relu, "bn")];

    assert_int_equal(relu->n_ops, 3);
    assert_int_equal(bn->act, PST_ACT_RELU);
    assert_int_equal(bn->n_out, 3);
    assert_string_equal(relu->tensors[bn->out[1]].name, "bn.mean");
    assert_string_equal(relu->tensors[bn->out[2]].name, "bn.rstd");
    assert_int_equal(gelu->n_ops, 4);
}

/* Where the dropped branch goes: 1 second input of the sum, 0 first, 2 both. */
static struct pst_graph *dropped_sum(uint32_t place)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h = linear(b, "fc", input(b, "x", PST_F32, 3, 0, 0), 3, 3, PST_ACT_NONE);
    uint32_t d = dropout(b, "drop", linear(b, "branch", h, 3, 3, PST_ACT_NONE), 0.25f);

    return finish(b, plain(b, PST_OP_ADD, "add", place == 1 ? h : d, place == 0 ? h : d), 0, 0);
}

TEST(dropout_moves_into_add)
{
    struct pst_graph *graph = dropped_sum(1);
    const struct pst_op *add = &graph->ops[find_op(graph, "add")];

    assert_int_equal(graph->n_ops, 4);
    assert_int_equal(count_kind(graph, PST_OP_DROPOUT), 0);
    assert_float_equal(add->p, 0.25f, 0.0f);
    assert_int_equal(add->salt, 2); /* the dropout was the third operator */
    assert_string_equal(graph->tensors[add->in[0]].name, "fc");
    assert_string_equal(graph->tensors[add->in[1]].name, "branch");
    pst_graph_destroy(graph);
    for (uint32_t place = 0; place <= 2; place += 2) {
        graph = dropped_sum(place);
        assert_int_equal(count_kind(graph, PST_OP_DROPOUT), 1);
        assert_float_equal(graph->ops[find_op(graph, "add")].p, 0.0f, 0.0f);
        assert_int_equal(graph->ops[find_op(graph, "drop")].salt, 2);
        assert_int_equal(graph->ops[find_op(graph, "add")].salt, 0);
        pst_graph_destroy(graph);
    }
}

/* Every random operator of a model draws from a stream of its own. */
TEST(streams_differ)
{
    OWN(graph) *graph = make_model("gpt", "layers=3 dropout=0.1", PST_F32);
    uint32_t random = 0;

    assert_int_equal(count_kind(graph, PST_OP_DROPOUT), 1); /* after the embedding */
    assert_int_equal(graph->n_ops, 1 + 1 + 3 * 9 + 3);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        random += graph->ops[i].p > 0.0f;
        for (uint32_t k = 0; k < i; k++) {
            assert_true(graph->ops[i].p <= 0.0f || graph->ops[k].p <= 0.0f ||
                        graph->ops[i].salt != graph->ops[k].salt);
        }
    }
    assert_int_equal(random, 1 + 2 * 3);
}
