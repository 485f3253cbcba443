/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator of a plugin in a graph: what its row says is what gradients, work, flags and the
 * digest are made of.
 */
#include "test.h"

#include <stdlib.h>

#include "base/memory.h"
#include "graph/custom.h"
#include "graph/graph.h"
#include "graph/op_rules.h"

static struct pst_operator_row stated; /* what the plugin says */
static uint32_t n_destroyed;

static pst_status describe(struct pst_custom *custom, struct pst_error *err)
{
    (void)err;
    custom->row = stated;
    custom->row.y[0] = custom->question.x[0];
    return PST_OK;
}

static void destroy(struct pst_custom *custom)
{
    n_destroyed++;
    pst_arena_finish(&custom->arena);
    free(custom);
}

/* fc -> op (x0, p0) -> loss; without fc op reads data alone. */
static struct pst_graph *graph_of(const char *id, const char *version, const char *attributes,
                                  bool with_fc)
{
    static const uint64_t dims[2] = {3, 3};
    struct pst_graph_builder *builder = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    struct pst_custom *custom = pst_alloc(1, sizeof *custom);
    uint32_t x, in[2], w[2], p;

    *custom = (struct pst_custom){.id = id,
                                  .version = version,
                                  .attributes = attributes,
                                  .describe = describe,
                                  .destroy = destroy};
    assert_ok(pst_graph_builder_create("it", PST_F32, &builder, &err), &err);
    x = pst_graph_input(builder, "x", PST_FIELD_X, PST_F32, 1, dims);
    w[0] = pst_graph_param(builder, "w", 2, dims, PST_INIT_ONE, 0, false);
    w[1] = PST_NONE;
    p = pst_graph_param(builder, "p", 1, dims, PST_INIT_ONE, 0, false);
    in[0] = with_fc ? pst_graph_add(builder, &(struct pst_op){.kind = PST_OP_LINEAR,
                                                              .name = "fc",
                                                              .n_in = 1,
                                                              .in = &x,
                                                              .n_param = 2,
                                                              .param = w})
                    : x;
    in[0] = pst_graph_add(builder, &(struct pst_op){.kind = PST_OP_CUSTOM,
                                                    .name = "op",
                                                    .n_in = 1,
                                                    .in = in,
                                                    .n_param = 1,
                                                    .param = &p,
                                                    .custom = custom});
    if (!with_fc) {
        in[0] = pst_graph_add(builder, &(struct pst_op){.kind = PST_OP_LINEAR,
                                                        .name = "fc",
                                                        .n_in = 1,
                                                        .in = in,
                                                        .n_param = 2,
                                                        .param = w});
    }
    in[1] = pst_graph_input(builder, "t", PST_FIELD_TARGET, PST_I32, 0, NULL);
    x = pst_graph_add(
        builder,
        &(struct pst_op){.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in});
    assert_ok(pst_graph_finish(builder, x, in[0], &graph, &err), &err);
    pst_graph_builder_destroy(builder);
    return graph;
}

static uint32_t index_of(const struct pst_graph *graph)
{
    return pst_names_find(&graph->op_names, "op");
}

static const struct pst_operator_row usual = {.size = sizeof usual,
                                              .n_y = 2,
                                              .y[1] = {PST_F64, 1, {5}},
                                              .b_reads_x = 1,
                                              .b_reads_p = 1,
                                              .b_reads_y = 2,
                                              .w_reads_y = 1,
                                              .w_reads_dy = 1,
                                              .flags = PST_OPERATOR_COSTLY,
                                              .flops = {10, 20, 30}};

TEST(gradients_are_those_of_the_row)
{
    struct pst_op_grad info;
    struct pst_graph *graph;
    double flops = 0, bytes = 0;

    stated = usual;
    graph = graph_of("lab/it", "1", "a=1", true);
    pst_op_grad_info(graph, index_of(graph), &info);
    assert_true(info.has_b && info.has_w && info.w_reads_dy);
    assert_true(info.b_dx == 1 && info.b_alias == 0 && info.b_reads_x == 1);
    assert_true(info.b_reads_p == 1 && info.b_reads_y == 2 && info.w_reads_y == 1);
    assert_int_equal(info.n_z, 0);
    for (uint32_t pass = 0; pass < 3; pass++) {
        pst_op_work(graph, index_of(graph), pass, 4, &flops, &bytes);
        assert_true(flops == 40 * (pass + 1) && bytes > 0);
    }
    assert_string_equal(pst_op_title(&graph->ops[index_of(graph)]), "lab/it");
    assert_string_equal(graph->tensors[graph->ops[index_of(graph)].out[1]].name, "op.y1");
    assert_non_null(pst_op_mixing(graph, &graph->ops[index_of(graph)], false));
    pst_graph_destroy(graph);
}

/* Of an input that is data nobody wants the gradient; a buffer for W is wanted all the same. */
TEST(inputs_that_are_data)
{
    struct pst_op_grad info;
    struct pst_graph *graph;

    stated = usual;
    graph = graph_of("it", "1", "", false);
    pst_op_grad_info(graph, index_of(graph), &info);
    assert_true(!info.has_b && info.has_w && info.b_reads_p == 0 && info.b_reads_x == 0);
    pst_graph_destroy(graph);
    stated.n_z = 1;
    stated.z[0] = (struct pst_operand){PST_F64, 2, {2, 3}};
    stated.z_once = 1;
    graph = graph_of("it", "1", "", false);
    pst_op_grad_info(graph, index_of(graph), &info);
    assert_true(info.has_b && info.b_dx == 0 && info.b_reads_p == 1 && info.b_reads_x == 1);
    assert_true(info.n_z == 1 && info.z_elems[0] == 6 && !info.z_batched[0]);
    assert_int_equal(info.z_dtype[0], PST_F64);
    pst_graph_destroy(graph);
}

static uint64_t digest_of(const char *id, const char *version, const char *attributes)
{
    struct pst_graph *graph = graph_of(id, version, attributes, true);
    const uint64_t digest = graph->digest;

    pst_graph_destroy(graph);
    return digest;
}

TEST(digest_knows_the_plugin)
{
    uint64_t first;

    stated = usual;
    first = digest_of("it", "1", "a=1");
    assert_true(first == digest_of("it", "1", "a=1"));
    assert_true(first != digest_of("that", "1", "a=1"));
    assert_true(first != digest_of("it", "2", "a=1"));
    assert_true(first != digest_of("it", "1", "a=2"));
    stated.w_reads_y = 3;
    assert_true(first != digest_of("it", "1", "a=1"));
    stated = usual;
    n_destroyed = 0;
    digest_of("it", "1", "a=1");
    assert_int_equal(n_destroyed, 1);
}
