/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of single operators: a few lines make a graph input -> operators -> loss.
 */
#ifndef TESTS_GRAPH_SUPPORT_H
#define TESTS_GRAPH_SUPPORT_H

#include "unit/graph/model_support.h"

static inline struct pst_graph_builder *new_builder(uint32_t dtype)
{
    struct pst_graph_builder *builder = NULL;

    assert_int_equal(pst_graph_builder_create("test", dtype, &builder, NULL), PST_OK);
    return builder;
}

/* Dims end at the first 0. */
static inline uint32_t rank_of(const uint64_t *dims)
{
    uint32_t rank = 0;

    while (rank < 4 && dims[rank] != 0) {
        rank++;
    }
    return rank;
}

static inline uint32_t input(struct pst_graph_builder *b, const char *name, uint32_t dtype,
                             uint64_t d0, uint64_t d1, uint64_t d2)
{
    uint64_t dims[4] = {d0, d1, d2, 0};

    return pst_graph_input(b, name, dtype == PST_I32 ? PST_FIELD_TARGET : PST_FIELD_X, dtype,
                           rank_of(dims), dims);
}

static inline uint32_t param(struct pst_graph_builder *b, const char *name, uint64_t d0,
                             uint64_t d1, uint64_t d2, uint64_t d3)
{
    uint64_t dims[5] = {d0, d1, d2, d3, 0};

    return pst_graph_param(b, name, rank_of(dims), dims, PST_INIT_NORMAL, 0.02f, d1 != 0);
}

/* Adds *op with up to two inputs and parameters; PST_NONE where there is none. */
static inline uint32_t add_op(struct pst_graph_builder *b, struct pst_op op, const char *name,
                              uint32_t x0, uint32_t x1, uint32_t p0, uint32_t p1)
{
    uint32_t in[2] = {x0, x1}, params[2] = {p0, p1};

    op.name = name;
    op.in = in;
    op.n_in = x0 == PST_NONE ? 0 : x1 == PST_NONE ? 1 : 2;
    op.param = params;
    op.n_param = p0 == PST_NONE ? 0 : 2;
    return pst_graph_add(b, &op);
}

/* Linear with bias; parameters name.w, name.b. */
static inline uint32_t linear(struct pst_graph_builder *b, const char *name, uint32_t x,
                              uint64_t in, uint64_t out, uint32_t act)
{
    char weight[64], bias[64];

    snprintf(weight, sizeof weight, "%s.w", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    return add_op(b, (struct pst_op){.kind = PST_OP_LINEAR, .act = act}, name, x, PST_NONE,
                  param(b, weight, in, out, 0, 0), param(b, bias, out, 0, 0, 0));
}

static inline uint32_t norm(struct pst_graph_builder *b, uint32_t kind, const char *name,
                            uint32_t x, uint64_t width, uint32_t act)
{
    char gain[64], bias[64];

    snprintf(gain, sizeof gain, "%s.g", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    return add_op(b, (struct pst_op){.kind = kind, .eps = 1e-5f, .act = act}, name, x, PST_NONE,
                  param(b, gain, width, 0, 0, 0), param(b, bias, width, 0, 0, 0));
}

static inline uint32_t conv(struct pst_graph_builder *b, const char *name, uint32_t x, uint64_t in,
                            uint64_t out, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    char weight[64];

    snprintf(weight, sizeof weight, "%s.w", name);
    return add_op(b,
                  (struct pst_op){.kind = PST_OP_CONV2D,
                                  .kernel = {kernel, kernel},
                                  .stride = {stride, stride},
                                  .pad = {pad, pad}},
                  name, x, PST_NONE, param(b, weight, kernel, kernel, in, out), PST_NONE);
}

static inline uint32_t plain(struct pst_graph_builder *b, uint32_t kind, const char *name,
                             uint32_t x0, uint32_t x1)
{
    return add_op(b, (struct pst_op){.kind = kind}, name, x0, x1, PST_NONE, PST_NONE);
}

static inline uint32_t act(struct pst_graph_builder *b, const char *name, uint32_t x, uint32_t f)
{
    return add_op(b, (struct pst_op){.kind = PST_OP_ACT, .act = f}, name, x, PST_NONE, PST_NONE,
                  PST_NONE);
}

static inline uint32_t dropout(struct pst_graph_builder *b, const char *name, uint32_t x, float p)
{
    return add_op(b, (struct pst_op){.kind = PST_OP_DROPOUT, .p = p}, name, x, PST_NONE, PST_NONE,
                  PST_NONE);
}

/* Loss over logits with targets of shape [d0, d1] (0: absent), and the frozen graph. */
static inline struct pst_graph *finish(struct pst_graph_builder *b, uint32_t logits, uint64_t d0,
                                       uint64_t d1)
{
    struct pst_graph *graph = NULL;
    struct pst_error err;
    uint32_t targets = input(b, "targets", PST_I32, d0, d1, 0);
    uint32_t loss = plain(b, PST_OP_CROSS_ENTROPY, "loss", logits, targets);

    assert_ok(pst_graph_finish(b, loss, logits, &graph, &err), &err);
    pst_graph_builder_destroy(b);
    return graph;
}

/* Ends a build that must have failed; the message must contain `text`. */
static inline void check_fails(struct pst_graph_builder *b, uint32_t logits, pst_status status,
                               const char *text)
{
    struct pst_graph *graph = NULL;
    struct pst_error err;

    assert_int_equal(pst_graph_finish(b, logits, logits, &graph, &err), status);
    assert_null(graph);
    assert_int_equal(err.status, status);
    if (strstr(err.message, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, err.message);
    }
    pst_graph_builder_destroy(b);
}

/* --- what a graph says of its operators --------------------------------------------------------*/

/* What backward passes read and leave. */
struct expected_parts {
    bool has_b, has_w;
    uint64_t b_reads_x, b_reads_p, b_reads_y, w_reads_x;
    bool w_reads_dy;
    uint64_t b_dx, b_alias, b_adds;
    uint32_t n_z;
};

static inline struct pst_op_grad check_parts(const struct pst_graph *graph, const char *name,
                                             struct expected_parts e)
{
    struct pst_op_grad info;

    pst_op_grad_info(graph, find_op(graph, name), &info);
    assert_int_equal(info.has_b, e.has_b);
    assert_int_equal(info.has_w, e.has_w);
    assert_int_equal(info.b_reads_x, e.b_reads_x);
    assert_int_equal(info.b_reads_p, e.b_reads_p);
    assert_int_equal(info.b_reads_y, e.b_reads_y);
    assert_int_equal(info.w_reads_x, e.w_reads_x);
    assert_int_equal(info.w_reads_p, 0);
    assert_int_equal(info.w_reads_y, 0);
    assert_int_equal(info.w_reads_dy, e.w_reads_dy);
    assert_int_equal(info.b_dx, e.b_dx);
    assert_int_equal(info.b_alias, e.b_alias);
    assert_int_equal(info.b_adds, e.b_adds);
    assert_int_equal(info.n_z, e.n_z);
    return info;
}

/* bytes below 0: whatever. */
static inline void check_work(const struct pst_graph *graph, const char *name, uint32_t pass,
                              uint64_t samples, double flops, double bytes)
{
    double found_flops, found_bytes;

    pst_op_work(graph, find_op(graph, name), pass, samples, &found_flops, &found_bytes);
    assert_true(found_flops == flops);
    if (bytes >= 0) {
        assert_true(found_bytes == bytes);
    }
}

#endif
