/* SPDX-License-Identifier: Apache-2.0
 *
 * One operator with the shapes of its operands, and a small graph around it, for the tests that run
 * kernels: its inputs stand behind layer norms, so that they need gradients, and any result becomes
 * a loss.
 */
#ifndef TESTS_OPERATOR_CASE_H
#define TESTS_OPERATOR_CASE_H

#include "test.h"

#include "exec/device.h"
#include "graph/draft.h"
#include "models/builder.h"

enum { OPERANDS = 3 };

struct rig_case {
    const char *name;
    struct pst_op op; /* kind and attributes */
    uint32_t samples;
    const char *in, *param; /* "33x13, 33": dims of each; "-": a number */
    uint32_t depth;         /* length of the longest sum behind an element */
    uint32_t flags;         /* PST_CALL_* */
    uint32_t integers; /* bit i: input i are integers, as those of embeddings and classes are */
    bool positive;     /* all operands but dy are */
};

#define OPERATOR(title, n, inputs, params, ...)                                                    \
    {                                                                                              \
        .name = title, .op = {__VA_ARGS__}, .samples = n, .in = inputs, .param = params,           \
        .depth = 1                                                                                 \
    }

struct rig_shape {
    uint32_t rank;
    uint64_t dims[4];
};

/* The number of shapes in the text. */
static inline uint32_t rig_shapes(const char *text, struct rig_shape *ret_shapes)
{
    uint32_t n = 0;

    while (*text != '\0') {
        struct rig_shape *shape = &ret_shapes[n++];

        assert_in_range(n, 1, OPERANDS);
        *shape = (struct rig_shape){.rank = 0};
        while (*text != ',' && *text != '\0') {
            char *end;

            shape->dims[shape->rank] = strtoull(text, &end, 10);
            shape->rank += end != text;
            text = end + (end == text || *end == 'x');
        }
        text += strspn(text, ", ");
    }
    return n;
}

static inline bool rig_is_integer(const struct rig_case *test, uint32_t input)
{
    return (test->integers >> input & 1) != 0 || test->op.kind == PST_OP_EMBEDDING ||
           (test->op.kind == PST_OP_CROSS_ENTROPY && input == 1);
}

/* Data as they are, or behind a layer norm. */
static inline uint32_t rig_input(struct pst_graph_builder *builder, const struct rig_case *test,
                                 const struct rig_shape *shape, uint32_t i, uint32_t dtype)
{
    const uint64_t *dims = shape->dims;
    char name[4][24];
    uint32_t in, param[2];
    struct pst_op norm = {.kind = PST_OP_LAYERNORM, .n_in = 1, .n_param = 2, .eps = 1e-5f};

    for (uint32_t k = 0; k < 4; k++) {
        snprintf(name[k], sizeof name[k], "%c%u", "xgbn"[k], i);
    }
    if (rig_is_integer(test, i) ||
        ((test->op.kind == PST_OP_MSE || test->op.kind == PST_OP_BCE) && i == 1)) {
        return pst_graph_input(builder, name[0], PST_FIELD_X,
                               rig_is_integer(test, i) ? (uint32_t)PST_I32 : dtype, shape->rank,
                               dims);
    }
    in = pst_graph_input(builder, name[0], PST_FIELD_X, dtype, shape->rank, dims);
    param[0] = pst_graph_param(builder, name[1], 1, &dims[shape->rank - 1], PST_INIT_ONE, 0, false);
    param[1] =
        pst_graph_param(builder, name[2], 1, &dims[shape->rank - 1], PST_INIT_ZERO, 0, false);
    norm.name = name[3];
    norm.in = &in;
    norm.param = param;
    return pst_graph_add(builder, &norm);
}

/* The mean over all axes but the last, and cross-entropy on that. */
static inline uint32_t rig_loss(struct pst_graph_builder *builder, const struct rig_case *test,
                                uint32_t y)
{
    struct pst_op pool = {.kind = PST_OP_AVGPOOL, .name = "pool", .n_in = 1, .in = &y};
    uint32_t in[2];
    struct pst_op loss = {.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in};

    if (pst_op_is_loss(test->op.kind)) {
        return y;
    }
    in[0] = y != PST_NONE && builder->tensors[y].rank < 2 ? y : pst_graph_add(builder, &pool);
    in[1] = pst_graph_input(builder, "target", PST_FIELD_TARGET, PST_I32, 0, NULL);
    return pst_graph_add(builder, &loss);
}

/* The operator is "op". */
static inline struct pst_graph *rig_graph(const struct rig_case *test, uint32_t dtype)
{
    struct pst_graph_builder *builder = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    struct rig_shape shapes[OPERANDS], params[OPERANDS];
    uint32_t in[OPERANDS], param[OPERANDS], y;
    struct pst_op op = test->op;

    assert_int_equal(pst_graph_builder_create("rig", dtype, &builder, &err), PST_OK);
    op.name = "op";
    op.in = in;
    op.n_in = rig_shapes(test->in, shapes);
    op.param = param;
    op.n_param = rig_shapes(test->param, params);
    for (uint32_t i = 0; i < op.n_in; i++) {
        in[i] = rig_input(builder, test, &shapes[i], i, dtype);
    }
    for (uint32_t i = 0; i < op.n_param; i++) {
        param[i] = pst_graph_param(builder, i == 0 ? "p0" : "p1", params[i].rank, params[i].dims,
                                   PST_INIT_ZERO, 0, false);
    }
    y = pst_graph_add(builder, &op);
    if (pst_graph_finish(builder, rig_loss(builder, test, y), y, &graph, &err) != PST_OK) {
        fail_msg("%s: %s", test->name, err.message);
    }
    pst_graph_builder_destroy(builder);
    return graph;
}

/* Where it stands in the graph. */
static inline uint32_t rig_index(const struct pst_graph *graph)
{
    uint32_t index = 0;

    while (strcmp(graph->ops[index].name, "op") != 0) {
        index++;
        assert_true(index < graph->n_ops);
    }
    return index;
}

#endif
