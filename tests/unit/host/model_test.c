/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder that models of plugins are built with: what is called is what the graph has, in this
 * process and from another.
 */
#include "test.h"

#include <stdlib.h>

#include "model_rig.h"

static struct pst_graph *graph_of(const struct pst_model_calls *calls, uint32_t dtype)
{
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};

    if (pst_model_graph(calls, NULL, "everything", dtype, &graph, &err) != PST_OK) {
        fail_msg("%s\n%s", err.message, err.details);
    }
    return graph;
}

static struct pst_model_calls calls_of(uint32_t dtype)
{
    struct pst_model_calls calls = {.n = 0};
    struct pst_error err = {0};

    if (rig_calls(dtype, &calls, &err) != PST_OK) {
        fail_msg("%s\n%s", err.message, err.details);
    }
    return calls;
}

static const struct pst_op *op_called(const struct pst_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        if (strcmp(graph->ops[i].name, name) == 0) {
            return &graph->ops[i];
        }
    }
    fail_msg("no operator %s", name);
    return NULL;
}

static const struct pst_parameter *parameter_called(const struct pst_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->n_params; i++) {
        if (strcmp(graph->params[i].name, name) == 0) {
            return &graph->params[i];
        }
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

/* Sizes by the formulas of ops.h; names as checkpoints have them. */
TEST(test_graph_is_as_called)
{
    FINISHED_BY(pst_model_calls_finish) struct pst_model_calls calls = calls_of(PST_F32);
    struct pst_graph *graph = graph_of(&calls, PST_F32);
    const struct pst_parameter *table = parameter_called(graph, "embed.weight");
    const struct pst_op *op;
    bool seen[PST_OP_CALLS] = {false};

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        seen[graph->ops[i].kind] = true;
    }
    /* Dropout goes into the sum behind it (fuse.c); one loss is enough. */
    for (uint32_t kind = 0; kind < PST_OP_CALLS; kind++) {
        if (!seen[kind] && kind != PST_OP_DROPOUT && kind != PST_OP_MSE && kind != PST_OP_BCE) {
            fail_msg("no %s", pst_op_kind_name(kind));
        }
    }
    assert_int_equal(table->n_users, 2); /* tied */
    assert_true(table->decay);
    assert_int_equal(table->init, PST_INIT_NORMAL);
    assert_int_equal(table->elems, 16 * 8);
    assert_false(parameter_called(graph, "h.0.qkv.bias")->decay);
    assert_int_equal(parameter_called(graph, "h.0.norm1.weight")->init, PST_INIT_ONE);
    assert_int_equal(parameter_called(graph, "h.0.experts.up")->elems, 3 * 8 * 2 * 4);
    assert_int_equal(op_called(graph, "embed")->layer, 0);
    assert_int_equal(op_called(graph, "h.0.attention")->layer, 1);
    assert_int_equal(op_called(graph, "h.0.glu")->layer, 2);
    assert_int_equal(op_called(graph, "head")->layer, 3);
    op = op_called(graph, "h.0.attention");
    assert_true(op->causal);
    assert_int_equal(op->heads, 2);
    op = op_called(graph, "h.0.add");
    assert_true(op->p > 0.09f && op->p < 0.11f);
    op = op_called(graph, "h.0.places");
    assert_int_equal(((const int32_t *)op->form->data)[0], 5);
    assert_string_equal(graph->tensors[graph->logits].name, "head");
    assert_string_equal(graph->tensors[graph->loss].name, "loss");
    pst_graph_destroy(graph);
}

TEST(test_calls_come_over)
{
    static const uint32_t dtypes[] = {PST_F32, PST_BF16, PST_F64};

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct pst_model_calls calls = calls_of(dtypes[i]), taken = {.n = 0};
        struct pst_wire w = {.reads = false}, r;
        struct pst_graph *here = graph_of(&calls, dtypes[i]), *there;

        pst_model_calls_pass(&w, &calls);
        r = pst_wire_read(w.bytes, w.n, NULL);
        pst_model_calls_pass(&r, &taken);
        assert_true(pst_wire_is_read(&r));
        there = graph_of(&taken, dtypes[i]);
        assert_true(here->digest == there->digest);
        assert_int_equal(here->n_ops, there->n_ops);
        pst_graph_destroy(here);
        pst_graph_destroy(there);
        pst_model_calls_finish(&calls);
        pst_model_calls_finish(&taken);
        free(w.bytes);
    }
}

/* Cut anywhere, what came is refused. */
TEST(test_half_of_the_calls)
{
    FINISHED_BY(pst_model_calls_finish) struct pst_model_calls calls = calls_of(PST_F32);
    struct pst_wire w = {.reads = false};

    pst_model_calls_pass(&w, &calls);
    for (size_t n = 0; n < w.n; n += 7) {
        FINISHED_BY(pst_model_calls_finish) struct pst_model_calls taken = {.n = 0};
        struct pst_wire r = pst_wire_read(w.bytes, n, NULL);

        pst_model_calls_pass(&r, &taken);
        assert_false(pst_wire_is_read(&r));
        assert_int_equal(taken.n, 0);
    }
    free(w.bytes);
}

/* A declaration of an older plugin is shorter; one of a newer is not read beyond what is known. */
static pst_status build_sized(void *self, struct pst_builder *b)
{
    struct {
        struct pst_op_decl op;
        unsigned char more[64];
    } longer;
    static const uint64_t four = 4;
    const uint32_t x = pst_nn_input(b, "x", PST_FIELD_X, b->dtype, 1, &four);
    const uint32_t t = pst_nn_input(b, "t", PST_FIELD_TARGET, b->dtype, 1, &four);
    uint32_t y = pst_nn_linear(b, "fc", x, 4, 0.1f, false);

    (void)self;
    memset(&longer, 0xA5, sizeof longer);
    longer.op = pst_nn_decl(PST_OP_ACT, "act", 1, &y, 0, NULL);
    longer.op.act = PST_ACT_RELU;
    longer.op.size = sizeof longer;
    y = b->op(b, &longer.op);
    longer.op = pst_nn_decl(PST_OP_ACT, "act2", 1, &y, 0, NULL);
    longer.op.act = PST_ACT_SILU;
    memset((char *)&longer.op + offsetof(struct pst_op_decl, scale), 0xFF,
           sizeof longer.op - offsetof(struct pst_op_decl, scale));
    longer.op.size = offsetof(struct pst_op_decl, scale); /* what is behind it are no numbers */
    y = b->op(b, &longer.op);
    pst_nn_loss(b, PST_OP_MSE, y, t);
    return PST_OK;
}

static const void *sized_interface(const char *id)
{
    static const struct pst_model_interface model = {.size = sizeof model, .build = build_sized};

    (void)id;
    return &model;
}

TEST(test_sizes_of_declarations)
{
    static const struct pst_plugin plugin = {
        .size = sizeof plugin, .kind = "model", .id = "sized", .get_interface = sized_interface};
    struct pst_instance instance = {.plugin = &plugin};
    FINISHED_BY(pst_model_calls_finish) struct pst_model_calls calls = {.n = 0};
    struct pst_graph *graph;
    struct pst_error err = {0};

    if (pst_model_ask(&instance, NULL, PST_F32, &calls, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    graph = graph_of(&calls, PST_F32);
    assert_int_equal(op_called(graph, "act2")->act, PST_ACT_SILU);
    pst_graph_destroy(graph);
}
